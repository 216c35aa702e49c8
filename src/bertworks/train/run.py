"""A whole pretraining run: corpus and recipe in, a Hugging Face directory out.

    check  ->  assemble  ->  measure, plan  ->  train (log, evaluate, save)  ->  finish
                                  config.toml      checkpoints/, metrics.jsonl    model, metrics.json, report, card

`pretrain` is a generator of events, so that a terminal, a notebook and a test can all follow it; nothing is printed
here. A `--budget` is turned into steps once, when the run begins, and the steps are what `config.toml` holds: a resumed
run does not measure again, and ends with the same weights as one that was never stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from bertworks.config import to_dict
from bertworks.data.corpus import Corpus
from bertworks.models.device import usable_device
from bertworks.train import state
from bertworks.train.architecture import ModelSection, section_of
from bertworks.train.assemble import LEXICON_FILE, Assembly, assemble
from bertworks.train.config import TrainConfig
from bertworks.train.directory import CHECKPOINTS, is_finished, read_result
from bertworks.train.evaluate import Evaluation, token_counts
from bertworks.train.events import Note, Stepped, Stopped
from bertworks.train.feed import Feed, phases
from bertworks.train.figures import steps
from bertworks.train.finish import finish
from bertworks.train.log import StepLog, check_trackers
from bertworks.train.loop import evaluation_steps, train
from bertworks.train.measure import Measured, measure_steps
from bertworks.train.parallel import Parallel
from bertworks.train.plan import Plan, steps_within
from bertworks.train.recipes import Recipe, RunSection
from bertworks.train.settle import (
    RunOptions,
    changes,
    changes_of_checkpoint,
    check,
    open_corpus,
    resolve,
    stored_recipe,
    write_config,
)

__all__ = ["Event", "Finished", "Note", "Planned", "RunOptions", "Stepped", "Stopped", "pretrain"]

MEASURED_STEPS = 5
FEW_STEPS = 100

# -- events ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The training begins."""

    plan: Plan
    model: str
    corpus: str
    recipe: Recipe
    baseline: Mapping[str, float]
    """What guessing by word frequency alone reaches on the held-out text, where tokens are guessed."""
    teacher: Mapping[str, float]
    """What the teacher itself reaches there, where it guesses tokens."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The run's directory is a model now."""

    directory: Path
    steps: int
    seconds: float
    metrics: Mapping[str, float]
    baseline: Mapping[str, float] = field(default_factory=dict)
    """What guessing by word frequency alone reaches on the held-out text, where tokens are guessed."""
    already: bool = False


Event = Note | Planned | Stepped | Stopped | Finished


# -- the run -----------------------------------------------------------------------------------------------------------


def pretrain(options: RunOptions, *, stop: threading.Event | None = None) -> Iterator[Event]:
    """Train, or continue, as `options` say. Setting `stop` saves after the step in hand and ends with `Stopped`."""
    check(options)
    track = check_trackers(options.track)
    device = usable_device(options.device)
    corpus = open_corpus(options.corpus)
    stored = stored_recipe(options)
    recipe = resolve(options, stored, corpus)
    run = recipe.run
    assert run is not None
    changed = [] if stored is None else changes(stored, recipe, options.output)
    if stored is not None and is_finished(options.output):
        yield _finished(options.output, stored)
        return
    saved = None
    if stored is None:
        if options.resume:
            yield Note(f"there is no run in {options.output} yet: a new one begins")
    else:
        if changed:
            yield Note(f"changed, which changes no result: {'; '.join(changed)}")
        saved = state.latest(options.output / CHECKPOINTS)
        if saved is not None:  # config.toml may have been changed by hand since
            changes_of_checkpoint(saved.settings, recipe)
        for note in saved.notes if saved is not None else ():
            yield Note(note)
        if saved is None:
            yield Note("there is no checkpoint yet: the training begins again at step 0")
    parallel = Parallel(device=device, precision=recipe.train.precision, sharded=recipe.train.sharded)
    try:
        torch.manual_seed(run.seed)
        assembly = assemble(recipe, corpus, None if stored is None else options.output / LEXICON_FILE)
        for text in assembly.notes:
            yield Note(text)
        trainer = _Trainer(options, recipe, corpus, assembly, parallel)
        if stored is None:
            recipe = trainer.begin()
            assert recipe.run is not None
            if recipe.run.budget is not None and (recipe.run.steps or 0) < FEW_STEPS:
                yield Note(
                    f"only {steps(recipe.run.steps or 0)} in the budget; a smaller --size or train.batch_tokens gives more"
                )
        yield trainer.planned(saved.step if saved is not None else 0)
        yield from trainer.train(saved, track, stop)
    finally:
        parallel.close()


