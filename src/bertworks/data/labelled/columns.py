"""Which column is what: by what the user says, by name, or by what the column holds; else an error that asks.

`Columns` knows the names and the first rows of a table. The rows are looked at for what kind of thing each column
holds, since many files have no header or names of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from bertworks.data.labelled.names import GROUPS, IDENTIFIERS, PAIRS, SOMETIMES_PAIRED, plain
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.labelled.values import DECIMAL_COMMA
from bertworks.data.tables import is_number, no_column
from bertworks.errors import DataError

Kind = Literal["nothing", "number", "prose", "words", "list", "other"]
"""What a column holds: nothing at all, numbers, texts, words or codes (labels, mostly), lists, or something else."""

SAMPLED_ROWS = 1000
FIRST_IDEOGRAPHS = "\u2e80"


class Columns:
    """The columns of one table. `path` is what messages call it."""

    def __init__(self, names: Sequence[str], sample: Sequence[dict[str, Any]], path: str) -> None:
        self.names = list(names)
        self.path = path
        self._by_plain: dict[str, str] = {}
        for name in names:
            self._by_plain.setdefault(plain(name), name)
        self._sample = sample
        self._kinds: dict[str, Kind] = {}

    def values(self, name: str) -> list[Any]:
        """What the first rows hold in a column, without the empty ones."""
        found = (row.get(name) for row in self._sample)
        return [value for value in found if value is not None and value != "" and value != []]

    def kind(self, name: str) -> Kind:
        """What the first rows hold."""
        if name not in self._kinds:
            self._kinds[name] = _kind(self.values(name))
        return self._kinds[name]

    def distinct(self, name: str) -> int:
        """How many different values the first rows hold."""
        return len({str(value) for value in self.values(name)})

    # -- finding -------------------------------------------------------------------------------------------------------

    def asked(self, name: str) -> str:
        """A column that the user named, or numbered from 1."""
        if name in self.names:
            return name
        if name.isdecimal() and 1 <= int(name) <= len(self.names):
            return self.names[int(name) - 1]
        raise no_column(name, self.names, self.path, None)

    def has(self, name: str) -> bool:
        """Whether `asked` would find it."""
        return name in self.names or (name.isdecimal() and 1 <= int(name) <= len(self.names))

    def named(self, wanted: Iterable[str], without: Collection[str | None] = ()) -> str | None:
        """The first column that has one of these names, in the order of `wanted`."""
        found = (self._by_plain.get(name) for name in wanted)
        return next((name for name in found if name is not None and name not in without), None)

    def pair(self) -> tuple[str, str] | None:
        """The two columns that have the names of a pair and hold texts."""
        for names in PAIRS:
            first, second = (self._by_plain.get(name) for name in names)
            if first is None or second is None:
                continue
            texts = {"prose", "nothing"} if names[1] in SOMETIMES_PAIRED else {"prose", "words", "nothing"}
            if {self.kind(first), self.kind(second)} <= texts:
                return first, second
        return None

    def prose(self, without: Collection[str | None] = ()) -> list[str]:
        """The columns that hold texts."""
        return [name for name in self.names if name not in without and self.kind(name) == "prose"]

    def unnamed(self, kinds: Collection[Kind], without: Collection[str | None] = ()) -> list[str]:
        """The columns of these kinds that are no texts, no numbers of rows and not the same in all rows."""
        return [
            name
            for name in self.names
            if name not in without and self.kind(name) in kinds and not self.numbers_rows(name)
            if self.distinct(name) > 1 or len(self._sample) < 3
        ]

    def numbers_rows(self, name: str) -> bool:
        """Whether a column is there to tell rows apart: by its name, or since it holds ascending whole numbers, or a
        different code in each row."""
        if plain(name) in IDENTIFIERS:
            return True
        values = [str(value) for value in self.values(name)]
        if self.kind(name) == "words" and len(values) >= 20:
            return len(set(values)) == len(values)
        if len(values) < 5 or not all(value.isdecimal() for value in values):
            return False
        numbers = [int(value) for value in values]
        return all(second > first for first, second in itertools.pairwise(numbers))

    @property
    def has_names(self) -> bool:
        """Whether the columns have names; those of a table without a header are numbered."""
        return not all(name.isdecimal() for name in self.names)

    def is_sts_benchmark(self) -> bool:
        """The STS benchmark's own files, which have no header: genre, file, year, number, score, two sentences."""
        return (
            self.names == [str(number) for number in range(1, 8)]
            and [self.kind(name) for name in "567"] == ["number", "prose", "prose"]
            and all(0 <= float(value) <= 5 for value in self.values("5"))
        )

    def group(self, options: ReadOptions, without: Collection[str | None] = ()) -> str | None:
        """The column whose equal values stay together in a split."""
        if options.group_column is not None and (options.labelled or self.has(options.group_column)):
            return self.asked(options.group_column)
        found = self.named(GROUPS, without)
        return found if found is not None and self.kind(found) not in ("prose", "nothing") else None

    def has_decimal_commas(self, name: str) -> bool:
        """Whether a column holds numbers as they are written in half of Europe."""
        values = self.values(name)
        numbers = all(isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()) for value in values)
        return bool(values) and numbers and any("," in value for value in values)

    def check_apart(self, **parts: str | Sequence[str] | None) -> None:
        """No column may play two parts."""
        known: dict[str, str] = {}
        for part, names in parts.items():
            for name in (names,) if isinstance(names, str) else names or ():
                if name in known:
                    message = f"the column {name!r} would be both {known[name]} and {part}"
                    raise self.ask(message, "choose others with --text-column, --pair-column and --label-column")
                known[name] = part

    # -- asking --------------------------------------------------------------------------------------------------------

    def ask(self, what: str, how: str, among: Sequence[str] | None = None) -> DataError:
        """The error where a column cannot be told."""
        shown = ", ".join(f"{name:.40}" for name in (among or self.names))
        hint = "" if self.has_names else " (columns without a header are numbered)"
        return DataError(f"{what}; {how}, from: {shown}{hint}", path=self.path)


