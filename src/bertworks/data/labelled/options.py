"""What a user may say about a labelled file, and what is known after it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bertworks.data.labelled.examples import Example
from bertworks.errors import DataError

TaskName = Literal["classify", "pair", "regress", "choice", "tag", "qa", "similarity"]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """All of it optional: what is left out is found by the names and the contents of the columns, and then said."""

    text_column: str | None = None
    """Name of the column of the text (the words of `tag`, the question of `qa`), or its number from 1."""
    pair_column: str | None = None
    """The second text; the context of `qa`."""
    label_column: str | None = None
    """The label, the score, the tags or the answers; several 0/1 columns of a multi-label table as `a,b,c`."""
    option_columns: tuple[str, ...] = ()
    """The possible continuations of `choice`: one column each, or one column that holds lists."""
    group_column: str | None = None
    """What must stay on one side of a split: a document, an author, a video."""
    encoding: str = "utf-8"
    file_format: str | None = None
    """One of `layout.FORMATS`; None = by the extension and the first lines."""
    header: bool | None = None
    """Whether the first row of a csv or tsv names its columns; None = find out."""
    skip_bad_rows: bool = False
    """Count rows that cannot be used and go on, rather than stop at the first."""
    multi_label: bool | str = False
    """Whether a text may have several labels or none; a string is what separates them within the column."""
    first_option: int | None = None
    """The number that the first option of `choice` has in the label column, 0 or 1; None = find out."""
    remembered: Mapping[str, Any] = field(default_factory=dict)
    """What was found in the file that a model was trained on (`LabelledData.columns`): columns of these names are used
    where this file has them and nothing else is said."""
    labelled: bool = True
    """False: the file is to be predicted; labels may be absent, and are not read where they are there."""


@dataclass(frozen=True, kw_only=True)
class LabelledData:
    """A file, read."""

    examples: list[Example]
    understood: tuple[str, ...]
    """Sentences for the user: how the file was read, and what is in it."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Which columns were used, by the names of fields of `ReadOptions`; values that JSON can hold."""
    skipped: int = 0
    """Rows that were left out: bad ones, and those whose label says that there is none."""
    bad: tuple[DataError, ...] = ()
    """What was wrong with the first few of the bad ones."""
