"""`bertworks probe`: what a frozen model knows, and where; `gradients` is in `probe_gradients`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DEFAULT_MODEL,
    DeviceOption,
    EncodingOption,
    JsonOption,
    ModelOption,
    QuietOption,
    SeedOption,
    StoppedError,
    ThreadsOption,
    prepare,
)
from bertworks.cli.console import StageProgress, duration, print_json, print_note, print_result
from bertworks.cli.labelled import LabelColumnOption, LabelledFormatOption, SkipBadRowsOption, TextColumnOption
from bertworks.cli.probe_gradients import gradients
from bertworks.errors import UsageError, choice

app = typer.Typer(help="What a frozen model knows, and where.", no_args_is_help=True)
TAGGERS = ("linear", "bilstm")


app.command("gradients")(gradients)


@app.command("layers")
def layers(
    train: Annotated[Path, typer.Option("--train", help="Tagged words to train on (CoNLL columns, jsonl, …).")],
    dev: Annotated[Path, typer.Option("--dev", help="Tagged words to judge by.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A directory for the page and the JSON.")],
    model: ModelOption = DEFAULT_MODEL,
    tagger: Annotated[
        str, typer.Option(help="Which taggers read the vectors: linear (faster), bilstm, or both with a comma.")
    ] = "linear,bilstm",
    words: Annotated[
        str, typer.Option(help="A word of several tokens has the vector of its first, or their mean: first, mean.")
    ] = "first",
    epochs: Annotated[
        int | None,
        typer.Option(
            help="How often each tagger sees the training sentences.",
            min=1,
            metavar="N",
            show_default="5 linear, 3 bilstm; more for few sentences",
        ),
    ] = None,
    lstm: Annotated[
        str, typer.Option(help="The BiLSTM's layers and width; the BERT paper has 2x768.", metavar="LAYERSxWIDTH")
    ] = "2x128",
    seeds: Annotated[int, typer.Option(help="Train each tagger so many times, and tell the spread.", min=1)] = 1,
    max_sentences: Annotated[
        int | None, typer.Option("--max-sentences", help="Train on the first N sentences only.", min=1, metavar="N")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Drop what an unfinished study left.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the study that is there.")] = False,
    text_column: TextColumnOption = None,
    label_column: LabelColumnOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: LabelledFormatOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Which layer? What taggers read out of each layer and of combinations.

    Every single layer, plain and learned sums of all and of the last four,
    the concatenation of the last four. The vectors are computed once and kept
    on the disk while the study runs; stopped in the middle, the same command
    goes on after the last finished row.

    \b
    Example:
      bertworks probe layers --train train.conll --dev dev.conll -o layers
    """
    from dataclasses import replace

    from bertworks.data.labelled.options import ReadOptions

    kinds = [choice(part.strip(), TAGGERS, "tagger") for part in tagger.split(",") if part.strip()]
    choice(words, ("first", "mean"), "vector of a word")
    size = _size(lstm)
    prepare(seed=seed, threads=threads)
    from bertworks.finetune import probe
    from bertworks.finetune.probe_taggers import BILSTM, LINEAR

    configs = {"linear": LINEAR, "bilstm": replace(BILSTM, num_layers=size[0], hidden_size=size[1])}
    said: dict[str, Any] = {} if epochs is None else {"epochs": epochs, "min_steps": 0}
    options = probe.ProbeOptions(
        train=train,
        dev=dev,
        output=output,
        model=model,
        taggers=tuple(replace(configs[kind], **said) for kind in dict.fromkeys(kinds)),
        words="mean" if words == "mean" else "first",
        max_sentences=max_sentences,
        seeds=seeds,
        seed=seed,
        read=ReadOptions(
            text_column=text_column,
            label_column=label_column,
            encoding=encoding,
            file_format=file_format,
            skip_bad_rows=skip_bad_rows,
        ),
        device=device,
        restart=restart,
        overwrite=overwrite,
    )
    _follow(options, json=json, quiet=quiet)


def _follow(options: Any, *, json: bool, quiet: bool) -> None:
    """Run the study and tell what happens."""
    from bertworks.finetune import probe
    from bertworks.finetune.probe_page import NAMES, header, table_rows

    finished: probe.Finished | None = None
    stage, first = "", 0.0
    try:
        with StageProgress(quiet=quiet or json) as progress:
            for event in probe.probe_layers(options):
                if isinstance(event, probe.Note):
                    progress.note(event.text)
                elif isinstance(event, probe.Working):
                    if event.stage != stage:
                        stage, first = event.stage, event.share
                    progress.update(event.stage, event.share, event.detail, first=first)
                elif isinstance(event, probe.Row):
                    value = f"{100 * event.mean('f1' if 'f1' in event.figures else 'accuracy'):.2f}"
                    progress.note(f"{NAMES[event.tagger]}, {event.title}: {value} ({duration(event.seconds)})")
                else:
                    finished = event
    except KeyboardInterrupt as stopped:
        raise StoppedError(str(stopped) or "nothing was kept") from None
    assert finished is not None
    if json:
        print_json({"output": str(finished.directory), **finished.study.as_json()})
        return
    rows = [header(finished.study), *table_rows(finished.study)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print_result("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print_note(f"report: {finished.directory / probe.PAGE} ({duration(finished.study.seconds)})", quiet=quiet)


def _size(text: str) -> tuple[int, int]:
    """`2x128` as (layers, width)."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--lstm is {text!r}; it must be layers and width, such as 2x128")
    return int(parts[0]), int(parts[1])
