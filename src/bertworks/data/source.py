"""A stream of decoded lines with their numbers, from a plain or compressed file or from standard input.

Memory is constant in the size of the file (a line is the unit), a position in bytes is known for progress, and
whatever is wrong with the bytes (damaged compression, another encoding, a binary file) is a `DataError` with file and
line. Lines end at a line feed and only there: Unicode has other separators, which are ordinary characters inside a
text.
"""

from __future__ import annotations

import codecs
import gzip
import itertools
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from bertworks.errors import DataError, UsageError

STANDARD_INPUT = "-"

# How a compressed file is opened, by the last extension; the extension before it says what is inside.
COMPRESSIONS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".xz": lzma.LZMAFile,
}
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
READING_ERRORS = (*DAMAGED, OSError)
FIRST_BYTES = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0"}  # how such a file begins


class Source:
    """One input, opened. `name` is what messages call it; `path` is None for standard input."""

    def __init__(self, path: str | Path, encoding: str = "utf-8") -> None:
        self.encoding = checked_encoding(encoding)
        self.compression = compression_of(Path(path))
        self.modified_ns: int | None = None
        self.total_bytes: int | None = None  # as stored, so compressed where the file is; None where it cannot be known
        self._position: int | None = None
        self._ahead: Iterator[bytes] | None = None  # all lines, where some of them were looked at before
        if str(path) == STANDARD_INPUT:
            self.path, self.name = None, "standard input"
            if sys.stdin is None:
                raise DataError("is closed; give a file, or a text by a pipe", path=self.name)
            self._raw: IO[bytes] = sys.stdin.buffer
        else:
            self.path, self.name = Path(path), str(path)
            self._raw = _opened(self.path)
            status = os.fstat(self._raw.fileno())
            if stat.S_ISREG(status.st_mode):  # a named pipe has no size and cannot be read a second time
                self.total_bytes, self.modified_ns = status.st_size, status.st_mtime_ns

    @property
    def repeatable(self) -> bool:
        """Whether the same bytes can be read again later: a file, not a pipe."""
        return self.total_bytes is not None

    @property
    def extension(self) -> str:
        """What `extension_of` says; empty for standard input."""
        return extension_of(self.path) if self.path is not None else ""

    @property
    def bytes_read(self) -> int | None:
        """How far the input has been read, on the scale of `total_bytes`; None for standard input."""
        if self._position is not None:
            return self._position
        return self._raw.tell() if self.repeatable and not self._raw.closed else self.total_bytes

    @bytes_read.setter
    def bytes_read(self, position: int) -> None:
        """For formats that read the file themselves."""
        self._position = position

    def peek(self, count: int) -> list[str]:
        """The first lines with their line ends, at most `count`; `lines`, called after this, still gives all of them."""
        stream = self._ahead or self._raw_lines()
        first = list(itertools.islice(stream, count))
        self._ahead = itertools.chain(first, stream)
        return [self._decoded(raw, number) for number, raw in enumerate(first, start=1)]

    def lines(self, skip: int = 0) -> Iterator[tuple[int, str]]:
        """Yield (line number from 1, line with its line end); the first `skip` lines are passed over undecoded."""
        for number, raw in enumerate(self._ahead or self._raw_lines(), start=1):
            if number > skip:
                yield number, self._decoded(raw, number)

    def read(self, count: int = -1) -> bytes:
        """The first bytes, uncompressed, at most `count`: for formats that are not lines."""
        try:
            return cast(bytes, self._stream().read(count))
        except READING_ERRORS as error:
            raise self._failure(error, None) from error

    def _stream(self) -> Any:
        return COMPRESSIONS[self.compression](self._raw) if self.compression else self._raw

    def _raw_lines(self) -> Iterator[bytes]:
        stream = self._stream()
        number = 0
        try:
            for number, raw in enumerate(stream, start=1):  # the number is for the errors below
                if number == 1:
                    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and self.encoding == "utf-8":
                        raise DataError("looks like UTF-16; convert it to UTF-8 first", path=self.name, line=1)
                    raw = raw.removeprefix(codecs.BOM_UTF8) if self.encoding == "utf-8" else raw
                yield raw
        except READING_ERRORS as error:
            raise self._failure(error, number + 1) from error

    def _failure(self, error: Exception, line: int | None) -> DataError:
        """What a failed reading means."""
        if isinstance(error, DAMAGED):
            self._check_first_bytes()
            message = f"the compressed file is damaged or cut off ({error}); fetch or write it again"
            return DataError(message, path=self.name, line=line)
        reason = getattr(error, "strerror", None) or error
        return DataError(f"cannot be read on: {reason}", path=self.name, line=line)

    def _check_first_bytes(self) -> None:
        """Tell a file that only has the name of a compressed one from one that is damaged."""
        if self.path is None or not self.repeatable:
            return
        expected = FIRST_BYTES[self.compression]
        with self.path.open("rb") as file:
            found = file.read(len(expected))
        if found != expected:
            kind = self.compression.removeprefix(".")
            begins = f"it begins with {found!r}" if found else "it is empty"
            message = f"is not {kind}-compressed at all: {begins}; give it a name without {self.compression}"
            raise DataError(message, path=self.name)

    def _decoded(self, raw: bytes, number: int) -> str:
        if b"\0" in raw:
            message = f"has a NUL byte at column {raw.index(0) + 1}: this is not a text file"
            raise DataError(message, path=self.name, line=number)
        try:
            return raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            byte, column = raw[error.start], error.start + 1
            message = (
                f"is not valid {self.encoding} (0x{byte:02x} at byte {column} of the line); "
                "if the file has another encoding, name it, for instance --encoding latin-1, or convert it to UTF-8"
            )
            raise DataError(message, path=self.name, line=number) from error

    def close(self) -> None:
        """Close the file; standard input is not ours to close."""
        if self.path is not None:
            self._raw.close()


