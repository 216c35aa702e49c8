"""`bertworks.json`: what a fine-tuned directory says about itself beyond what Hugging Face's files can.

    {"version": 1, "task": {…}, "decision": {…}, "window": 256, "columns": {…}}

`task` are the settings that make the task again (`tasks.from_settings`), `decision` what was settled on development
examples (a temperature, a no-answer threshold), `window` the longest sequence that the model was fine-tuned with,
`columns` which columns of the training file were read (`LabelledData.columns`). A directory without this file still
predicts what its head says; it only knows no temperature, no threshold and no columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertworks import tasks
from bertworks.errors import BertworksError, CheckpointError
from bertworks.hub.files import read_object, write_json, writing

FILE = "bertworks.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class SavedTask:
    """The content of the file."""

    task: Mapping[str, Any]
    decision: Mapping[str, Any] = field(default_factory=dict)
    window: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


def write_task(directory: str | Path, saved: SavedTask) -> None:
    """Write the file into a model directory; entries of others' making stay."""
    path = Path(directory) / FILE
    others = read_object(path) if path.exists() else {}
    ours = {"version": VERSION, "task": dict(saved.task), "decision": dict(saved.decision), "window": saved.window}
    ours["columns"] = dict(saved.columns)
    write_json(path, {**others, **ours})


def carry_task(source: Path | None, destination: str | Path) -> None:
    """Say of a directory that is about to be written what `source` says of its task; what it said before was of another
    model."""
    saved = read_task(source) if source is not None else None
    path = Path(destination)
    with writing(path):
        (path / FILE).unlink(missing_ok=True)
        if saved is not None:
            path.mkdir(parents=True, exist_ok=True)
            write_task(path, saved)


def read_task(directory: str | Path) -> SavedTask | None:
    """What the directory says about its task; None where it says nothing."""
    path = Path(directory) / FILE
    if not path.exists():
        return None
    content = read_object(path)
    if "task" not in content:
        return None
    version, task = content.get("version"), content["task"]
    decision, columns = content.get("decision") or {}, content.get("columns") or {}
    if version != VERSION:
        raise CheckpointError(f"{path} has the version {version!r}; this Bertworks reads version {VERSION}: update it")
    if not all(isinstance(entry, dict) for entry in (task, decision, columns)):
        raise CheckpointError(f"{path} must hold objects under 'task', 'decision' and 'columns'")
    window = content.get("window")
    if window is not None and (not isinstance(window, int) or window < 1):
        raise CheckpointError(f"{path} has window = {window!r}; it must be a number of tokens")
    try:
        tasks.from_settings(task)
    except (BertworksError, AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{path} does not describe a task ({why}); copy it again, or fine-tune again") from error
    return SavedTask(task=task, decision=decision, window=window, columns=columns)
