"""Which form a file has: its format, what separates the fields, whether quotation marks mean anything, whether there is a
header. Decided by what the user says, then by the extension, then by the first lines; whatever was decided is said.

Extensions are not to be trusted: the STS benchmark's .csv has tabs, .txt may be anything, a .json may be one document or
one per line, and a .tsv for tagging is mostly CoNLL's columns.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bertworks.data.labelled.names import ANSWERS, KNOWN, OPTION_LISTS, plain
from bertworks.data.labelled.options import ReadOptions, TaskName
from bertworks.data.source import Source
from bertworks.data.tables import is_number
from bertworks.errors import DataError, choice

PEEKED_LINES = 1000
LONG_LINE = 1_000_000  # characters: no row, but a whole document in one line

FORMATS = {
    "csv": "comma-separated",
    "tsv": "tab-separated",
    "jsonl": "one JSON value per line",
    "json": "one JSON document",
    "parquet": "parquet",
    "squad": "SQuAD's JSON",
    "conll": "one word per line (CoNLL columns)",
    "conllu": "one word per line (CoNLL-U)",
    "trec": "TREC's lines (COARSE:fine question)",
    "fasttext": "fastText's lines (__label__name text)",
    "txt": "one text per line",
}
"""What `--format` may say, and how it is told to the user."""

EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".conllu": "conllu",
    ".label": "trec",  # train_5500.label and TREC_10.label
    **dict.fromkeys(
        (".conll", ".conll2002", ".conll2003", ".iob", ".iob2", ".iob1", ".bio", ".bioes", ".iobes"), "conll"
    ),
}
ALIASES = {"ndjson": "jsonl", "iob": "conll", "bio": "conll", "lines": "txt", "text": "txt"}

TREC_LINE = re.compile(r"[A-Z]+:[A-Za-z]+ \S")
FASTTEXT_MARK = "__label__"
TAG = re.compile(r"[BIESLU]-\S+|[A-Z0][A-Z0-9_$.,:;()'\"`-]*|[.,:;()'\"`$#-]+")
DELIMITERS = {",": "comma-separated", "\t": "tab-separated", ";": "semicolon-separated", "|": "separated by |"}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a file is to be read."""

    file_format: str
    delimiter: str = ","
    quoted: bool = True
    header: bool = True
    spare: bool = False
    """Whether rows may have more fields than the first."""

    def __str__(self) -> str:
        if self.file_format not in ("csv", "tsv"):
            return FORMATS[self.file_format]
        quotes = ", with quoted fields" if self.quoted and self.delimiter == "\t" else ""
        return f"{DELIMITERS[self.delimiter]}{quotes}, {'with' if self.header else 'without'} header"


def find_layout(source: Source, task: TaskName, options: ReadOptions) -> Layout:
    """Look at the first lines of `source`, which can still be read from its beginning afterwards."""
    file_format = EXTENSIONS.get(source.extension)
    if options.file_format is not None:
        asked = ALIASES.get(options.file_format, options.file_format)
        file_format = choice(asked, FORMATS, "file format (--format)")
    if file_format == "parquet":
        return Layout(file_format="parquet")
    lines = [line.rstrip("\r\n") for line in source.peek(PEEKED_LINES)]
    filled = [line for line in lines if line and not line.isspace()]
    if not filled:
        raise DataError("is empty", path=source.name)
    if options.file_format is None:
        file_format = _corrected(file_format, lines, filled, task, options, source.name)
    assert file_format is not None
    if file_format not in ("csv", "tsv"):
        return Layout(file_format=file_format)
    if re.fullmatch(r'"?sep=.?"?', filled[0].strip()):
        raise DataError(
            f"{filled[0].strip()!r} is a word for Excel and no row; remove that line", path=source.name, line=1
        )
    delimiter = "\t" if file_format == "tsv" else _delimiter(filled)
    quoted = delimiter != "\t" or _tabs_with_quotes(lines)
    header = options.header
    if header is None:
        header = has_header(_rows(filled, delimiter, quoted))
    spare = not header and delimiter == "\t" and _is_sts_benchmark(filled)
    return Layout(file_format=file_format, delimiter=delimiter, quoted=quoted, header=header, spare=spare)


def _is_sts_benchmark(lines: Sequence[str]) -> bool:
    """The STS benchmark's own files: genre, file, year, number, score, two sentences, and sources in some rows only."""
    rows = [line.split("\t") for line in lines]
    return len(rows[0]) == 7 and all(len(row) >= 7 and is_number(row[4]) and 0 <= float(row[4]) <= 5 for row in rows)


