"""A student that starts as a part of its teacher: some of the layers, and everything around them.

DistilBERT (Sanh et al. 2019, section 3) took one layer out of two of BERT's twelve and dropped the segments and the pooler.
Here the layers are spread evenly up to the last: of twelve, six are 2, 4, 6, 8, 10 and 12. Where local and global layers
take turns, each of the student's starts from the nearest one of its own kind.

A layer's weights are at home in the stack they come from; a student cut out of it must be trained before it is of use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bertworks.errors import ConfigError, ModelError
from bertworks.models.config import ModelConfig, TransformerConfig
from bertworks.models.model import Model


def even_pairs(student_layers: int, teacher_layers: int) -> dict[int, int]:
    """Student layer -> teacher layer, evenly spread: the embeddings, then every n-th layer, and the last."""
    return {layer: round(layer * teacher_layers / student_layers) for layer in range(student_layers + 1)}


def start_layers(teacher: TransformerConfig, num_layers: int) -> list[int]:
    """The teacher's layers (from 1) that a student of `num_layers` starts from."""
    there = teacher.num_hidden_layers
    if not 1 <= num_layers <= there:
        raise ConfigError(f"the student has {num_layers} layers; allowed: 1 to {there}, which the teacher has")
    chosen = []
    for layer, wanted in list(even_pairs(num_layers, there).items())[1:]:
        kind = teacher.is_local(layer - 1)
        alike = [other for other in range(1, there + 1) if teacher.is_local(other - 1) == kind]
        chosen.append(min(alike, key=lambda other: (abs(other - wanted), other)))
    return chosen


def init_student(
    teacher: Model, *, num_layers: int | None = None, positions: Sequence[int] | None = None, distilbert: bool = False
) -> Model:
    """A copy of the teacher with fewer layers: `num_layers` spread evenly, or those at `positions` (from 1).

    With `distilbert`, a BERT teacher gives a student of the family DistilBERT: without segments and pooler, masked LM its only
    head. The vector of segment 0 is added to the positions, where it does the same.
    """
    if (num_layers is None) == (positions is None):
        raise ConfigError("say how many layers the student has (num_layers) or which (positions): one of the two")
    there = teacher.num_layers
    chosen = list(positions or ()) if num_layers is None else start_layers(teacher.config.body, num_layers)
    if not chosen or not all(1 <= layer <= there for layer in chosen):
        raise ConfigError(f"positions are {chosen}; allowed: one or more of the teacher's layers, 1 to {there}")
    config = _student_config(teacher.config, len(chosen), distilbert)
    source = teacher.state_dict()
    if teacher.config.body.num_groups is None:
        blocks = {student: layer - 1 for student, layer in enumerate(chosen)}
    else:  # shared blocks are few, and all of them are kept
        blocks = {number: number for number in range(len(teacher.body.blocks))}
    student = Model(config).to(teacher.body.embeddings.tokens.weight)
    state = student.state_dict()
    for name in state:
        origin = name
        if name.startswith("body.blocks."):
            _, _, number, rest = name.split(".", 3)
            origin = f"body.blocks.{blocks[int(number)]}.{rest}"
        if origin in source:  # ModernBERT's first block has no first norm; where it comes to stand, 1 is as good
            state[name] = source[origin].clone()
    if distilbert:
        state["body.embeddings.positions.weight"] += source["body.embeddings.segments.weight"][0]
    student.load_state_dict(state)
    return student


def _student_config(config: ModelConfig, num_layers: int, distilbert: bool) -> ModelConfig:
    groups = config.body.num_groups
    if groups is not None and groups > num_layers:
        raise ConfigError(
            f"the teacher's layers share {groups} sets of weights; the student needs at least as many layers"
        )
    body = replace(config.body, num_hidden_layers=num_layers)
    if not distilbert:
        return replace(config, body=body)
    positions = body.positions
    if config.family != "bert" or positions.absolute != "learned" or not body.embeddings.type_vocab_size:
        raise ModelError(
            f"a DistilBERT student comes from a BERT teacher with learned positions, not from the family {config.family!r}; "
            "leave `distilbert` out for a student of the teacher's own family"
        )
    return replace(
        config,
        family="distilbert",
        body=replace(body, embeddings=replace(body.embeddings, type_vocab_size=0)),
        pooler_act=None,
        heads=tuple(head for head in config.heads if head.task == "mlm"),
        labels=(),
        source=(),
    )
