"""Tables of a beginning and its possible continuations: `choice`.

SWAG (Zellers et al. 2018) has one column for each ending, and begins each ending with the same half sentence `sent2`,
which belongs to the second text. Others have one column for each option (`option1`, `answerA`), a column of lists
(HellaSwag's `endings`), or lists of {"label", "text"} (CommonsenseQA, ARC). The right one is a number from 0 or from 1,
a letter, or the option itself.
"""

from __future__ import annotations

import string
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertworks.data.labelled.columns import SAMPLED_ROWS, Columns, remembered, used
from bertworks.data.labelled.examples import ChoiceExample, Place
from bertworks.data.labelled.names import BEGINNINGS, CHOSEN, OPTION_LISTS, OPTION_STEMS, QUESTIONS, plain
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.labelled.values import error_at, group_of, label_of, whole
from bertworks.data.readers import checked_text
from bertworks.data.tables import Table
from bertworks.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which columns are what."""

    texts: tuple[str, ...]
    """The beginning, joined by spaces where there are several."""
    prefix: str | None = None
    """What every option begins with."""
    options: tuple[str, ...]
    label: str | None = None
    gold: str | None = None
    """The column of the right option, where it has one of its own and `options` are the wrong ones."""
    group: str | None = None
    first: int = 0
    """The number of the first option in the label column: 0 or 1."""

    def __str__(self) -> str:
        parts = [f"text = {' + '.join(self.texts)}"]
        wrong = [f"{self.prefix} + {name}" if self.prefix else name for name in self.options]
        if self.gold is not None:
            parts += [f"right option = {self.gold}", f"wrong options = {', '.join(wrong)}"]
        else:
            parts.append(f"options = {', '.join(wrong)}")
        if self.label is not None:
            parts.append(f"label = {self.label}, counted from {self.first} where it is a number")
        if self.group is not None:
            parts.append(f"group = {self.group}")
        return ", ".join(parts)


def read_choices(table: Table, names: Sequence[str], options: ReadOptions, notes: Notes) -> Iterator[ChoiceExample]:
    """Find the columns, note them, and give one example per row."""
    sample = [_flat(record) for record in table.sample(SAMPLED_ROWS)]
    found = names or list(dict.fromkeys(name for row in sample for name in row))
    columns = Columns(found, sample, notes.path)
    options = remembered(columns, options, notes)
    roles = find_roles(columns, options)
    text = roles.texts[0] if len(roles.texts) == 1 else None
    if roles.gold is None:
        notes.columns = used(
            columns, text_column=text, pair_column=roles.prefix, option_columns=roles.options, label_column=roles.label
        ) | {"first_option": roles.first}
    if not options.labelled:  # it was found only so that it is not taken for a text
        roles = replace(roles, label=None)
    notes.facts.append(str(roles))
    wanted = [*roles.texts, *roles.options, roles.prefix, roles.label, roles.gold, roles.group]
    for line, record in table.records([name for name in wanted if name is not None] if names else ()):
        try:
            yield _example(_flat(record), roles, Place(notes.path, line))
        except DataError as error:
            notes.bad(error)


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """CommonsenseQA's and ARC's own files keep the stem and the choices inside `question`."""
    question = record.get("question")
    if isinstance(question, dict):
        return {**{name: value for name, value in record.items() if name != "question"}, **question}
    return record


# -- which columns -----------------------------------------------------------------------------------------------------


def find_roles(columns: Columns, options: ReadOptions) -> Roles:
    """By the user's word, by name, or (without a header) by what stands where."""
    label = None
    if options.label_column is not None and (options.labelled or columns.has(options.label_column)):
        label = columns.asked(options.label_column)
    gold = None
    endings = tuple(columns.asked(name) for name in options.option_columns) or _named_options(columns)
    if not endings and (gold := columns.named(("goldending",))) is not None:  # SWAG's train_full.csv and val_full.csv
        endings = tuple(
            name for name in columns.names if plain(name) in [f"distractor{number}" for number in range(10)]
        )
    label = label or (None if gold else columns.named(CHOSEN, endings))
    if not endings and not columns.has_names:
        return _numbered(columns, options, label)
    if not endings:
        raise columns.ask("the possible continuations cannot be told", "name their columns with --option-columns a,b,c")
    if options.labelled and label is None and gold is None:
        raise columns.ask("there is no column that says which option is right", "choose it with --label-column")
    texts, prefix = _beginning(columns, options, (*endings, label, gold))
    return Roles(
        texts=texts,
        prefix=prefix,
        options=endings,
        label=label,
        gold=gold,
        group=columns.group(options, (*texts, *endings, label)),
        first=_first_number(columns, label, endings, options),
    )


