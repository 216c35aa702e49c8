"""What every run does once its parts are there: time an evaluation, settle its length, say what is to come, take the steps.

Epochs or a budget of time are turned into a number of steps once, when a run begins; what was measured for that is kept
(`RunLength`), so that a run that is resumed need not measure again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import nn

from bertworks.objectives.base import Objective
from bertworks.train.config import RunLength, TrainConfig
from bertworks.train.directory import CHECKPOINTS
from bertworks.train.events import Stepped, Stopped
from bertworks.train.feed import Feed
from bertworks.train.log import StepLog
from bertworks.train.loop import Evaluate, evaluation_steps, train
from bertworks.train.measure import Measured
from bertworks.train.parallel import Parallel
from bertworks.train.plan import Plan, steps_within
from bertworks.train.state import Best, Saved

Run = TypeVar("Run", bound=RunLength)
Config = TypeVar("Config", bound=TrainConfig)


def timed_evaluation(evaluate: Callable[[], dict[str, float]], parallel: Parallel) -> tuple[dict[str, float], float]:
    """Its figures, and the seconds that it takes, which are the same in every process."""
    started = time.perf_counter()
    figures = evaluate()
    return figures, parallel.mean(time.perf_counter() - started)


def with_length(run: Run, measured: Measured, per_evaluation: float, *, every: int | None, spent: float = 0.0) -> Run:
    """A run that knows what was measured, and its steps where it has a budget, of which `spent` seconds are gone; `every` as
    in `steps_within`."""
    run = replace(
        run,
        step_tokens=measured.num_tokens,
        step_seconds=measured.seconds,
        evaluation_seconds=per_evaluation,
    )
    if run.budget is None:
        return run
    count, every = steps_within(run.budget - spent, measured.seconds, per_evaluation=per_evaluation, every=every)
    return replace(run, steps=count, evaluation_steps=every)


def with_evaluations(config: Config, run: RunLength) -> Config:
    """The settings, with what was settled when the run began."""
    if config.evaluation.steps is not None or run.evaluation_steps is None:
        return config
    return replace(config, evaluation=replace(config.evaluation, steps=run.evaluation_steps))


def plan_of(
    run: RunLength,
    config: TrainConfig,
    module: nn.Module,
    *,
    first_step: int,
    batch_tokens: int,
    corpus_tokens: int,
    flops_per_token: float,
    evaluated: bool = True,
) -> Plan:
    """What is to come, in numbers. `batch_tokens` are those of a step where none was measured."""
    steps = run.steps or 0
    step_tokens = run.step_tokens or float(batch_tokens)
    seconds = rate = None
    if run.step_seconds is not None:
        every = evaluation_steps(config, steps) if evaluated else 0
        evaluations = (run.evaluation_seconds or 0.0) * (max(1, steps // every) if every else 0)
        left = (steps - first_step) / max(steps, 1)
        seconds, rate = left * (run.step_seconds * steps + evaluations), step_tokens / run.step_seconds
    return Plan(
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        steps=steps,
        first_step=first_step,
        batch_tokens=step_tokens,
        tokens=step_tokens * steps,
        corpus_tokens=corpus_tokens,
        flops_per_token=flops_per_token,
        tokens_per_second=rate,
        seconds=seconds,
    )


class Course(NamedTuple):
    """How far a training came."""

    steps: int
    best: Best | None
    """Its best evaluation, where there was one."""


def take_steps(
    module: nn.Module,
    objective: Objective,
    feed: Feed,
    config: TrainConfig,
    *,
    run: RunLength,
    output: Path,
    settings: Mapping[str, Any],
    parallel: Parallel,
    saved: Saved | None,
    first_figures: Mapping[str, float],
    evaluate: Evaluate | None,
    track: tuple[str, ...],
    stop: threading.Event | None,
) -> Generator[Stepped | Stopped, None, Course | None]:
    """Train, saving to and logging in `output`; returns None where it was stopped.

    `first_figures` are those of the model before its first step, empty where it is not evaluated.
    """
    total = run.steps
    assert total is not None
    done = Course(0, None) if saved is None else Course(saved.step, saved.best)
    stopped = False
    log = StepLog(output, settings, feed.seen, every=config.log_steps, main=parallel.main, saved=saved, track=track)
    try:
        if saved is None and first_figures:
            log.evaluation(0, first_figures)
        for report in train(
            module,
            objective,
            feed,
            config,
            total_steps=total,
            seed=run.seed,
            parallel=parallel,
            directory=output / CHECKPOINTS,
            settings=settings,
            state=saved,
            evaluate=evaluate,
            stop=stop,
        ):
            done, stopped = Course(report.step, report.best), report.stopped
            yield Stepped(report=report, loss=report.loss, rate=log.step(report))
    finally:
        log.close()
    if stopped:
        yield Stopped(step=done.steps, total_steps=total, directory=output)
        return None
    return done