def _corrected(
    file_format: str | None, lines: list[str], filled: list[str], task: TaskName, options: ReadOptions, path: str
) -> str:
    """The format that the extension says, or None of it, put right by what is in the first lines."""
    if file_format in (None, "json"):
        if filled[0].lstrip().startswith(("{", "[")) and (found := _json_form(filled[0], len(filled), task)):
            return found
        if file_format == "json":
            return "json"
    if task == "tag":
        sure = options.labelled or file_format == "tsv"  # else running text is as likely
        if file_format in (None, "tsv") and (_is_columns(lines) if sure else _is_plainly_columns(lines)):
            return "conll"
        if file_format is None:
            return "conll" if options.labelled else "txt"
    if file_format is not None:
        return file_format
    if all(line.startswith(FASTTEXT_MARK) for line in filled):
        return "fasttext"
    if options.labelled and all(TREC_LINE.match(line) for line in filled):
        return "trec"
    if all("\t" in line for line in filled) and (options.labelled or _is_table(filled, "\t", task)):
        return "tsv"
    if _names_a_column(filled[0], options):
        return "csv"
    named = sum(plain(name) in KNOWN for name in filled[0].split(",")) >= 2
    if named and (options.labelled or _is_table(filled, ",", task)):
        return "csv"
    if task == "similarity" or not options.labelled:
        return "txt"
    message = (
        "its extension does not say what it is, and its first lines have no labels (no tabs between fields, no JSON, no TREC "
        "or fastText labels); texts without labels can only be predicted; else say what it is with --format: "
        f"{', '.join(name for name in FORMATS if name != 'txt')}"
    )
    raise DataError(message, path=path)


def _names_a_column(line: str, options: ReadOptions) -> bool:
    """Whether a line is a header with a column that was asked for, or that a model was trained with."""
    known = options.remembered
    said = [options.text_column, options.pair_column, *options.option_columns]
    said += [*(known.get(f"{name}_column") for name in ("text", "pair", "label")), *known.get("option_columns", ())]
    wanted = {name for name in said if name and not name.isdigit()}
    if not wanted:
        return False
    rows = (_rows([line], delimiter, True)[0] for delimiter in DELIMITERS)
    return any(
        len(row) > 1 and not wanted.isdisjoint(row) and _like_names([field for field in row if field not in wanted])
        for row in rows
    )


def _is_table(lines: Sequence[str], delimiter: str, task: TaskName) -> bool:
    """Whether lines to be predicted are rows, though single texts may have tabs and commas in them, too."""
    several = len(lines) > 1 or task in ("pair", "choice", "qa", "similarity")
    return several and len({len(row) for row in _rows(lines, delimiter, delimiter != "\t")}) == 1


def _json_form(first: str, num_lines: int, task: TaskName) -> str | None:
    """jsonl or json, by the first line; None where it is neither (a text may begin with a bracket)."""
    if num_lines == 1 and len(first) > LONG_LINE:
        return "json"
    try:
        value = json.loads(first)
    except ValueError:
        return "json" if first.strip() in ("{", "[", "[{") or first.lstrip().startswith(('{"', '[{"')) else None
    except RecursionError:
        return None
    if isinstance(value, dict):
        return "json" if num_lines == 1 and _is_document(value, task) else "jsonl"
    if isinstance(value, list):
        return "json" if num_lines == 1 and value and isinstance(value[0], dict) else "jsonl"
    return None


def _is_document(value: dict[str, Any], task: TaskName) -> bool:
    """Whether an object holds a whole table: a list of rows, or lists of equal length as columns. Else it is one row, which
    may have lists in it: of options, of answers, of the words of a sentence."""
    lists = {name: entry for name, entry in value.items() if isinstance(entry, list)}
    inner = list if task == "tag" else object
    columns = len(lists) == len(value) > 1 and all(
        isinstance(item, inner) for entry in lists.values() for item in entry
    )
    if columns and len({len(entry) for entry in lists.values()}) == 1:
        return True
    return any(
        entry and all(isinstance(item, dict) for item in entry) and plain(name) not in (*ANSWERS, *OPTION_LISTS)
        for name, entry in lists.items()
    )


def _is_columns(lines: Sequence[str]) -> bool:
    """Whether lines are words with their tags, rather than the rows of a table."""
    rows, width, blanks = _word_rows(lines)
    named = {plain(name) for name in rows[0]} if rows else set()
    return bool(blanks and rows) or (width > 1 and not named & {"tokens", "words", "text", "sentence"})