def _named_options(columns: Columns) -> tuple[str, ...]:
    by_plain = {plain(name): name for name in reversed(columns.names)}
    for stem in OPTION_STEMS:
        for suffixes in ("0123456789", "123456789", string.ascii_lowercase):
            found = []
            for suffix in suffixes:
                if stem + suffix not in by_plain:
                    break
                found.append(by_plain[stem + suffix])
            if len(found) > 1:
                return tuple(found)
    lists = columns.named(OPTION_LISTS)
    return () if lists is None or columns.kind(lists) not in ("list", "other") else (lists,)


def _beginning(
    columns: Columns, options: ReadOptions, without: tuple[str | None, ...]
) -> tuple[tuple[str, ...], str | None]:
    """The column or columns of the beginning, and the one that every option begins with."""
    second = None if options.pair_column is None else columns.asked(options.pair_column)
    if options.text_column is not None:
        return (columns.asked(options.text_column),), second
    swag = columns.named(("sent1",)), columns.named(("sent2",))
    if swag[0] is not None and swag[1] is not None:
        return (swag[0],), swag[1]
    first = columns.named(BEGINNINGS, (*without, second))
    if first is None:
        raise columns.ask("the beginning cannot be told", "choose it with --text-column")
    question = columns.named(QUESTIONS, (*without, second, first))  # a text and a question about it
    return ((first,) if question is None else (first, question)), second


def _numbered(columns: Columns, options: ReadOptions, label: str | None) -> Roles:
    """Without a header (as CODAH): the texts from left to right are the beginning and its options; a number is the label."""
    texts = [name for name in columns.prose((label,)) if not columns.numbers_rows(name)]
    if options.text_column is not None:
        start = columns.asked(options.text_column)
        texts = [start, *(name for name in texts if int(name) > int(start))]
    if label is None:
        numbers = [
            name for name in columns.unnamed(("number", "words"), texts) if _may_choose(columns, name, len(texts) - 1)
        ]
        if len(numbers) > 1:
            raise columns.ask(f"{len(numbers)} columns may be the label", "choose it with --label-column", numbers)
        label = numbers[0] if numbers else None
    if len(texts) < 3:
        how = "give the file a header (text, option0, option1, …, label) or use --text-column and --option-columns"
        raise columns.ask("the beginning and its continuations cannot be told", how)
    if options.labelled and label is None:
        raise columns.ask("there is no column that says which option is right", "choose it with --label-column")
    endings = tuple(texts[1:])
    first = _first_number(columns, label, endings, options)
    return Roles(
        texts=(texts[0],), options=endings, label=label, first=first, group=columns.group(options, (*texts, label))
    )


def _may_choose(columns: Columns, name: str, num_options: int) -> bool:
    values = {str(value).strip() for value in columns.values(name)}
    if columns.kind(name) == "words":  # letters
        return values <= set(string.ascii_uppercase[:num_options])
    return all(whole(value).isdecimal() and float(value) <= num_options for value in values)


