"""Steps to batches for fine-tuning: which units belong to a step, as a pure function of (seed, step).

An epoch is all units in a random order, cut into batches of equal size (to one unit). Batches are random, not sorted by
length: a batch of nothing but long texts would be a biased step. Inside a step units are sorted by length, since a
packed batch has no padding and attention likes equal lengths beside each other.

Unlabelled units, where a task learns from them too (cross-view training), are drawn in the same way beside them, so many
to a step, in epochs of their own.
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
        unlabelled: Units | None = None,
        unlabelled_batch_size: int = 1,
    ) -> None:
        self.task, self.units, self.seed = task, units, seed
        self.lengths = units.num_tokens  # (U,)
        self.steps_per_epoch = max(1, math.ceil(len(units) / batch_size))
        self.total_steps = max(1, round(epochs * self.steps_per_epoch))
        # What is compared within a step must be in one batch, however large it is.
        self.micro_tokens = UNBOUNDED if task.whole_steps else micro_tokens or default_micro_tokens(device)
        self._order = _Order(Stream.SHUFFLE, seed, len(units), self.steps_per_epoch)
        self.unlabelled = unlabelled
        if unlabelled is not None:
            steps = max(1, math.ceil(len(unlabelled) / unlabelled_batch_size))
            self._unlabelled_order = _Order(Stream.UNLABELLED, seed, len(unlabelled), steps)

    def at(self, step: int) -> NDArray[np.int64]:
        """The numbers of the units of step `step`, counted from 0."""
        return self._order.at(step)

    def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
        """This process's micro-batches of step number `step`."""
        progress = min(step / max(self.total_steps - 1, 1), 1.0)
        batches = self._batches(self.units, self.at(step), progress, rank, world)
        if self.unlabelled is not None:
            batches += self._batches(self.unlabelled, self._unlabelled_order.at(step), progress, rank, world)
        return batches

    def _batches(self, units: Units, numbers: NDArray[np.int64], progress: float, rank: int, world: int) -> list[Batch]:
        parts = share(units.num_tokens, numbers, rank=rank, world=world, micro_tokens=self.micro_tokens)
        return [self.task.prepare(Chosen(units, part), progress) for part in parts]

    def seen(self, step: int) -> tuple[float, float]:
        """About how many tokens, and how many epochs, were seen when `step` steps are done."""
        epochs = step / self.steps_per_epoch
        return epochs * float(self.lengths.sum()), epochs


class _Order:
    """Epochs of so many units, each in an order of its own and cut into as many steps of equal size."""

    def __init__(self, stream: Stream, seed: int, count: int, steps: int) -> None:
        self.stream, self.seed, self.count, self.steps = stream, seed, count, steps
        self._drawn: tuple[int, NDArray[np.int64]] | None = None

    def at(self, step: int) -> NDArray[np.int64]:
        """The numbers of the units of step `step`."""
        epoch, batch = divmod(step, self.steps)
        drawn = self._drawn  # read and set as one value: another thread may ask, too
        if drawn is None or drawn[0] != epoch:
            drawn = self._drawn = (epoch, draw.permutation(self.stream, self.seed, epoch, self.count))
        first, stop = (number * self.count // self.steps for number in (batch, batch + 1))
        return drawn[1][first:stop]