class SourceReader:
    """What reads one source: how far it is, whether it can be read again, and its closing."""

    _source: Source

    @property
    def total_bytes(self) -> int | None:
        """The size of the input as stored (compressed, where it is); None for standard input."""
        return self._source.total_bytes

    @property
    def bytes_read(self) -> int | None:
        """How far the input has been read, on the scale of `total_bytes`; None for standard input."""
        return self._source.bytes_read

    @property
    def repeatable(self) -> bool:
        """Whether a later run can read the same again: not from a pipe."""
        return self._source.repeatable

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def compression_of(path: Path) -> str:
    """`.gz`, `.xz`, or nothing."""
    suffix = path.suffix.lower()
    return suffix if suffix in COMPRESSIONS else ""


def extension_of(path: Path) -> str:
    """The extension that says the format, in lower case: `.csv` for `reviews.CSV.gz`."""
    return (path.with_suffix("") if compression_of(path) else path).suffix.lower()


def _opened(path: Path) -> IO[bytes]:
    if path.is_dir():
        raise DataError("is a directory; give a file", path=path)
    try:
        return cast(IO[bytes], path.open("rb"))
    except FileNotFoundError:
        raise DataError("no such file", path=path) from None
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror or error}", path=path) from error


def checked_encoding(name: str) -> str:
    """The codec's plain name, or a `UsageError` where Python has none or where its lines do not end in one byte."""
    try:
        codec = codecs.lookup(name).name.removesuffix("-sig")
        line_end = "\n".encode(codec)
    except (LookupError, TypeError):
        raise UsageError(
            f"unknown encoding {name!r}; common ones: utf-8, latin-1, cp1252, gb18030, shift_jis"
        ) from None
    if line_end != b"\n":
        raise UsageError(
            f"encoding {name!r} is not supported, its line ends are not single bytes; convert the file to utf-8 first"
        )
    return codec
