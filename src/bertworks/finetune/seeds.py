"""Several trainings of one run: each whole before the next begins, its outcome kept, the best model kept beside it.

    DIR/seeds/0/   outcome.json      figures, decision, steps: a training with it is over and is never done again
                   candidate/        its model, for as long as it is the best of all
                   metrics.jsonl     its curve
                   checkpoints/      while it is trained

A run that is killed anywhere, between two seeds too, goes on with what is there. A run of one seed keeps neither outcome
nor candidate: its last checkpoint is all it needs.
"""

from __future__ import annotations

import copy
import json
import shutil
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertworks import hub, tasks
from bertworks.atomic import write_text
from bertworks.errors import CheckpointError, OutputError
from bertworks.finetune.adapt import adapt
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.events import Begun, Event, Fitted, Stopped
from bertworks.finetune.fit import TrainingData, fit
from bertworks.finetune.frozen import fit_frozen
from bertworks.finetune.result import SeedRun
from bertworks.models.model import Model
from bertworks.models.word_config import WordStackConfig
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Evaluated, Task
from bertworks.tasks.run import evaluate_model
from bertworks.tasks.similarity import Similarity
from bertworks.tasks.word_classification import WordClassification
from bertworks.tasks.word_tagging import WordTagging
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.config import EvaluationConfig
from bertworks.train.directory import CHECKPOINTS
from bertworks.train.log import read_metrics
from bertworks.train.parallel import Parallel

SEEDS = "seeds"
OUTCOME, CANDIDATE = "outcome.json", "candidate"


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A training that is over, in this process or in an earlier one."""

    run: SeedRun
    directory: Path
    parameters: int
    trained_parameters: int
    fitted: Fitted | None
    """Its model and predictions, where they are still in memory."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The model of a run, and what it says about the development examples."""

    model: Model
    tokenizer: Tokenizer
    task: Task[Any, Any]
    evaluated: Evaluated[Any] | None


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """What all trainings of a run have in common."""

    task: Task[Any, Any]
    data: TrainingData
    test: Sequence[Any]
    model: Model
    tokenizer: Tokenizer
    parallel: Parallel
    fresh: bool = False
    """The model is new, and each training draws its own weights for it."""
    track: tuple[str, ...] = ()
    stop: threading.Event | None = None

    def check(self, config: FinetuneConfig) -> str | None:
        """Find out before anything is written whether the model can be trained as the settings say; returns what the
        user should know."""
        model = copy.deepcopy(self.model)
        tokenizer = attach(self.task, model, self.tokenizer)
        if not _is_frozen(config):
            adapt(model, config.method)
        if isinstance(model.config.body, WordStackConfig):
            return None  # nothing is cut, and vectors are computed when the run has a directory to keep them in
        return self.data.cut(self.task, tokenizer)

    def train(
        self,
        config: FinetuneConfig,
        *,
        seed: int,
        directory: Path,
        title: str = "",
        part: int = 0,
        keep: bool = True,
    ) -> Generator[Event, None, Trained | None]:
        """One training, or what is left of it; returns None where it was stopped. `keep`: others come after it."""
        done = read_outcome(directory)
        if done is not None:
            return done
        fitted: Fitted | None = None
        for event in (fit_frozen if _is_frozen(config) else fit)(
            self.task,
            self.data,
            self.model,
            self.tokenizer,
            config,
            fresh=self.fresh,
            seed=seed,
            parallel=self.parallel,
            directory=directory,
            track=self.track,
            stop=self.stop,
        ):
            if isinstance(event, Begun):
                event = replace(event, title=title, part=part)
            elif isinstance(event, Fitted):
                fitted = event
            yield event
            if isinstance(event, Stopped):
                return None
        assert fitted is not None
        trained = Trained(
            run=SeedRun(
                seed=seed,
                figures=fitted.figures,
                test=self._test(fitted),
                lines=fitted.lines,
                steps=fitted.steps,
                best_step=fitted.best_step,
                seconds=fitted.seconds,
                frozen=fitted.frozen,
            ),
            directory=directory,
            parameters=fitted.parameters,
            trained_parameters=fitted.trained_parameters,
            fitted=fitted,
        )
        if keep and self.parallel.main:
            save_model(fitted.model, fitted.tokenizer, fitted.task, directory / CANDIDATE, self.data.window)
            write_outcome(trained, fitted.task)
            shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)
        self.parallel.barrier()
        return trained

    def _test(self, fitted: Fitted) -> Mapping[str, float]:
        if not self.test:
            return {}
        return evaluate_model(
            fitted.task,
            fitted.model,
            self.test,
            tokenizer=fitted.tokenizer,
            window=self.data.window,
            decision=fitted.decision,
        ).figures

    def kept(self, trained: Trained) -> Kept:
        """The model of a training: from memory, or opened again and judged again, which gives the same."""
        if trained.fitted is not None:
            fitted = trained.fitted
            return Kept(model=fitted.model, tokenizer=fitted.tokenizer, task=fitted.task, evaluated=fitted.evaluated)
        loaded = hub.load(trained.directory / CANDIDATE)
        task = tasks.from_settings(_read(trained.directory / OUTCOME)["task"])
        if isinstance(task, WordTagging | WordClassification):
            assert isinstance(self.task, WordTagging | WordClassification)
            task = replace(task, inputs=self.task.inputs)  # which are open
        evaluated = None
        if self.data.dev:
            evaluated = evaluate_model(
                task, loaded.model, self.data.dev, tokenizer=loaded.tokenizer, window=self.data.window
            )
        return Kept(model=loaded.model, tokenizer=loaded.tokenizer, task=task, evaluated=evaluated)


