"""`bertworks predict`: what a fine-tuned model says about every row of a file, streamed, and safe to stop at any moment."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DeviceOption,
    EncodingOption,
    JsonOption,
    PrecisionOption,
    QuietOption,
    StoppedError,
    ThreadsOption,
    model_identity,
    prepare,
)
from bertworks.cli.console import Progress, duration, print_json, print_note, print_result
from bertworks.cli.labelled import (
    BatchTokensOption,
    HeaderOption,
    LabelledFormatOption,
    ModelArgument,
    OptionColumnsOption,
    PairColumnOption,
    PredictedTaskOption,
    SkipBadRowsOption,
    TextColumnOption,
    columns,
)
from bertworks.errors import DataError

if TYPE_CHECKING:
    from bertworks.data.labelled.examples import Example
    from bertworks.data.labelled.read import LabelledReader
    from bertworks.infer.predict import Predictor, PredictReport


def predict(
    model: ModelArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Rows: .csv, .tsv, .jsonl, .parquet, .txt (a text per line), CoNLL columns, SQuAD's JSON; or -.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write: a .jsonl file.", show_default="standard output"),
    ] = None,
    text_column: TextColumnOption = None,
    pair_column: PairColumnOption = None,
    option_columns: OptionColumnsOption = None,
    task: PredictedTaskOption = None,
    precision: PrecisionOption = None,
    batch_tokens: BatchTokensOption = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Drop what an unfinished run left, and start again.")
    ] = False,
    encoding: EncodingOption = "utf-8",
    file_format: LabelledFormatOption = None,
    header: HeaderOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict labels, numbers, tags or answers for every row of FILE.

    MODEL is what `bertworks finetune` made, or any model of that kind made
    by transformers. Each row becomes one JSON object on one line: labels with
    probabilities, spans and answers with their characters in the text. The
    file is streamed, so it may be larger than memory; a text longer than the
    model's window is read whole, in several windows. Stopped in the middle,
    the same command continues where it was.

    \b
    Examples:
      bertworks predict sentiment reviews.csv --text-column review -o labels.jsonl
      echo "A wonderful film" | bertworks predict sentiment -
      bertworks predict ner article.txt -o entities.jsonl
    """
    from bertworks.data.labelled.options import ReadOptions
    from bertworks.data.labelled.read import LabelledReader
    from bertworks.data.outputs import not_an_input
    from bertworks.infer.predict import Predictor

    prepare(seed=0, threads=threads)
    if output is not None:
        not_an_input(output, file)
    predictor = Predictor(model, task=task, device=device, batch_tokens=batch_tokens, precision=precision)
    options = ReadOptions(
        text_column=text_column,
        pair_column=pair_column,
        option_columns=columns(option_columns),
        encoding=encoding,
        file_format=file_format,
        header=header,
        skip_bad_rows=skip_bad_rows,
        remembered=predictor.columns,
        labelled=False,
    )
    with LabelledReader(file, predictor.task.name, options) as reader:
        if output is None:
            _to_standard_output(predictor, reader, quiet=quiet)
        else:
            _to_file(predictor, reader, output, model=model, restart=restart, json=json, quiet=quiet)
        for sentence in reader.notes.sentences():
            print_note(f"{reader.notes.path}: {sentence}", quiet=quiet)


def _to_standard_output(predictor: Predictor, reader: LabelledReader, *, quiet: bool) -> None:
    from bertworks.infer.predict import PredictReport

    number = 0
    report = PredictReport()
    for chunk in _chunks(reader, (), quiet=quiet):
        for record in _records(predictor, chunk, report):
            print_json({"index": number, **record})
            number += 1
    if report.cut:
        print_note(_told_cut(report.cut), quiet=quiet)
    if number == 0:
        raise DataError("has no rows to predict", path=reader.notes.path)


def _to_file(
    predictor: Predictor, reader: LabelledReader, output: Path, *, model: str, restart: bool, json: bool, quiet: bool
) -> None:
    from bertworks.data.outputs import ResumableOutput
    from bertworks.data.writers import Rows
    from bertworks.infer.predict import PredictReport

    settings = {**reader.identity(), "model": model_identity(model), "task": predictor.task.name}
    settings["precision"] = predictor.loaded.precision
    with ResumableOutput(output, "record", settings, restart=restart, resumable=reader.repeatable) as result:
        if result.resumed_rows:
            print_note(f"continuing after the {result.resumed_rows:,} rows of an earlier run", quiet=quiet)
        started = time.monotonic()
        try:
            with Progress("predicting", reader.total_bytes, finished_rows=result.rows, quiet=quiet) as progress:
                for chunk in _chunks(reader, range(result.rows), quiet=quiet):
                    progress.begin_chunk(len(chunk), reader.bytes_read)
                    report = PredictReport()
                    records = _records(predictor, chunk, report, progress)
                    told = {"windowed": report.windowed, "cut": report.cut}
                    result.append(Rows(start=result.rows, records=records), told)
                    progress.end_chunk()
            if not result.rows:
                raise DataError("has no rows to predict", path=reader.notes.path)
            result.finish()
        except KeyboardInterrupt:
            raise StoppedError(result.kept()) from None
        seconds = time.monotonic() - started
        windowed = sum(notes["windowed"] for notes in result.notes)
        cut = sum(notes.get("cut", 0) for notes in result.notes)
        if json:
            print_json(
                {
                    "output": str(result.path),
                    "task": predictor.task.name,
                    "rows": result.rows,
                    "skipped": reader.notes.skipped,
                    "windowed": windowed,
                    "cut": cut,
                    "seconds": round(seconds, 3),
                    "resumed_rows": result.resumed_rows,
                }
            )
            return
        rate = (result.rows - result.resumed_rows) / max(seconds, 1e-9)
        print_result(f"{result.path}: {result.rows:,} predictions in {duration(seconds)} ({rate:,.0f} rows/s)")
        if windowed and not quiet:
            was = "row was" if windowed == 1 else "rows were"
            print_result(f"{windowed:,} {was} longer than the model's window, and read in several")
        if cut and not quiet:
            print_result(_told_cut(cut))


def _told_cut(cut: int) -> str:
    return f"{cut:,} {'row was' if cut == 1 else 'rows were'} longer than the model reads, and cut"


def _chunks(reader: LabelledReader, done: Iterable[int], *, quiet: bool) -> Iterator[list[Example]]:
    """The rows after those that are `done`; how they are read is told with the first of them."""
    from bertworks.infer.predict import CHUNK_CHARACTERS, CHUNK_ROWS, chunks

    rows = iter(reader)
    for _ in zip(done, rows, strict=False):
        pass
    found = chunks(rows, rows_at_once=CHUNK_ROWS, characters=CHUNK_CHARACTERS)
    first = next(found, None)
    if first is not None:
        print_note(reader.understood(), quiet=quiet)
        yield from itertools.chain([first], found)


def _records(
    predictor: Predictor,
    chunk: list[Example],
    report: PredictReport,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """What is written for each row: its place in the file, as in a finished run's `predictions.jsonl`, and the prediction."""
    predictions = predictor.predict_examples(
        predictor.examples(chunk), report=report, progress=None if progress is None else progress.within_chunk
    )
    return [
        {"line": example.place.line, **prediction.as_json()}
        for example, prediction in zip(chunk, predictions, strict=True)
    ]
