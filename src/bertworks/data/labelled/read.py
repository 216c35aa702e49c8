"""Labelled files, read: any table, GLUE's and SWAG's own files, CoNLL's columns, SQuAD's JSON, TREC's lines.

`read` gives everything at once; `LabelledReader` one example after the other, for files larger than memory (a JSON document
excepted). How a file was understood is said in sentences, and where that cannot be told, an error asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bertworks.data.labelled.choices import read_choices
from bertworks.data.labelled.conll import read_conll
from bertworks.data.labelled.describe import describe
from bertworks.data.labelled.document import Records, parsed
from bertworks.data.labelled.examples import Example
from bertworks.data.labelled.layout import Layout, find_layout
from bertworks.data.labelled.lines import read_fasttext, read_lines, read_trec
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import LabelledData, ReadOptions, TaskName
from bertworks.data.labelled.similar import read_similar
from bertworks.data.labelled.squad import is_squad, read_question_table, read_squad
from bertworks.data.labelled.tagged import read_tagged
from bertworks.data.labelled.texts import read_texts
from bertworks.data.source import Source, SourceReader
from bertworks.data.tables import JsonLines, Parquet, Record, SeparatedValues, Table
from bertworks.errors import DataError, UsageError

TEXT_TASKS = ("classify", "pair", "regress")
WITHOUT_GROUPS = ("conll", "conllu", "trec", "fasttext", "txt", "squad")
"""Formats without a column that could be chosen; some have documents or articles of their own."""


def read(path: str | Path, task: TaskName, options: ReadOptions | None = None) -> LabelledData:
    """All examples of a file."""
    with LabelledReader(path, task, options) as reader:
        examples = list(reader)
        if not examples:
            found = f" but {reader.notes.skipped:,} that were left out" if reader.notes.skipped else ""
            first = f": {reader.notes.errors[0]}" if reader.notes.errors else ""
            raise DataError(f"has no rows{found}{first}", path=reader.notes.path)
        return LabelledData(
            examples=examples,
            understood=(
                "; ".join([reader.understood(), *describe(examples)]),
                *(f"{reader.notes.path}: {sentence}" for sentence in reader.notes.sentences()),
            ),
            columns=reader.notes.columns,
            skipped=reader.notes.skipped,
            bad=tuple(reader.notes.errors),
        )


class LabelledReader(SourceReader):
    """One file, opened; iterate over it once."""

    def __init__(self, path: str | Path, task: TaskName, options: ReadOptions | None = None) -> None:
        self.task = task
        self.options = options or ReadOptions()
        self._source = Source(path, self.options.encoding)
        self.notes = Notes(self._source.name, skip_bad=self.options.skip_bad_rows)
        try:
            self.layout = find_layout(self._source, task, self.options)
            self.notes.facts.append(str(self.layout))
            self._examples = _examples(self._source, self.layout, task, self.options, self.notes)
        except BaseException:
            self._source.close()
            raise

    def __iter__(self) -> Iterator[Example]:
        return self._examples

    def understood(self) -> str:
        """How the file is read; complete as soon as the first example was asked for."""
        return f"{self.notes.path}: {'; '.join(self.notes.facts)}"

    def identity(self) -> dict[str, Any]:
        """What tells whether a later run reads the same: path, size, time of change, options."""
        path = self._source.path
        return {
            "input": self._source.name if path is None else str(path.absolute()),
            "input size": self._source.total_bytes,
            "input modified": self._source.modified_ns,
            "task": self.task,
            "reading": repr(self.options),
        }


def _examples(source: Source, layout: Layout, task: TaskName, options: ReadOptions, notes: Notes) -> Iterator[Example]:
    """The examples, by the format and then by the task."""
    file_format = layout.file_format
    if file_format in WITHOUT_GROUPS and options.group_column is not None and options.labelled:
        raise UsageError(f"{notes.path} is of a form without a column of groups: leave out --group-column")
    if file_format in ("conll", "conllu"):
        _only_for("tag", task, "words with tags, one per line", notes.path)
        return read_conll(source, file_format == "conllu", options, notes)
    if file_format in ("trec", "fasttext"):
        _only_for("classify", task, "lines that begin with a class", notes.path)
        return (read_trec if file_format == "trec" else read_fasttext)(source, options, notes)
    if file_format == "txt":
        if options.labelled and task != "similarity":
            raise DataError("has texts without labels, one per line; they can only be predicted", path=notes.path)
        return read_lines(source, task, notes)
    if file_format in ("json", "squad"):
        document = parsed(source)
        if file_format == "squad" or is_squad(document):
            _only_for("qa", task, "questions about contexts (SQuAD's form)", notes.path)
            return read_squad(document, options, notes)
        return _table_examples(Records(document, notes.path), (), task, options, notes)
    if file_format == "jsonl":
        return _table_examples(JsonLines(source, on_bad=notes.bad), (), task, options, notes)
    if file_format == "parquet":
        table = Parquet(source)
        return _table_examples(table, list(table.columns()), task, options, notes)
    values = _FilledRows(
        source, layout.delimiter, layout.header, quoted=layout.quoted, spare=layout.spare, on_bad=notes.bad
    )
    values.notes = notes
    return _table_examples(values, values.names, task, options, notes)


class _FilledRows(SeparatedValues):
    """Without rows of nothing but separators, which spreadsheets leave at the end of a file."""

    notes: Notes

    def records(self, columns: Sequence[str], skip: int = 0) -> Iterator[Record]:
        for place, record in super().records(columns, skip):
            if len(record) == 1 or any(value.strip() for value in record.values()):
                yield place, record
            else:
                self.notes.left_out["empty rows"] += 1


def _table_examples(
    table: Table, names: list[str] | tuple[str, ...], task: TaskName, options: ReadOptions, notes: Notes
) -> Iterator[Example]:
    if task in TEXT_TASKS:
        return read_texts(table, names, task, options, notes)
    if task == "choice":
        return read_choices(table, names, options, notes)
    if task == "tag":
        return read_tagged(table, names, options, notes)
    if task == "qa":
        return read_question_table(table, names, options, notes)
    return read_similar(table, names, options, notes)


def _only_for(needed: TaskName, task: TaskName, what: str, path: str) -> None:
    if task != needed:
        raise DataError(f"holds {what}, which are for the task `{needed}`, not `{task}`", path=path)
