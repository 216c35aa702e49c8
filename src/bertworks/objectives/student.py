"""A student that starts as a part of its teacher: some of the layers, and everything around them.

DistilBERT (Sanh et al. 2019, section 3) took one layer out of two of BERT's twelve. Here the layers are spread evenly up to
the last: of twelve, six are 2, 4, 6, 8, 10 and 12. Where local and global layers take turns, each of the student's starts
from the nearest one of its own kind. DistilBERT also dropped the segments and the pooler; here the student is of its
teacher's family, with everything that this has.

A layer's weights are at home in the stack they come from; a student cut out of it must be trained before it is of use.
"""

from __future__ import annotations

from dataclasses import replace

from bertworks.errors import ConfigError
from bertworks.models.config import TransformerConfig
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


def init_student(teacher: Model, *, num_layers: int) -> Model:
    """A copy of the teacher with fewer layers, spread evenly over its own."""
    config = teacher.config.transformer
    chosen = start_layers(config, num_layers)
    blocks = {student: layer - 1 for student, layer in enumerate(chosen)}
    if config.num_groups is not None:  # shared blocks are few, and all of them are kept
        if config.num_groups > num_layers:
            raise ConfigError(
                f"the teacher's layers share {config.num_groups} sets of weights; the student needs at least as many layers"
            )
        blocks = {number: number for number in range(len(teacher.blocks))}
    student = Model(replace(teacher.config, body=replace(config, num_hidden_layers=num_layers)))
    student.to(teacher.body.embeddings.tokens.weight)
    source, state = teacher.state_dict(), student.state_dict()
    for name in state:
        origin = name
        if name.startswith("body.blocks."):
            _, _, number, rest = name.split(".", 3)
            origin = f"body.blocks.{blocks[int(number)]}.{rest}"
        if origin in source:  # ModernBERT's first block has no first norm; where it comes to stand, 1 is as good
            state[name] = source[origin].clone()
    student.load_state_dict(state)
    return student
