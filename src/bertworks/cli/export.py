"""`bertworks export`: a model as a graph that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bertworks.cli.common import EncodingOption, JsonOption, QuietOption, ThreadsOption, check_new_directory, prepare
from bertworks.cli.console import print_json, print_note, print_result
from bertworks.cli.labelled import (
    HeaderOption,
    LabelColumnOption,
    LabelledFormatOption,
    LabelSeparatorOption,
    OptionColumnsOption,
    PairColumnOption,
    TextColumnOption,
    read_options,
)
from bertworks.errors import UsageError

if TYPE_CHECKING:
    from bertworks.infer.export import ExportReport


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="An alias, a model directory or a Hub id.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="Write a graph of ONNX, which is the only kind so far.")] = False,
    task: Annotated[
        str | None,
        typer.Option(
            help="embed, fill, or what the model was fine-tuned for: classify, pair, regress, choice, tag, qa.",
            show_default="what the model was made for",
        ),
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="embed: mean, cls or max.", show_default="the model's own, else mean")
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            "--normalize/--no-normalize", help="embed: scale vectors to length 1.", show_default="the model's own"
        ),
    ] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Products in 8 bits: smaller and quicker.")] = False,
    data: Annotated[
        str | None,
        typer.Option(
            help="--int8: labelled rows (embed: texts, or pairs with scores) to measure the loss on.", metavar="FILE"
        ),
    ] = None,
    max_drop: Annotated[
        float,
        typer.Option(
            "--max-drop", help="--data: how many points of the task's figure may be lost.", min=0, metavar="X"
        ),
    ] = 0.5,
    min_cosine: Annotated[
        float, typer.Option("--min-cosine", help="embed: how far a vector may turn.", min=-1, max=1, metavar="X")
    ] = 0.98,
    text_column: TextColumnOption = None,
    pair_column: PairColumnOption = None,
    label_column: LabelColumnOption = None,
    option_columns: OptionColumnsOption = None,
    label_separator: LabelSeparatorOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: LabelledFormatOption = None,
    header: HeaderOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a directory that is not empty.")] = False,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write MODEL as a graph that ONNX Runtime runs, with its tokenizer and a page on how to use them.

    An embedding model becomes a graph whose output is the vector, pooled and
    normalised; a fine-tuned one gives the logits of its head. The graph is
    compared with PyTorch before it is handed out. With --int8 and --data,
    what 8 bits cost is measured, and too great a loss refused.

    \b
    Examples:
      bertworks export minilm --onnx -o minilm-onnx
      bertworks export minilm --onnx --int8 --data pairs.tsv -o minilm-int8
      bertworks export sentiment --onnx -o sentiment-onnx
    """
    if not onnx:
        raise UsageError("say what to export to: add --onnx")
    check_new_directory(output, overwrite)
    from bertworks.infer.export import export_onnx

    prepare(seed=0, threads=threads)
    if int8 and data is None:
        print_note("note: without --data nobody knows what int8 costs", quiet=quiet)
    reading = read_options(
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
        option_columns=option_columns,
        label_separator=label_separator,
        encoding=encoding,
        file_format=file_format,
        header=header,
    )
    report = export_onnx(
        model,
        output,
        task=task,
        pooling=cast(Any, pooling),
        normalize=normalize,
        int8=int8,
        data=data,
        reading=reading,
        max_drop=max_drop,
        min_cosine=min_cosine,
    )
    _tell(report, json=json)


def _tell(report: ExportReport, *, json: bool) -> None:
    loss = report.loss
    if json:
        print_json(
            {
                "directory": str(report.directory),
                "task": report.task,
                "precision": report.precision,
                "inputs": list(report.inputs),
                "outputs": list(report.outputs),
                "window": report.window,
                "bytes": report.bytes,
                "difference": report.difference,
                "loss": None if loss is None else loss.as_json(),
            }
        )
        return
    print_result(f"{report.directory}: a graph for {report.task}, {report.precision}, {report.bytes / 1e6:.1f} MB")
    print_result(f"compared with PyTorch: the largest difference is {report.difference:.1e}")
    if loss is not None and loss.metric is not None:
        print_result(
            f"int8 on {loss.rows:,} rows: {loss.metric} {100 * (loss.fp32 or 0):.2f} -> "
            f"{100 * (loss.int8 or 0):.2f} points"
        )
    if loss is not None and loss.worst_cosine is not None:
        print_result(f"int8: the worst cosine to a vector in fp32 is {loss.worst_cosine:.4f}")
