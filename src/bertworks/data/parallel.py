"""Parallel texts: sentences and their translations, read from two files line by line or from one table of pairs.

    train.en + train.de     line n of one is the translation of line n of the other; any names, .gz and .xz too
    pairs.tsv               a pair per line, separated by a tab; further columns (Tatoeba has a third) are left alone
    pairs.csv, .jsonl, …    two columns of a table

Files of different length are an error that says where one ends: from some line on nothing would belong together. A pair of
which one side is empty teaches nothing; it is left out and counted. Nothing is changed in the texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from bertworks.data.pretraining.draw import Stream, permutation
from bertworks.data.readers import checked_text
from bertworks.data.source import Source, extension_of
from bertworks.data.tables import SeparatedValues, Table, open_table
from bertworks.errors import DataError, UsageError

Lines = Iterator[tuple[int, str, str]]
"""(line, source, target)"""


@dataclass(frozen=True, kw_only=True)
class ParallelText:
    """Pairs in the order of the file."""

    name: str
    """What messages call it."""
    sources: Sequence[str]
    targets: Sequence[str]
    empty: int = 0
    """Pairs that were left out because one side, or both, were empty."""
    first_empty: int | None = None
    """The line of the first of them."""
    layout: str = ""
    """Of one file: which columns were read."""

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def sha256(self) -> str:
        """Of the texts as they were read: what tells whether a later run has the same."""
        digest = hashlib.sha256()
        for text in (*self.sources, "\x00", *self.targets):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()

    def take(self, numbers: Sequence[int]) -> ParallelText:
        """Some of the pairs."""
        return replace(
            self,
            sources=[self.sources[number] for number in numbers],
            targets=[self.targets[number] for number in numbers],
        )


def read_parallel(
    files: Sequence[str | Path], *, columns: tuple[str, str] | None = None, encoding: str = "utf-8"
) -> ParallelText:
    """Read one file of pairs, or the source's and the target's file.

    columns: of one file, the columns of source and target: numbers from 1 where a .tsv has no header, else names. Left out,
             they are the first two of a .tsv (without a header), or the only two with text of another table
    """
    if len(files) not in (1, 2):
        raise UsageError(
            f"parallel texts come in two files, source and target, or in one of pairs; {len(files)} files were given"
        )
    if len(files) == 2 and columns is not None:
        raise UsageError("columns are for one file of pairs; two files are read line by line")
    opened: list[Source] = []
    try:
        opened += [Source(file, encoding) for file in files]
        name = " and ".join(source.name for source in opened)
        if len(opened) == 2:
            return _gathered(name, _of_two(*opened))
        table = _table(opened[0], columns)
        first, second = columns or _two_columns(opened[0], table)
        if first == second:
            raise UsageError(f"source and target are both the column {first!r}; name two columns")
        headless = isinstance(table, SeparatedValues) and not table.has_header
        layout = f"from column {first} to column {second}{', without a header' if headless else ''}"
        return replace(_gathered(name, _of_table(opened[0], table, first, second)), layout=layout)
    finally:
        for source in opened:
            source.close()


def _gathered(name: str, rows: Lines) -> ParallelText:
    sources: list[str] = []
    targets: list[str] = []
    empty, first_empty = 0, None
    for line, source, target in rows:
        if source.strip() and target.strip():
            sources.append(source)
            targets.append(target)
        else:
            empty += 1
            first_empty = line if first_empty is None else first_empty
    if not sources:
        raise DataError("has no pairs" + (": one side of every line is empty" if empty else ""), path=name)
    return ParallelText(name=name, sources=sources, targets=targets, empty=empty, first_empty=first_empty)


def _of_two(first: Source, second: Source) -> Lines:
    """Line by line; the shorter file is named with the line after which the other goes on."""
    ahead, beside = first.lines(), second.lines()
    for a, b in zip_longest(ahead, beside):
        if a is None or b is None:
            ended, other, rest = (first, second, beside) if a is None else (second, first, ahead)
            number = (b if a is None else a)[0]
            total = number + sum(1 for _ in rest)
            raise DataError(
                f"ends after {_lines(number - 1)}, but {other.name} has {_lines(total)}: line by line they must belong "
                "together; look for a lost or an added line end",
                path=ended.name,
                line=number - 1,
            )
        yield a[0], a[1].rstrip("\r\n"), b[1].rstrip("\r\n")


def _lines(count: int) -> str:
    return f"{count:,} line" + ("" if count == 1 else "s")


def _of_table(source: Source, table: Table, first: str, second: str) -> Lines:
    for line, record in table.records([first, second]):
        texts = [checked_text(record[name] or "", name, source.name, line) for name in (first, second)]
        yield line, texts[0], texts[1]


def _table(source: Source, columns: tuple[str, str] | None) -> Table:
    """A .tsv of pairs has no header, unless its columns are asked for by name."""
    extension = extension_of(source.path) if source.path is not None else ".tsv"
    if extension not in (".tsv", ".txt", ""):
        return open_table(source, None, True)
    header = columns is not None and not all(name.isdigit() for name in columns)
    table = SeparatedValues(source, "\t", header, spare=True)
    if header and columns is not None and (absent := [name for name in columns if name not in table.names]):
        shown = ", ".join(repr(name) for name in table.names[:2])
        raise DataError(
            f"has no column {absent[0]!r}; its first line is {shown}. Where that is a pair and no header, give the columns "
            "by number, such as 1 and 2",
            path=source.name,
            line=1,
        )
    return table


def _two_columns(source: Source, table: Table) -> tuple[str, str]:
    if isinstance(table, SeparatedValues) and not table.has_header:
        if len(table.names) < 2:
            raise DataError(
                "is no file of pairs: its first line has no tab; give two files (source, target), or pairs separated by a tab",
                path=source.name,
                line=1,
            )
        return "1", "2"
    names = [name for name, holds_text in table.columns().items() if holds_text]
    if len(names) == 1:
        message = (
            "has one text in a row, and a pair has two: give two files, source and target, or one with both in a row"
        )
        raise DataError(message, path=source.name)
    if len(names) != 2:
        listed = ", ".join(names) or "none"
        raise DataError(
            f"has {len(names)} columns of text ({listed}); choose the source's and the target's with --columns",
            path=source.name,
        )
    return names[0], names[1]


def split_pairs(text: ParallelText, fraction: float, seed: int) -> tuple[ParallelText, ParallelText]:
    """(training, development) pairs. Pairs with one source stay together: a sentence that was trained on judges nothing."""
    if not 0.0 < fraction < 1.0:
        raise UsageError(f"the development fraction must be between 0 and 1, not {fraction:g}")
    groups: dict[str, list[int]] = {}
    for number, source in enumerate(text.sources):
        groups.setdefault(source, []).append(number)
    members = list(groups.values())
    if len(members) < 2:
        raise DataError("has one source sentence only, which cannot be split; give --dev", path=text.name)
    wanted = max(1, round(fraction * len(text)))
    taken: set[int] = set()
    for group in permutation(Stream.HELD_OUT, seed, 0, len(members))[:-1]:  # one group at least is trained on
        if len(taken) >= wanted:
            break
        taken.update(members[int(group)])
    return (
        text.take([number for number in range(len(text)) if number not in taken]),
        text.take(sorted(taken)),
    )
