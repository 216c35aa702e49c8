"""Texts out of a file: the column of a table that is asked for or is plainly the text, in chunks, in constant memory.

A chunk ends at a number of texts or of characters, whichever comes first. So its size in memory and the work in it
are bounded, and where it ends depends on the data alone: a run that was stopped and continued sees the same chunks as
one that was not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bertworks.data.source import Source, SourceReader
from bertworks.data.tables import TEXT_COLUMN, SeparatedValues, Table, open_table
from bertworks.errors import DataError

CHUNK_ROWS = 4096
CHUNK_CHARACTERS = 65_536  # some seconds of work for a small model on a CPU: what a stop can lose
USUAL_COLUMNS = (TEXT_COLUMN, "sentence")  # what a text column is mostly called, in this order


class TextReader(SourceReader):
    """The texts of one file.

    `path` is a file or `-`; `text_column` is needed only where a table has several columns of text and none is called
    text or sentence; `file_format` is needed only where the extension does not say it; `header=False` numbers the
    columns of a csv or tsv from 1.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        text_column: str | None = None,
        encoding: str = "utf-8",
        file_format: str | None = None,
        header: bool = True,
    ) -> None:
        self._source = Source(path, encoding)
        try:
            self._table = open_table(self._source, file_format, header)
            self.text_column = text_column if text_column is not None else _find_text_column(self._table, self.name)
        except BaseException:
            self._source.close()
            raise
        self._identity = {
            "input": str(path) if self._source.path is None else str(self._source.path.absolute()),
            "input size": self._source.total_bytes,
            "input modified": self._source.modified_ns,
            "text column": self.text_column,
            "encoding": self._source.encoding,
            "format": file_format,
            "header": header,
        }

    @property
    def name(self) -> str:
        """What messages call the input."""
        return self._source.name

    def identity(self) -> dict[str, Any]:
        """What tells whether a later run reads the same texts: path, size, time of change, column, encoding."""
        return dict(self._identity)

    def chunks(
        self, *, rows: int = CHUNK_ROWS, characters: int = CHUNK_CHARACTERS, skip: int = 0
    ) -> Iterator[list[str]]:
        """Yield lists of at most `rows` texts and (unless one text alone has more) `characters` characters."""
        chunk: list[str] = []
        size = 0
        for text in self.texts(skip=skip):
            if chunk and (len(chunk) == rows or size + len(text) > characters):
                yield chunk
                chunk, size = [], 0
            chunk.append(text)
            size += len(text)
        if chunk:
            yield chunk

    def texts(self, *, skip: int = 0) -> Iterator[str]:
        """Yield the texts from number `skip` on."""
        for place, record in self._table.records([self.text_column], skip=skip):
            yield checked_text(record[self.text_column], self.text_column, self.name, place)


class TextFiles:
    """The texts of several files, one after the other; `options` are those of `TextReader`, the same for all."""

    def __init__(self, paths: Sequence[str | Path], **options: Any) -> None:
        self._paths = list(paths)
        self._options = options
        self._sizes = []
        for path in self._paths:  # all of them before the first is read: a wrong name is told at once
            source = Source(path)
            self._sizes.append(source.total_bytes or 0)
            source.close()
        self.share = 0.0
        """Of all bytes, that which has been read; 0 for standard input."""

    def texts(self) -> Iterator[str]:
        """Yield every text of every file."""
        total, before = sum(self._sizes), 0
        for path, size in zip(self._paths, self._sizes, strict=True):
            with TextReader(path, **self._options) as reader:
                for text in reader.texts():
                    if total:
                        self.share = (before + (reader.bytes_read or 0)) / total
                    yield text
            before += size


def _find_text_column(table: Table, path: str) -> str:
    columns = table.columns()
    for name in USUAL_COLUMNS:
        if name in columns:
            return name
    if not columns:
        return TEXT_COLUMN  # no rows: nothing will be asked of it
    of_text = [name for name, holds_text in columns.items() if holds_text]
    if len(columns) == 1:
        return next(iter(columns))
    if len(of_text) == 1:
        return of_text[0]
    found = f"{len(of_text)} columns hold text" if of_text else "no column holds text"
    hint = (
        "; if the file has no header row, use --no-header"
        if isinstance(table, SeparatedValues) and table.has_header
        else ""
    )
    message = (
        f"{found}; choose one with --text-column, from: {', '.join(f'{name:.40}' for name in of_text or columns)}{hint}"
    )
    raise DataError(message, path=path)


def checked_text(value: Any, column: str, path: str, place: int | None) -> str:
    """`value`, if it is a text that a tokenizer can read; a `DataError` otherwise."""
    if not isinstance(value, str):
        kind = "null" if value is None else f"{value!r:.40}"
        raise DataError(f"the column {column!r} holds {kind}, not a text", path=path, line=place)
    if not value.isascii() and not _is_encodable(value):
        # JSON can spell half of a surrogate pair (a text that was cut inside an emoji); no tokenizer can read it.
        message = f"the column {column!r} holds half of a surrogate pair, which is not valid Unicode"
        raise DataError(message, path=path, line=place)
    return value


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
