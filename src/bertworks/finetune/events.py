"""What a fine-tuning tells while it runs, beside what every training does (`bertworks.train.events`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.result import Baseline, Figures
from bertworks.models.model import Model
from bertworks.tasks.base import Evaluated, Task
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.events import Note, Stepped, Stopped

__all__ = ["Begun", "Event", "Finished", "FitEvent", "Fitted", "Note", "Planned", "Stepped", "Stopped", "Understood"]


@dataclass(frozen=True, kw_only=True)
class Understood:
    """The files were read."""

    sentences: Sequence[str]
    """What was found in each of them."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What the run is going to do."""

    task: Task[Any, Any]
    model: str
    """In words: `minilm (bert 6x384x12)`."""
    config: FinetuneConfig
    baseline: Baseline
    parts: int
    """How many trainings there will be at most, all seeds and trials."""


@dataclass(frozen=True, kw_only=True)
class Begun:
    """One training begins, or goes on."""

    seed: int
    steps: int
    first_step: int
    """Steps that were done before."""
    num_examples: int
    num_units: int
    """More than examples where long texts have several windows."""
    num_tokens: int
    """In one epoch."""
    evaluation_steps: int
    """An evaluation every so many steps; 0 = none."""
    parameters: int
    trained_parameters: int
    title: str = ""
    """Which of several trainings it is: `seed 1 (2 of 3)`."""
    part: int = 0
    """Its number among all of them, from 0."""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """One training is over."""

    seed: int
    model: Model
    """With the weights to keep, adapters merged, in evaluation mode."""
    tokenizer: Tokenizer
    """The one to use with it: GPT's has got new tokens."""
    task: Task[Any, Any]
    """The one to use with it: scales may have been folded into the model."""
    evaluated: Evaluated[Any] | None
    """Of the development examples; None where there are none."""
    steps: int
    best_step: int | None
    seconds: float
    parameters: int
    trained_parameters: int
    lines: Sequence[Mapping[str, Any]] = ()
    frozen: Mapping[str, Any] = field(default_factory=dict)
    """Of a head on frozen vectors: its cross-validation (`bertworks.finetune.frozen`)."""

    @property
    def figures(self) -> dict[str, float]:
        return dict(self.evaluated.figures) if self.evaluated is not None else {}

    @property
    def decision(self) -> dict[str, Any]:
        return dict(self.evaluated.decision) if self.evaluated is not None else {}


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The run's directory is a model now."""

    directory: Path
    metric: str
    """The figure that counts."""
    figures: Figures
    """Means over the seeds, on the development examples."""
    spread: Figures = field(default_factory=dict)
    test: Figures = field(default_factory=dict)
    test_spread: Figures = field(default_factory=dict)
    baseline: Baseline = field(default_factory=dict)
    cross_validation: Mapping[str, Any] = field(default_factory=dict)
    """Of a head on frozen vectors: {"metric", "mean", "std", "folds", …}."""
    doubt: str | None = None
    """A sentence where the model is not clearly better than a simple one."""
    chosen: Mapping[str, float] = field(default_factory=dict)
    """The settings that a search has found best."""
    seeds: Sequence[int] = ()
    seconds: float = 0.0
    already: bool = False


FitEvent = Note | Begun | Stepped | Stopped | Fitted
Event = Understood | Planned | Finished | FitEvent
