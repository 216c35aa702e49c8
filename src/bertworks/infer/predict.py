"""Predictions of a fine-tuned model, whoever fine-tuned it.

    rows -> examples -> encode (windows over long texts) -> packed batches -> outputs -> decode -> predictions

What is predicted, the directory says: `bertworks.json` where it was made here, else the head that its weights have
(`ForSequenceClassification`, `ForTokenClassification`, `ForQuestionAnswering`, `ForMultipleChoice`), else, for an
embedding model, the similarity of two texts. A text longer than the window is read whole: labels come from the mean over
its windows, tags and answers from the window in which a word has the most context. Only the options of a choice and
texts that are compared with each other are cut to the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from bertworks import hub, tasks
from bertworks.data.labelled.examples import Example, QuestionExample, TaggedExample, TextExample
from bertworks.errors import DataError, ModelError, OutputError, UsageError, choice
from bertworks.hub.tables import MULTI_LABEL
from bertworks.infer.loaded import LoadedModel, load
from bertworks.infer.rows import Row, examples_of, is_one_row, num_characters
from bertworks.infer.saved import SavedTask, read_task, write_task
from bertworks.infer.word_sources import opened
from bertworks.tasks.answers import Answering
from bertworks.tasks.base import Decision, Evaluated, Task
from bertworks.tasks.choice import Choice
from bertworks.tasks.classification import Classification
from bertworks.tasks.predictions import Prediction, SimilarityPrediction
from bertworks.tasks.regression import Regression
from bertworks.tasks.run import Progress, evaluate_model, outputs_of, usable
from bertworks.tasks.similarity import Similarity
from bertworks.tasks.tagging import Tagging
from bertworks.tasks.tags import recognise, scheme_of_labels

CHUNK_ROWS = 1024
CHUNK_CHARACTERS = 65_536  # some seconds of work for a small model on a CPU: what a stop can lose

RowT = TypeVar("RowT")

UNNAMED = "LABEL_"
"""How `transformers` calls labels that nobody has named: LABEL_0, LABEL_1 …"""


@dataclass
class PredictReport:
    """What happened to the rows; counts add up over calls, so that one report can serve a stream."""

    rows: int = 0
    windowed: int = 0
    """Rows longer than the window, which were read piece by piece."""
    cut: int = 0
    """Rows of which a part was not read: long options, texts to compare, questions."""


class Predictor:
    """A fine-tuned model, ready to predict.

    model     a directory, an alias, a Hub id, or what `bertworks.load` gave
    task      where the directory does not say it: a task, or `pair` for a classifier of pairs that was made elsewhere
    decision  what was settled on development examples; None = what the directory says
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        task: Task[Any, Any] | str | None = None,
        decision: Decision | None = None,
        window: int | None = None,
        device: str = "cpu",
        batch_tokens: int | None = None,
        precision: str | None = None,
    ) -> None:
        loaded = (
            model
            if isinstance(model, LoadedModel)
            else load(model, device=device, batch_tokens=batch_tokens, precision=precision)
        )
        saved = read_task(loaded.directory) if loaded.directory is not None else None
        self.loaded = loaded
        self.guessed = saved is None and (task is None or isinstance(task, str))
        """Whether only the head says what is predicted: the model was made elsewhere."""
        self.task: Task[Any, Any]
        self.task = _wanted(_task_of(loaded, saved), task) if task is None or isinstance(task, str) else task
        self.columns = saved.columns if saved is not None else {}
        """Which columns of the training file were read; for `ReadOptions.remembered`."""
        self.decision: Decision = decision if decision is not None else saved.decision if saved is not None else {}
        positions = loaded.model.num_positions
        self.window = min(window or (saved and saved.window) or loaded.window or positions, positions)

    def __repr__(self) -> str:
        labels = f", {len(self.task.labels)} labels" if self.task.labels else ""
        return f"Predictor({self.task.name}{labels}, window {self.window})"

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes or tags; () where there are none."""
        return self.task.labels

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return isinstance(self.task, Classification) and self.task.multi_label

    # -- predictions ---------------------------------------------------------------------------------------------------

    def predict(self, rows: Row | Iterable[Row], *, progress: Progress | None = None) -> Any:
        """One prediction per row, as a list; for a single row (a text, a tuple, a mapping) its prediction itself.

        What a row is depends on the task (`bertworks.infer.rows`), and so does what a prediction is
        (`bertworks.tasks.predictions`).
        """
        if is_one_row(rows):
            return self.predict_examples(self.examples([cast(Row, rows)]))[0]
        return self.predict_examples(self.examples(cast(Iterable[Row], rows)), progress=progress)

    def stream(
        self, rows: Iterable[Row], *, chunk_rows: int = CHUNK_ROWS, chunk_characters: int = CHUNK_CHARACTERS
    ) -> Iterator[Prediction]:
        """Like `predict` for more rows than fit in memory: predictions come chunk by chunk, as the rows are read."""
        number = 0
        for chunk in chunks(rows, rows_at_once=chunk_rows, characters=chunk_characters):
            yield from self.predict_examples(self.examples(chunk, start=number))
            number += len(chunk)

    def examples(self, rows: Iterable[Row], *, start: int = 0) -> list[Example]:
        """Rows as examples of the task."""
        return examples_of(self.task.name, rows, start=start)

    def predict_examples(
        self,
        examples: Sequence[Example],
        *,
        report: PredictReport | None = None,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        """One prediction per example; labels are not looked at."""
        if not examples:
            return []
        loaded = self.loaded
        units = self.task.encode(examples, loaded.tokenizer, window=self.window, training=False)
        outputs = outputs_of(self.task, loaded.model, units, batch_tokens=loaded.runner.batch_tokens, progress=progress)
        if report is not None:
            report.rows += len(examples)
            report.windowed += int((np.bincount(units.owners) > 1).sum())
            report.cut += units.num_cut
        found: list[Prediction] = self.task.decode(examples, units, outputs, self.decision)
        # A rank is one among the rows that happen to be given together; a prediction must not depend on them.
        return [replace(one, rank=None) if isinstance(one, SimilarityPrediction) else one for one in found]

    def evaluate(
        self, examples: Sequence[Example], *, unknown_labels: bool = False, progress: Progress | None = None
    ) -> Evaluated[Prediction]:
        """Predictions of labelled examples and how good they are, by what was settled when the model was trained.

        unknown_labels: tags that the model does not know count as missed; else they are an error
        """
        if not examples:
            raise UsageError("there are no examples to evaluate")
        task, examples = self.judged(examples, unknown_labels=unknown_labels)
        return evaluate_model(
            task,
            self.loaded.model,
            examples,
            tokenizer=self.loaded.tokenizer,
            window=self.window,
            decision=self.decision,
            batch_tokens=self.loaded.runner.batch_tokens,
            progress=progress,
        )

    def usable(self, examples: Sequence[Example], *, skip: bool) -> tuple[list[Example], list[DataError]]:
        """Examples that can be judged, and what is wrong with the others; unless `skip`, the first of these is raised."""
        named = _named(examples, self.task.labels) if self.guessed else examples
        if self.guessed and isinstance(self.task, Tagging):  # tags that it does not know count as missed
            return list(examples), []
        kept, errors = usable(self.task, named, skip=skip)
        places = {example.place for example in kept}
        return [example for example in examples if example.place in places], errors

    def judged(
        self, examples: Sequence[Example], *, unknown_labels: bool = False
    ) -> tuple[Task[Any, Any], Sequence[Example]]:
        """The task and the labels in the spelling that the two share; an error where a label cannot be judged."""
        task = self.task
        examples = _named(examples, task.labels) if self.guessed else examples
        if self.guessed and isinstance(task, Answering):
            some_without = any(isinstance(one, QuestionExample) and one.answers == () for one in examples)
            task = replace(task, unanswerable=task.unanswerable or some_without)
        if self.guessed and isinstance(task, Tagging):  # another's labels need not be whole (I-PER, but no B-PER)
            found = recognise(_tags_of(examples))
            if "plain" not in (found, task.scheme):  # nor written as the file's are
                task = replace(task, scheme=found)
        elif not (unknown_labels and isinstance(task, Tagging)):
            task.check(examples)
        return task, examples

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, directory: str | Path) -> None:
        """Write a model directory that `bertworks.load` and `transformers` open."""
        loaded, task = self.loaded, self.task
        if loaded.precision != "fp32":
            raise UsageError(f"this model is in {loaded.precision}; load it in fp32 to save it for other programs")
        directory = Path(directory)
        if directory.is_dir() and any(directory.iterdir()) and not (directory / "config.json").exists():
            raise OutputError(f"{directory} is not empty and holds no model; choose another directory")
        settings = task.sentence_settings(self.window) if isinstance(task, Similarity) else None
        hub.save(loaded.model, loaded.tokenizer, directory, settings=settings)
        saved = SavedTask(task=self.task.settings(), decision=self.decision, window=self.window, columns=self.columns)
        write_task(directory, saved)


def chunks(rows: Iterable[RowT], *, rows_at_once: int, characters: int) -> Iterator[list[RowT]]:
    """Lists of at most `rows_at_once` rows and (unless one row alone has more) `characters` characters.

    Where a chunk ends depends on the rows alone, so a run that was stopped and continued sees the same chunks.
    """
    chunk: list[RowT] = []
    size = 0
    for row in rows:
        length = num_characters(row)
        if chunk and (len(chunk) == rows_at_once or size + length > characters):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield chunk


# -- what a directory predicts -----------------------------------------------------------------------------------------


def _task_of(loaded: LoadedModel, saved: SavedTask | None) -> Task[Any, Any]:
    """What the directory says, or what its head can mean."""
    if saved is not None:
        return opened(tasks.from_settings(saved.task), device=str(loaded.device), directory=loaded.directory)
    config = loaded.model.config
    for head in config.heads:
        if head.task == "classify":
            multi_label = dict(config.source).get("problem_type") == MULTI_LABEL
            return Classification(
                labels=config.labels, multi_label=multi_label, metric="f1_micro" if multi_label else "accuracy"
            )
        if head.task == "regress":
            if head.num_labels != 1:
                raise ModelError(f"this model predicts {head.num_labels} numbers for each text; only one is supported")
            return Regression()
        if head.task == "choice":
            return Choice()
        if head.task == "tag":
            return Tagging(labels=config.labels, scheme=scheme_of_labels(config.labels))
        if head.task == "qa":
            return Answering()
    if loaded.settings is not None:
        return Similarity(kind="scored", pooling=loaded.settings.pooling, normalize=loaded.settings.normalize)
    there = ", ".join(head.task for head in config.heads) or "none"
    raise ModelError(
        f"this model has no head that predicts labels, numbers, tags or answers (its heads: {there}); "
        "fine-tune it first: bertworks finetune classify --train FILE --model MODEL -o DIR"
    )


def _tags_of(examples: Sequence[Example]) -> list[tuple[str, ...]]:
    return [one.tags for one in examples if isinstance(one, TaggedExample) and one.tags is not None]


def _wanted(task: Task[Any, Any], name: str | None) -> Task[Any, Any]:
    """The task under the name that the user gives it: a classifier does not always say whether it reads pairs."""
    if name is None or name == task.name:
        return task
    choice(name, tasks.NAMES, "task")
    if isinstance(task, Classification) and name in ("classify", "pair"):
        return replace(task, name="pair" if name == "pair" else "classify")
    raise ModelError(f"this model was made for {task.name!r}, not for {name!r}")


def _named(examples: Sequence[Example], labels: Sequence[str]) -> Sequence[Example]:
    """The file's labels in the spelling of a model that was made elsewhere.

    Small and capital letters may differ, and where nobody has named the model's labels (LABEL_0, LABEL_1 …), the file's
    0, 1 … stand for them.
    """
    unnamed = all(label == f"{UNNAMED}{number}" for number, label in enumerate(labels))
    names = {(str(number) if unnamed else label.casefold()): label for number, label in enumerate(labels)}
    names |= {label: label for label in labels}

    def spelled(label: str) -> str:
        return names.get(label) or names.get(label.casefold()) or label

    def named(example: Example) -> Example:
        if isinstance(example, TextExample) and isinstance(example.label, str):
            return replace(example, label=spelled(example.label))
        if isinstance(example, TextExample) and isinstance(example.label, tuple):
            return replace(example, label=tuple(map(spelled, example.label)))
        if isinstance(example, TaggedExample) and example.tags is not None:
            return replace(example, tags=tuple(map(spelled, example.tags)))
        return example

    return [named(example) for example in examples] if labels else examples
