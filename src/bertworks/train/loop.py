"""The loop: a generator that takes one step after the other and reports each. It prints nothing and knows no corpus.

Everything it does is a function of the saved tensors and the number of the step: the batches (`Data.micro_batches(step)`),
the dropout masks (seeded per step), the learning rate (`schedule.scale_at(step)`). A training that is killed at any moment
and resumed from its last checkpoint therefore goes the same way, bit for bit on the same machine, as one that was not.

A loss or a gradient that is infinite or not a number never reaches the weights. What follows is `on_nonfinite`:

    stop   an error that says where and what to try
    skip   the step's update is left out; the step counts as done. After three such steps in a row the weights
           themselves are taken to be at fault: weights, optimiser and average are set back to those of the last
           checkpoint, which is saved once more under the present step. The step's number is *not* set back: data and
           learning rate go on from here, and what was read since that checkpoint is lost to the training, with
           whatever led there (as in PaLM, Chowdhery et al. 2022, section 5.1, which also passes over that data). That
           happens once in a training; at the next three in a row, or without a checkpoint, it stops as above.

Left out: everything about where data comes from, what is printed, and what a finished model's directory looks like.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.errors import BertworksError, ConfigError
from bertworks.objectives.base import Objective
from bertworks.train import state as checkpoint
from bertworks.train.average import Average
from bertworks.train.config import TrainConfig
from bertworks.train.memory import kept_memory
from bertworks.train.parallel import Parallel
from bertworks.train.prefetch import Data, Prefetch
from bertworks.train.schedule import scale_at
from bertworks.train.state import Best, Progress, Saved
from bertworks.train.step import Outcome, Stepper, recomputing

__all__ = ["Data", "NonFiniteError", "StepReport", "evaluation_steps", "report_of", "train"]

BAD_IN_A_ROW = 3
"""So many non-finite steps in a row, and the weights are set back."""
HELD_SECONDS = 30.0
"""A best model that comes sooner than this after the last checkpoint is kept in memory, and saved with the next ones until
there is a better one: a kill costs so much more time, and short trainings are not busy with saving."""

Evaluate = Callable[[nn.Module], Mapping[str, float]]


class NonFiniteError(BertworksError):
    """A loss or a gradient became infinite or not a number, and the settings say to stop."""


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """What one step did."""

    step: int
    """Steps done so far, this one included."""
    total_steps: int
    loss: float
    """All losses, weighted."""
    losses: Mapping[str, float]
    """Per loss, the mean over the step's items."""
    accuracy: Mapping[str, float]
    """Per loss that can be right or wrong, the share of items that were right."""
    learning_rate: float
    grad_norm: float
    """Before clipping."""
    num_tokens: int
    """Over all processes."""
    seconds: float
    """Of the step alone, without evaluation and saving."""
    evaluation: Mapping[str, float] | None = None
    best: Best | None = None
    """The best evaluation so far, this step's included."""
    checkpoint: Path | None = None
    events: tuple[str, ...] = ()
    """What a person should be told, in words: skipped, rolled back, stopped."""
    stopped: bool = False
    """This was the last step for now, because a stop was asked for; the training is not over."""


def report_of(saved: Saved) -> StepReport | None:
    """What was reported of the last step before a checkpoint; None where an earlier version wrote it."""
    if saved.report is None:
        return None
    events = tuple(saved.report["events"])
    return StepReport(**{**saved.report, "events": events, "best": saved.best, "checkpoint": saved.path})


def evaluation_steps(config: TrainConfig, total_steps: int) -> int:
    """Evaluate every so many steps; 0 = never."""
    if config.evaluation.steps is None:
        return max(1, math.ceil(total_steps / 10))
    return config.evaluation.steps