def remembered(columns: Columns, options: ReadOptions, notes: Notes) -> ReadOptions:
    """`options` with the columns that a model was trained with, where this table has them and the user does not choose."""
    chosen: dict[str, Any] = {}
    for fields in (("text_column", "pair_column", "option_columns"), ("label_column",)):
        known = {name: options.remembered[name] for name in fields if options.remembered.get(name)}
        if any(getattr(options, name) for name in fields) or not columns.has_names:
            continue
        missing = [name for value in known.values() for name in _names(value, columns) if name not in columns.names]
        if not missing:
            chosen |= known
        elif options.labelled or "label_column" not in fields:
            notes.facts.append(f"without {', '.join(missing)}, which the model was trained with")
    return replace(options, **chosen)


def used(columns: Columns, **named: str | Sequence[str] | None) -> dict[str, Any]:
    """What `remembered` needs to know of a table that a model is trained on: nothing where columns are only numbered."""
    return {name: value for name, value in named.items() if value} if columns.has_names else {}


def _names(value: Any, columns: Columns) -> Sequence[str]:
    """The columns that one field of the options names."""
    if not isinstance(value, str):
        return tuple(value)
    return (value,) if value in columns.names else value.split(",")


def _kind(values: Sequence[Any]) -> Kind:
    if not values:
        return "nothing"
    if all(isinstance(value, list) for value in values):
        return "list"
    if all(isinstance(value, bool | int | float) or (isinstance(value, str) and is_number(value)) for value in values):
        return "number"
    if not all(isinstance(value, str) for value in values):
        return "other"
    texts = sum(_is_prose(value) for value in values)
    # A label may have several words ("very positive"), but then it comes again and again.
    repeated = len(values) >= 20 and len(set(values)) < 0.2 * len(values)
    return "prose" if texts > 0.5 * len(values) and not repeated else "words"


def _is_prose(value: str) -> bool:
    """Several words, or a long string in a script without spaces between words."""
    return len(value) >= 40 or len(value.split()) > 1 or (len(value) >= 5 and max(value) >= FIRST_IDEOGRAPHS)
