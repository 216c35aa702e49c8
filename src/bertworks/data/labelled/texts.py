"""Tables of texts with labels: `classify`, `pair` and `regress`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertworks.data.labelled.columns import SAMPLED_ROWS, Columns, Kind, remembered, used
from bertworks.data.labelled.examples import Place, TextExample
from bertworks.data.labelled.labels import NotAgreedError, label_reader
from bertworks.data.labelled.names import LABELS, NUMBERS, SINGLE_LABELS, TEXTS, plain
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions, TaskName
from bertworks.data.labelled.values import group_of
from bertworks.data.readers import checked_text
from bertworks.data.tables import Table
from bertworks.errors import DataError

SURE_LABELS = ("label", "labels", "goldlabel", "class", "category")  # even where what they hold looks like texts
SURE_TEXTS = ("text", "sentence")  # even where what they hold looks like labels


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which columns are what."""

    text: str
    pair: str | None = None
    labels: tuple[str, ...] = ()
    """Several where each is one class of a multi-label table, with 0 or 1 in it."""
    group: str | None = None

    def __str__(self) -> str:
        named = {"text": self.text, "pair": self.pair, "label": ", ".join(self.labels) or None, "group": self.group}
        return ", ".join(f"{what} = {column}" for what, column in named.items() if column is not None)


def read_texts(
    table: Table, names: Sequence[str], task: TaskName, options: ReadOptions, notes: Notes
) -> Iterator[TextExample]:
    """Find the columns, note them, and give one example per row."""
    sample = table.sample(SAMPLED_ROWS)
    columns = Columns(names or _names(sample), sample, notes.path)
    options = remembered(columns, options, notes)
    roles = find_roles(columns, task, options)
    notes.columns = used(columns, text_column=roles.text, pair_column=roles.pair, label_column=",".join(roles.labels))
    if not options.labelled:  # they were found only so that they are not taken for texts
        roles = replace(roles, labels=())
    notes.facts.append(str(roles) + _unused(columns, roles))
    label = label_reader(table, columns, roles.labels, task, options, notes)
    wanted = [name for name in (roles.text, roles.pair, roles.group, *roles.labels) if name is not None]
    unseen = dict.fromkeys(roles.labels) if len(roles.labels) > 1 and options.labelled else {}
    for line, record in table.records(wanted if names else ()):
        place = Place(notes.path, line)
        try:
            text = checked_text(record.get(roles.text), roles.text, notes.path, line)
            pair = None if roles.pair is None else checked_text(record.get(roles.pair), roles.pair, notes.path, line)
            found = label(record, place)
        except DataError as error:
            notes.bad(error)
            continue
        except NotAgreedError:
            notes.left_out["rows without an agreed label (-)"] += 1
            continue
        if not text.strip() or (pair is not None and not pair.strip()):
            notes.counts["rows with an empty text"] += 1
        if unseen and isinstance(found, tuple):
            unseen = {name: None for name in unseen if name not in found}
        group = group_of(record, roles.group)
        yield TextExample(text=text, pair=pair, label=found, group=group, place=place)
    if unseen:
        notes.remarks.append(f"no row has the label {', '.join(unseen)}")


def _names(sample: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in sample for name in row))


# -- which columns -----------------------------------------------------------------------------------------------------


def find_roles(columns: Columns, task: TaskName, options: ReadOptions) -> Roles:
    """By the user's word, by name, by contents; an error that asks where that leaves several or none."""
    if (known := _known(columns, task, options)) is not None:
        return known
    labels = _asked_labels(columns, options)
    pair = None if options.pair_column is None else columns.asked(options.pair_column)
    text = None if options.text_column is None else columns.asked(options.text_column)
    if not labels:
        labels = _named_labels(columns, task, options, without=(text, pair))
    text, pair = _find_texts(columns, task, text, pair, without=labels)
    if not labels:
        labels = _other_labels(columns, task, options, without=(text, pair))
    if text is None:
        text = _only_text_left(columns, without=(*labels, pair))
    if pair is None and task == "pair":
        raise columns.ask("the second text of the pair cannot be told", "choose it with --pair-column")
    if options.labelled and not labels:
        if task == "regress" and (comma := next(filter(columns.has_decimal_commas, columns.names), None)):
            message = f"the column {comma!r} has numbers with decimal commas ({columns.values(comma)[0]})"
            raise DataError(f"{message}; write them with a point", path=columns.path)
        message = "there is no column that is plainly the label (a file without labels can only be predicted)"
        raise columns.ask(message, "choose it with --label-column")
    columns.check_apart(text=text, pair=pair, label=labels)
    return Roles(text=text, pair=pair, labels=labels, group=columns.group(options, (text, pair, *labels)))


def _known(columns: Columns, task: TaskName, options: ReadOptions) -> Roles | None:
    """Two sets without a header whose columns nobody could guess."""
    if columns.has_names or any((options.text_column, options.pair_column, options.label_column)):
        return None
    width = len(columns.names)
    # CoLA: source, 0 or 1, the linguist's mark (* or ?), sentence.
    if (
        width == 4
        and {str(value) for value in columns.values("2")} <= {"0", "1"}
        and all(not set(str(value)) - set("*?#% ") for value in columns.values("3"))
        and (columns.kind("1"), columns.kind("4")) == ("words", "prose")
    ):
        return Roles(text="4", labels=("2",), group=columns.group(options))
    # The STS benchmark: genre, file, year, number, score, two sentences.
    if task != "classify" and columns.is_sts_benchmark():
        return Roles(text="6", pair="7", labels=("5",), group=columns.group(options))
    return None


