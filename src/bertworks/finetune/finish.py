"""The end of a fine-tuning: its directory becomes a model that others can open, with what they need to judge it.

    model.safetensors, config.json, tokenizer …    by `bertworks.hub.save`
    bertworks.json                                 the task, and what was settled on the development examples
    predictions.jsonl                              what the model says of each development example, and the truth
    report.html   README.md   metrics.json         the page, the model card, the figures

`metrics.json` is written last: a directory that has it is finished, and checkpoints are deleted.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from bertworks.atomic import write_text
from bertworks.data.labelled.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
)
from bertworks.finetune.card import model_card
from bertworks.finetune.report import Predict, report
from bertworks.finetune.result import Result
from bertworks.finetune.seeds import CANDIDATE, Kept, save_model
from bertworks.finetune.words import VECTORS
from bertworks.hub.files import writing
from bertworks.infer.saved import SavedTask, write_task
from bertworks.tasks.base import Task
from bertworks.tasks.run import predict_examples
from bertworks.tasks.tagging import Tagging
from bertworks.train.directory import CARD, CHECKPOINTS, METRICS, REPORT

PREDICTIONS = "predictions.jsonl"


def finish(result: Result, kept: Kept, output: Path, *, window: int, columns: Mapping[str, Any]) -> None:
    """Write everything, and delete what only a run that is not over needs."""
    save_model(kept.model, kept.tokenizer, kept.task, output, window)
    saved = SavedTask(task=kept.task.settings(), decision=result.decision, window=window, columns=columns)
    write_task(output, saved)

    def predict(examples: Sequence[Example]) -> Sequence[Any]:
        return predict_examples(
            kept.task, kept.model, examples, tokenizer=kept.tokenizer, window=window, decision=result.decision
        )

    write_texts(result, output, predict)
    clean(output)


def write_texts(result: Result, output: Path, predict: Predict | None = None) -> None:
    """Predictions, report, card and figures: everything but the model, which `predict` asks."""
    with writing(output):
        write_text(output / PREDICTIONS, "".join(prediction_lines(result)))
        write_text(output / REPORT, report(result, predict))
        write_text(output / CARD, model_card(result))
        write_text(output / METRICS, json.dumps(result.as_json(), indent=2, ensure_ascii=False) + "\n")


def prediction_lines(result: Result) -> Iterator[str]:
    """One JSON object per development example: its line in the file, the prediction, the truth."""
    for example, prediction in zip(result.examples, result.predictions, strict=True):
        line = {} if example.place.line is None else {"line": example.place.line}
        yield (
            json.dumps({**line, **prediction.as_json(), "truth": truth_of(example, result.task)}, ensure_ascii=False)
            + "\n"
        )


def truth_of(example: Example, task: Task[Any, Any]) -> Any:
    """What is right, as JSON has it, spelled as predictions are."""
    if isinstance(example, TaggedExample):
        return cast(Tagging, task).truth(example)
    if isinstance(example, QuestionExample):
        return None if example.answers is None else [answer._asdict() for answer in example.answers]
    if isinstance(example, SimilarityExample):
        return example.score
    if isinstance(example, ChoiceExample):
        return example.label
    return list(example.label) if isinstance(example.label, tuple) else example.label


def clean(output: Path) -> None:
    """Delete checkpoints, the models of other seeds and trials, and word vectors; curves and outcomes stay."""
    for path in [*output.rglob(CHECKPOINTS), *output.rglob(CANDIDATE), output / VECTORS]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
