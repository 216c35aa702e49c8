"""Tables of texts that belong together: `similarity`.

(text) alone, a pair, a pair and its hard negatives, or a pair with a score, as the columns say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertworks.data.labelled.columns import SAMPLED_ROWS, Columns, remembered, used
from bertworks.data.labelled.examples import Place, SimilarityExample
from bertworks.data.labelled.names import ANCHORS, LABELS, NEGATIVES, NUMBERS, POSITIVES, TEXTS, plain
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.labelled.values import error_at, group_of, number_of
from bertworks.data.readers import checked_text
from bertworks.data.tables import Table
from bertworks.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which columns are what."""

    texts: tuple[str, ...]
    """One: the text; two: a pair; more: the anchor, its positive, then negatives."""
    score: str | None = None
    group: str | None = None

    def __str__(self) -> str:
        if len(self.texts) == 1:
            parts = [f"text = {self.texts[0]} (alone)"]
        elif len(self.texts) == 2:
            parts = [f"texts that belong together = {self.texts[0]} and {self.texts[1]}"]
        else:
            parts = [f"text = {self.texts[0]}, belongs to it = {self.texts[1]}, does not = {', '.join(self.texts[2:])}"]
        if self.score is not None:
            parts = [f"texts = {self.texts[0]} and {self.texts[1]}, score = {self.score}"]
        if self.group is not None:
            parts.append(f"group = {self.group}")
        return ", ".join(parts)


def read_similar(table: Table, names: Sequence[str], options: ReadOptions, notes: Notes) -> Iterator[SimilarityExample]:
    """Find the columns, note them, and give one example per row (one per positive, where a row has a list of them)."""
    sample = table.sample(SAMPLED_ROWS)
    found = names or list(dict.fromkeys(name for row in sample for name in row))
    columns = Columns(found, sample, notes.path)
    options = remembered(columns, options, notes)
    roles = find_roles(columns, options)
    if len(roles.texts) > 1:  # of texts alone, none is the other of a pair to predict
        notes.columns = used(columns, text_column=roles.texts[0], pair_column=roles.texts[1], label_column=roles.score)
    if not options.labelled:
        roles = replace(roles, score=None)
    notes.facts.append(str(roles) + _unused(columns, roles))
    wanted = [name for name in (*roles.texts, roles.score, roles.group) if name is not None]
    for line, record in table.records(wanted if names else ()):
        try:
            yield from _examples(record, roles, Place(notes.path, line), notes)
        except DataError as error:
            notes.bad(error)


def find_roles(columns: Columns, options: ReadOptions) -> Roles:
    """By the user's word, by name, or by what the columns hold."""
    if columns.is_sts_benchmark() and not any((options.text_column, options.pair_column, options.label_column)):
        return Roles(texts=("6", "7"), score="5")
    texts = _texts(columns, options)
    score = None
    if options.label_column is not None and (options.labelled or columns.has(options.label_column)):
        score = columns.asked(options.label_column)
    elif len(texts) == 2:
        score = _score(columns, texts)
    columns.check_apart(text=texts[0], pair=texts[1:], label=score)
    return Roles(texts=texts, score=score, group=columns.group(options, (*texts, score)))


def _unused(columns: Columns, roles: Roles) -> str:
    """A label beside single texts: the user may have meant another task."""
    label = columns.named(LABELS, roles.texts) if len(roles.texts) == 1 else None
    return "" if label is None else f" (not used: {label}; its classes are learnt by the task `classify`)"


def _texts(columns: Columns, options: ReadOptions) -> tuple[str, ...]:
    if options.text_column is not None:
        text = columns.asked(options.text_column)
        return (text,) if options.pair_column is None else (text, columns.asked(options.pair_column))
    positive = columns.named(POSITIVES)
    negatives = [name for name in columns.names if plain(name).rstrip("0123456789") in NEGATIVES]
    anchor = columns.named(ANCHORS, (positive, *negatives))
    both = columns.pair()
    if anchor is not None and positive is not None and (negatives or both in (None, (anchor, positive))):
        return (anchor, positive, *negatives)
    if both is not None:
        return both
    prose = columns.prose()
    if not prose or (len(prose) == 1 and not columns.has_names):  # short texts
        prose = [name for name in columns.names if columns.kind(name) in ("prose", "words")]
    named = columns.named(TEXTS)
    if len(prose) in (1, 2) or (len(prose) > 2 and not columns.has_names):
        return tuple(prose)
    if named is not None:
        return (named,)
    raise columns.ask(f"{len(prose)} columns hold text", "choose with --text-column and --pair-column", prose)


def _score(columns: Columns, texts: Sequence[str]) -> str | None:
    named = columns.named(NUMBERS, texts) or columns.named(LABELS, texts)
    if named is not None and columns.kind(named) == "number":
        return named
    if named is not None and columns.kind(named) == "words":
        shown = ", ".join(sorted({str(value) for value in columns.values(named)})[:4])
        message = (
            f"the column {named!r} holds labels ({shown}), not scores: keep the rows whose texts belong together and leave "
            "that column out, or choose a column of scores with --label-column"
        )
        raise DataError(message, path=columns.path)
    numbers = columns.unnamed(["number"], texts)
    if len(numbers) > 1:
        raise columns.ask(f"{len(numbers)} columns may be the score", "choose it with --label-column", numbers)
    return numbers[0] if numbers else None


def _examples(record: dict[str, Any], roles: Roles, place: Place, notes: Notes) -> Iterator[SimilarityExample]:
    anchor, *others = (_filled(record.get(name), name, place) for name in roles.texts)
    if not anchor and not others:
        notes.left_out["rows with an empty text"] += 1
        return
    if not anchor or (others and not others[0]):
        raise error_at(place, f"the text is empty (column {roles.texts[1 if anchor else 0]!r})")
    score = None
    if roles.score is not None:
        score = number_of(record.get(roles.score), roles.score, place)
        if score is None:
            raise error_at(place, f"the score is missing (column {roles.score!r} is empty)")
    group = group_of(record, roles.group)
    negatives = tuple(text for column in others[1:] for text in column)
    for positive in others[0] if others else [None]:
        texts = (anchor[0],) if positive is None else (anchor[0], positive, *negatives)
        yield SimilarityExample(texts=texts, score=score, group=group, place=place)


def _filled(value: Any, column: str, place: Place) -> list[str]:
    """A text, or the texts of a list, without empty ones."""
    values = value if isinstance(value, list) else [value]
    texts = [checked_text(item, column, place.path, place.line) for item in values]
    return [text for text in texts if text.strip()]
