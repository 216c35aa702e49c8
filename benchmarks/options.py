"""What every benchmark's command line has: where the data lies, where results go, how it was called."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def add_data(parser: argparse.ArgumentParser) -> None:
    """`--data`, the folder of the datasets."""
    data = Path(os.environ.get("BERTWORKS_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=data)


def add_places(parser: argparse.ArgumentParser, name: str) -> None:
    """`--data`, `--output` and `--write-docs` of the benchmark `name`."""
    add_data(parser)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / f"{name}.json")
    parser.add_argument("--write-docs", action="store_true", help=f"also write docs/benchmarks/{name}.md")


def command_line(name: str, arguments: Sequence[str] | None) -> str:
    """The command as typed, for the report."""
    shown = sys.argv[1:] if arguments is None else list(arguments)
    return shlex.join(["python", "-m", f"benchmarks.{name}", *shown])


def say(line: str) -> None:
    """Progress, beside the results."""
    print(line, file=sys.stderr, flush=True)
