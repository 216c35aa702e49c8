"""The file formats as tables: each reads records, one after the other, from a `Source`.

A record is (place, values): the place is the line where it begins (the row, for parquet), for errors; the values are
keyed by column. A format is a class with two methods, `columns` and `records`, and one row in `FORMATS`. Text lines
are a table with one column.

A .tsv has no quoting: a field is what stands between two tabs, and a quotation mark is an ordinary character (GLUE's
files are written so). A .csv has quoting, and a field may go over several lines.

A row that is not as it should be goes to `on_bad` as a `DataError`. What comes with the module raises it; a caller who
counts such rows and goes on gets the rows after it.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from bertworks.data.source import Source
from bertworks.errors import DataError, did_you_mean

if TYPE_CHECKING:
    import pyarrow

Record = tuple[int, dict[str, Any]]
OnBad = Callable[[DataError], None]
"""What is done about a bad row: raise, or count it and return."""

TEXT_COLUMN = "text"  # the name of the column where the format itself has none
PEEKED_ROWS = 100  # how many records are looked at to tell which columns hold text
PARQUET_BATCH_ROWS = 512


class Table(Protocol):
    """What a format must be able to do."""

    def columns(self) -> dict[str, bool]:
        """Each column's name and whether it holds text (not numbers); called before `records` or not at all."""

    def sample(self, count: int) -> list[dict[str, Any]]:
        """The first records that are in order, without their places; called before `records` or not at all."""

    def records(self, columns: Sequence[str], skip: int = 0) -> Iterator[Record]:
        """The records from number `skip` on, with at least `columns`; a `DataError` where one is not there."""


def raised(error: DataError) -> None:
    """The usual `on_bad`."""
    raise error


class TextLines:
    """One text per line; an empty line is an empty text."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def columns(self) -> dict[str, bool]:
        """The one column."""
        return {TEXT_COLUMN: True}

    def sample(self, count: int) -> list[dict[str, Any]]:
        """The first lines."""
        return [{TEXT_COLUMN: line.rstrip("\r\n")} for line in self.source.peek(count)]

    def records(self, columns: Sequence[str], skip: int = 0) -> Iterator[Record]:
        """One record per line; skipped lines are not decoded."""
        for name in columns:
            if name != TEXT_COLUMN:
                message = f"text lines have no columns, so no {name!r}; for a table use .csv, .tsv, .jsonl or .parquet"
                raise DataError(message, path=self.source.name)
        for number, line in self.source.lines(skip=skip):
            yield number, {TEXT_COLUMN: line.removesuffix("\n").removesuffix("\r")}


class SeparatedValues:
    """.csv and .tsv: one header row, then rows of as many fields. Without a header the columns are called 1, 2, 3, …

    `quoted` says whether a quotation mark begins a field (None: yes, unless the fields are separated by tabs);
    with `spare` a row may have more fields than the first one, which are left out.
    """

    def __init__(
        self,
        source: Source,
        delimiter: str,
        header: bool = True,
        *,
        quoted: bool | None = None,
        spare: bool = False,
        on_bad: OnBad = raised,
    ) -> None:
        self.source = source
        self.has_header = header
        self._spare = spare
        self._on_bad = on_bad
        quoted = delimiter != "\t" if quoted is None else quoted
        self._rows = self._quoted_rows(delimiter) if quoted else self._plain_rows(delimiter)
        first = next(self._rows, None)
        if first is None:
            raise DataError("is empty; a table needs at least a header row", path=source.name)
        place, self.names = first
        if header:
            self._check_header(place)
        else:
            self._rows = itertools.chain([first], self._rows)
            self.names = [str(number) for number in range(1, len(self.names) + 1)]

    def _check_header(self, place: int) -> None:
        for name in self.names:
            if is_number(name):
                message = f"{name!r} in the header is no name; if the file has no header row, use --no-header"
                raise DataError(message, path=self.source.name, line=place)
        if (twice := first_repeated([name for name in self.names if name])) is not None:  # "" may be: spare commas
            message = f"the column name {twice!r} occurs twice in the header; rename one of the two"
            raise DataError(message, path=self.source.name, line=place)

    def columns(self) -> dict[str, bool]:
        """The header's names, and what the first rows hold."""
        peeked, self._rows = _peek(self._rows, PEEKED_ROWS)
        return {
            name: _holds_text(row[index] for _, row in peeked if index < len(row))
            for index, name in enumerate(self.names)
        }

    def sample(self, count: int) -> list[dict[str, Any]]:
        """The first rows that have as many fields as there are columns."""
        peeked, self._rows = _peek(self._rows, count)
        return [dict(zip(self.names, row, strict=False)) for _, row in peeked if self._fits(row)]

    def records(self, columns: Sequence[str], skip: int = 0) -> Iterator[Record]:
        """One record per row; skipped rows are split (a field may go over lines) but not checked."""
        for name in columns:
            if name not in self.names:
                raise no_column(name, self.names, self.source.name, 1)
        for place, row in itertools.islice(self._rows, skip, None):
            if self._fits(row):
                yield place, dict(zip(self.names, row, strict=False))
            elif any(field.strip() for field in row):  # else a blank line with spaces in it
                fields = f"{len(row)} field{'s' * (len(row) != 1)}"
                message = f"has {fields} where {len(self.names)} are expected ({', '.join(self.names)})"
                self._on_bad(DataError(message, path=self.source.name, line=place))

    def _fits(self, row: list[str]) -> bool:
        return len(row) == len(self.names) or (self._spare and len(row) > len(self.names))

    def _plain_rows(self, delimiter: str) -> Iterator[tuple[int, list[str]]]:
        for number, line in self.source.lines():
            line = line.removesuffix("\n").removesuffix("\r")
            if line:
                yield number, line.split(delimiter)

    def _quoted_rows(self, delimiter: str) -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(2**31 - 1)  # Python's own limit is 128 kB, less than some texts
        waiting: Iterator[str] = (line for _, line in self.source.lines())
        taken: list[str] = []  # the lines of the row that is being read
        place = 1
        while True:
            reader = csv.reader(_noted(waiting, taken), delimiter=delimiter, strict=True)
            try:
                for row in reader:
                    if row:
                        yield place, row
                    place += len(taken)
                    taken.clear()
                return
            except csv.Error as error:
                self._on_bad(self._not_csv(error, place))
            # A mark that is never closed takes in all that follows: reading goes on at the line after the one it is in.
            waiting = itertools.chain(taken[1:], waiting)
            taken = []
            place += 1

    def _not_csv(self, error: csv.Error, place: int) -> DataError:
        reason = "a quotation mark is opened and never closed" if "end of data" in str(error) else str(error)
        message = f"is not valid csv ({reason}); a field with a quotation mark must be quoted, its marks doubled"
        return DataError(message, path=self.source.name, line=place)


