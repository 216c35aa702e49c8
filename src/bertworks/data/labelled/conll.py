"""Words with tags, one per line, and a blank line after each sentence: CoNLL's columns, CoNLL-U, and their relatives.

The word comes first and the tag last (CoNLL-2003: word, part of speech, chunk, entity), unless the user names others.
Columns are separated by tabs or by spaces, line by line: a file may have both. `-DOCSTART-` begins a document, and
sentences of one document stay together in a split. A first line that names the columns (`word tag`) is no word. CoNLL-U
(Universal Dependencies) has ten columns, comments, and lines for several words together (`1-2`) or for none (`1.1`),
which are passed over.

Tags are given as they are written; a set that writes 0 for O (beside names of entities) is understood.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bertworks.data.labelled.examples import Place, TaggedExample
from bertworks.data.labelled.names import TAGS, WORDS, plain
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.source import Source
from bertworks.data.tables import is_number, no_column
from bertworks.errors import DataError

PEEKED_LINES = 1000
DOCUMENT_START = "-DOCSTART-"
NEW_DOCUMENT = re.compile(r"#\s*newdoc")
SPACES = re.compile(r"[ \t]+")  # no others: a no-break space may be part of a word

NAMED_COLUMNS = {
    4: ("word", "pos", "chunk", "ner"),  # CoNLL-2003
    10: ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"),  # CoNLL-U
}
OUTSIDE = "O"
ZERO = "0"


@dataclass(frozen=True)
class Shape:
    """How the lines of a file are to be read; columns are counted from 0."""

    width: int
    word: int
    tag: int | None
    universal: bool
    """CoNLL-U: every line that begins with # is a comment."""
    zero_is_outside: bool
    header: bool
    """Whether the first line names the columns."""
    last: frozenset[str]
    """What stands in the last column of the first lines: a comment ends otherwise."""


Row = tuple[int, list[str]]
"""Line number and columns."""


def read_conll(source: Source, universal: bool, options: ReadOptions, notes: Notes) -> Iterator[TaggedExample]:
    """One example per sentence. With bad lines skipped, a sentence with one is left out whole."""
    lines = [line.rstrip("\r\n") for line in source.peek(PEEKED_LINES)]
    shape = find_shape(lines, universal, options, notes)
    for document, rows in _sentences(source, shape):
        try:
            yield _example(rows, document, shape, notes.path)
        except DataError as error:
            notes.bad(error)


def _sentences(source: Source, shape: Shape) -> Iterator[tuple[int, list[Row]]]:
    """The number of the document (0 where none was begun) and the words of each sentence."""
    rows: list[Row] = []
    document = 0
    header = shape.header
    for number, line in source.lines():
        line = line.rstrip("\r\n")
        fields = fields_of(line)
        begins = bool(fields) and (fields[0] == DOCUMENT_START or (line[0] == "#" and bool(NEW_DOCUMENT.match(line))))
        if rows and (begins or not fields):
            yield document, rows
            rows = []
        document += begins
        if not fields or begins or _is_comment(fields, shape, begins_sentence=not rows):
            continue
        if not header:
            rows.append((number, fields))
        header = False
    if rows:
        yield document, rows


def _example(rows: Sequence[Row], document: int, shape: Shape, path: str) -> TaggedExample:
    for number, fields in rows:
        if len(fields) != shape.width or not fields[shape.word]:
            raise _ragged(fields, shape, path, number)
    tags = None
    if shape.tag is not None:
        tags = tuple(fields[shape.tag] for _, fields in rows)
    if tags is not None and shape.zero_is_outside:
        tags = tuple(OUTSIDE if tag == ZERO else tag for tag in tags)
    return TaggedExample(
        words=tuple(fields[shape.word] for _, fields in rows),
        tags=tags,
        group=str(document) if document else None,
        place=Place(path, rows[0][0]),
        lines=tuple(number for number, _ in rows),
    )


def fields_of(line: str) -> list[str]:
    """The columns of a line; none for a blank one."""
    if not line or line.isspace():
        return []
    if "\t" in line:
        return [field.strip(" ") for field in line.rstrip("\t ").split("\t")]
    return SPACES.split(line.strip(" "))


def _is_comment(fields: Sequence[str], shape: Shape, *, begins_sentence: bool) -> bool:
    """In CoNLL-U every #, and lines that are no words (1-2, 1.1). Elsewhere # may be a word, so only a line that has not
    the columns of one, or stands above a sentence and does not end with a tag, is a comment."""
    if shape.universal:
        return not fields[0].isdecimal()
    return fields[0] == "#" and (len(fields) != shape.width or (begins_sentence and fields[-1] not in shape.last))


