"""Examples from Python values rather than from a file: what `bertworks.sklearn` and `predict` are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertworks.data.labelled.examples import (
    Answer,
    ChoiceExample,
    Example,
    Place,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.data.labelled.options import TaskName
from bertworks.data.labelled.squad import located
from bertworks.data.labelled.values import error_at, label_of, number_of
from bertworks.data.readers import checked_text
from bertworks.errors import UsageError

ROWS = "rows"  # stands for the file in an example's place


def examples_from(
    task: TaskName,
    *,
    texts: Sequence[Any],
    pairs: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    options: Sequence[Sequence[str]] | None = None,
    groups: Sequence[Any] | None = None,
) -> list[Example]:
    """One example per row; its place is `rows` and its number from 0.

    What the sequences hold, by task:

        classify, pair, regress   texts; second texts; labels: class names, sequences of them, or numbers
        choice                    texts; options: the continuations; labels: the right one's number from 0
        tag                       texts: words of each sentence, or one string where there are no labels; labels: its tags
        qa                        texts: questions; pairs: contexts; labels: None (not known), an answer, a list of
                                  answers ([] = no answer); an answer is its text or (text, start)
        similarity                texts; pairs; labels: scores. Or texts: sequences (text, one like it, others …)
    """
    count = len(texts)
    given = {"pairs": pairs, "labels": labels, "options": options, "groups": groups}
    for name, values in given.items():
        if values is not None and len(values) != count:
            raise UsageError(f"there are {count} texts and {len(values)} {name}; they must be equally many")
    if task in ("pair", "qa") and pairs is None:
        raise UsageError(f"the task `{task}` needs `pairs`, the second texts")
    if task == "choice" and options is None:
        raise UsageError("the task `choice` needs `options`, the continuations of each text")
    return [
        _example(
            task,
            texts[row],
            None if pairs is None else pairs[row],
            None if labels is None else labels[row],
            None if options is None else options[row],
            None if groups is None else str(groups[row]),
            Place(ROWS, row),
        )
        for row in range(count)
    ]


def _example(
    task: TaskName, text: Any, pair: Any, label: Any, options: Any, group: str | None, place: Place
) -> Example:
    label = label.item() if hasattr(label, "item") and getattr(label, "ndim", 0) == 0 else label  # numpy's numbers
    if task == "tag":
        return _tagged(text, label, group, place)
    if task == "similarity":
        texts = (text,) if isinstance(text, str) else tuple(text)
        texts = tuple(_text(item, place) for item in (texts if pair is None else (*texts, pair)))
        return SimilarityExample(texts=texts, score=number_of(label, "labels", place), group=group, place=place)
    text = _text(text, place)
    if task == "choice":
        found = tuple(_text(option, place) for option in options)
        if len(found) < 2:
            raise error_at(place, f"a choice needs at least two options, here is {len(found)}")
        number = number_of(label, "labels", place)
        if number is not None and number not in range(len(found)):
            raise error_at(place, f"the label {label!r} is not the number of an option, 0 to {len(found) - 1}")
        right = None if number is None else int(number)
        return ChoiceExample(text=text, options=found, label=right, group=group, place=place)
    pair = None if pair is None else _text(pair, place)
    if task == "qa":
        answers = _answers(label, pair, place)
        return QuestionExample(
            id=str(place.line), question=text, context=pair, answers=answers, group=group, place=place
        )
    known: str | float | tuple[str, ...] | None
    if task == "regress":
        known = number_of(label, "labels", place)
    elif isinstance(label, str) or not hasattr(label, "__iter__"):
        known = label_of(label, "labels", place)
    else:
        found_labels = (label_of(item.item() if hasattr(item, "item") else item, "labels", place) for item in label)
        known = tuple(item for item in found_labels if item is not None)
    return TextExample(text=text, pair=pair, label=known, group=group, place=place)


def _text(value: Any, place: Place) -> str:
    return str(checked_text(value, "texts", place.path, place.line))  # numpy's strings become plain ones


def _tagged(text: Any, label: Any, group: str | None, place: Place) -> Example:
    if isinstance(text, str):
        if label is not None:
            raise error_at(place, "is one string with tags; give its words as a list, one for each tag")
        return TextExample(text=_text(text, place), group=group, place=place)
    words = tuple(_text(word, place) for word in text)
    tags = None if label is None else tuple(str(tag) for tag in label)
    if tags is not None and len(tags) != len(words):
        raise error_at(place, f"has {len(words)} words and {len(tags)} tags")
    return TaggedExample(words=words, tags=tags, group=group, place=place)


def _answers(label: Any, context: str, place: Place) -> tuple[Answer, ...] | None:
    if label is None:
        return None
    if isinstance(label, str):
        label = [label] if label else []
    elif isinstance(label, tuple) and len(label) == 2 and isinstance(label[1], int):
        label = [label]
    pairs = [(item, None) if isinstance(item, str) else tuple(item) for item in label]
    return tuple(located(text, start, context, place) for text, start in pairs)