def train(
    module: nn.Module,
    objective: Objective,
    data: Data,
    config: TrainConfig,
    *,
    total_steps: int,
    seed: int,
    parallel: Parallel | None = None,
    directory: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    state: Saved | None = None,
    evaluate: Evaluate | None = None,
    before_step: Callable[[int], None] | None = None,
    stop: threading.Event | None = None,
) -> Iterator[StepReport]:
    """Train `module` up to `total_steps` steps, from the start or from the checkpoint `state`.

    Checkpoints go to `directory` (None = none), with `settings` (plain JSON values) inside. `evaluate` is called in
    evaluation mode, without gradients, with the averaged weights where there is an average; with several processes each
    calls it, and each must get the same figures. `before_step` is called with each step's number (from 0) before it is
    taken, to freeze and unfreeze parameters: a function of that number alone. When `stop` is set in one process, the
    step in hand is finished and saved, and the iterator ends in all.

    When the iterator is exhausted because the training is over, `module` holds the weights to keep: the averaged ones
    where there is an average, the best where `evaluation.keep` says so. Sharded, it holds a part of them only; read them
    from the last checkpoint with `state.load_weights` or `state.load_best`.
    """
    parallel = parallel or Parallel()
    training = _Training(
        module, objective, config, total_steps, seed, parallel, directory, dict(settings or {}), evaluate
    )
    with contextlib.ExitStack() as stack:
        if parallel.device.type == "cpu":
            stack.enter_context(kept_memory())
        if state is not None:
            training.resume(state)
        if config.gradient_checkpointing:
            stack.enter_context(recomputing(module))
        batches = stack.enter_context(Prefetch(data, rank=parallel.rank, world=parallel.world, end=total_steps))
        was_training = module.training
        module.train()
        while not training.progress.finished and training.progress.step < total_steps:
            start = time.perf_counter()
            if before_step is not None:
                before_step(training.progress.step)
            micro = batches.take(training.progress.step)
            report = training.step(micro, start, stop)
            yield report
            if training.stopped:
                return
        module.train(was_training)
    training.finish()


