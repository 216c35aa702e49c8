"""The small files of a model directory: JSON in and out, and a sentence for each way in which they can be wrong."""

from __future__ import annotations

import contextlib
import json
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertworks.atomic import write_text
from bertworks.errors import CheckpointError, OutputError, first_few


def model_directory(directory: str | Path) -> Path:
    """`directory` as a path to a directory that has something in it."""
    path = Path(directory)
    if path.is_file():
        raise CheckpointError(f"{path} is a file; give the directory that holds config.json and the weights")
    if not path.is_dir():
        raise CheckpointError(f"the model directory {path} does not exist")
    with reading(path):
        if not any(path.iterdir()):
            raise CheckpointError(f"the model directory {path} is empty; it needs config.json and the weights")
    if not (path / "config.json").exists() and (told := unfinished_run(path)):
        raise CheckpointError(f"{path} is not a model yet: {told}")
    return path


def unfinished_run(directory: Path) -> str | None:
    """What a directory is in which a training began and has not ended, and how to end it; None where there is none."""
    try:
        settings = tomllib.loads((directory / "config.toml").read_text(encoding="utf-8"))
        run = settings["run"]
        words = [str(run[name]) for name in ("command", "task", "corpus") if name in run]
        command, total = run["command"], run.get("steps")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if (directory / "metrics.json").exists():
        return None
    steps = [path.name.removeprefix("step-") for path in (directory / "checkpoints").glob("step-*")]
    step = max((int(text) for text in steps if text.isdigit()), default=0)
    how = shlex.join(["bertworks", *words, "-o", str(directory), "--resume"])
    at = f", step {step:,} of {total:,}" if total else ""
    return f"an unfinished {command} run{at}; continue with: {how}"


def listing(directory: Path, limit: int = 8) -> str:
    """The names in a directory, for an error: `a, b, c and 5 more`."""
    return first_few(sorted(path.name for path in directory.iterdir()), limit)


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    with reading(path):
        data = path.read_bytes()
    try:
        return json.loads(data)  # bytes: json finds out about UTF-8, and a byte order mark is legal
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """The content of a JSON file that must be an object."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} must hold a JSON object {{…}}, not a {type(data).__name__}")
    return data


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file atomically, making its directory."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the system's refusal to read `path` into a `CheckpointError`."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's refusal to write `path` into an `OutputError`."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
