"""A whole pretraining run: corpus and recipe in, a Hugging Face directory out.

    check  ->  assemble, first vectors  ->  measure, plan  ->  train (log, evaluate, save)  ->  finish
                                            config.toml        checkpoints/, metrics.jsonl      model, metrics.json …

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
from bertworks.train import first_vectors, state
from bertworks.train.architecture import ModelSection, section_of
from bertworks.train.assemble import Assembly, assemble
from bertworks.train.config import TrainConfig
from bertworks.train.course import Course, plan_of, take_steps, timed_evaluation, with_evaluations, with_length
from bertworks.train.directory import CHECKPOINTS, is_finished, read_result
from bertworks.train.evaluate import Evaluation, token_counts
from bertworks.train.events import Note, Stepped, Stopped
from bertworks.train.feed import Feed, phases
from bertworks.train.figures import steps
from bertworks.train.finish import finish
from bertworks.train.log import check_trackers
from bertworks.train.maskers import LEXICON_FILE
from bertworks.train.measure import MEASURED_STEPS, Measured, measure_steps
from bertworks.train.parallel import Parallel
from bertworks.train.plan import Plan
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

FEW_STEPS = 100
MANY_VECTOR_TOKENS = 5_000_000
"""Skip-gram over more takes more than a few seconds."""

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
    """Train, or continue, as `options` say. Setting `stop` saves after the step in hand and ends with `Stopped`.

    Who leaves the loop early closes the generator: until then the process keeps the memory of a training.
    """
    started = time.perf_counter()
    check(options)
    track = check_trackers(options.track, resumed=options.output if options.resume else None)
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
        trainer = _Trainer(options, recipe, corpus, assembly, parallel, new=stored is None)
        if saved is None and trainer.wants_vectors:
            yield from trainer.learn_vectors()
        if stored is None:
            recipe = trainer.begin(started)
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
        self,
        options: RunOptions,
        recipe: Recipe,
        corpus: Corpus,
        assembly: Assembly,
        parallel: Parallel,
        *,
        new: bool,
    ) -> None:
        self.options, self.recipe, self.corpus = options, recipe, corpus
        self.assembly, self.parallel = assembly, parallel
        self.output = options.output
        self.module: nn.Module = assembly.module.to(parallel.device)
        self.evaluation = Evaluation(assembly.evaluation, assembly.held_out, parallel)
        self.baseline = self.evaluation.by_frequency(token_counts(corpus, assembly.training_documents))
        self.teacher = self._judge_teacher() if new else {}
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

    @property
    def wants_vectors(self) -> bool:
        """Whether the token table is not to start with random numbers."""
        return self.recipe.model.first_vectors == "skipgram" and self.run.start is None and self.run.teacher is None

    def learn_vectors(self) -> Iterator[Note]:
        """Learn the vectors that the token table starts with, from as many tokens as was settled, or is now."""
        size = first_vectors.token_table(self.assembly.model).shape[1]
        text = first_vectors.Source(
            self.corpus, self.assembly.tokenizer, self.assembly.training_documents, self.run.seed
        )
        count = self.run.vector_tokens
        if count is None:
            if self.run.budget is not None:
                seconds = first_vectors.BUDGET_SHARE * self.run.budget
                count = int(self.parallel.mean(first_vectors.tokens_within(seconds, text, size)))
            else:
                read = first_vectors.TOKENS_PER_TOKEN * (self.run.steps or 0) * self.recipe.train.batch_tokens
                count = max(1, min(read, text.num_tokens))
            self.recipe = replace(self.recipe, run=replace(self.run, vector_tokens=count))
        if count > MANY_VECTOR_TOKENS:
            yield Note(f"the tokens' first vectors come from skip-gram over {count:,} tokens: a moment, please")
        first_vectors.learn(text, count, size).put_into(self.assembly.model)

    def begin(self, started: float) -> Recipe:
        """Measure, turn a budget into steps, and write them down with everything else that decides the result.

        The budget began to run at `started`: reading, first vectors and measuring are part of it.
        """
        measured = self._measure("short")
        if self.assembly.long is not None:
            long, share = self._measure("long"), self.recipe.data.long_share
            measured = Measured(
                seconds=(1 - share) * measured.seconds + share * long.seconds,
                num_tokens=(1 - share) * measured.num_tokens + share * long.num_tokens,
            )
        self.first_metrics, per_evaluation = timed_evaluation(lambda: self.evaluation.run(self.module), self.parallel)
        every = self.recipe.train.evaluation.steps if self.evaluation else 0
        spent = self.parallel.mean(time.perf_counter() - started)
        run = with_length(self.run, measured, per_evaluation, every=every, spent=spent)
        run = replace(run, teacher_sha256=self.assembly.teacher_sha256)
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
        )

    @property
    def config(self) -> TrainConfig:
        """The recipe's, with what was settled when the run began."""
        return with_evaluations(self.recipe.train, self.run)

    def planned(self, first_step: int) -> Planned:
        """What is to come, in numbers."""
        plan = plan_of(
            self.run,
            self.config,
            self.module,
            first_step=first_step,
            batch_tokens=self.recipe.train.batch_tokens,
            corpus_tokens=self.assembly.short.num_tokens,
            flops_per_token=self.assembly.flops_per_token,
            evaluated=bool(self.evaluation),
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
        if saved is None and not self.first_metrics:  # killed before its first checkpoint, it begins again
            self.first_metrics = self.evaluation.run(self.module)
        done = yield from take_steps(
            self.module,
            self.assembly.objective,
            self.feed(self.run.steps or 0),
            self.config,
            run=self.run,
            output=self.output,
            settings=to_dict(self.recipe),
            parallel=self.parallel,
            saved=saved,
            first_figures=self.first_metrics,
            evaluate=self.evaluation.run if self.evaluation else None,
            track=track,
            stop=stop,
        )
        if done is not None:
            yield from self._finish(done)

    def _finish(self, done: Course) -> Iterator[Event]:
        """Make the directory a model; one process does."""
        if self.parallel.main:
            checkpoints = self.output / CHECKPOINTS
            steps = done.steps
            best = done.best if self.recipe.train.evaluation.keep == "best" else None
            if self.parallel.sharded:  # each process holds a part of the weights; the checkpoint holds them all
                self.assembly = assemble(self.recipe, self.corpus, self.output / LEXICON_FILE)
                saved = None if best is None else state.latest(checkpoints)
                if saved is None:
                    state.load_weights(state.path_of(checkpoints, steps), self.assembly.module)
                else:
                    state.load_best(saved, self.assembly.module)
            result = finish(
                self.recipe,
                self.corpus,
                self.assembly,
                self.output,
                steps=steps,
                kept=steps if best is None else best.step,
                baseline=self.baseline,
            )
            yield Finished(
                directory=self.output,
                steps=steps,
                seconds=result["seconds"],
                metrics=result["metrics"],
                baseline=self.baseline,
            )
        self.parallel.barrier()


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