class JsonLines:
    """One JSON value per line: an object with columns as keys, a plain string, or a list of strings, whose columns are
    called 1, 2, 3, … Blank lines are passed over."""

    def __init__(self, source: Source, *, on_bad: OnBad = raised) -> None:
        self.source = source
        self._on_bad = on_bad
        self._lines: Iterator[tuple[int, str]] = (
            (number, line) for number, line in source.lines() if not line.isspace()
        )

    def columns(self) -> dict[str, bool]:
        """The keys of the first rows, and what they hold."""
        peeked, self._lines = _peek(self._lines, PEEKED_ROWS)
        rows = [self._parsed(place, line) for place, line in peeked]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: _holds_text(row.get(name) for row in rows) for name in names}

    def sample(self, count: int) -> list[dict[str, Any]]:
        """The first lines that can be read; `records` tells of the others."""
        peeked, self._lines = _peek(self._lines, count)
        rows = []
        for place, line in peeked:
            with contextlib.suppress(DataError):
                rows.append(self._parsed(place, line))
        return rows

    def records(self, columns: Sequence[str], skip: int = 0) -> Iterator[Record]:
        """One record per line; skipped lines are not parsed."""
        for place, line in itertools.islice(self._lines, skip, None):
            try:
                row = self._parsed(place, line)
                for name in columns:
                    if name not in row:
                        raise no_column(name, row, self.source.name, place)
            except DataError as error:
                self._on_bad(error)
            else:
                yield place, row

    def _parsed(self, place: int, line: str) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            message = f"is not valid JSON ({reason}); each line must be one whole JSON value"
            raise DataError(message, path=self.source.name, line=place) from error
        if isinstance(value, str):
            return {TEXT_COLUMN: value}
        if isinstance(value, dict):
            return with_inner(value)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return {str(number): item for number, item in enumerate(value, start=1)}
        message = f"must be a JSON object or string, not {_json_kind(value)}"
        raise DataError(message, path=self.source.name, line=place)


def with_inner(record: dict[str, Any]) -> dict[str, Any]:
    """A record and what lies in the objects in it, under dotted names: `meta.label`."""
    if not any(isinstance(value, dict) for value in record.values()):
        return record
    entries = list(record.items())
    for name, value in entries:  # it grows while it is read
        if isinstance(value, dict):
            entries += [(f"{name}.{inner}", content) for inner, content in value.items()]
    found: dict[str, Any] = {}
    for name, value in entries:
        found.setdefault(name, value)
    return found


