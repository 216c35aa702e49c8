"""Steps to batches for fine-tuning: which units belong to a step, as a pure function of (seed, step).

An epoch is all units in a random order, cut into batches of equal size (to one unit). Batches are random, not sorted by
length: a batch of nothing but long texts would be a biased step. Inside a step units are sorted by length, since a
packed batch has no padding and attention likes equal lengths beside each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.pretraining import draw
from bertworks.data.pretraining.batches import share
from bertworks.data.pretraining.draw import Stream
from bertworks.objectives.base import Batch
from bertworks.tasks.base import Chosen, Task, Units
from bertworks.train.feed import default_micro_tokens

UNBOUNDED = 2**62


class Feed:
    """What the loop asks for its batches (`bertworks.train.loop.Data`)."""

    def __init__(
        self,
        task: Task[Any, Any],
        units: Units,
        *,
        batch_size: int,
        epochs: float,
        seed: int,
        micro_tokens: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.task, self.units, self.seed = task, units, seed
        self.lengths = units.num_tokens  # (U,)
        self.steps_per_epoch = max(1, math.ceil(len(units) / batch_size))
        self.total_steps = max(1, round(epochs * self.steps_per_epoch))
        # What is compared within a step must be in one batch, however large it is.
        self.micro_tokens = UNBOUNDED if task.whole_steps else micro_tokens or default_micro_tokens(device)
        self._order: tuple[int, NDArray[np.int64]] | None = None

    def at(self, step: int) -> NDArray[np.int64]:
        """The numbers of the units of step `step`, counted from 0."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        order = self._order  # read and set as one value: another thread may ask, too
        if order is None or order[0] != epoch:
            order = self._order = (epoch, draw.permutation(Stream.SHUFFLE, self.seed, epoch, len(self.units)))
        first, stop = (number * len(self.units) // self.steps_per_epoch for number in (batch, batch + 1))
        return order[1][first:stop]

    def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
        """This process's micro-batches of step number `step`."""
        progress = min(step / max(self.total_steps - 1, 1), 1.0)
        parts = share(self.lengths, self.at(step), rank=rank, world=world, micro_tokens=self.micro_tokens)
        return [self.task.prepare(Chosen(self.units, part), progress) for part in parts]

    def seen(self, step: int) -> tuple[float, float]:
        """About how many tokens, and how many epochs, were seen when `step` steps are done."""
        epochs = step / self.steps_per_epoch
        return epochs * float(self.lengths.sum()), epochs
