"""All parts of a run, made from its recipe: sequences, model, objective, and the objective it is judged by.

Whatever does not fit together is found here, before anything is trained: a corpus and a model with different
vocabularies, sequences longer than there are positions, a family without the head that an objective needs.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import nn

from bertworks import hub
from bertworks.data.corpus import Corpus
from bertworks.data.pretraining import (
    Lexicon,
    Masker,
    MaskingConfig,
    SentencePairs,
    SequenceSource,
    SinglePieces,
    split_documents,
)
from bertworks.errors import DataError, ModelError, UsageError
from bertworks.hub.families import FAMILIES
from bertworks.models.config import HeadConfig, ModelConfig, RecurrentConfig, Task, TransformerConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Objective
from bertworks.objectives.causal_lm import CausalLM
from bertworks.objectives.distill import Distillation, Transfer
from bertworks.objectives.masked_lm import MaskedLM
from bertworks.objectives.replaced_tokens import GeneratorAndDiscriminator, ReplacedTokens
from bertworks.objectives.sentence_pairs import MaskedLMWithPairs
from bertworks.objectives.student import init_student
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.architecture import HALF, Size, generator_config, narrowed, new_config, parse_size
from bertworks.train.bilm import begin_with_frequencies, bilm_config, bilm_flops, bilm_objective
from bertworks.train.evaluate import token_counts
from bertworks.train.plan import flops_per_token
from bertworks.train.recipes import DataSection, Recipe
from bertworks.train.recurrent import recurrent_head
from bertworks.train.state import weights_sha256

GENERATOR = "generator"
"""The folder of ELECTRA's generator in the finished run."""
EVALUATION_MASKING = MaskingConfig(rate=0.15, unit="token", mask_share=0.8, random_share=0.1, copies=1)
EVALUATION_SEED = 0
"""Held-out text is cut and masked alike whatever the run's own seed is."""
MINED = "mined"
LEXICON_FILE = "lexicon.txt"
"""Where a run keeps its entities and phrases."""
TOKENIZER_KINDS = {"wordpiece": "WordPiece", "byte-bpe": "BPE"}


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


@dataclass(kw_only=True)
class Assembly(Parts):
    """A whole run, ready to start."""

    tokenizer: Tokenizer
    short: SequenceSource
    long: SequenceSource | None
    held_out: SequenceSource | None
    training_documents: NDArray[Any]
    held_out_documents: NDArray[Any]
    held_out_tokens: int
    lexicon: Lexicon | None = None
    """Entities and phrases that are masked as wholes."""
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> Model:
        return self.models[""]

    def describe(self) -> str:
        """`modernbert 4x256x4`"""
        return self.model.config.describe()


def size_of(model: Model) -> Size:
    """A model's layers, width and heads."""
    body = model.config.transformer
    return Size(body.num_hidden_layers, body.layer.hidden_size, body.layer.num_attention_heads)


def assemble(recipe: Recipe, corpus: Corpus, lexicon_file: Path | None = None) -> Assembly:
    """Make the parts of a run. New weights come from torch's random numbers: seed them before.

    `lexicon_file` is what the run has kept of its entities and phrases, where it is continued.
    """
    run = recipe.run
    assert run is not None
    tokenizer = corpus.tokenizer()
    notes: list[str] = []
    pairs = recipe.objective.pairs
    # The second text of a pair may come from another document, also where it is judged.
    training, held_out = split_documents(corpus, recipe.data.held_out_tokens, at_least=2 if pairs == "nsp" else 1)
    expected = recipe.data.tokenizer
    if expected is not None and tokenizer.kind != TOKENIZER_KINDS[expected]:
        notes.append(f"this recipe was made for {expected}; the corpus's tokenizer is of the kind {tokenizer.kind}")

    make = {
        "masked_lm": _masked_lm,
        "replaced_tokens": _replaced_tokens,
        "causal_lm": _causal_lm,
        "bilm": _bilm,
        "distill": _distill,
    }
    maskers = _Maskers(recipe, corpus, tokenizer, training, lexicon_file)
    parts = make[recipe.objective.kind](recipe, tokenizer, maskers, notes)
    _check_lengths(recipe.data, parts.models[""])
    model = parts.models[""].config
    for name in ("gradient_checkpointing", "sharded"):
        if getattr(recipe.train, name) and not isinstance(model.body, TransformerConfig):
            raise UsageError(f"train.{name} is for Transformers, and the model is {model.describe()}; leave it out")

    def source(length: int) -> SequenceSource:
        return _source(recipe, corpus, tokenizer, length, training, run.seed, recipe.data.short_prob)

    data = recipe.data
    judged: SequenceSource | None = None
    try:
        if len(held_out):
            judged = _source(recipe, corpus, tokenizer, data.sequence_length, held_out, EVALUATION_SEED, 0.0)
    except DataError:
        if pairs == "none":
            raise
        notes.append(
            f"the held-out text is too little for pairs: only the masked tokens are evaluated, without {pairs}"
        )
        parts.evaluation = MaskedLM(maskers.evaluation())
        judged = SinglePieces(corpus, tokenizer, data.sequence_length, held_out, EVALUATION_SEED)
    return Assembly(
        **vars(parts),
        tokenizer=tokenizer,
        short=source(data.sequence_length),
        long=None if data.long_sequence_length is None else source(data.long_sequence_length),
        held_out=judged,
        training_documents=training,
        held_out_documents=held_out,
        held_out_tokens=int(corpus.document_lengths()[held_out].sum()),
        lexicon=maskers.lexicon,
        notes=notes,
    )