class _Trainer:
    """The parts of one run, once they are all there."""

    def __init__(
        self, options: RunOptions, recipe: Recipe, corpus: Corpus, assembly: Assembly, parallel: Parallel
    ) -> None:
        self.options, self.recipe, self.corpus = options, recipe, corpus
        self.assembly, self.parallel = assembly, parallel
        self.output = options.output
        self.module: nn.Module = assembly.module.to(parallel.device)
        self.evaluation = Evaluation(assembly.evaluation, assembly.held_out, parallel)
        self.baseline = self.evaluation.by_frequency(token_counts(corpus, assembly.training_documents))
        self.teacher = self._judge_teacher()
        self.first_metrics: dict[str, float] = {}

    def _judge_teacher(self) -> dict[str, float]:
        """What the teacher itself reaches on the held-out text."""
        if self.assembly.teacher is None or not self.evaluation:
            return {}
        model, objective = self.assembly.teacher
        return Evaluation(objective, self.assembly.held_out, self.parallel).run(model.to(self.parallel.device))

    @property
    def run(self) -> RunSection:
        assert self.recipe.run is not None
        return self.recipe.run

    def feed(self, total_steps: int, *, only: Literal["short", "long"] | None = None) -> Feed:
        """All batches, or those of one phase alone (to measure them)."""
        short, long = self.assembly.short, self.assembly.long
        if only == "long" and long is not None:
            short, long = long, None
        plan = phases(
            short,
            None if only else long,
            batch_tokens=self.recipe.train.batch_tokens,
            seed=self.run.seed,
            total_steps=total_steps,
            share=self.recipe.data.long_share,
        )
        return Feed(
            plan,
            self.assembly.objective,
            total_steps=total_steps,
            micro_tokens=self.recipe.train.micro_tokens,
            device=self.parallel.device.type,
        )

    def begin(self) -> Recipe:
        """Measure, turn a budget into steps, and write them down with everything else that decides the result."""
        measured = self._measure("short")
        if self.assembly.long is not None:
            long, share = self._measure("long"), self.recipe.data.long_share
            measured = Measured(
                seconds=(1 - share) * measured.seconds + share * long.seconds,
                num_tokens=(1 - share) * measured.num_tokens + share * long.num_tokens,
            )
        started = time.perf_counter()
        self.first_metrics = self.evaluation.run(self.module)
        seconds = torch.tensor([time.perf_counter() - started], dtype=torch.float64)
        per_evaluation = float(self.parallel.sum(seconds)) / self.parallel.world  # the same everywhere
        run = replace(
            self.run,
            step_tokens=measured.num_tokens,
            step_seconds=measured.seconds,
            evaluation_seconds=per_evaluation,
            teacher_sha256=self.assembly.teacher_sha256,
        )
        if run.budget is not None:
            count, every = steps_within(
                run.budget,
                measured.seconds,
                per_evaluation=per_evaluation,
                every=self.recipe.train.evaluation.steps if self.evaluation else 0,
            )
            run = replace(run, steps=count, evaluation_steps=every)
        self.recipe = replace(self.recipe, run=run, model=self._model_section())
        if self.parallel.main:
            write_config(self.output, self.recipe, self.assembly.lexicon, self.assembly.tokenizer)
        self.parallel.barrier()
        return self.recipe

    def _model_section(self) -> ModelSection:
        """The recipe's, or what a model that is gone on with is."""
        section = self.recipe.model
        return section if self.run.start is None else section_of(self.assembly.model.config, section)

    def _measure(self, only: Literal["short", "long"]) -> Measured:
        feed = self.feed(MEASURED_STEPS, only=only)
        return measure_steps(
            self.module,
            self.assembly.objective,
            feed,
            self.recipe.train,
            seed=self.run.seed,
            parallel=self.parallel,
            num_steps=MEASURED_STEPS,
        )

    @property
    def config(self) -> TrainConfig:
        """The recipe's, with what was settled when the run began."""
        config = self.recipe.train
        if config.evaluation.steps is not None or self.run.evaluation_steps is None:
            return config
        return replace(config, evaluation=replace(config.evaluation, steps=self.run.evaluation_steps))

    def _evaluations(self, steps: int) -> int:
        every = evaluation_steps(self.config, steps) if self.evaluation else 0
        return max(1, steps // every) if every else 0

    def planned(self, first_step: int) -> Planned:
        """What is to come, in numbers."""
        run = self.run
        steps = run.steps or 0
        step_tokens = run.step_tokens or float(self.recipe.train.batch_tokens)
        seconds = rate = None
        if run.step_seconds is not None:
            left = (steps - first_step) / max(steps, 1)
            evaluations = (run.evaluation_seconds or 0.0) * self._evaluations(steps)
            seconds, rate = left * (run.step_seconds * steps + evaluations), step_tokens / run.step_seconds
        plan = Plan(
            parameters=sum(parameter.numel() for parameter in self.module.parameters()),
            steps=steps,
            first_step=first_step,
            batch_tokens=step_tokens,
            tokens=step_tokens * steps,
            corpus_tokens=self.assembly.short.num_tokens,
            flops_per_token=self.assembly.flops_per_token,
            tokens_per_second=rate,
            seconds=seconds,
        )
        described = (
            f"{self.corpus.num_documents:,} documents, {self.corpus.num_tokens:,} tokens, "
            f"{self.assembly.held_out_tokens:,} of them held out"
        )
        return Planned(
            plan=plan,
            model=self.assembly.describe(),
            corpus=described,
            recipe=self.recipe,
            baseline=self.baseline,
            teacher=self.teacher,
        )

    def train(self, saved: state.Saved | None, track: tuple[str, ...], stop: threading.Event | None) -> Iterator[Event]:
        """The steps, then the result."""
        done = saved.step if saved is not None else 0
        total = self.run.steps
        assert total is not None
        feed = self.feed(total)
        if saved is None and not self.first_metrics:  # killed before its first checkpoint, it begins again
            self.first_metrics = self.evaluation.run(self.module)
        log = StepLog(
            self.output,
            to_dict(self.recipe),
            feed.seen,
            every=self.recipe.train.log_steps,
            main=self.parallel.main,
            saved=saved,
            track=track,
        )
        stopped = False
        try:
            if saved is None and self.first_metrics:
                log.evaluation(0, self.first_metrics)
            for report in train(
                self.module,
                self.assembly.objective,
                feed,
                self.config,
                total_steps=total,
                seed=self.run.seed,
                parallel=self.parallel,
                directory=self.output / CHECKPOINTS,
                settings=to_dict(self.recipe),
                state=saved,
                evaluate=self.evaluation.run if self.evaluation else None,
                stop=stop,
            ):
                done, stopped = report.step, report.stopped
                yield Stepped(report=report, loss=report.loss, rate=log.step(report))
        finally:
            log.close()
        if stopped:
            yield Stopped(step=done, total_steps=total, directory=self.output)
            return
        yield from self._finish(done)

    def _finish(self, steps: int) -> Iterator[Event]:
        """Make the directory a model; one process does."""
        if self.parallel.main:
            if self.parallel.sharded:  # each process holds a part of the weights; the checkpoint holds them all
                self.assembly = assemble(self.recipe, self.corpus, self.output / LEXICON_FILE)
                best = self.recipe.train.evaluation.keep == "best"
                state.load_weights(_last(self.output / CHECKPOINTS, best=best), self.assembly.module)
            result = finish(self.recipe, self.corpus, self.assembly, self.output, steps=steps, baseline=self.baseline)
            yield Finished(
                directory=self.output,
                steps=steps,
                seconds=result["seconds"],
                metrics=result["metrics"],
                baseline=self.baseline,
            )
        self.parallel.barrier()


def _last(directory: Path, *, best: bool) -> Path:
    saved = state.latest(directory)
    assert saved is not None, "a training that is over has saved"
    return state.path_of(directory, saved.best.step) if best and saved.best is not None else saved.path


def _finished(output: Path, stored: Recipe) -> Finished:
    result = read_result(output)
    steps = stored.run.steps if stored.run is not None else None
    return Finished(
        directory=output,
        steps=int(result.get("steps") or steps or 0),
        seconds=float(result["seconds"]),
        metrics=result["metrics"],
        baseline=result.get("baseline", {}),
        already=True,
    )