def _ragged(fields: Sequence[str], shape: Shape, path: str, line: int) -> DataError:
    if len(fields) == shape.width:
        return DataError("has no word", path=path, line=line)
    shown = " ".join(fields)
    message = (
        f"has {len(fields)} column{'s' * (len(fields) != 1)} ({shown:.40}) where {shape.width} are expected "
        "(one word per line, its tag in the last column, a blank line after each sentence)"
    )
    return DataError(message, path=path, line=line)


# -- the shape of a file -----------------------------------------------------------------------------------------------


def find_shape(lines: Sequence[str], universal: bool, options: ReadOptions, notes: Notes) -> Shape:
    """By the first lines: how many columns, which is the word, which the tag."""
    rows = [fields for line in lines if (fields := fields_of(line)) and fields[0] != DOCUMENT_START]
    rows = [row for row in rows if row[0] != "#"] or rows  # without comments
    if not rows:
        raise DataError("has no words", path=notes.path)
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    rows = [row for row in rows if len(row) == width]
    universal = universal or (width == 10 and all(row[0][0].isdigit() for row in rows))
    if universal:
        width = 10
        rows = [row for row in rows if len(row) == width and row[0].isdecimal()]
    header = not universal and _is_header(rows, options)
    names = [plain(name) for name in rows[0]] if header else NAMED_COLUMNS.get(width, ())
    rows = rows[header:]
    if not rows:
        raise DataError("has no words", path=notes.path)
    said = {name: getattr(options, name) for name in ("text_column", "label_column")}
    notes.columns = {name: column for name, column in said.items() if column is not None}
    known = {name: column for name, column in options.remembered.items() if _number(column, width, names) is not None}
    said = {name: column or known.get(name) for name, column in said.items()}
    word = _asked(said["text_column"], width, names, notes.path)
    if word is None:
        word = 1 if universal or _is_counted(rows) else 0
    tag = _asked(said["label_column"], width, names, notes.path) if options.labelled else None
    if tag is None and width > word + 1 and options.labelled:
        tag = names.index("upos") if universal else width - 1
    if tag is None and options.labelled:
        message = f"has words only: no second column with their tags ({' '.join(rows[0]):.40})"
        raise DataError(message, path=notes.path)
    tags = {row[tag] for row in rows} if tag is not None else set()
    zero_is_outside = ZERO in tags and OUTSIDE not in tags and any(not is_number(other) for other in tags)
    last = frozenset(row[-1] for row in rows) | {"#"}  # a # may have a tag of its own
    shape = Shape(width, word, tag, universal, zero_is_outside, header, last)
    notes.facts.append(_described(shape, names))
    return shape


def _is_header(rows: Sequence[Sequence[str]], options: ReadOptions) -> bool:
    """Whether the first row names the columns: so the user says, or it begins and ends as only a header does."""
    if options.header is not None:
        return options.header
    first, last = rows[0][0], rows[0][-1]
    named = len(rows[0]) > 1 and plain(first) in WORDS and plain(last) in TAGS
    return named and all(row[-1] != last for row in rows[1:])


def _asked(column: str | None, width: int, names: Sequence[str], path: str) -> int | None:
    if column is None:
        return None
    number = _number(column, width, names)
    if number is None:
        raise no_column(column, names or [str(number) for number in range(1, width + 1)], path, None)
    return number


def _number(column: Any, width: int, names: Sequence[str]) -> int | None:
    """Where a column stands, from 0; None where there is none of that name or number."""
    if plain(str(column)) in names:
        return names.index(plain(str(column)))
    return int(column) - 1 if str(column).isdecimal() and 1 <= int(column) <= width else None


def _is_counted(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first column numbers the words of each sentence: 1, 2, 3, … and again 1 (as in GermEval's files)."""
    numbers = [int(row[0]) if row[0].isdecimal() else -1 for row in rows]
    steps = itertools.pairwise(numbers)
    return len(rows) > 2 and len(rows[0]) > 2 and numbers[0] == 1 and all(b in (1, a + 1) for a, b in steps)


def _described(shape: Shape, names: Sequence[str]) -> str:
    def called(index: int) -> str:
        return f"column {index + 1}" + (f" ({names[index]})" if names else "")

    parts = [*(["with header"] if shape.header else []), f"word = {called(shape.word)}"]
    if shape.tag is not None:
        parts.append(f"tag = {called(shape.tag)} of {shape.width}")
    if shape.zero_is_outside:
        parts.append("the tag 0 is read as O")
    return ", ".join(parts)
