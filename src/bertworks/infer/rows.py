"""Rows as people write them in Python -> examples of a task.

    classify, regress   "text"   ("text", "second text")   {"text": …, "pair": …}
    pair, similarity    ("first", "second")                {"text": …, "pair": …}
    choice              ("beginning", ["one end", "another end"])   {"text": …, "options": […]}
    tag                 "text"   ["its", "words"]          {"text": …} or {"words": […]}
    qa                  ("question", "context")            {"question": …, "context": …}

An example of `bertworks.data.labelled` is a row too. A string, a tuple, a mapping and an example are *one* row; a list
(or any other collection) is many. What is wrong with a row is said with its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from bertworks.data.labelled.examples import (
    ChoiceExample,
    Example,
    Place,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.data.labelled.squad import located
from bertworks.data.labelled.values import error_at
from bertworks.errors import UsageError
from bertworks.tasks.words import tagged_from_text

Row = str | tuple[Any, ...] | Mapping[str, Any] | Sequence[str] | Example
"""One row in any of the forms above."""

PLACE = "rows"
FORMS = {
    "classify": "a text, or two texts as a tuple",
    "regress": "a text, or two texts as a tuple",
    "pair": "two texts as a tuple",
    "similarity": "two texts as a tuple",
    "choice": "a text and a list of options, as a tuple",
    "tag": "a text, or a list of words",
    "qa": "a question and a context, as a tuple",
}
NAMES = {
    "classify": ("text", "pair"),
    "regress": ("text", "pair"),
    "pair": ("text", "pair"),
    "similarity": ("text", "pair"),
    "choice": ("text", "options"),
    "qa": ("question", "context"),
}
"""The keys of a row that is a mapping, in the order of the tuple; further keys are passed over, as in a table."""


def is_one_row(rows: Any) -> bool:
    """Whether `rows` is one row rather than a collection of them."""
    return isinstance(rows, str | tuple | Mapping | Example)


def examples_of(
    task: str, rows: Iterable[Row], *, labels: Sequence[Any] | None = None, start: int = 0
) -> list[Example]:
    """One example per row, numbered from `start`.

    labels: one per row: of a text a class, classes or a number; of words their tags; of a question its answer (a text,
            (text, start), "" = no answer), a list of those that are allowed, or None
    """
    if not isinstance(rows, Iterable):
        raise UsageError(f"{rows!r:.60} is no row, and no collection of rows")
    examples = [example_of(task, row, number) for number, row in enumerate(rows, start)]
    if labels is None:
        return examples
    return [_labelled(example, label) for example, label in zip(examples, labels, strict=True)]


def example_of(task: str, row: Row, number: int) -> Example:
    """The example that `row` is for `task`."""
    if isinstance(row, TextExample) and task == "tag":  # a running text, as a file without words has it
        return tagged_from_text(row.text, row.place)
    if isinstance(row, Example):
        return row
    if task == "tag":
        return _tagged(row, number)
    place = Place(PLACE, number)
    names = NAMES[task]
    if isinstance(row, Mapping):
        values = tuple(row[name] for name in names if row.get(name) is not None)
    elif isinstance(row, str):
        values = (row,)
    elif isinstance(row, Iterable):
        values = tuple(row)
    else:
        raise _wrong(task, row, number)
    if task in ("classify", "regress") and len(values) in (1, 2):
        text, *pair = _texts(values, task, row, number)
        return TextExample(text=text, pair=pair[0] if pair else None, place=place)
    if len(values) != 2:
        raise _wrong(task, row, number)
    if task == "choice":
        text, options = values
        if isinstance(options, str) or not isinstance(options, Iterable):
            raise _wrong(task, row, number)
        choices = tuple(_texts(tuple(options), task, row, number))
        if len(choices) < 2:
            raise UsageError(f"row {number} has {len(choices)} options; a choice needs at least two")
        return ChoiceExample(text=_texts((text,), task, row, number)[0], options=choices, place=place)
    first, second = _texts(values, task, row, number)
    if task == "qa":
        name = row.get("id") if isinstance(row, Mapping) else None
        return QuestionExample(id=str(number if name is None else name), question=first, context=second, place=place)
    if task == "similarity":
        return SimilarityExample(texts=(first, second), place=place)
    return TextExample(text=first, pair=second, place=place)


def _labelled(example: Example, label: Any) -> Example:
    if isinstance(example, TaggedExample):
        tags = tuple(str(tag) for tag in label)
        if len(tags) != len(example.words):
            raise error_at(example.place, f"has {len(example.words)} words and {len(tags)} tags")
        return replace(example, tags=tags)
    if isinstance(example, QuestionExample):
        if isinstance(label, str):
            label = [label] if label else []
        elif isinstance(label, tuple) and len(label) == 2 and isinstance(label[1], Integral):
            label = [label]
        pairs = [(item, None) if isinstance(item, str) else tuple(item) for item in label or ()]
        answers = tuple(located(text, start, example.context, example.place) for text, start in pairs)
        return replace(example, answers=None if label is None else answers)
    assert isinstance(example, TextExample)
    return replace(example, label=label)


def num_characters(row: Any) -> int:
    """How much text a row or an example holds; a measure of the work that it is."""
    if isinstance(row, str):
        return len(row)
    if isinstance(row, TextExample):
        return len(row.text) + len(row.pair or "")
    if isinstance(row, ChoiceExample):
        return len(row.options) * len(row.text) + sum(map(len, row.options))
    if isinstance(row, TaggedExample):
        return sum(map(len, row.words)) + len(row.words)
    if isinstance(row, QuestionExample):
        return len(row.question) + len(row.context)
    if isinstance(row, SimilarityExample):
        return sum(map(len, row.texts))
    values = row.values() if isinstance(row, Mapping) else row
    return sum(map(num_characters, values)) if isinstance(values, Iterable) else 0


def _tagged(row: Any, number: int) -> TaggedExample:
    place = Place(PLACE, number)
    if isinstance(row, Mapping):
        row = row.get("words") if row.get("words") is not None else row.get("text")
    if isinstance(row, str):
        return tagged_from_text(str(row), place)
    if not isinstance(row, Iterable):
        raise _wrong("tag", row, number)
    return TaggedExample(words=tuple(_texts(tuple(row), "tag", row, number)), place=place)


def _texts(values: Sequence[Any], task: str, row: Any, number: int) -> list[str]:
    """The values, every one of which must be a string."""
    if not all(isinstance(value, str) for value in values):
        raise _wrong(task, row, number)
    return [str(value) for value in values]  # numpy's strings become plain ones


def _wrong(task: str, row: Any, number: int) -> UsageError:
    keys = f", or a mapping with the keys {' and '.join(NAMES[task])}" if task in NAMES else ""
    shown = repr(row)
    shown = shown if len(shown) <= 80 else shown[:77] + "…"
    return UsageError(f"row {number} is {shown}; a row for {task!r} is {FORMS[task]}{keys}")