def _is_frozen(config: FinetuneConfig) -> bool:
    return config.run is not None and config.run.frozen


def seed_directories(output: Path, seed: int, seeds: int) -> list[tuple[int, Path]]:
    """The seeds of a run and where each is trained; one alone is trained in the run's own directory."""
    if seeds == 1:
        return [(seed, output)]
    return [(number, output / SEEDS / str(number)) for number in range(seed, seed + seeds)]


def best_of(trained: Sequence[Trained], config: EvaluationConfig) -> int:
    """The number of the best training by the figure that counts; of equal ones the first."""
    sign = -1.0 if config.goal == "lowest" else 1.0
    values = [sign * each.run.figures.get(config.metric, float("-inf") * sign) for each in trained]
    return max(range(len(values)), key=lambda number: values[number])


def drop_candidates(trained: Sequence[Trained], best: int) -> list[Trained]:
    """Delete the models of all but the best, on the disk and in memory."""
    kept = []
    for number, each in enumerate(trained):
        if number != best:
            shutil.rmtree(each.directory / CANDIDATE, ignore_errors=True)
            each = replace(each, fitted=None)
        kept.append(each)
    return kept


def save_model(model: Model, tokenizer: Tokenizer, task: Task[Any, Any], directory: Path, window: int) -> None:
    """Write a Hugging Face directory; of a similarity task, one that `sentence-transformers` opens."""
    settings = task.sentence_settings(window) if isinstance(task, Similarity) else None
    hub.save(model, tokenizer, directory, settings=settings)


# -- outcomes on disk --------------------------------------------------------------------------------------------------


def write_outcome(trained: Trained, task: Task[Any, Any]) -> None:
    """Say that a training is over; written after everything else of it."""
    run = trained.run
    content = {
        "seed": run.seed,
        "metrics": dict(run.figures),
        "test": dict(run.test),
        "steps": run.steps,
        "best_step": run.best_step,
        "seconds": run.seconds,
        "frozen": dict(run.frozen),
        "parameters": trained.parameters,
        "trained_parameters": trained.trained_parameters,
        "task": task.settings(),
    }
    try:
        write_text(trained.directory / OUTCOME, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write to {trained.directory}: {error.strerror or error}") from error


def read_outcome(directory: Path) -> Trained | None:
    """What a training came to; None where it is not over."""
    if not (directory / OUTCOME).exists():
        return None
    content = _read(directory / OUTCOME)
    run = SeedRun(
        seed=content["seed"],
        figures=content["metrics"],
        test=content["test"],
        lines=read_metrics(directory),
        steps=content["steps"],
        best_step=content["best_step"],
        seconds=content["seconds"],
        frozen=content["frozen"],
    )
    return Trained(
        run=run,
        directory=directory,
        parameters=content["parameters"],
        trained_parameters=content["trained_parameters"],
        fitted=None,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); delete it and run with --resume") from error
