"""`bertworks attend`: what every head looks at, as a page that stands alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    MODEL_AT_HAND,
    DeviceOption,
    JsonOption,
    ModelOption,
    SeedOption,
    ThreadsOption,
    prepare,
)
from bertworks.cli.console import print_json, print_result
from bertworks.errors import OutputError, UsageError


def attend(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text; - reads it from standard input.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page to write, for instance page.html.", metavar="PAGE.html"),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option("--pair", help="A second text; with a translation model, the translation.", metavar="TEXT"),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option("--layer", help="Open the page at this layer, counted from 1.", min=1, metavar="N"),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option("--head", help="Open the page with this head alone, counted from 1.", min=1, metavar="N"),
    ] = None,
    model: ModelOption = MODEL_AT_HAND,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Write the attention of every layer and head on TEXT as one HTML page.

    The page opens from disk, without a server or a network, and where `bertworks studio` would open the same text;
    --layer and --head say it otherwise.

    \b
    Examples:
      bertworks attend "The animal didn't cross the street because it was too tired" -o animal.html
      bertworks attend "A cat sat." --pair "A dog slept." --layer 3 --head 2 -o pair.html
      bertworks attend "Das ist gut." --model my-translator/ -o alignment.html
      bertworks attend - --json < text.txt
    """
    if output is None and not json:
        raise UsageError("where to? give -o PAGE.html, or --json for the weights on standard output")
    if output is None and (layer, head) != (None, None):
        raise UsageError("--layer and --head say where a page opens; give -o PAGE.html, or leave them out")
    if output is not None and output.is_dir():
        raise OutputError(f"{output} is a directory; give the name of a file")
    if text == "-":
        text = typer.get_text_stream("stdin", encoding="utf-8").read()
    prepare(seed=seed, threads=threads)
    from bertworks import load
    from bertworks.atomic import write_text
    from bertworks.studio.attend_page import attend_page
    from bertworks.studio.attention_data import attention_picture

    picture = attention_picture(load(model, device=device), text, pair)
    layers, heads, rows, columns = picture.weights.shape
    for name, asked, there in (("layer", layer, layers), ("head", head, heads)):
        if asked is not None and asked > there:
            raise UsageError(f"--{name} {asked} is too large; {model} has the {name}s 1 to {there}")
    if output is not None:
        name = Path(model).resolve().name if Path(model).is_dir() else model
        try:
            write_text(output, attend_page(picture, name, layer=layer, head=head))
        except OSError as error:
            raise OutputError(f"cannot write {output}: {error.strerror or error}") from None
    if json:
        print_json(
            {
                "kind": picture.kind,
                "rows": picture.rows,
                "columns": picture.columns,
                "weights": picture.weights.round(5).tolist(),
            }
        )
    elif output is not None:
        size = output.stat().st_size / 1e6
        what = f"{rows} tokens" if picture.kind != "alignment" else f"{columns} words read, {rows} written"
        print_result(f"{output}: {what}, {layers} layers with {heads} heads, {size:.1f} MB")
