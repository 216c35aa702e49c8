"""Steps to batches for pretraining: which sequences belong to a step, and what an objective makes of them.

A step's batches are a pure function of the step's number: a run that is resumed asks for the next one, and has it at
once. Longer sequences for the last part of training are a second plan of the same documents, which begins where the
first one ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertworks.data.pretraining.batches import Batches, share
from bertworks.data.pretraining.sequences import RowSource
from bertworks.objectives.base import Batch, Objective

MICRO_TOKENS = {"cpu": 4096}
OTHER_MICRO_TOKENS = 16384
"""Tokens in one forward pass where the settings do not say: what a processor's cache and memory like, and what a GPU does."""
EVALUATION_TOKENS = 4096
"""Tokens in one forward pass of the evaluation; it changes no figure."""


def default_micro_tokens(device: str) -> int:
    """Tokens in one forward pass where the settings do not say, for a kind of device."""
    return MICRO_TOKENS.get(device, OTHER_MICRO_TOKENS)


@dataclass(frozen=True)
class Phase:
    """Steps `first` to before `end`, on sequences of one length."""

    source: RowSource
    batches: Batches
    first: int
    end: int


class Feed:
    """What the loop asks for its batches (`bertworks.train.loop.Data`)."""

    def __init__(
        self,
        phases: Sequence[Phase],
        objective: Objective,
        *,
        total_steps: int,
        micro_tokens: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.phases = phases
        self.objective = objective
        self.total_steps = total_steps
        self.micro_tokens = micro_tokens or default_micro_tokens(device)

    def phase(self, step: int) -> Phase:
        """The phase of a step; the last one goes on for ever."""
        return next((phase for phase in self.phases if step < phase.end), self.phases[-1])

    def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
        """This process's micro-batches of step number `step`, counted from 0."""
        phase = self.phase(step)
        epoch, numbers = phase.batches.at(step - phase.first)
        progress = min(step / max(self.total_steps - 1, 1), 1.0)
        parts = share(phase.source.lengths, numbers, rank=rank, world=world, micro_tokens=self.micro_tokens)
        return [self.objective.prepare(phase.source.take(part, epoch), progress) for part in parts]

    def seen(self, step: int) -> tuple[float, float]:
        """About how many tokens, and how many times the whole corpus, were seen when `step` steps are done."""
        tokens = epochs = 0.0
        for phase in self.phases:
            passes = max(min(step, phase.end) - phase.first, 0) / phase.batches.num_batches
            epochs += passes
            tokens += passes * phase.source.num_tokens
        return tokens, epochs


def phases(
    short: RowSource, long: RowSource | None, *, batch_tokens: int, seed: int, total_steps: int, share: float
) -> list[Phase]:
    """One phase, or two of which the second is the last `share` of the steps."""
    if long is None:
        return [Phase(short, Batches(short, batch_tokens, seed), 0, total_steps)]
    turn = total_steps - max(1, round(total_steps * share))
    plans = [
        Phase(short, Batches(short, batch_tokens, seed), 0, turn),
        Phase(long, Batches(long, batch_tokens, seed), turn, total_steps),
    ]
    return [plan for plan in plans if plan.end > plan.first]


def evaluation_batches(source: RowSource, objective: Objective, *, rank: int, world: int) -> list[Batch]:
    """This process's part of all sequences of a source, always with the same masks: epoch 0, at the end of training."""
    numbers: NDArray[np.int64] = np.arange(len(source.lengths), dtype=np.int64)
    if len(numbers) < world:  # so few that each process takes them all, which changes no mean
        rank, world = 0, 1
    parts = share(source.lengths, numbers, rank=rank, world=world, micro_tokens=EVALUATION_TOKENS)
    return [objective.prepare(source.take(part, 0), 1.0) for part in parts]
