"""Texts that a user gives to the page: an uploaded file, read as the commands read files.

The page sends a file's name and its bytes. They are written to a temporary directory under that name, since its ending
says the format, and read by the same readers as `bertworks embed FILE`; messages name the file as the user does.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertworks.data.labelled.names import LABELS, SINGLE_LABELS, plain
from bertworks.data.readers import TextReader, checked_text
from bertworks.data.source import Source
from bertworks.data.tables import PEEKED_ROWS, open_table
from bertworks.errors import BertworksError, DataError, UsageError

MAX_TEXTS = 2000
MAX_CHARACTERS = 400_000
MAX_LABELS = 60
"""A column with more different values than this is not taken for labels unless it is asked for."""


@dataclass(frozen=True)
class ReadTexts:
    """What a file holds."""

    texts: list[str]
    labels: list[str] | None
    columns: list[str]
    text_column: str
    label_column: str | None
    cut: bool
    """Whether the file has more texts than are shown."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def check_texts(
    texts: Sequence[str], *, most: int = MAX_TEXTS, characters: int = MAX_CHARACTERS, what: str = "a map"
) -> list[str]:
    """The texts, none of which is empty, if they are not too many for the picture that is meant."""
    if not texts:
        raise UsageError("there are no texts: write one in each line, or choose a file")
    empty = next((number for number, text in enumerate(texts, start=1) if not text.strip()), None)
    if empty is not None:
        raise UsageError(f"text {empty} is empty; leave it out")
    if len(texts) > most:
        raise UsageError(f"there are {len(texts):,} texts; {what} takes {most:,} at most")
    size = sum(map(len, texts))
    if size > characters:
        raise UsageError(f"the texts have {size:,} characters together; {what} takes {characters:,} at most")
    return list(texts)


def read_upload(
    name: str, content: str, *, text_column: str | None = None, label_column: str | None = None
) -> ReadTexts:
    """The texts of a file: its name, and its bytes in base64."""
    try:
        raw = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("the file's content is not base64, as the page sends it") from None
    called = Path(name.replace("\\", "/")).name
    if not called or called.startswith("."):
        raise UsageError(f"the file is called {name!r}; give it a name such as texts.csv")
    with tempfile.TemporaryDirectory(prefix="bertworks-studio-") as folder:
        path = Path(folder) / called
        path.write_bytes(raw)
        try:
            return read_texts(path, text_column=text_column, label_column=label_column)
        except BertworksError as error:
            raise UsageError(str(error).replace(str(path), called)) from error


def read_texts(path: Path, *, text_column: str | None = None, label_column: str | None = None) -> ReadTexts:
    """The first texts of a file, and their labels where it has some."""
    text_column = text_column or _text_column(path)
    source = Source(path)
    try:
        table = open_table(source)
        columns = list(table.columns())
        label = _label_column(table.sample(MAX_TEXTS), columns, text_column, label_column)
        wanted = [text_column] if label is None else [text_column, label]
        texts: list[str] = []
        labels: list[str] = []
        size, cut = 0, False
        for place, record in table.records(wanted):
            text = checked_text(record[text_column], text_column, source.name, place)
            if not text.strip():
                continue
            if len(texts) == MAX_TEXTS or size + len(text) > MAX_CHARACTERS:
                cut = True
                break
            texts.append(text)
            size += len(text)
            labels.append("" if label is None or record[label] is None else str(record[label]))
    finally:
        source.close()
    if not texts:
        raise UsageError(f"{path} holds no text" + (" that is short enough" if cut else ""))
    return ReadTexts(texts, None if label is None else labels, columns, text_column, label, cut)


def _text_column(path: Path) -> str:
    """What the commands take for the texts; where they would ask, the column with the longest texts: the page shows which
    it is, and the user may choose another."""
    try:
        with TextReader(path) as reader:
            return reader.text_column
    except DataError:
        source = Source(path)
        try:
            table = open_table(source)
            columns = [name for name, holds_text in table.columns().items() if holds_text]
            sample = table.sample(PEEKED_ROWS)
        finally:
            source.close()
        if len(columns) < 2:
            raise
        return max(columns, key=lambda name: sum(len(str(row.get(name) or "")) for row in sample))


def _label_column(
    sample: Sequence[dict[str, Any]], columns: Sequence[str], text_column: str, asked: str | None
) -> str | None:
    """The column that is asked for (`-`: none), or one that is called as labels are and has few different values."""
    if asked is not None:
        if asked != "-" and asked not in columns:
            raise UsageError(f"there is no column {asked!r}; there are: {', '.join(columns)}")
        return None if asked == "-" else asked
    names = {plain(name): name for name in columns if name != text_column}
    for usual in itertools.chain(LABELS, SINGLE_LABELS):
        name = names.get(usual)
        if name is not None and 0 < len({str(row.get(name)) for row in sample}) <= MAX_LABELS:
            return name
    return None
