"""The settings of a training: how a step is taken, and when the model is looked at and saved.

Which data is read, how much of it makes a step and which model is trained is said elsewhere (`bertworks.train.recipes`,
`bertworks.finetune.config`); nothing here knows whether it pretrains or fine-tunes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bertworks.errors import ConfigError

Precision = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Which optimiser, and its numbers."""

    name: Literal["adamw", "lamb", "muon"] = "adamw"
    learning_rate: float = 1e-3
    """The highest learning rate; the schedule multiplies it."""
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-6
    weight_decay: float = 0.01
    """On matrices and embedding tables; never on biases and norms."""
    layer_decay: float = 1.0
    """Each layer below the heads learns this much slower than the one above it (fine-tuning: 0.8 to 0.95); 1 = all alike."""
    muon_learning_rate: float | None = None
    """For the matrices that Muon turns; None = `learning_rate`, to which its steps are scaled."""
    muon_momentum: float = 0.95

    def __post_init__(self) -> None:
        positive("optimizer.learning_rate", self.learning_rate)
        positive("optimizer.muon_learning_rate", self.muon_learning_rate)
        positive("optimizer.eps", self.eps)
        between("optimizer.weight_decay", self.weight_decay, 0.0, float("inf"))
        if not 0.0 < self.layer_decay <= 1.0:
            raise ConfigError(f"optimizer.layer_decay is {self.layer_decay:g}; allowed: above 0, up to 1")
        for name, value in (*(("betas", beta) for beta in self.betas), ("muon_momentum", self.muon_momentum)):
            if not 0.0 <= value < 1.0:
                raise ConfigError(f"optimizer.{name} has {value:g}; allowed: from 0 to below 1")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How the learning rate goes over the training, as a share of its highest value."""

    name: Literal["linear", "cosine", "constant", "trapezoid", "noam"] = "linear"
    warmup: float = 0.06
    """Below 1: a share of all steps; from 1 on: a number of steps."""
    decay: float = 0.2
    """Trapezoid: the share of all steps, at the end, over which it falls."""
    final: float = 0.0
    """Linear, cosine, trapezoid: the share of the highest learning rate that it falls to."""

    def __post_init__(self) -> None:
        between("schedule.warmup", self.warmup, 0.0, float("inf"))
        between("schedule.decay", self.decay, 0.0, 1.0)
        between("schedule.final", self.final, 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """When the model is evaluated on held-out data, and what follows from it."""

    steps: int | None = None
    """Every so many steps and at the end; None = ten times over the training; 0 = never."""
    metric: str = "loss"
    """Which of the evaluation's figures says which checkpoint is the best."""
    goal: Literal["lowest", "highest"] = "lowest"
    floor: float | None = None
    """With goal = highest: figures up to this one are worth the same, and the loss decides between them; None = no such one."""
    patience: int | None = None
    """Stop after this many evaluations in a row without a better one; None = never."""
    keep: Literal["last", "best"] = "last"
    """Which weights the training ends with."""

    def __post_init__(self) -> None:
        at_least("evaluation.steps", self.steps, 0)
        at_least("evaluation.patience", self.patience, 1)


@dataclass(frozen=True, kw_only=True)
class RunLength:
    """How long a run is, and what was measured to settle it; every kind of run has it in its `config.toml`."""

    seed: int = 0
    steps: int | None = None
    """How many the training has; epochs or a budget are turned into them once."""
    budget: float | None = None
    """Seconds."""
    evaluation_steps: int | None = None
    """With a budget: evaluate every so many steps, fewer than ten times where that would cost too much of it."""
    step_tokens: float | None = None
    """What was measured when the run began: tokens in a step, seconds for it, seconds for an evaluation."""
    step_seconds: float | None = None
    evaluation_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training."""

    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    micro_tokens: int | None = None
    """Tokens in one forward pass of one process; it bounds the memory and, but for where dropout falls,
    changes no result. None = a size that suits."""
    clip_norm: float | None = 1.0
    """The gradient's norm is cut to this; None = never."""
    ema: float | None = None
    """Decay of the weights' exponential moving average, which is then what is evaluated and kept; None = no average."""
    precision: Precision = "fp32"
    sharded: bool = False
    """With several processes: split weights and optimiser among them (FSDP) instead of copying them (DDP)."""
    gradient_checkpointing: bool = False
    """Compute each block again in the backward pass instead of remembering it: less memory, a third more time."""
    checkpoint_steps: int | None = None
    checkpoint_minutes: float | None = 10.0
    """Save every so many steps, and after so many minutes, and always at the end."""
    log_steps: int = 10
    on_nonfinite: Literal["stop", "skip"] = "stop"
    """What a loss or a gradient that is infinite or not a number leads to; see `bertworks.train.loop`."""

    def __post_init__(self) -> None:
        at_least("micro_tokens", self.micro_tokens, 1)
        at_least("checkpoint_steps", self.checkpoint_steps, 1)
        at_least("log_steps", self.log_steps, 1)
        positive("checkpoint_minutes", self.checkpoint_minutes)
        positive("clip_norm", self.clip_norm)
        if self.ema is not None and not 0.0 < self.ema < 1.0:
            raise ConfigError(f"ema is {self.ema:g}; allowed: between 0 and 1, such as 0.999, or none")


def at_least(name: str, value: int | None, lowest: int) -> None:
    """An error where a setting is below what is allowed; None is."""
    if value is not None and value < lowest:
        raise ConfigError(f"{name} is {value}; allowed: {lowest} or more")


def positive(name: str, value: float | None) -> None:
    """An error where a setting is not above 0; None is fine."""
    if value is not None and not value > 0.0:
        raise ConfigError(f"{name} is {value:g}; allowed: above 0")


def between(name: str, value: float, low: float, high: float) -> None:
    """An error where a setting is outside of its bounds."""
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value:g}; allowed: {low:g} to {high:g}")
