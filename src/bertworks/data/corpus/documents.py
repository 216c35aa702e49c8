"""Documents out of files, one after the other, with the place up to which the files have been read.

A document is the lines between two blank lines, a row of a table, or a whole file. The place (`file`, `units`) counts
the lines or rows of a file that are used up, so a build that was stopped can continue behind any document.

Memory is bounded by the longest line or row, and by `MAX_DOCUMENT_CHARACTERS`: lines that go on for longer without a
blank line (or a file that is longer, where a document is a file) become several documents, and are counted as cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from bertworks.data.corpus.options import CorpusOptions
from bertworks.data.readers import TextReader
from bertworks.data.source import Source, extension_of
from bertworks.data.tables import FORMATS
from bertworks.errors import UsageError

MAX_DOCUMENT_CHARACTERS = 4_000_000
BLOCK_CHARACTERS = 500_000  # what a worker is given at once


@dataclass(frozen=True)
class Place:
    """Up to where the inputs have been used: `units` lines or rows of input number `file`."""

    file: int = 0
    units: int = 0


BEGINNING = Place()


@dataclass
class Block:
    """Documents that are encoded together; the lists have one entry per document.

    `files` and `units` are the place behind each document, `cut` tells the documents that were cut off for their
    length, and `bytes_read` is how far the last one's file has been read (None for standard input).
    """

    texts: list[str] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    units: list[int] = field(default_factory=list)
    cut: list[bool] = field(default_factory=list)
    bytes_read: int | None = 0

    def add(self, text: str, file: int, units: int, cut: bool) -> None:
        """One more document."""
        self.texts.append(text)
        self.files.append(file)
        self.units.append(units)
        self.cut.append(cut)


def read_blocks(
    paths: Sequence[str], options: CorpusOptions, start: Place = BEGINNING, stop_file: int | None = None
) -> Iterator[Block]:
    """The documents of the files from `start` to the end (or to before file number `stop_file`), in blocks.

    What the blocks are matters to nobody but the clock: shards are cut by documents.
    """
    block = Block()
    size = 0
    for number in range(start.file, len(paths) if stop_file is None else stop_file):
        with Input(paths[number], options) as opened:
            for text, units, cut in opened.documents(start.units if number == start.file else 0):
                block.add(text, number, units, cut)
                size += len(text)
                if size >= BLOCK_CHARACTERS:
                    block.bytes_read = opened.bytes_read
                    yield block
                    block, size = Block(), 0
            block.bytes_read = opened.bytes_read
    if block.texts:
        yield block


class Input:
    """One input, opened; a context manager."""

    def __init__(self, path: str, options: CorpusOptions) -> None:
        self.kind = _document_kind(path, options)
        self._source: Source | TextReader
        if self.kind != "row":
            self._source = Source(path, options.encoding)
            return
        self._source = TextReader(
            path,
            text_column=None if _is_text(path, options) else options.text_column,
            encoding=options.encoding,
            file_format=options.file_format,
            header=options.header,
        )

    @property
    def bytes_read(self) -> int | None:
        """How far the file has been read, in bytes as stored."""
        return self._source.bytes_read

    def documents(self, skip: int = 0) -> Iterator[tuple[str, int, bool]]:
        """Yield (text, lines or rows used so far, whether it was cut off); an empty row is a document too.

        skip: how many lines or rows to pass over, a number that this method has yielded before
        """
        if isinstance(self._source, TextReader):
            for row, text in enumerate(self._source.texts(skip=skip), start=skip + 1):
                yield text.strip(), row, False
            return
        lines: list[str] = []
        size = 0
        number = skip
        for number, line in self._source.lines(skip=skip):
            line = line.rstrip()
            if line:
                lines.append(line)
                size += len(line) + 1
                if size >= MAX_DOCUMENT_CHARACTERS:
                    yield "\n".join(lines).strip(), number, True
                    lines, size = [], 0
            elif lines and self.kind == "blank-line":
                yield "\n".join(lines).strip(), number, False
                lines, size = [], 0
        if lines:
            yield "\n".join(lines).strip(), number, False

    def __enter__(self) -> Input:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()


def check_inputs(paths: Sequence[str], options: CorpusOptions) -> None:
    """Look at the names of all inputs, before the first is opened: whether the options fit them."""
    for path in paths:
        _document_kind(path, options)
    if options.text_column is not None and all(_is_text(path, options) for path in paths):
        what = "is a text file and has" if len(paths) == 1 else "and the others are text files and have"
        raise UsageError(f"{paths[0]} {what} no columns; leave out --text-column")


def _document_kind(path: str, options: CorpusOptions) -> str:
    """What a document of this input is."""
    is_text = _is_text(path, options)
    if options.document is None:
        return "blank-line" if is_text else "row"
    if options.document != "row" and not is_text:
        raise UsageError(
            f"{path} is a table, whose documents are its rows; leave out --document {options.document}, "
            "or say --format txt if it is text"
        )
    return options.document


def _is_text(path: str, options: CorpusOptions) -> bool:
    """Whether this input is a text; all others are tables."""
    if options.file_format is not None:
        return options.file_format == "txt"
    return extension_of(Path(path)).removeprefix(".") not in (*FORMATS.keys() - {"txt"}, "json")