def _is_plainly_columns(lines: Sequence[str]) -> bool:
    """Whether lines are words (and maybe their tags), and surely no texts."""
    rows, width, blanks = _word_rows(lines)
    if not rows:
        return False
    if width == 1:  # words alone: a blank line now and then; texts of one word each have none, or one after each
        return 0 < blanks < len(rows) / 2
    if all("\t" in line for line in lines if line.strip() and not line.startswith("#")):
        return not any(" " in field.strip() for row in rows for field in row) and _is_columns(lines)
    tags = [row[-1] for row in rows]
    if not all(TAG.fullmatch(tag) for tag in tags) or not {"O", "0"} & set(tags):
        return False
    return bool(blanks) or (len(rows) >= 3 and width <= 4)


def _word_rows(lines: Sequence[str]) -> tuple[list[list[str]], int, int]:
    """The fields of lines that mostly have equally many, how many, and the number of blank lines; nothing where they do
    not."""
    lines = [line for line in lines if not line.startswith("#")]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    rows = [line.split("\t") if "\t" in line else line.split() for line in lines if line.strip()]
    width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
    return (rows, width, len(lines) - len(rows)) if count >= 0.95 * len(rows) else ([], 0, 0)


def _delimiter(lines: Sequence[str]) -> str:
    """What separates the fields of a .csv: mostly a comma, but other things are sold under that name."""
    if all("\t" in line for line in lines):
        return "\t"
    for mark in DELIMITERS:  # what gives all rows equally many fields
        widths = {len(row) for row in _rows(lines, mark, True)}
        if len(widths) == 1 and widths != {1}:
            return mark
    counts = {mark: lines[0].count(mark) for mark in DELIMITERS}
    if counts[","]:
        return ","
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ","


def _tabs_with_quotes(lines: Sequence[str]) -> bool:
    """Whether a tab-separated file quotes its fields as a .csv does (pandas writes such files, and Quora's pairs are one).

    GLUE's files do not, and have fields with quotation marks at both ends too. So the lines must have marks and be just
    what a writer of quoted fields would have written; and marks that would join lines do not, where the lines by
    themselves have equally many fields.
    """
    text = "".join(line + "\n" for line in lines)
    if '"' not in text:
        return False
    try:
        rows = list(csv.reader((line + "\n" for line in lines), delimiter="\t"))
    except csv.Error:
        return False
    filled = [line for line in lines if line]
    if len(list(filter(None, rows))) < len(filled) and len({line.count("\t") for line in filled}) == 1:
        return False
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        for several in (rows, rows[:-1]):  # the last row may be cut off
            buffer = io.StringIO()
            csv.writer(buffer, delimiter="\t", quoting=quoting, lineterminator="\n").writerows(several)
            again = buffer.getvalue()
            if '"' in again and text.startswith(again):
                return True
    return False


def _rows(lines: Sequence[str], delimiter: str, quoted: bool) -> list[list[str]]:
    """The first rows, roughly: enough to tell a header."""
    if not quoted:
        return [line.split(delimiter) for line in lines]
    try:
        return [row for row in csv.reader((line + "\n" for line in lines), delimiter=delimiter) if row]
    except csv.Error:  # told with its line when the rows are read
        return [line.split(delimiter) for line in lines]


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns.

    No: it has a number, or a value that comes again in its column. Yes: it has a name that columns have in public data
    sets, or stands above a column of numbers. Otherwise by how it looks: a few short words above longer texts.
    """
    first = [field.strip() for field in rows[0]]
    rest = [row for row in rows[1:] if len(row) == len(first)]
    if any(is_number(field) for field in first):
        return False
    columns = [[row[index].strip() for row in rest] for index in range(len(first))]
    if any(field and field in column for field, column in zip(first, columns, strict=True)):
        return False
    if any(plain(field) in KNOWN for field in first):
        return True
    if any(_all_numbers(column) for column in columns):
        return True
    like_names = _like_names(first)
    if like_names and any(_repeats(column) for column in columns):  # labels, and the first row has none of them
        return True
    longest = max(
        (sum(len(value.split()) for value in column) / len(column) for column in columns if column), default=0
    )
    return like_names and longest > 3 * max(len(field.split()) for field in first)


def _like_names(fields: Sequence[str]) -> bool:
    """Whether a row may be a header by its looks: a few short words a field, and no punctuation of sentences."""
    return all(re.fullmatch(r"[\w #./()-]{0,40}", field) and len(field.split()) <= 3 for field in fields)


def _repeats(values: Sequence[str]) -> bool:
    return len(values) >= 4 and all(values) and len(set(values)) <= len(values) / 2


def _all_numbers(values: Sequence[str]) -> bool:
    found = [value for value in values if value]
    return bool(found) and all(is_number(value) for value in found)