def _asked_labels(columns: Columns, options: ReadOptions) -> tuple[str, ...]:
    if options.label_column is None or not (options.labelled or columns.has(options.label_column)):
        return ()
    if options.label_column not in columns.names and "," in options.label_column:
        return tuple(columns.asked(name.strip()) for name in options.label_column.split(","))
    return (columns.asked(options.label_column),)


def _named_labels(
    columns: Columns, task: TaskName, options: ReadOptions, without: tuple[str | None, ...]
) -> tuple[str, ...]:
    without = (*without, *(columns.pair() or ()))
    if task == "regress":
        other = [name for name in columns.names if columns.kind(name) not in ("number", "nothing")]
        found = columns.named(NUMBERS, (*without, *other)) or columns.named(NUMBERS, without)
    else:
        found = columns.named(LABELS if task == "pair" else (*LABELS, *SINGLE_LABELS), without)
    if found is not None and columns.kind(found) == "prose" and plain(found) not in SURE_LABELS:
        found = None
    if found is None or columns.kind(found) == "number":
        flags = _flags(columns, without)
        if options.multi_label and len(flags) > 1:
            return tuple(flags)
        if found in flags and len(flags) > 1 and plain(found) not in SURE_LABELS and task == "classify":
            if options.labelled:
                message = f"{len(flags)} columns hold 0 and 1, and each may be a label"
                raise columns.ask(message, "choose one with --label-column, or all with --multi-label", flags)
            return tuple(flags)
    return () if found is None else (found,)


def _flags(columns: Columns, without: tuple[str | None, ...]) -> list[str]:
    """The columns that hold 0 and 1 only: one for each class."""
    return [
        name
        for name in columns.names
        if name not in without and columns.values(name) and not columns.numbers_rows(name)
        if {str(value) for value in columns.values(name)} <= {"0", "1", "0.0", "1.0", "True", "False"}
    ]


def _other_labels(
    columns: Columns, task: TaskName, options: ReadOptions, without: tuple[str | None, ...]
) -> tuple[str, ...]:
    """The one column left that can be a label."""
    kinds: tuple[Kind, ...] = ("number",) if task == "regress" else ("number", "words", "list")
    found = [name for name in columns.unnamed(kinds, without) if task != "pair" or plain(name) not in SINGLE_LABELS]
    if len(found) > 1 and without == (None, None) and len(columns.names) == 2:  # short texts, without a header
        first, second = sorted(found, key=columns.distinct)
        found = [first] if columns.distinct(first) < columns.distinct(second) else found
    if len(found) > 1 and options.labelled:
        message = f"{len(found)} columns may be the label"
        raise columns.ask(message, "choose it with --label-column", found)
    return tuple(found) if len(found) == 1 else ()


def _find_texts(
    columns: Columns, task: TaskName, text: str | None, pair: str | None, without: tuple[str, ...]
) -> tuple[str | None, str | None]:
    """The text, and the second one where the task wants or may have two."""
    if text is not None and (pair is not None or task != "pair"):
        return text, pair
    both = columns.pair()
    if both is not None and not set(both) & set(without) and text in (None, *both) and pair in (None, *both):
        if task == "classify" and pair is None and "text" not in map(plain, columns.names):
            message = f"each row has two texts, {both[0]} and {both[1]}"
            raise columns.ask(message, "use the task `pair`, or choose one text with --text-column", both)
        if task != "classify" or pair is not None:
            first = text or (both[0] if pair in (None, both[1]) else both[1])
            return first, pair or (both[1] if first == both[0] else both[0])
    prose = columns.prose((*without, text, pair))
    if pair is None and (task == "pair" or (task == "regress" and not columns.has_names and len(prose) == 2)):
        if len(prose) == 2 - (text is not None):
            return (prose[0], prose[1]) if text is None else (text, prose[0])
        raise columns.ask(
            f"{len(prose)} columns hold text where a pair has two", "choose with --text-column and --pair-column", prose
        )
    return text or _find_text(columns, prose, (*without, pair)), pair


def _find_text(columns: Columns, prose: list[str], without: tuple[str | None, ...]) -> str | None:
    """A column with the name of a text that holds texts; else the only one that does; else by its name alone."""
    named = columns.named(SURE_TEXTS, without) or columns.named(TEXTS, set(columns.names) - set(prose))
    if named is not None:
        return named
    if len(prose) > 1:
        how = "choose one with --text-column (and a second one with --pair-column)"
        raise columns.ask(f"{len(prose)} columns hold text", how, prose)
    return prose[0] if prose else columns.named(TEXTS, without)


def _only_text_left(columns: Columns, without: tuple[str | None, ...]) -> str:
    left = [name for name in columns.names if name not in without and columns.kind(name) == "words"]
    if len(columns.names) == 1 and not left:
        left = columns.names
    if len(left) != 1:
        raise columns.ask("the column of the text cannot be told", "choose it with --text-column")
    return left[0]


def _unused(columns: Columns, roles: Roles) -> str:
    """Other columns that hold text: a user may have meant them."""
    parses = ("sentence1parse", "sentence2parse", "sentence1binaryparse", "sentence2binaryparse")  # SNLI and MNLI
    others = columns.prose((roles.text, roles.pair, roles.group, *roles.labels))
    others = [name for name in others if plain(name) not in parses]
    return f" (not used: {', '.join(others)})" if others else ""
