"""What an objective is, for the loop that trains it: how sequences become a batch, and what a batch's losses are.

A loss is never divided here. It is a *sum* over items (masked tokens, sentence pairs, labelled rows) and their *count*.
The loop adds up the counts of a whole step, over micro-batches and processes, before it divides: four micro-batches of
eight then give the gradient of one batch of thirty-two exactly, however the masked tokens fall. The counts are known as
soon as a batch is prepared, so the loop can divide each micro-batch's sum before its backward pass.

An objective may have several losses (masked LM and next sentence prediction), each with its own count and weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.data.pretraining.sequences import Sequences
from bertworks.nn.packed import Layout, Packed, Rows


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One loss of one batch."""

    sum: Tensor
    """Scalar with a gradient: the losses of all items added up, in fp32."""
    count: int
    """How many items that was."""
    correct: Tensor | None = None
    """Scalar int64 where right and wrong make sense: how many items had their target as the most likely answer."""
    shares: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Further shares worth a line in a log, by name, as (part, whole): scalar sums that add up over batches."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A prepared batch: packed tokens, the rows where a loss is taken, and whatever else the objective needs, by name."""

    packed: Packed
    counts: Mapping[str, int]
    """Per loss, how many items this batch holds."""
    rows: Rows | None = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        return self.packed.layout.total

    def to(self, device: torch.device | str) -> Batch:
        return replace(
            self,
            packed=self.packed.to(device),
            rows=None if self.rows is None else self.rows.to(device),
            tensors={name: tensor.to(device) for name, tensor in self.tensors.items()},
        )


class Objective(Protocol):
    """What can be trained."""

    @property
    def weights(self) -> Mapping[str, float]:
        """The losses' names, and how much each counts in the total."""
        ...

    def prepare(self, rows: Any, progress: float) -> Batch:
        """Sequences (`bertworks.data.pretraining.Sequences`, or a task's own rows) to a batch.

        `progress` goes from 0 to 1 over the whole training. No randomness but what is a function of the rows' numbers.
        """
        ...

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        """Forward pass; one entry per name in `weights`. No sequences at all is a batch too: its sums are 0."""
        ...


def pack(rows: Sequences, input_ids: NDArray[np.int64] | None = None) -> Packed:
    """The sequences as a packed batch, with `input_ids` (T,) in place of their own ids where they are given."""
    return Packed(
        input_ids=torch.from_numpy(rows.ids if input_ids is None else input_ids),
        layout=Layout(rows.lengths.tolist()),
        segments=None if rows.segments is None else torch.from_numpy(rows.segments),
    )