class _Training:
    """The state of one call of `train`."""

    def __init__(
        self,
        module: nn.Module,
        objective: Objective,
        config: TrainConfig,
        total_steps: int,
        seed: int,
        parallel: Parallel,
        directory: Path | None,
        settings: Mapping[str, Any],
        evaluate: Evaluate | None,
    ) -> None:
        self.module = module
        self.config = config
        self.parallel = parallel
        self.directory = directory
        self.settings = settings
        self.evaluate = evaluate
        self.evaluate_every = evaluation_steps(config, total_steps) if evaluate is not None else 0
        self.progress = Progress(total_steps=total_steps)
        self.stepper = Stepper(module, objective, config, seed=seed, parallel=parallel)
        self.average = None if config.ema is None else Average(self.stepper.parameters, decay=config.ema)
        self.last_saved: Path | None = None
        self.last_saved_at = time.monotonic()
        self.best_weights: dict[str, Tensor] | None = None
        """Of the best evaluation, where its step has no checkpoint."""
        self.stopped = False

    def resume(self, saved: Saved) -> None:
        checkpoint.restore(
            saved, module=self.module, optimizer=self.stepper.optimizer, average=self.average, parallel=self.parallel
        )
        # More steps than before make a finished training unfinished.
        finished = saved.progress.finished and saved.progress.step >= self.progress.total_steps
        early = saved.progress.finished and saved.progress.step < saved.progress.total_steps
        self.progress = dataclasses.replace(
            saved.progress, total_steps=self.progress.total_steps, finished=finished or early
        )
        self.last_saved = saved.path
        self.best_weights = checkpoint.best_weights(saved, self.stepper.parameters, self.parallel)

    def step(self, batches: list[Any], start: float, stop: threading.Event | None) -> StepReport:
        config, before = self.config, self.progress.step
        scale = scale_at(config.schedule, before, self.progress.total_steps)
        wanted = stop is not None and stop.is_set()
        outcome = self.stepper.gradients(before, batches, [float(wanted), float(self._minutes_are_over())])
        events: list[str] = []
        rolled_back = False
        self.progress = dataclasses.replace(self.progress, step=before + 1)
        if self._is_finite(outcome):
            self.progress = dataclasses.replace(self.progress, bad_in_a_row=0)
            self.stepper.update(scale)
            if self.average is not None:
                self.average.update(before + 1)
        else:
            self.parallel.leave_out()
            self.stepper.drop()
            rolled_back = self._answer_nonfinite(outcome, scale, events)
        seconds = time.perf_counter() - start
        stopping, minutes = (flag > 0.0 for flag in outcome.flags)
        if stop is not None and stop.is_set() and self.parallel.world == 1:
            stopping = True  # it was set during this step
        evaluation, is_best = self._evaluate(events)
        over = self.progress.finished or self.progress.step == self.progress.total_steps
        self.progress = dataclasses.replace(self.progress, finished=over)
        # In the middle of bad steps it goes on: what is saved now would be what a rollback goes back to.
        self.stopped = stopping and not over and not self.progress.bad_in_a_row
        due = config.checkpoint_steps is not None and self.progress.step % config.checkpoint_steps == 0
        weights = self.stepper.objective.weights
        report = StepReport(
            step=self.progress.step,
            total_steps=self.progress.total_steps,
            loss=sum(weights[name] * value for name, value in outcome.losses.items()),
            losses=outcome.losses,
            accuracy=outcome.accuracy,
            learning_rate=config.optimizer.learning_rate * scale,
            grad_norm=outcome.grad_norm,
            num_tokens=outcome.num_tokens,
            seconds=seconds,
            evaluation=evaluation,
            best=self.progress.best,
            events=tuple(events),
            stopped=self.stopped,
        )
        worth_it = due or minutes or (is_best and not self._held())
        if over or rolled_back or self.stopped or (worth_it and not self.progress.bad_in_a_row):
            report = dataclasses.replace(report, checkpoint=self._save(report))
        return report

    # What is not a number.

    def _is_finite(self, outcome: Outcome) -> bool:
        if not all(math.isfinite(loss) for loss in outcome.losses.values()):
            return False
        # With fp16 the gradient scale is tried from above: the scaler itself leaves such steps out.
        return math.isfinite(outcome.grad_norm) or self.parallel.precision == "fp16"

    def _answer_nonfinite(self, outcome: Outcome, scale: float, events: list[str]) -> bool:
        """Stop, skip or set back the weights; whether they were set back."""
        bad = [f"the loss {name} is {value}" for name, value in outcome.losses.items() if not math.isfinite(value)]
        what = " and ".join(bad) or f"the gradient's norm is {outcome.grad_norm}"
        where = f"step {self.progress.step}: {what}"
        saved = "there is no checkpoint" if self.last_saved is None else f"the last checkpoint is {self.last_saved}"
        rate = self.config.optimizer.learning_rate * scale
        advice = (
            f"the learning rate was {rate:.3g}; {saved}; lower train.optimizer.learning_rate or lengthen "
            "train.schedule.warmup"
        )
        if self.config.on_nonfinite == "stop":
            raise NonFiniteError(f"{where}; {advice}, or set train.on_nonfinite=skip to pass over such steps")
        in_a_row = self.progress.bad_in_a_row + 1
        self.progress = dataclasses.replace(self.progress, bad_in_a_row=in_a_row)
        if in_a_row < BAD_IN_A_ROW:
            events.append(f"{where}; the step was skipped")
            return False
        if self.last_saved is None or self.progress.rollbacks:
            again = "" if self.last_saved is None else " once more, after the weights were set back to a checkpoint"
            raise NonFiniteError(f"{where}, for the {BAD_IN_A_ROW}rd time in a row{again}; {advice}")
        checkpoint.restore(
            checkpoint.read(self.last_saved),
            module=self.module,
            optimizer=self.stepper.optimizer,
            average=self.average,
            parallel=self.parallel,
        )
        events.append(
            f"{where}, for the {BAD_IN_A_ROW}rd time in a row; rolled back to the weights of {self.last_saved.name}, "
            "going on with new data"
        )
        self.progress = dataclasses.replace(self.progress, rollbacks=self.progress.rollbacks + 1, bad_in_a_row=0)
        return True

    # Evaluating and saving.

    def _evaluate(self, events: list[str]) -> tuple[Mapping[str, float] | None, bool]:
        """The evaluation where one is due, and whether it is the best so far."""
        step, wanted = self.progress.step, self.config.evaluation
        if not self.evaluate_every or self.evaluate is None:
            return None, False
        if step % self.evaluate_every and step != self.progress.total_steps:
            return None, False
        self.module.eval()
        with (
            torch.no_grad(),
            contextlib.nullcontext() if self.average is None else self.average.in_place(),
            self.parallel.readable(self.stepper.forward),
        ):
            figures = dict(self.evaluate(self.module))
            if wanted.metric not in figures:
                there = ", ".join(figures) or "nothing"
                raise ConfigError(f"evaluation.metric is {wanted.metric!r}; the evaluation gives: {there}")
            value = figures[wanted.metric]
            best = self.progress.best
            loss = figures.get("loss")
            better = best is None
            if best is not None:
                now, before = (-each if wanted.goal == "lowest" else each for each in (value, best.value))
                if wanted.floor is not None:
                    now, before = max(now, wanted.floor), max(before, wanted.floor)
                better = now > before
                if now == before and loss is not None and best.loss is not None:
                    better = loss < best.loss
            # After a step that was left out the weights are an earlier step's, and are not saved under this one.
            if better and math.isfinite(value) and not self.progress.bad_in_a_row:
                self.progress = dataclasses.replace(
                    self.progress, best=Best(step=step, value=value, loss=loss), stale=0
                )
                held = self._held() and wanted.keep == "best"
                self.best_weights = self._copies() if held else None
            else:
                better = False
                self.progress = dataclasses.replace(self.progress, stale=self.progress.stale + 1)
        self.module.train()
        if wanted.patience is not None and self.progress.stale >= wanted.patience and step < self.progress.total_steps:
            best = self.progress.best
            reached = "" if best is None else f"; the best was {best.value:.4g} at step {best.step}"
            events.append(
                f"stopped early: {wanted.metric} did not improve in {self.progress.stale} evaluations{reached}"
            )
            self.progress = dataclasses.replace(self.progress, finished=True)
        return figures, better

    def _held(self) -> bool:
        """Whether a new best model stays in memory. Where steps may be skipped, what there is to roll back to must be
        settled by the steps alone, and with several processes the clock must not decide."""
        if self.directory is None:
            return True
        settled = self.parallel.world > 1 or self.config.on_nonfinite == "skip"
        return not settled and time.monotonic() - self.last_saved_at < HELD_SECONDS

    def _copies(self) -> dict[str, Tensor]:
        """The weights as they are now; beside a directory, on the CPU."""
        return {
            name: weight.detach().clone() if self.directory is None else weight.detach().to("cpu", copy=True)
            for name, weight in self.stepper.parameters.items()
        }

    def _minutes_are_over(self) -> bool:
        minutes = self.config.checkpoint_minutes
        return (
            self.parallel.main
            and self.directory is not None
            and minutes is not None
            and time.monotonic() - self.last_saved_at > 60.0 * minutes
        )

    def _save(self, report: StepReport) -> Path | None:
        if self.directory is None:
            return None
        best = self.progress.best
        if best is not None and best.step == self.progress.step:
            self.best_weights = None  # they are these
        plain = {
            name: value for name, value in dataclasses.asdict(report).items() if name not in ("best", "checkpoint")
        }
        self.last_saved = checkpoint.save(
            self.directory,
            module=self.module,
            optimizer=self.stepper.optimizer,
            average=self.average,
            progress=self.progress,
            settings=self.settings,
            parallel=self.parallel,
            report=plain,
            best=self.best_weights,
        )
        self.last_saved_at = time.monotonic()
        return self.last_saved

    @torch.no_grad()
    def finish(self) -> None:
        """Leave the module with the weights to keep."""
        best = self.progress.best
        if self.config.evaluation.keep == "best" and best is not None:
            if self.best_weights is not None:
                for name, weight in self.stepper.parameters.items():
                    weight.copy_(self.best_weights[name])
                return
            if self.directory is not None:
                checkpoint.load_weights(checkpoint.path_of(self.directory, best.step), self.module, self.parallel)
                return
        if self.average is not None:
            self.average.swap()
