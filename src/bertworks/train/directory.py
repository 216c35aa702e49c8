"""A run's directory: what makes it one, when it may be continued or deleted, and what a finished one holds.

    config.toml     the settings that decide the result, written before the first step: a directory with it is a run
    checkpoints/    metrics.jsonl
    metrics.json    figures of the result, written last: a directory with it is finished

A run is continued only when that is asked for, and only with the settings that it was started with; those that change
no weight may differ. Nothing that is not a run is ever deleted or written over.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bertworks.atomic import TEMPORARY_SUFFIX, write_text
from bertworks.errors import CheckpointError, OutputError, UsageError, did_you_mean_beside
from bertworks.train import state

CONFIG_FILE = "config.toml"
CHECKPOINTS = "checkpoints"
METRICS, REPORT, CARD = "metrics.json", "report.html", "README.md"


def is_run(output: Path) -> bool:
    """Whether there is a run, finished or not."""
    return (output / CONFIG_FILE).is_file()


def is_finished(output: Path) -> bool:
    """Whether the run that is there is over."""
    return (output / METRICS).exists()


def check_output(
    output: Path,
    *,
    resume: bool,
    overwrite: bool,
    commands: Collection[str],
    left_over: Collection[str] = (),
    needed: Collection[str] = (),
) -> bool:
    """Whether the run in `output` is to be continued; an error where neither that nor beginning one is possible.

    `commands`: whose runs can be continued here. `left_over`: names of files that a run which was killed as it began
    may have left. `needed`: what the run reads, models among them by any name. One that is to be deleted is there until
    `begin`.
    """
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other: continue the run, or delete it")
    if output.exists() and not output.is_dir():
        raise OutputError(f"{output} is a file; give a directory for the run")
    _check_writable(output)
    if is_run(output):
        if not (resume or overwrite):
            finished = "is finished" if is_finished(output) else "can be continued with --resume"
            raise OutputError(
                f"there is a run in {output} already, which {finished}; choose another directory or --overwrite"
            )
        if resume and (command := command_of(output)) is not None and command not in commands:
            raise UsageError(f"the run in {output} is one of bertworks {command}; continue it with that command")
        if overwrite:
            for name in needed:
                if Path(name).exists() and Path(name).resolve().is_relative_to(output.resolve()):
                    raise OutputError(
                        f"--overwrite would delete {name}, which the run is to read; choose another directory"
                    )
        return resume
    ours = {*left_over, *(name + TEMPORARY_SUFFIX for name in (*left_over, CONFIG_FILE))}
    if output.is_dir() and any(path.name not in ours for path in output.iterdir()):
        raise OutputError(f"{output} is not empty and holds no run; choose another directory")
    return False


def _check_writable(output: Path) -> None:
    """An error now, not when everything has been measured."""
    place = next(path for path in (output.absolute(), *output.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise OutputError(f"cannot write the run to {output}: {place} is not a directory that can be written to")


def near(output: Path) -> str:
    """A run beside `output` with a name like it, as a suggestion."""
    return did_you_mean_beside(output, is_run)


def command_of(output: Path) -> str | None:
    """Which command the run in `output` is of; None where its settings do not say."""
    try:
        run = tomllib.loads((output / CONFIG_FILE).read_text(encoding="utf-8")).get("run")
    except (OSError, ValueError):
        return None
    return str(run["command"]) if isinstance(run, dict) and "command" in run else None


def changes(
    stored: Mapping[str, Any], asked: Mapping[str, Any], may_change: Collection[str], longer: str = ""
) -> list[str]:
    """Which settings differ without changing a result; an error names those that would change it.

    `longer`: what to do instead where more training is asked for.
    """
    found = state.differences(stored, asked)
    harmless = [line for line in found if line.split(":", 1)[0] in may_change]
    refused = [line for line in found if line not in harmless]
    if refused:
        raise UsageError(
            f"the run was started with other settings ({'; '.join(refused)}); resume it as it was started, "
            f"or begin another one in another directory{longer}"
        )
    return harmless


def begin(output: Path, files: Mapping[str, str]) -> None:
    """Make `output` the directory of a new run; `files` are texts by name, the settings among them. One that is there
    is deleted."""
    try:
        if is_run(output):
            _delete(output)
        output.mkdir(parents=True, exist_ok=True)
        for name, text in sorted(files.items(), key=lambda item: item[0] == CONFIG_FILE):  # what makes it a run, last
            write_text(output / name, text)
    except OSError as error:
        raise OutputError(f"cannot write the run to {output}: {error.strerror or error}") from error


def _delete(output: Path) -> None:
    """Delete a run: its settings last, so that what is left of an interrupted deletion is still seen to be a run."""
    for path in sorted(output.iterdir(), key=lambda path: path.name == CONFIG_FILE):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def read_result(output: Path) -> dict[str, Any]:
    """The content of a finished run's `metrics.json`."""
    try:
        result = json.loads((output / METRICS).read_text(encoding="utf-8"))
        return {**result, "seconds": float(result["seconds"]), "metrics": dict(result["metrics"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{output / METRICS} cannot be read ({error}); delete it and run with --resume"
        ) from error
