"""`bertworks convert`: read a model of any known spelling and write it as a clean model directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bertworks.cli.common import JsonOption
from bertworks.cli.console import print_json, print_result
from bertworks.errors import OutputError, UsageError, choice

INT8 = "int8"


def convert(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The model to read: an alias, a model directory or a Hub id.")
    ],
    destination: Annotated[Path, typer.Argument(metavar="DESTINATION", help="The directory to write.")],
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            help="Precision of the weights on disk: float32, float16, bfloat16, or int8, which only bertworks opens.",
            metavar="TYPE",
        ),
    ] = "float32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a directory that is not empty.")] = False,
    json: JsonOption = False,
) -> None:
    """Read the model SOURCE and write it to DESTINATION as safetensors, with today's names, its tokenizer beside it.

    With --dtype int8 each matrix takes one byte a number on disk and is read as floats: small to hand on, nothing
    gained in speed. A model that also computes in int8 comes from `bertworks quantize`.

    SOURCE may be a pretraining that is not over: its last checkpoint is written.

    \b
    Examples:
      bertworks convert ./old-bert-with-bin ./bert
      bertworks convert minilm ./minilm
      bertworks convert minilm ./minilm-half --dtype float16
      bertworks convert ./my-encoder ./my-encoder-small --dtype int8
    """
    choice(dtype, ("float32", "float16", "bfloat16", INT8), "--dtype")
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())) and not overwrite:
        raise OutputError(f"{destination} exists already; choose another name or add --overwrite")
    import torch
    from torch import nn

    from bertworks.train.unfinished import is_unfinished, load_unfinished

    if is_unfinished(destination):
        raise OutputError(f"{destination} is a run that is not over, and would be spoilt; choose another name")

    from bertworks import hub
    from bertworks.hub.tensors import INT8_SAFETENSORS, SAFETENSORS
    from bertworks.hub.translation import is_translation, load_translation, save_translation
    from bertworks.infer.saved import carry_task

    directory = hub.resolve(source)
    step: int | None = None
    module: nn.Module
    if is_translation(directory):
        if dtype == INT8:
            raise UsageError("--dtype int8 is for single models, and this is a translator; use float16")
        translation = load_translation(directory)
        module = translation.model
        save_translation(translation, destination, dtype=getattr(torch, dtype))
    else:
        if is_unfinished(directory):
            loaded, step = load_unfinished(directory)
        else:
            loaded = hub.load(directory)
        module = loaded.model
        carry_task(None if step is not None else directory, destination)
        if dtype == INT8:
            from bertworks.infer.quantize import store_int8

            store_int8(loaded.model, loaded.tokenizer, destination, settings=loaded.settings)
        else:
            hub.save(loaded.model, loaded.tokenizer, destination, settings=loaded.settings, dtype=getattr(torch, dtype))
    family = getattr(module.config, "family", "bertworks")
    parameters = sum(parameter.numel() for parameter in module.parameters())
    size = (destination / (INT8_SAFETENSORS if dtype == INT8 else SAFETENSORS)).stat().st_size
    if json:
        print_json(
            {
                "source": source,
                "destination": str(destination),
                "family": family,
                "parameters": parameters,
                "bytes": size,
                **({} if step is None else {"step": step}),
            }
        )
        return
    so_far = "" if step is None else f", as of step {step:,}"
    print_result(f"wrote {destination}: {family}, {parameters:,} parameters, {size / 1e6:.1f} MB{so_far}")
