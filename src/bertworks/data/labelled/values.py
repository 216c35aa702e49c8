"""Values of a record as labels and numbers: what a csv spells, what JSON has, what a parquet's numbers stand for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from bertworks.data.labelled.examples import Place
from bertworks.data.tables import Parquet, Table
from bertworks.errors import DataError

HUGGING_FACE = b"huggingface"  # the key of what the `datasets` library writes beside a parquet's schema
NO_CLASS = -1  # how that library spells a label that is not there

DECIMAL_COMMA = re.compile(r"-?\d+(,\d+)?")
WHOLE = re.compile(r"-?\d+(\.0+)?")


def error_at(place: Place, message: str) -> DataError:
    """The error for one example."""
    return DataError(message, path=place.path, line=place.line)


def label_of(value: Any, column: str, place: Place, names: list[str] | None = None) -> str | None:
    """A class name as it is written; None where there is none. A number is spelled without a fraction of nothing."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value.strip() or None
    if names is not None and isinstance(value, int) and not isinstance(value, bool):
        if value == NO_CLASS:
            return None
        if not 0 <= value < len(names):
            raise error_at(place, f"the label {value} in {column!r} has no name: the file names {len(names)} classes")
        return names[value]
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, bool | int):
        return str(value)
    raise error_at(place, f"the column {column!r} holds {value!r:.60}, which is no label")


def whole(text: str) -> str:
    """`1` for `1.0`, which is how a table with gaps spells whole numbers; any other text as it is."""
    return text.partition(".")[0] if WHOLE.fullmatch(text) else text


def number_of(value: Any, column: str, place: Place) -> float | None:
    """A finite number; None where there is none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = float("" if isinstance(value, str) and "_" in value else value)  # Python's 1_000 is nobody else's
    except (TypeError, ValueError):
        comma = isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip())
        advice = "write numbers with a decimal point" if comma else "choose another with --label-column"
        message = f"the column {column!r} holds {value!r:.60}, not a number; {advice}"
        raise error_at(place, message) from None
    if not math.isfinite(number):
        raise error_at(place, f"the column {column!r} holds {value!r}, which is no finite number")
    return number


def group_of(record: Mapping[str, Any], column: str | None) -> str | None:
    """What a row must stay together with in a split; None where it says nothing."""
    value = None if column is None else record.get(column)
    return None if value is None or value == "" or value != value else str(value)


def class_names(table: Table) -> dict[str, list[str]]:
    """Names of classes that the `datasets` library put into a parquet file, for numbers and for lists of numbers."""
    if not isinstance(table, Parquet):
        return {}
    try:
        features = json.loads(table.metadata[HUGGING_FACE])["info"]["features"]
        found = {}
        for column, feature in features.items():
            inner = feature.get("feature", feature) if isinstance(feature, dict) else feature
            if isinstance(inner, list):  # an older spelling of a list
                inner = inner[0]
            if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
                found[column] = [str(name) for name in inner["names"]]
        return found
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # not there, or not as that library writes it
        return {}