# -- data --------------------------------------------------------------------------------------------------------------


def _source(
    recipe: Recipe,
    corpus: Corpus,
    tokenizer: Tokenizer,
    length: int,
    documents: NDArray[Any],
    seed: int,
    short: float,
) -> SequenceSource:
    pairs = recipe.objective.pairs
    if pairs == "none":
        return SinglePieces(
            corpus,
            tokenizer,
            length,
            documents,
            seed,
            short_prob=short,
            whole_sentences=recipe.data.whole_sentences,
        )
    copies = recipe.objective.masking.copies
    return SentencePairs(corpus, tokenizer, length, pairs, documents, seed, short_prob=short, copies=copies)


class _Maskers:
    """Maskers for training and for evaluation; made where an objective needs them, since not every tokenizer has a
    mask."""

    def __init__(
        self, recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer, documents: NDArray[Any], lexicon_file: Path | None
    ) -> None:
        assert recipe.run is not None
        self.objective, self.seed = recipe.objective, recipe.run.seed
        self.corpus, self.tokenizer, self.documents = corpus, tokenizer, documents
        self.lexicon_file = lexicon_file
        self.lexicon: Lexicon | None = None

    def training(self) -> Masker:
        masking = self.objective.masking
        lexicon = self._lexicon() if masking.unit == "lexicon" else None
        return Masker(masking, self.tokenizer, lexicon, seed=self.seed)

    def evaluation(self) -> Masker:
        return Masker(EVALUATION_MASKING, self.tokenizer, seed=EVALUATION_SEED)

    def _lexicon(self) -> Lexicon:
        self.lexicon = self._found_lexicon()
        return self.lexicon

    def _found_lexicon(self) -> Lexicon:
        """The one that the run has kept; else read from a file, or mined."""
        if self.lexicon_file is not None and self.lexicon_file.exists():
            return Lexicon.load(self.lexicon_file)
        name = self.objective.lexicon
        assert name is not None
        if name == MINED:
            return Lexicon.mine(self.corpus, self.documents, tokenizer=self.tokenizer)
        return Lexicon.from_file(name, self.tokenizer)


def _check_lengths(data: DataSection, model: Model) -> None:
    if data.longest > model.num_positions:
        name = "long_sequence_length" if data.long_sequence_length else "sequence_length"
        raise UsageError(
            f"data.{name} is {data.longest}, but the model has only {model.num_positions} positions; shorten the "
            "sequences, or give a new model more with --set model.max_position_embeddings=N"
        )


# -- objectives --------------------------------------------------------------------------------------------------------


def _masked_lm(recipe: Recipe, tokenizer: Tokenizer, maskers: _Maskers, notes: list[str]) -> Parts:
    pairs = recipe.objective.pairs
    model = _model(recipe, tokenizer, ("mlm",) if pairs == "none" else ("mlm", pairs), notes)

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


def _causal_lm(recipe: Recipe, tokenizer: Tokenizer, maskers: _Maskers, notes: list[str]) -> Parts:
    model = _model(recipe, tokenizer, ("lm",), notes)
    flops = flops_per_token(model.config, recipe.data.sequence_length, predicted=1.0)
    return Parts(module=model, objective=CausalLM(), evaluation=CausalLM(), models={"": model}, flops_per_token=flops)


def _bilm(recipe: Recipe, tokenizer: Tokenizer, maskers: _Maskers, notes: list[str]) -> Parts:
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


def _replaced_tokens(recipe: Recipe, tokenizer: Tokenizer, maskers: _Maskers, notes: list[str]) -> Parts:
    assert recipe.run is not None
    discriminator = _model(recipe, tokenizer, ("rtd",), notes)
    generator = _generator(recipe, tokenizer, discriminator, notes)
    weight, seed = recipe.objective.discriminator_weight, recipe.run.seed
    return Parts(
        module=GeneratorAndDiscriminator(generator, discriminator),
        objective=ReplacedTokens(maskers.training(), seed=seed, rtd_weight=weight),
        evaluation=ReplacedTokens(maskers.evaluation(), seed=seed, rtd_weight=weight),
        models={"": discriminator, GENERATOR: generator},
        flops_per_token=_flops(generator.config, recipe) + _flops(discriminator.config, recipe),
    )


