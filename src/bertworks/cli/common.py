"""What the commands share: their common options, and the few steps before the work starts."""

from __future__ import annotations

import os
from typing import Annotated

import typer

DEFAULT_MODEL = "minilm"  # the model that is there without a network
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
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", help="How many processor threads to use, if not all.", min=1, metavar="N"),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress and no notes, only results and errors.")
]


class StoppedError(Exception):
    """The user stopped the command; the message says what was kept."""


def prepare(*, seed: int, threads: int | None) -> None:
    """Set the process-wide state of torch; call it once, before a model is loaded."""
    import torch

    if threads is not None:
        torch.set_num_threads(min(threads, os.cpu_count() or threads))
    torch.manual_seed(seed)