def _first_number(columns: Columns, label: str | None, endings: Sequence[str], options: ReadOptions) -> int:
    """Whether options are counted from 0 or from 1: as the user or the training file says; else one of the two ends is seen
    in the first rows, or the columns are numbered (ending1, ending2 …); else nobody knows."""
    said = options.first_option if options.first_option is not None else options.remembered.get("first_option")
    if said is not None:
        return int(said)
    values = () if label is None else columns.values(label)
    numbers = {int(text) for value in values if (text := whole(str(value).strip())).isdecimal()}
    listed = columns.values(endings[0]) if len(endings) == 1 else []
    if not numbers or 0 in numbers or any(map(_marks, listed)):
        return 0
    count = max((len(_listed(value)) for value in listed), default=len(endings))
    numbered = len(endings) > 1 and columns.has_names and plain(endings[0])[-1]
    if max(numbers) >= count or numbered in ("0", "1"):
        return int(max(numbers) >= count or numbered == "1")
    if not options.labelled:
        return 0
    shown = ", ".join(map(str, sorted(numbers)))
    message = (
        f"the labels ({shown}) do not tell whether the {count} options are counted from 0 or from 1; say it with "
        "--first-option 0 or --first-option 1"
    )
    raise DataError(message, path=columns.path)


# -- one row -----------------------------------------------------------------------------------------------------------


def _example(record: dict[str, Any], roles: Roles, place: Place) -> ChoiceExample:
    text = " ".join(checked_text(record.get(name), name, place.path, place.line) for name in roles.texts)
    marks: list[str] = []
    if len(roles.options) == 1:
        column = roles.options[0]
        found = [checked_text(value, column, place.path, place.line) for value in _listed(record.get(column))]
        marks = _marks(record.get(column))
    else:
        found = [checked_text(record.get(name), name, place.path, place.line) for name in roles.options]
    label: int | None
    if roles.gold is not None:
        right = checked_text(record.get(roles.gold), roles.gold, place.path, place.line)
        found = [option for option in found if option.strip()]  # a full file may have fewer wrong endings
        # Were it always the first, a model that cannot tell (all options equal) would seem to be right always.
        label = zlib.crc32(f"{text}\n{right}".encode()) % (len(found) + 1)
        found.insert(label, right)
    else:
        label = None if roles.label is None else _chosen(record.get(roles.label), roles, found, marks, place)
    if len(found) < 2:
        raise error_at(place, f"a choice needs at least two options, here is {len(found)}")
    if roles.prefix is not None:
        prefix = checked_text(record.get(roles.prefix), roles.prefix, place.path, place.line)
        found = [f"{prefix} {option}" if prefix else option for option in found]
    group = group_of(record, roles.group)
    return ChoiceExample(text=text, options=tuple(found), label=label, group=group, place=place)


def _listed(value: Any) -> list[Any]:
    """The options of a list, of a list of objects, or of {"text": […], "label": […]}."""
    if isinstance(value, dict):
        value = value.get("text", [])
    if not isinstance(value, list):
        return []
    return [item.get("text") if isinstance(item, dict) else item for item in value]


def _marks(value: Any) -> list[str]:
    """What a list of objects calls its options: A, B, C or 1, 2, 3."""
    if isinstance(value, dict):
        return [str(mark) for mark in value.get("label", [])]
    if isinstance(value, list):
        return [str(item["label"]) for item in value if isinstance(item, dict) and "label" in item]
    return []


def _chosen(value: Any, roles: Roles, found: list[str], marks: list[str], place: Place) -> int:
    """The number, from 0, of the option that the label means."""
    assert roles.label is not None
    text = whole(label_of(value, roles.label, place) or "")
    if text in ("", "-1"):  # how some sets spell that it is not told
        raise error_at(place, f"the label is missing (column {roles.label!r} holds {value!r})")
    if text in marks:
        return marks.index(text)
    if text.isdecimal() and 0 <= int(text) - roles.first < len(found):
        return int(text) - roles.first
    if len(text) == 1 and (number := string.ascii_uppercase.find(text.upper())) in range(len(found)):
        return number
    if found.count(text) == 1:
        return found.index(text)
    first, last = roles.first, roles.first + len(found) - 1
    message = f"the label {text!r} names none of the {len(found)} options; allowed: {first} to {last}, or A, B, …"
    if text in (str(last + 1), str(first - 1)):
        message += f"; if this file counts its options from {1 - first}, say --first-option {1 - first}"
    raise error_at(place, message)