def _distill(recipe: Recipe, tokenizer: Tokenizer, maskers: _Maskers, notes: list[str]) -> Parts:
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
    student = _student(recipe.model.size, teacher)
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


def _student(size: str, teacher: Model) -> Model:
    """A part of the teacher's own layers where the widths allow it, else a new model of its family."""
    body = teacher.config.transformer
    layer = body.layer
    shape = size_of(teacher)._replace(layers=max(1, body.num_hidden_layers // 2)) if size == HALF else parse_size(size)
    task: Task = "mlm"
    if shape[1:] == (layer.hidden_size, layer.num_attention_heads) and shape.layers <= body.num_hidden_layers:
        student = init_student(teacher, num_layers=shape.layers).requires_grad_(True)
        student.set_heads([head for head in student.config.heads if head.task == task])
        return student
    config = replace(narrowed(teacher.config, shape), pooler_act=None)
    heads = (FAMILIES[config.family].head(config, task),) if task in teacher.heads else ()
    return Model(replace(config, heads=heads))


def _flops(config: ModelConfig, recipe: Recipe) -> float:
    masking = recipe.objective.masking
    rate = (masking.rate_at(0.0) + masking.rate_at(1.0)) / 2
    return flops_per_token(config, recipe.data.sequence_length, predicted=rate)


# -- models ------------------------------------------------------------------------------------------------------------


def _model(recipe: Recipe, tokenizer: Tokenizer, tasks: tuple[Task, ...], notes: list[str]) -> Model:
    """A new model, or one that is there, with a head for each of `tasks`."""
    assert recipe.run is not None
    start = recipe.run.start
    if start is None:
        return Model(new_config(recipe.model, tokenizer, tasks))
    loaded = hub.load(start)
    check_same_vocabulary(tokenizer, loaded.tokenizer, start)
    model = copy.deepcopy(loaded.model)  # its tensors are the file's own memory, which is not to be written to
    missing = [task for task in tasks if task not in model.heads]
    there = {head.task: head for head in model.config.heads}
    try:
        heads = [there.get(task) or _new_head(model.config, task) for task in tasks]
    except ModelError as error:
        fit = [name for name, other in FAMILIES.items() if set(tasks) <= {head.task for head in other.heads}]
        raise UsageError(
            f"this recipe ({recipe.about or recipe.objective.kind}) does not go with {start}: {error}; without --recipe "
            f"it is masked LM; this recipe needs a model of the family {' or '.join(fit)}"
        ) from error
    model.set_heads(heads)
    if missing:
        notes.append(f"{start} has no {' and no '.join(missing)} head; a new one is trained")
    return model


def _new_head(config: ModelConfig, task: Task) -> HeadConfig:
    """A head to pretrain a model with, as its family has it."""
    if isinstance(config.body, RecurrentConfig):
        return recurrent_head(config.body, task)
    if config.family not in FAMILIES:
        raise ModelError(
            f"a model in our own format has no {task!r} head of its family; start from one that has the head"
        )
    return FAMILIES[config.family].head(config, task)


def _generator(recipe: Recipe, tokenizer: Tokenizer, discriminator: Model, notes: list[str]) -> Model:
    """ELECTRA's generator: new, or the one beside the discriminator that is gone on with."""
    assert recipe.run is not None
    start = recipe.run.start
    if start is None:
        return Model(generator_config(recipe.model, tokenizer))
    beside = Path(start) / GENERATOR
    if beside.is_dir():
        return copy.deepcopy(hub.load(beside).model)
    notes.append(f"{start} comes without its generator; a new one is trained")
    body = discriminator.config.transformer
    heads = max(1, round(body.layer.num_attention_heads * recipe.model.generator_factor))
    width = heads * (body.layer.hidden_size // body.layer.num_attention_heads)
    config = narrowed(discriminator.config, Size(body.num_hidden_layers, width, heads))
    size = None if body.embedding_size == width else body.embedding_size
    config = replace(config, body=replace(config.transformer, embeddings=replace(body.embeddings, size=size)))
    return Model(replace(config, heads=(FAMILIES[config.family].head(config, "mlm"),)))


def check_same_vocabulary(tokenizer: Tokenizer, other: Tokenizer, name: str) -> None:
    """An error where a corpus's tokenizer and a model's give different ids to a token."""
    ours, theirs = tokenizer.backend.get_vocab(), other.backend.get_vocab()
    if ours == theirs:
        return
    odd = next((token for token, number in theirs.items() if ours.get(token) != number), None)
    odd = odd or next(token for token, number in ours.items() if theirs.get(token) != number)
    raise UsageError(
        f"the corpus was built with another vocabulary than {name}'s: {len(ours):,} and {len(theirs):,} tokens, "
        f"{odd!r} has the id {ours.get(odd, 'none')} here and {theirs.get(odd, 'none')} there; build the corpus with "
        f"--tokenizer {name}"
    )
