"""What every benchmark's command line has: where the data lies, where results go, how it was called."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Sequence
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


def add_models(parser: argparse.ArgumentParser) -> None:
    """The models, which `name_and_place` takes apart."""
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="an alias, a directory or a Hub id; NAME=MODEL names it"
    )


def name_and_place(given: str) -> tuple[str, str]:
    """MODEL or NAME=MODEL -> its name in the report, and what loads it."""
    name, _, place = given.rpartition("=")
    return name or Path(place).name, place


def command_line(name: str, arguments: Sequence[str] | None) -> str:
    """The command as typed, for the report."""
    shown = sys.argv[1:] if arguments is None else list(arguments)
    return shlex.join(["python", "-m", f"benchmarks.{name}", *shown])


def whole_command(name: str, arguments: Sequence[str] | None, parts: Iterable[str], known: Collection[str]) -> str:
    """For a report that is made in pieces: the command as typed, with all `parts` that are in the file now. `known` are the
    parts that there can be."""
    shown = sys.argv[1:] if arguments is None else list(arguments)
    return command_line(name, [*(part for part in known if part in set(parts)), *(w for w in shown if w not in known)])


def say(line: str) -> None:
    """Progress, beside the results."""
    print(line, file=sys.stderr, flush=True)
