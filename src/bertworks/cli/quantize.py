"""`bertworks quantize`: a model in int8, measured on labelled rows before it is written."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    EncodingOption,
    JsonOption,
    QuietOption,
    ThreadsOption,
    check_new_directory,
    prepare,
)
from bertworks.cli.console import StageProgress, duration, print_json, print_note, print_result
from bertworks.cli.labelled import (
    BatchTokensOption,
    HeaderOption,
    LabelColumnOption,
    LabelledFormatOption,
    LabelSeparatorOption,
    OptionColumnsOption,
    PairColumnOption,
    PredictedTaskOption,
    SkipBadRowsOption,
    TextColumnOption,
    read_options,
)
from bertworks.errors import UsageError

if TYPE_CHECKING:
    from bertworks.infer.predict import Predictor
    from bertworks.infer.quantize_gate import Quantized


def quantize(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A fine-tuned or an embedding model: an alias, a directory, a Hub id."),
    ],
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="FILE",
            help="Labelled rows; for an embedding model pairs with scores, or texts: what int8 costs is measured on them.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write.")],
    max_drop: Annotated[
        float,
        typer.Option("--max-drop", help="How many points of the task's figure may be lost.", min=0, metavar="X"),
    ] = 0.5,
    min_cosine: Annotated[
        float,
        typer.Option(
            "--min-cosine", help="Embeddings: the least cosine to the vectors in fp32.", min=0, max=1, metavar="X"
        ),
    ] = 0.98,
    max_float_layers: Annotated[
        int | None,
        typer.Option(
            "--max-float-layers",
            help="How many linear layers may stay in fp32 where int8 costs too much.",
            min=0,
            metavar="N",
            show_default="a quarter of them",
        ),
    ] = None,
    text_column: TextColumnOption = None,
    pair_column: PairColumnOption = None,
    label_column: LabelColumnOption = None,
    option_columns: OptionColumnsOption = None,
    label_separator: LabelSeparatorOption = None,
    task: PredictedTaskOption = None,
    batch_tokens: BatchTokensOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: LabelledFormatOption = None,
    header: HeaderOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a directory that is not empty.")] = False,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write MODEL in int8: a quarter of the size, and quicker on a CPU.

    The loss is measured on FILE, which should be rows that the model was not
    trained on. Where int8 costs too much, the layers that cost most stay in
    fp32; where that does not help, nothing is written. The directory is used
    like any model by bertworks; other programs cannot open it.

    \b
    Examples:
      bertworks quantize sentiment --data dev.tsv -o sentiment-int8
      bertworks quantize minilm --data pairs.tsv -o minilm-int8
      bertworks predict sentiment-int8 reviews.csv -o labels.jsonl
    """
    check_new_directory(output, overwrite)
    from bertworks.data.labelled.read import read
    from bertworks.infer.predict import Predictor
    from bertworks.infer.quantize import float_layers_of
    from bertworks.infer.quantize_gate import quantize_measured

    prepare(seed=0, threads=threads)
    predictor = Predictor(model, task=task, batch_tokens=batch_tokens, precision="fp32")
    directory = predictor.loaded.directory
    if directory is not None and float_layers_of(directory) is not None:  # what it lost is not there to measure against
        raise UsageError(f"{model} is in int8 already; quantize the model that it was made of")
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
        predictor=predictor,
    )
    found = read(data, predictor.task.name, options)
    for sentence in found.understood:
        print_note(sentence, quiet=quiet)
    started = time.monotonic()
    with StageProgress(quiet=quiet) as progress:
        quantized = quantize_measured(
            predictor,
            found.examples,
            max_drop=max_drop,
            min_cosine=min_cosine,
            max_float_layers=max_float_layers,
            progress=lambda what, done: progress.update("measuring", done, what),
        )
    result = _write(predictor, quantized, output, model=model, data=data)
    result["seconds"] = round(time.monotonic() - started, 3)
    if json:
        print_json(result)
    else:
        _tell(result, output)


def _write(predictor: Predictor, quantized: Quantized, output: Path, *, model: str, data: str) -> dict[str, Any]:
    from bertworks.infer.quantize import save_int8
    from bertworks.infer.saved import read_task, write_task

    loaded, loss = predictor.loaded, quantized.loss
    measured = {"model": model, "data": data, **loss.as_json()}
    save_int8(loaded.model, loaded.tokenizer, output, settings=loaded.settings, notes=measured)
    saved = read_task(loaded.directory) if loaded.directory is not None else None
    if saved is not None:
        write_task(output, saved)
    return {
        "output": str(output),
        "task": predictor.task.name,
        **measured,
        "drop": loss.drop,
        "layers": quantized.num_layers,
        "float_layers": list(quantized.float_layers),
        "bytes": sum(path.stat().st_size for path in output.rglob("*") if path.is_file()),
    }


def _tell(result: dict[str, Any], output: Path) -> None:
    from bertworks.train.figures import words

    inside = result["layers"] - len(result["float_layers"])
    print_result(
        f"{output}: {inside} of {result['layers']} linear layers in int8, {result['bytes'] / 1e6:,.1f} MB "
        f"({duration(result['seconds'])})"
    )
    if result["float_layers"]:
        print_result(f"  in fp32, since they cost most: {', '.join(result['float_layers'])}")
    if result["metric"] is not None:
        print_result(
            f"  {words(result['metric'])} on {result['rows']:,} rows: fp32 {100 * result['fp32']:.2f}, "
            f"int8 {100 * result['int8']:.2f}"
        )
    if result["worst_cosine"] is not None:
        print_result(f"  worst cosine to the vectors in fp32: {result['worst_cosine']:.4f}")
