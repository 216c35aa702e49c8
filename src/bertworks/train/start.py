"""The models that a run starts with: new ones, or one that is there, with the heads that the objective needs.

Also ELECTRA's generator beside its discriminator, and a student beside its teacher. A model that is there must have the
vocabulary of the corpus.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

from bertworks import hub
from bertworks.errors import ModelError, UsageError
from bertworks.hub.families import FAMILIES
from bertworks.models.config import HeadConfig, ModelConfig, RecurrentConfig, Task
from bertworks.models.model import Model
from bertworks.objectives.student import init_student
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.architecture import HALF, Size, generator_config, narrowed, new_config, parse_size
from bertworks.train.recipes import Recipe
from bertworks.train.recurrent import recurrent_head

GENERATOR = "generator"
"""The folder of ELECTRA's generator in the finished run."""


def started_model(recipe: Recipe, tokenizer: Tokenizer, tasks: tuple[Task, ...], notes: list[str]) -> Model:
    """A new model, or one that is there, with a head for each of `tasks`."""
    assert recipe.run is not None
    start = recipe.run.start
    if start is None:
        return Model(new_config(recipe.model, tokenizer, tasks))
    loaded = hub.load(start)
    check_same_vocabulary(tokenizer, loaded.tokenizer, start)
    model = copy.deepcopy(loaded.model)  # its tensors are the file's own memory, which is not to be written to
    missing = [task for task in tasks if task not in model.heads]
    left = [task for task in model.heads if task not in tasks]
    there = {head.task: head for head in model.config.heads}
    try:
        heads = [there.get(task) or _new_head(model.config, task) for task in tasks]
    except ModelError as error:
        fit = [name for name, other in FAMILIES.items() if set(tasks) <= {head.task for head in other.heads}]
        pairs = recipe.objective.pairs
        told = (
            f"objective.pairs={pairs}" if pairs in tasks else f"this recipe ({recipe.about or recipe.objective.kind})"
        )
        raise UsageError(
            f"{told} does not go with {start}: {error}; without --recipe it is masked LM; {told} needs a model of the "
            f"family {' or '.join(fit)}" + (", or --set objective.pairs=none" if pairs in tasks else "")
        ) from error
    model.set_heads(heads)
    if not any(head.reads == "pooled" for head in heads):  # nothing would train it
        model.pooler, model.config = None, replace(model.config, pooler_act=None)
    if missing:
        notes.append(f"{start} has no {' and no '.join(missing)} head; a new one is trained")
    if left:
        notes.append(f"this recipe does not train the {' and '.join(left)} head of {start}; the result is without it")
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


def started_generator(recipe: Recipe, tokenizer: Tokenizer, discriminator: Model, notes: list[str]) -> Model:
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


def new_student(size: str, teacher: Model) -> Model:
    """A part of the teacher's own layers where the widths allow it, else a new model of its family."""
    body = teacher.config.transformer
    layer = body.layer
    shape = half_of(teacher) if size == HALF else parse_size(size)
    task: Task = "mlm"
    if shape[1:] == (layer.hidden_size, layer.num_attention_heads) and shape.layers <= body.num_hidden_layers:
        student = init_student(teacher, num_layers=shape.layers).requires_grad_(True)
        student.set_heads([head for head in student.config.heads if head.task == task])
        return student
    config = replace(narrowed(teacher.config, shape), pooler_act=None)
    heads = (FAMILIES[config.family].head(config, task),) if task in teacher.heads else ()
    return Model(replace(config, heads=heads))


def size_of(model: Model) -> Size:
    """A model's layers, width and heads."""
    body = model.config.transformer
    return Size(body.num_hidden_layers, body.layer.hidden_size, body.layer.num_attention_heads)


def half_of(model: Model) -> Size:
    """Half of a model's layers, as wide as it is."""
    size = size_of(model)
    return size._replace(layers=max(1, size.layers // 2))


def check_same_vocabulary(tokenizer: Tokenizer, other: Tokenizer, name: str) -> None:
    """An error where a corpus's tokenizer and a model's give different ids to a token."""
    ours, theirs = tokenizer.backend.get_vocab(), other.backend.get_vocab()
    if ours == theirs:
        return
    odd = next((token for token, number in theirs.items() if ours.get(token) != number), None)
    odd = odd or next(token for token, number in ours.items() if theirs.get(token) != number)
    named = {token for token in other.config.values() if isinstance(token, str)}
    if theirs.keys() <= named:  # AllenNLP's models are published without their words
        raise UsageError(f"{name} has no vocabulary of its own, as ELMo is published, and cannot be trained further")
    raise UsageError(
        f"the corpus was built with another vocabulary than {name}'s: {len(ours):,} and {len(theirs):,} tokens, "
        f"{odd!r} has the id {ours.get(odd, 'none')} here and {theirs.get(odd, 'none')} there; build the corpus with "
        f"--tokenizer {name}"
    )
