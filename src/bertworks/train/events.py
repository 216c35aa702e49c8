"""What a run tells while it runs, whatever it trains: a terminal, a notebook and a test can all follow it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bertworks.train.loop import StepReport


@dataclass(frozen=True)
class Note:
    """Something that a person should know."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """One step is done."""

    report: StepReport
    loss: float
    """All losses, weighted."""
    rate: float
    """Tokens a second since the last logged step."""


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Stopped on request; a checkpoint is saved."""

    step: int
    total_steps: int
    directory: Path | None
    """The run's; None where nothing is written."""
