"""Tables of words with tags: `tag`.

A row is a sentence, its words and tags in lists or separated by spaces; or a row is a word, and a column numbers the
sentences (a number may stand only in the first row of each). Rows with a text as one string can be predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bertworks.data.labelled.columns import SAMPLED_ROWS, Columns, remembered, used
from bertworks.data.labelled.examples import Place, TaggedExample, TextExample
from bertworks.data.labelled.names import SENTENCES, TAGS, TEXTS, WORDS
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.labelled.values import class_names, error_at, group_of, label_of
from bertworks.data.readers import checked_text
from bertworks.data.tables import Table
from bertworks.errors import DataError


def read_tagged(
    table: Table, names: Sequence[str], options: ReadOptions, notes: Notes
) -> Iterator[TaggedExample | TextExample]:
    """Find the columns, note them, and give one example per sentence."""
    sample = table.sample(SAMPLED_ROWS)
    columns = Columns(names or list(dict.fromkeys(name for row in sample for name in row)), sample, notes.path)
    options = remembered(columns, options, notes)
    word, tag = _find_columns(columns, options)
    notes.columns = used(columns, text_column=word, label_column=tag)
    sentence = columns.named(SENTENCES, (word, tag))
    group = columns.group(options, (word, tag))
    said = [f"words = {word}", f"tags = {tag}" if tag else "no tags", f"group = {group}" if group else ""]
    wanted = [name for name in (word, tag, group) if name is not None]
    if sentence is not None and columns.kind(word) == "words":
        notes.facts.append(", ".join([*filter(None, said), f"one word per row, sentence = {sentence}"]))
        records = table.records([*wanted, sentence] if names else ())
        yield from _by_word(records, word, tag, sentence, group, options, notes)
        return
    as_text = tag is None and columns.kind(word) != "list"
    notes.facts.append(f"text = {word}" if as_text else ", ".join(filter(None, said)))
    tag_names = class_names(table).get(tag or "")
    lists = [value for value in columns.values(tag or "") if isinstance(value, list)]
    if tag_names is None and any(isinstance(item, int) for value in lists for item in value):
        notes.facts.append("its tags are numbers that nobody has named: each is learnt as a class, and none as a span")
    for line, record in table.records(wanted if names else ()):
        place = Place(notes.path, line)
        in_group = group_of(record, group)
        try:
            if as_text:
                text = checked_text(record.get(word), word, notes.path, line)
                yield TextExample(text=text, group=in_group, place=place)
            else:
                yield _sentence(record, word, tag, tag_names, in_group, options, place)
        except DataError as error:
            notes.bad(error)


def _find_columns(columns: Columns, options: ReadOptions) -> tuple[str, str | None]:
    word = None if options.text_column is None else columns.asked(options.text_column)
    tag = None
    if options.label_column is not None and (options.labelled or columns.has(options.label_column)):
        tag = columns.asked(options.label_column)
    word = word or columns.named(WORDS, (tag,)) or (None if options.labelled else columns.named(TEXTS, (tag,)))
    if word is None and len(columns.names) == 1:
        word = columns.names[0]
    if word is None:
        raise columns.ask("the column of the words cannot be told", "choose it with --text-column")
    tag = tag or columns.named(TAGS, (word,))
    if tag is None and options.labelled:
        raise columns.ask("there is no column that is plainly the tags", "choose it with --label-column")
    columns.check_apart(words=word, tags=tag)
    return word, tag


def _sentence(
    record: dict[str, Any],
    word: str,
    tag: str | None,
    tag_names: list[str] | None,
    group: str | None,
    options: ReadOptions,
    place: Place,
) -> TaggedExample:
    words = tuple(checked_text(item, word, place.path, place.line) for item in _items(record.get(word), word, place))
    tags = None
    if tag is not None and options.labelled:
        found = [label_of(item, tag, place, tag_names) for item in _items(record.get(tag), tag, place, commas=True)]
        if len(found) != len(words):
            raise error_at(place, f"has {len(words)} words ({word}) and {len(found)} tags ({tag})")
        if None in found:
            raise error_at(place, f"word {found.index(None) + 1} has no tag ({tag})")
        tags = tuple(str(item) for item in found)
    if not words or not all(item.strip() for item in words):
        raise error_at(place, "has no words" if not words else "has an empty word")
    return TaggedExample(words=words, tags=tags, group=group, place=place)


def _items(value: Any, column: str, place: Place, *, commas: bool = False) -> list[Any]:
    """The entries of a list, or of a string: separated by spaces, or else (where that may be) by commas."""
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        items = value.split()
        return value.split(",") if commas and len(items) == 1 and "," in value.strip(",") else items
    raise error_at(place, f"the column {column!r} holds {value!r:.40}, which is no list and no text")


def _by_word(
    records: Iterator[tuple[int, dict[str, Any]]],
    word: str,
    tag: str | None,
    sentence: str,
    group: str | None,
    options: ReadOptions,
    notes: Notes,
) -> Iterator[TaggedExample]:
    """Sentences of the words that carry one number; one with a bad word is left out whole, since its tags may not fit then."""
    words: list[str] = []
    tags: list[str] = []
    first, current, in_group, bad = 0, None, None, False
    for line, record in records:
        place = Place(notes.path, line)
        number = record.get(sentence)
        if number not in (None, "", current):  # an empty one belongs to the sentence before
            if words and not bad:
                yield _joined(words, tags, in_group, options, Place(notes.path, first))
            words, tags, first, current, in_group, bad = [], [], line, number, group_of(record, group), False
        try:
            text = checked_text(record.get(word), word, notes.path, line)
            label = label_of(record.get(tag), tag, place) if tag is not None and options.labelled else None
            if not text.strip():
                raise error_at(place, f"has no word (column {word!r})")
            if label is None and tag is not None and options.labelled:
                raise error_at(place, f"the tag is missing (column {tag!r} is empty)")
        except DataError as error:
            if not bad:  # one sentence is one bad row
                notes.bad(error)
            bad = True
            continue
        words.append(text)
        tags.append(label or "O")
    if words and not bad:
        yield _joined(words, tags, in_group, options, Place(notes.path, first))


def _joined(words: list[str], tags: list[str], group: str | None, options: ReadOptions, place: Place) -> TaggedExample:
    return TaggedExample(words=tuple(words), tags=tuple(tags) if options.labelled else None, group=group, place=place)