class Parquet:
    """Columns of an Apache Parquet file, read batch by batch; only the wanted columns are read."""

    def __init__(self, source: Source) -> None:
        import pyarrow
        import pyarrow.parquet

        self.source = source
        if source.path is None or source.compression or not source.repeatable:
            raise DataError(
                "parquet cannot be read from a stream or inside .gz or .xz; give the .parquet file", path=source.name
            )
        try:
            self._file = pyarrow.parquet.ParquetFile(
                source.path, pre_buffer=False
            )  # else a whole row group is held in memory
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"is not a readable parquet file ({_first_line(error)})", path=source.name) from error
        if (twice := first_repeated(self._file.schema_arrow.names)) is not None:
            raise DataError(f"the column name {twice!r} occurs twice; rename one of the two", path=source.name)

    def columns(self) -> dict[str, bool]:
        """The schema's names and types."""
        return {field.name: _is_text_type(field.type) for field in self._file.schema_arrow}

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """What the writer put beside the schema."""
        return dict(self._file.schema_arrow.metadata or {})

    def sample(self, count: int) -> list[dict[str, Any]]:
        """The first rows, all columns."""
        import pyarrow

        try:
            batch = next(self._file.iter_batches(count), None)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._damaged(error, 1) from error
        return [] if batch is None else batch.to_pylist()

    def records(self, columns: Sequence[str], skip: int = 0) -> Iterator[Record]:
        """One record per row; skipped row groups are not read."""
        import pyarrow

        names = self._file.schema_arrow.names
        for name in columns:
            if name not in names:
                raise no_column(name, names, self.source.name, None)
        metadata = self._file.metadata
        first, group = 0, 0  # whole row groups are skipped by their counts alone
        while group < metadata.num_row_groups and first + metadata.row_group(group).num_rows <= skip:
            first += metadata.row_group(group).num_rows
            group += 1
        groups = list(range(group, metadata.num_row_groups))
        row = first
        try:
            for batch in self._file.iter_batches(PARQUET_BATCH_ROWS, row_groups=groups, columns=list(columns)):
                values = [column.to_pylist() for column in batch.columns]
                self.source.bytes_read = (self.source.total_bytes or 0) * (row + batch.num_rows) // metadata.num_rows
                for record in zip(*values, strict=True):
                    row += 1
                    if row > skip:
                        yield row, dict(zip(batch.schema.names, record, strict=True))
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._damaged(error, row + 1) from error

    def _damaged(self, error: Exception, row: int) -> DataError:
        return DataError(
            f"cannot be read on, the file is damaged ({_first_line(error)})", path=self.source.name, line=row
        )


# How a file is read, by the extension that says its format; `open_table` reads all others as text lines.
FORMATS: dict[str, Callable[[Source, bool], Table]] = {
    "txt": lambda source, header: TextLines(source),
    "csv": lambda source, header: SeparatedValues(source, ",", header),
    "tsv": lambda source, header: SeparatedValues(source, "\t", header),
    "jsonl": lambda source, header: JsonLines(source),
    "ndjson": lambda source, header: JsonLines(source),
    "parquet": lambda source, header: Parquet(source),
}


def open_table(source: Source, file_format: str | None = None, header: bool = True) -> Table:
    """The table in `source`: of the given format, or of the one that the file's extension says, or else text lines."""
    if file_format is None:
        extension = source.extension.removeprefix(".")
        if extension == "json":  # one document, whose form only its user knows; never to be taken for lines of text
            message = (
                "a .json file is not a table; write one value per line (.jsonl), or use --format jsonl if it has that"
            )
            raise DataError(message, path=source.name)
        file_format = extension if extension in FORMATS else "txt"
    elif file_format not in FORMATS:
        raise DataError(
            f"unknown format {file_format!r}{did_you_mean(file_format, FORMATS)}; known: {', '.join(FORMATS)}",
            path=source.name,
        )
    return FORMATS[file_format](source, header)


def no_column(name: str, names: Iterable[str], path: str, line: int | None) -> DataError:
    """The error for a column that is not there."""
    names = list(names)
    message = f"there is no column {name!r}{did_you_mean(name, names)}; there are: {', '.join(names) or 'none'}"
    return DataError(message, path=path, line=line)


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that is there more than once; which of the two columns would be meant, nobody can tell."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _peek(rows: Iterator[Any], count: int) -> tuple[list[Any], Iterator[Any]]:
    """The first rows, and an iterator that still gives all of them."""
    peeked = list(itertools.islice(rows, count))
    return peeked, itertools.chain(peeked, rows)


def _noted(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    """The lines; each is put into `taken` as it is given out."""
    for line in lines:
        taken.append(line)
        yield line


def _holds_text(values: Iterable[Any]) -> bool:
    """Whether the values that are there are all strings, and not all numbers in writing."""
    found = [value for value in values if value not in (None, "")]
    return (
        bool(found) and all(isinstance(value, str) for value in found) and not all(is_number(value) for value in found)
    )


def is_number(text: str) -> bool:
    """Whether a string is a number in writing."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python's 1_000 is nobody else's


def _is_text_type(kind: pyarrow.DataType) -> bool:
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) or pyarrow.types.is_string_view(kind)
    )


def _json_kind(value: Any) -> str:
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return kinds.get(type(value), "a string")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
