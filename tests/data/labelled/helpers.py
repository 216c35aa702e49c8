"""Small files, written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertworks.data.labelled import LabelledData, ReadOptions, TaskName, read
from bertworks.errors import DataError


def tabbed(*rows: str) -> str:
    """Rows whose fields are written with ` | ` between them, as tab-separated lines."""
    return "".join("\t".join(field.strip(" ") for field in row.split("|")) + "\n" for row in rows)


def written(directory: Path, name: str, content: str | bytes) -> Path:
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def parsed(directory: Path, name: str, content: str | bytes, task: TaskName, **options: Any) -> LabelledData:
    return read(written(directory, name, content), task, ReadOptions(**options))


def examples(directory: Path, name: str, content: str | bytes, task: TaskName, **options: Any) -> list[Any]:
    return list(parsed(directory, name, content, task, **options).examples)


def labelled(directory: Path, name: str, content: str | bytes, task: TaskName, **options: Any) -> list[tuple[Any, ...]]:
    """(text, pair, label) of each example; (text, label) where there is no second text."""
    found = examples(directory, name, content, task, **options)
    if all(example.pair is None for example in found):
        return [(example.text, example.label) for example in found]
    return [(example.text, example.pair, example.label) for example in found]


def refused(directory: Path, name: str, content: str | bytes, task: TaskName, **options: Any) -> str:
    """The message, without the directory."""
    with pytest.raises(DataError) as caught:
        parsed(directory, name, content, task, **options)
    return str(caught.value).replace(f"{directory}/", "")
