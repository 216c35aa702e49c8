"""The label of a row: one class, several, a number; by what the column or columns hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bertworks.data.labelled.columns import Columns
from bertworks.data.labelled.examples import Place
from bertworks.data.labelled.names import plain
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions, TaskName
from bertworks.data.labelled.values import WHOLE, class_names, error_at, label_of, number_of, whole
from bertworks.data.tables import Table
from bertworks.errors import DataError

SEPARATORS = ("|", ";", ",")  # of several labels in one column, where the user does not say it
NOT_AGREED = "-"  # SNLI's and MNLI's label of a pair whose annotators did not agree
MANY_LABELS = 100


class NotAgreedError(Exception):
    """The row says that it has no label."""


LabelReader = Callable[[dict[str, Any], Place], str | float | tuple[str, ...] | None]


def label_reader(
    table: Table, columns: Columns, labels: tuple[str, ...], task: TaskName, options: ReadOptions, notes: Notes
) -> LabelReader:
    """What reads the label of a record from the columns `labels`; it raises `NotAgreedError` where there is none."""
    if not labels or not options.labelled:
        return lambda record, place: None
    if task == "regress":
        return _numbers(labels[0])
    if len(labels) > 1:
        notes.facts.append("each label column holds 1 where a row has that label")
        return _flags_set(labels)
    column = labels[0]
    names = class_names(table).get(column)
    if names is not None:
        notes.facts.append("its labels are numbers that the file names")
    if options.multi_label or columns.kind(column) == "list":
        separator = _separator(columns, column, options)
        if columns.kind(column) == "list":
            notes.facts.append("several labels a row, in lists")
        else:
            notes.facts.append(f"several labels a row, separated by {separator!r}")
            notes.columns["label_separator"] = separator
        return _several(column, separator, names)
    if options.label_column is None:
        _check_classes(columns, column)
    doubts = _doubts(columns, column)
    notes.facts += doubts
    return _one(column, names, whole if _are_whole(columns, column, options, notes) else str, doubts)


def _are_whole(columns: Columns, column: str, options: ReadOptions, notes: Notes) -> bool:
    """Whether the labels are whole numbers, of which 1.0 is another spelling: as in the file that a model was trained on."""
    values = [str(value).strip() for value in columns.values(column)]
    known = options.remembered.get("whole_labels")
    found = all(map(WHOLE.fullmatch, values)) if known is None else bool(known)
    if any("." in value and WHOLE.fullmatch(value) for value in values):
        notes.columns["whole_labels"] = found
    return found


def _one(
    column: str, names: list[str] | None, spelled: Callable[[str], str], doubts: Sequence[str] = ()
) -> LabelReader:
    left_out = plain(column) == "goldlabel"

    def read(record: dict[str, Any], place: Place) -> str:
        label = label_of(record.get(column), column, place, names)
        if label == NOT_AGREED and left_out:
            raise NotAgreedError
        if label is None:
            raise error_at(place, "; ".join([f"the label is missing (column {column!r} is empty)", *doubts]))
        return spelled(label)

    return read


def _several(column: str, separator: str, names: list[str] | None) -> LabelReader:
    def read(record: dict[str, Any], place: Place) -> tuple[str, ...]:
        value = record.get(column)
        if value is None:
            raise error_at(
                place, f"the labels are missing (column {column!r}); a row that has none of them says so: []"
            )
        if isinstance(value, str):
            parts: list[Any] = value.split(separator)
        else:
            parts = value if isinstance(value, list) else [value]
        found = (label_of(part, column, place, names) for part in parts)
        return tuple(dict.fromkeys(label for label in found if label is not None))

    return read


def _flags_set(labels: tuple[str, ...]) -> LabelReader:
    def read(record: dict[str, Any], place: Place) -> tuple[str, ...]:
        flags = [number_of(_as_number(record.get(name)), name, place) for name in labels]
        for name, flag in zip(labels, flags, strict=True):
            if flag not in (0.0, 1.0):
                raise error_at(place, f"the label column {name!r} holds {record.get(name)!r:.40}, not 0 or 1")
        return tuple(name for name, flag in zip(labels, flags, strict=True) if flag)

    return read


def _as_number(value: Any) -> Any:
    return {"True": 1, "False": 0, "true": 1, "false": 0}.get(value, value) if isinstance(value, str) else value


def _numbers(column: str) -> LabelReader:
    def read(record: dict[str, Any], place: Place) -> float:
        number = number_of(record.get(column), column, place)
        if number is None:
            raise error_at(place, f"the number is missing (column {column!r} is empty)")
        return number

    return read


def _separator(columns: Columns, column: str, options: ReadOptions) -> str:
    if isinstance(options.multi_label, str):
        return options.multi_label
    if (known := options.remembered.get("label_separator")) is not None:
        return str(known)
    values = [value for value in columns.values(column) if isinstance(value, str)]
    return next((mark for mark in SEPARATORS if any(mark in value for value in values)), ",")


def _doubts(columns: Columns, column: str) -> list[str]:
    """What may not be meant: several labels in one, or one in two spellings."""
    names = {value.strip() for value in columns.values(column) if isinstance(value, str)}
    said = []
    for mark in SEPARATORS:
        joined = sorted(name for name in names if mark in name and {part.strip() for part in name.split(mark)} <= names)
        if joined:
            said.append(f"{joined[0]!r} is read as one label; --multi-label reads several, separated by {mark!r}")
            break
    spellings: dict[str, str] = {}
    for name in sorted(names):
        if (other := spellings.setdefault(name.casefold(), name)) != name:
            said.append(f"the labels {other!r} and {name!r} differ in capital letters only, and are two")
            break
    return said


def _check_classes(columns: Columns, column: str) -> None:
    """A column of scores, or of a different value in each row, is hardly one of classes: ask."""
    values = columns.values(column)
    fractions = columns.kind(column) == "number" and any(not float(value).is_integer() for value in values)
    distinct = columns.distinct(column)
    if (fractions and distinct > 10) or (distinct > MANY_LABELS and distinct > len(values) / 2):
        shown = ", ".join(map(str, values[:3]))
        message = (
            f"the column {column!r} has {distinct} different values in the first {len(values)} rows ({shown} …), which does "
            f"not look like classes; for numbers use the task `regress`, for classes say it with --label-column {column}"
        )
        raise DataError(message, path=columns.path)
