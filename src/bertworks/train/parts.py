"""What is trained, how, and how it is judged: one function for each kind of objective that a recipe can have."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from bertworks import hub
from bertworks.data.pretraining import Masker
from bertworks.errors import UsageError
from bertworks.models.config import ModelConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Objective
from bertworks.objectives.causal_lm import CausalLM
from bertworks.objectives.distill import Distillation, Transfer
from bertworks.objectives.masked_lm import MaskedLM
from bertworks.objectives.replaced_tokens import GeneratorAndDiscriminator, ReplacedTokens
from bertworks.objectives.sentence_pairs import MaskedLMWithPairs
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.bilm import begin_with_frequencies, bilm_config, bilm_flops, bilm_objective
from bertworks.train.evaluate import token_counts
from bertworks.train.maskers import EVALUATION_SEED, Maskers
from bertworks.train.plan import flops_per_token
from bertworks.train.recipes import Recipe
from bertworks.train.start import (
    GENERATOR,
    check_same_vocabulary,
    new_student,
    size_of,
    started_generator,
    started_model,
)
from bertworks.train.state import weights_sha256


@dataclass(kw_only=True)
class Parts:
    """What is trained, how, and how it is judged."""

    module: nn.Module
    objective: Objective
    evaluation: Objective
    models: dict[str, Model]
    """By folder of the finished run; the model itself is at ""."""
    flops_per_token: float = 0.0
    teacher: tuple[Model, Objective] | None = None
    """The model that is learnt from, and what it is judged by itself, where it can be."""
    teacher_sha256: str | None = None
    settings: hub.SentenceSettings | None = None
    """Pooling and normalisation, where the result is an embedding model."""


def make_parts(recipe: Recipe, tokenizer: Tokenizer, maskers: Maskers, notes: list[str]) -> Parts:
    """The parts of a recipe; what a person should know of them is added to `notes`."""
    make: dict[str, Callable[[Recipe, Tokenizer, Maskers, list[str]], Parts]] = {
        "masked_lm": _masked_lm,
        "replaced_tokens": _replaced_tokens,
        "causal_lm": _causal_lm,
        "bilm": _bilm,
        "distill": _distill,
    }
    return make[recipe.objective.kind](recipe, tokenizer, maskers, notes)


def _masked_lm(recipe: Recipe, tokenizer: Tokenizer, maskers: Maskers, notes: list[str]) -> Parts:
    pairs = recipe.objective.pairs
    model = started_model(recipe, tokenizer, ("mlm",) if pairs == "none" else ("mlm", pairs), notes)

    def objective(masker: Masker) -> Objective:
        if pairs == "none":
            return MaskedLM(masker)
        both = MaskedLMWithPairs(masker, pairs)
        both.weights = {**both.weights, pairs: recipe.objective.pair_weight}
        return both

    return Parts(
        module=model,
        objective=objective(maskers.training()),
        evaluation=objective(maskers.evaluation()),
        models={"": model},
        flops_per_token=_flops(model.config, recipe),
    )


def _causal_lm(recipe: Recipe, tokenizer: Tokenizer, maskers: Maskers, notes: list[str]) -> Parts:
    model = started_model(recipe, tokenizer, ("lm",), notes)
    flops = flops_per_token(model.config, recipe.data.sequence_length, predicted=1.0)
    return Parts(module=model, objective=CausalLM(), evaluation=CausalLM(), models={"": model}, flops_per_token=flops)


def _bilm(recipe: Recipe, tokenizer: Tokenizer, maskers: Maskers, notes: list[str]) -> Parts:
    assert recipe.run is not None
    start, words, length = recipe.run.start, recipe.objective.softmax_words, recipe.data.sequence_length
    if start is None:
        model = Model(bilm_config(recipe.model, tokenizer))
    else:
        loaded = hub.load(start)
        check_same_vocabulary(tokenizer, loaded.tokenizer, start)
        model = copy.deepcopy(loaded.model)
    whole = bilm_objective(model, tokenizer, sequence_length=length)
    if start is None:
        begin_with_frequencies(model, whole, token_counts(maskers.corpus, maskers.documents))
    return Parts(
        module=model,
        objective=bilm_objective(model, tokenizer, sequence_length=length, softmax_words=words, seed=recipe.run.seed),
        evaluation=whole,
        models={"": model},
        flops_per_token=bilm_flops(model, words),
    )


def _replaced_tokens(recipe: Recipe, tokenizer: Tokenizer, maskers: Maskers, notes: list[str]) -> Parts:
    assert recipe.run is not None
    discriminator = started_model(recipe, tokenizer, ("rtd",), notes)
    generator = started_generator(recipe, tokenizer, discriminator, notes)
    weight, seed = recipe.objective.discriminator_weight, recipe.run.seed
    return Parts(
        module=GeneratorAndDiscriminator(generator, discriminator),
        objective=ReplacedTokens(maskers.training(), seed=seed, rtd_weight=weight),
        evaluation=ReplacedTokens(maskers.evaluation(), seed=EVALUATION_SEED, rtd_weight=weight),
        models={"": discriminator, GENERATOR: generator},
        flops_per_token=_flops(generator.config, recipe) + _flops(discriminator.config, recipe),
    )


def _distill(recipe: Recipe, tokenizer: Tokenizer, maskers: Maskers, notes: list[str]) -> Parts:
    assert recipe.run is not None
    name, wanted = recipe.run.teacher, recipe.objective
    if name is None:
        raise UsageError('objective.kind = "distill" needs a teacher: bertworks distill CORPUS --teacher MODEL')
    loaded = hub.load(name)
    check_same_vocabulary(tokenizer, loaded.tokenizer, name)
    teacher = loaded.model
    known, found = recipe.run.teacher_sha256, weights_sha256(teacher)
    if known not in (None, found):
        raise UsageError(
            f"the teacher {name} has other weights than when the run began: their SHA-256 was {known[:12]}…, and is "
            f"{found[:12]}… now; resume with the teacher as it was, or begin another run in another directory"
        )
    student = new_student(recipe.model.size, teacher)
    ours, theirs = (sum(weight.numel() for weight in model.body.parameters()) for model in (student, teacher))
    if ours > theirs:
        notes.append(f"the student ({size_of(student)}) is larger than its teacher ({size_of(teacher)})")
    flops = _flops(student.config, recipe) + _flops(teacher.config, recipe) / 3  # the teacher goes forward only
    settings = None
    if loaded.settings is not None:
        longest = loaded.settings.max_seq_length or student.num_positions
        settings = replace(loaded.settings, folder="", max_seq_length=longest)
    if "mlm" not in teacher.heads:
        transfer = Transfer(teacher, hidden_weight=wanted.hidden_weight, sentence_weight=wanted.sentence_weight)
        return Parts(
            module=transfer.wrap(student),
            objective=transfer,
            evaluation=transfer,
            models={"": student},
            flops_per_token=flops,
            teacher_sha256=found,
            settings=settings,
        )
    cosine = wanted.cosine_weight
    if cosine and student.hidden_size != teacher.hidden_size:
        widths = f"{student.hidden_size} and {teacher.hidden_size}"
        notes.append(f"student and teacher differ in width ({widths}): their hidden states are not compared")
        cosine = 0.0

    def objective(masker: Masker) -> Objective:
        return Distillation(
            teacher,
            masker,
            temperature=wanted.temperature,
            soft_weight=wanted.soft_weight,
            mlm_weight=wanted.mlm_weight,
            cosine_weight=cosine,
        )

    return Parts(
        module=student,
        teacher=(teacher, MaskedLM(maskers.evaluation())),
        objective=objective(maskers.training()),
        evaluation=objective(maskers.evaluation()),
        models={"": student},
        flops_per_token=flops,
        teacher_sha256=found,
        settings=settings,
    )


def _flops(config: ModelConfig, recipe: Recipe) -> float:
    masking = recipe.objective.masking
    rate = (masking.rate_at(0.0) + masking.rate_at(1.0)) / 2
    return flops_per_token(config, recipe.data.sequence_length, predicted=rate)
