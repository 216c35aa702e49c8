"""`bertworks evaluate`: how good a fine-tuned model is on a labelled file."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DeviceOption,
    EncodingOption,
    JsonOption,
    QuietOption,
    ThreadsOption,
    prepare,
)
from bertworks.cli.console import StageProgress, duration, print_json, print_note, print_result
from bertworks.cli.labelled import (
    BatchTokensOption,
    FirstOptionOption,
    HeaderOption,
    LabelColumnOption,
    LabelledFormatOption,
    LabelSeparatorOption,
    ModelArgument,
    OptionColumnsOption,
    PairColumnOption,
    PredictedTaskOption,
    SkipBadRowsOption,
    TextColumnOption,
    read_options,
)

if TYPE_CHECKING:
    from bertworks.data.labelled.examples import Example
    from bertworks.tasks.base import Task
    from bertworks.tasks.predictions import Prediction


def evaluate(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Option(
            "--data", metavar="FILE", help="Labelled rows: .csv, .tsv, .jsonl, .parquet, CoNLL, SQuAD, TREC; or -."
        ),
    ],
    predictions: Annotated[
        Path | None, typer.Option("--predictions", "-o", help="Also write each row's prediction to this .jsonl file.")
    ] = None,
    text_column: TextColumnOption = None,
    pair_column: PairColumnOption = None,
    label_column: LabelColumnOption = None,
    option_columns: OptionColumnsOption = None,
    first_option: FirstOptionOption = None,
    label_separator: LabelSeparatorOption = None,
    task: PredictedTaskOption = None,
    batch_tokens: BatchTokensOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: LabelledFormatOption = None,
    header: HeaderOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure a fine-tuned model on labelled rows.

    The figures are the task's official ones: accuracy, F1 and Matthews
    correlation; Pearson and Spearman; entity F1 as seqeval counts; SQuAD's
    exact match and F1. Thresholds and temperatures are those that were
    settled when the model was trained.

    \b
    Examples:
      bertworks evaluate sentiment --data test.tsv
      bertworks evaluate ner --data test.conll --json
    """
    from bertworks.data.labelled.read import read
    from bertworks.data.outputs import not_an_input
    from bertworks.infer.predict import Predictor

    prepare(seed=0, threads=threads)
    if predictions is not None:
        not_an_input(predictions, data)
    predictor = Predictor(model, task=task, device=device, batch_tokens=batch_tokens)
    options = read_options(
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
        option_columns=option_columns,
        label_separator=label_separator,
        encoding=encoding,
        file_format=file_format,
        header=header,
        skip_bad_rows=skip_bad_rows,
        first_option=first_option,
        predictor=predictor,
    )
    found = read(data, predictor.task.name, options)
    for sentence in found.understood:
        print_note(sentence, quiet=quiet)
    examples, errors = predictor.usable(found.examples, skip=skip_bad_rows)
    if errors:
        print_note(f"{data}: {len(errors):,} examples left out, the first: {errors[0]}", quiet=quiet)
    started = time.monotonic()
    with StageProgress(quiet=quiet) as progress:
        evaluated = predictor.evaluate(
            examples,
            progress=lambda done, total: progress.update("evaluating", done / total, f"{done:,} of {total:,}"),
        )
    seconds = time.monotonic() - started
    if predictions is not None:
        _write(predictions, predictor.task, examples, evaluated.predictions)
    result = {
        "task": predictor.task.name,
        "metric": predictor.task.metric,
        "metrics": evaluated.figures,
        "seeds": _seeds(model),
        "data": data,
        "examples": {"test": len(examples), "skipped": found.skipped + len(errors)},
        "model": model,
        "decision": dict(evaluated.decision),
        "seconds": round(seconds, 3),
    }
    if json:
        print_json(result)
    else:
        _tell(result, found=len(examples), seconds=seconds)


def _tell(result: Mapping[str, Any], *, found: int, seconds: float) -> None:
    from bertworks.train.figures import shown, words

    print_result(f"{result['model']} on {found:,} examples of {result['data']} ({duration(seconds)}):")
    width = max(map(len, result["metrics"]))
    for name, value in result["metrics"].items():
        print_result(f"  {words(name):{width}}  {shown(name, value)}")


def _seeds(model: str) -> list[int]:
    """The seed of the training that made the model, where its directory says."""
    try:
        metrics = json_module.loads((Path(model) / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    seed = metrics.get("kept_seed") if isinstance(metrics, dict) else None
    return [seed] if isinstance(seed, int) else []


def _write(path: Path, task: Task[Any, Any], examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    """Lines as in a finished run's `predictions.jsonl`, the truth included."""
    from bertworks.data.outputs import ResumableOutput
    from bertworks.data.writers import Rows
    from bertworks.finetune.finish import truth_of

    records = [
        {"line": example.place.line, **prediction.as_json(), "truth": truth_of(example, task)}
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    with ResumableOutput(path, "record", {"evaluation": path.name}, restart=True, resumable=False) as output:
        output.append(Rows(start=0, records=records))
        output.finish()
