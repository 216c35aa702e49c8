"""A whole JSON document as a table: a list of objects, an object with one such list in it, or an object of columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from bertworks.data.source import Source
from bertworks.data.tables import Record, with_inner
from bertworks.errors import DataError


def parsed(source: Source) -> Any:
    """The document. It is held in memory as a whole."""
    text = "".join(line for _, line in source.lines())
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"is not valid JSON ({error.msg} at column {error.colno})", path=source.name, line=error.lineno
        ) from error
    except RecursionError:
        raise DataError("is not valid JSON (nested too deeply)", path=source.name) from None


class Records:
    """A table of records that are in memory; the place of a record is its number from 1."""

    def __init__(self, document: Any, path: str) -> None:
        self._records = [with_inner(record) for record in _records(document, path)]

    def columns(self) -> dict[str, bool]:
        """The keys of the first records, and whether they hold strings."""
        return {name: isinstance(value, str) for record in self._records[:1] for name, value in record.items()}

    def sample(self, count: int) -> list[dict[str, Any]]:
        """The first records."""
        return self._records[:count]

    def records(self, columns: Sequence[str], skip: int = 0) -> Iterator[Record]:
        """All of them."""
        yield from enumerate(self._records[skip:], start=skip + 1)


def _records(document: Any, path: str) -> list[dict[str, Any]]:
    found = document
    if isinstance(document, dict):
        lists = {name: value for name, value in document.items() if isinstance(value, list)}
        tables = [value for value in lists.values() if value and all(isinstance(item, dict) for item in value)]
        if len(tables) == 1:
            found = tables[0]
        elif len(lists) == len(document) > 1 and len({len(value) for value in lists.values()}) == 1:
            return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        message = "this JSON document is no table: it must be a list of objects, or an object with one such list"
        raise DataError(message, path=path)
    return found
