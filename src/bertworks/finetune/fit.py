"""One fine-tuning in memory: examples and a pretrained model in, trained weights and predictions out.

    attach (head)  ->  encode, once  ->  adapt (freeze, adapters)  ->  the loop, with evaluations  ->  merge, finish

It is a generator of events and prints nothing. Without a directory nothing is written. With one, checkpoints and
`metrics.jsonl` go there, and a training that was stopped at any moment goes on from its last checkpoint, to the same
result: head, order of the examples and dropout are functions of the seed.

    data = TrainingData(train, dev, window=256)
    for event in fit(task, data, model, tokenizer, suited(task, len(train), model), seed=0):
        …
    event.model, event.evaluated.figures                   # the last one is `Fitted`
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertworks.config import to_dict
from bertworks.errors import UsageError
from bertworks.finetune import lora
from bertworks.finetune.adapt import adapt, unfreezing
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.defaults import evaluation_every
from bertworks.finetune.events import Begun, FitEvent, Fitted, Note, Stepped, Stopped
from bertworks.finetune.feed import Feed
from bertworks.models.model import Model
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Evaluated, Task, Units
from bertworks.tasks.run import evaluate_model
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.config import EvaluationConfig
from bertworks.train.directory import CHECKPOINTS
from bertworks.train.log import StepLog, read_metrics
from bertworks.train.loop import train
from bertworks.train.optim import trained_parameters
from bertworks.train.parallel import Parallel
from bertworks.train.state import latest

CUT = {
    "classify": "are longer than the window of {window} tokens (data.max_length): what is longer is cut while training, and "
    "read window by window when predicting",
    "choice": "have options that with their text are longer than the window of {window} tokens (data.max_length): the "
    "longer of the two is cut, while training and when predicting",
    "similarity": "have texts longer than the window of {window} tokens (data.max_length): what is longer is cut, while "
    "training and when predicting",
    "qa": "have a question whose end is not read, while training and when predicting (task.max_question_tokens)",
}
"""What happens to long examples; those of `pair` and `regress` are treated as those of `classify`, and words and contexts
are read in windows always."""
POINTS = 50
"""A curve has about so many points, at least, where there are so many steps."""


class TrainingData:
    """Examples to train on and examples to judge by, encoded when they are first asked for and then never again."""

    def __init__(
        self, train: Sequence[Any], dev: Sequence[Any] = (), *, window: int, unlabelled: Sequence[Any] = ()
    ) -> None:
        self.train, self.dev = train, dev
        self.unlabelled = unlabelled
        """Examples without labels, for a task that learns from them, too (`bertworks.tasks.word_tagging`)."""
        self.window = window
        """The longest sequence, special tokens included."""
        self._encoded: tuple[Units, Units | None] | None = None
        self._unlabelled: Units | None = None

    def encoded(self, task: Task[Any, Any], tokenizer: Tokenizer) -> tuple[Units, Units | None]:
        """Units to train on and units to judge by. Every training of one data set has the same task and tokenizer."""
        if self._encoded is None:
            if not self.train:
                raise UsageError("there are no examples to train on")
            train = task.encode(self.train, tokenizer, window=self.window, training=True)
            dev = task.encode(self.dev, tokenizer, window=self.window, training=False) if self.dev else None
            self._encoded = (train, dev)
        return self._encoded

    def encoded_unlabelled(self, task: Task[Any, Any], tokenizer: Tokenizer) -> Units | None:
        """Units to learn from without labels; None where there are none."""
        if self._unlabelled is None and self.unlabelled:
            self._unlabelled = task.encode(self.unlabelled, tokenizer, window=self.window, training=False)
        return self._unlabelled

    def cut(self, task: Task[Any, Any], tokenizer: Tokenizer) -> str | None:
        """A sentence where a part of some training examples is not read."""
        units, _ = self.encoded(task, tokenizer)
        if not units.num_cut:
            return None
        told = CUT.get(task.name, CUT["classify"]).format(window=self.window)
        return f"{units.num_cut:,} of {len(self.train):,} training examples {told}"


def fit(
    task: Task[Any, Any],
    data: TrainingData,
    model: Model,
    tokenizer: Tokenizer,
    config: FinetuneConfig,
    *,
    fresh: bool = False,
    seed: int = 0,
    parallel: Parallel | None = None,
    directory: Path | None = None,
    track: Sequence[str] = (),
    stop: threading.Event | None = None,
) -> Iterator[FitEvent]:
    """Train a copy of `model`; the last event is `Fitted`, or `Stopped` where `stop` was set.

    fresh: draw the weights anew from the seed: nobody has pretrained it
    """
    parallel = parallel or Parallel()
    started = time.monotonic()
    torch.manual_seed(seed)
    model = Model(model.config) if fresh else copy.deepcopy(model)  # its tensors may be a file's own memory
    model.requires_grad_(True)
    tokenizer = attach(task, model, tokenizer)
    units, dev_units = data.encoded(task, tokenizer)
    adapt(model, config.method)
    model.to(parallel.device)
    feed = Feed(
        task,
        units,
        batch_size=config.train.batch_size,
        epochs=config.train.epochs,
        seed=seed,
        micro_tokens=config.train.micro_tokens,
        device=parallel.device.type,
        unlabelled=data.encoded_unlabelled(task, tokenizer),
        unlabelled_batch_size=config.words.unlabelled_batch_size,
    )
    judge = None if dev_units is None else _Judge(task, data.dev, dev_units)
    training = replace(config.train, evaluation=_evaluation(config.train.evaluation, feed, dev_units))
    saved = None if directory is None else latest(directory / CHECKPOINTS)
    if saved is not None:
        for note in saved.notes:
            yield Note(note)
    size = (_count(model.parameters()), _count(trained_parameters(model).values()))
    done = saved.step if saved is not None else 0
    yield Begun(
        seed=seed,
        steps=feed.total_steps,
        first_step=done,
        num_examples=len(data.train),
        num_units=len(units),
        num_tokens=int(units.num_tokens.sum()),
        evaluation_steps=0 if judge is None else training.evaluation.steps or 0,
        parameters=size[0],
        trained_parameters=size[1],
    )
    settings = {**to_dict(config), "fit": {"seed": seed}}
    every = min(training.log_steps, max(1, feed.total_steps // POINTS))
    log = StepLog(directory, settings, feed.seen, every=every, main=parallel.main, saved=saved, track=track)
    best = None if saved is None else saved.best
    stopped = False
    try:
        for report in train(
            model,
            task,
            feed,
            training,
            total_steps=feed.total_steps,
            seed=seed,
            parallel=parallel,
            directory=None if directory is None else directory / CHECKPOINTS,
            settings=settings,
            state=saved,
            evaluate=judge,
            before_step=unfreezing(model, config.method, feed.total_steps),
            stop=stop,
        ):
            done, best, stopped = report.step, report.best, report.stopped
            if judge is not None and report.evaluation is not None:
                judge.keep(training.evaluation.keep == "last" or (best is not None and best.step == done))
            yield Stepped(report=report, loss=report.loss, rate=log.step(report))
    finally:
        log.close()
    parallel.release()
    if stopped:
        yield Stopped(step=done, total_steps=feed.total_steps, directory=directory)
        return
    model.requires_grad_(True)
    lora.merge(model)
    model.eval()
    evaluated = None if judge is None else judge.result(model)
    lines = read_metrics(directory) if directory is not None else []
    seconds = max((line.get("seconds", 0.0) for line in lines), default=time.monotonic() - started)
    yield Fitted(
        seed=seed,
        task=task.finish(model),
        model=model,
        tokenizer=tokenizer,
        evaluated=evaluated,
        steps=done,
        best_step=best.step if best is not None and training.evaluation.keep == "best" else None,
        seconds=seconds,
        parameters=size[0],
        trained_parameters=size[1],
        lines=lines,
    )


class _Judge:
    """Evaluates, and remembers the predictions of the weights that will be kept, so that they need not be made again."""

    def __init__(self, task: Task[Any, Any], examples: Sequence[Any], units: Units) -> None:
        self.task, self.examples, self.units = task, examples, units
        self.last: Evaluated[Any] | None = None
        self.kept: Evaluated[Any] | None = None

    def __call__(self, module: nn.Module) -> Mapping[str, float]:
        assert isinstance(module, Model)
        self.last = evaluate_model(self.task, module, self.examples, units=self.units)
        return self.last.figures

    def keep(self, wanted: bool) -> None:
        """Whether the weights of the last evaluation are those to keep, as far as is known."""
        if wanted:
            self.kept = self.last

    def result(self, model: Model) -> Evaluated[Any]:
        """Of the weights that were kept."""
        if self.kept is None:  # they come from before the training was stopped, or none was ever judged
            self.kept = evaluate_model(self.task, model, self.examples, units=self.units)
        return self.kept


def _evaluation(config: EvaluationConfig, feed: Feed, dev: Units | None) -> EvaluationConfig:
    """With the number of steps between evaluations, where the settings leave it open."""
    if config.steps is not None or dev is None:
        return config
    every = evaluation_every(
        feed.steps_per_epoch,
        feed.total_steps,
        train_tokens=int(feed.lengths.sum()),
        dev_tokens=int(dev.num_tokens.sum()),
    )
    return replace(config, steps=every)


def _count(parameters: Any) -> int:
    return sum(parameter.numel() for parameter in parameters)
