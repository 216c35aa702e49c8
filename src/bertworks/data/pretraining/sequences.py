"""A few sequences as an objective gets them, and how texts are framed by special tokens to become such.

Legend: T tokens of all sequences together, B sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertworks.data.pretraining.flat import Ints, ranges
from bertworks.text.template import Layout, Special


@dataclass(frozen=True)
class Sequences:
    """Sequences one after the other, special tokens included, sorted by length so that packed spans are few."""

    ids: Ints  # (T,)
    lengths: Ints  # (B,)
    index: Ints  # (B,) the number of the sequence in the data; random draws are functions of it
    epoch: int
    special: NDArray[np.bool_]  # (T,) [CLS], [SEP], …: never masked
    segments: Ints | None = None  # (T,)
    labels: Mapping[str, Ints] = field(default_factory=dict)  # (B,) each, for instance {"nsp": …}

    @property
    def num_tokens(self) -> int:
        """T."""
        return len(self.ids)

    @cached_property
    def starts(self) -> Ints:
        """Where each sequence begins, (B,)."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def sequence_ids(self) -> Ints:
        """Which of the B sequences each token belongs to, (T,)."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def positions(self) -> Ints:
        """The place of each token within its sequence, (T,)."""
        return np.arange(len(self.ids)) - np.repeat(self.starts, self.lengths)


class RowSource(Protocol):
    """Numbered rows of whatever an objective prepares. What number `i` is may depend on the epoch, but never on what else is
    taken with it."""

    @property
    def num_tokens(self) -> int:
        """Of all sequences, special tokens included."""
        ...

    @property
    def lengths(self) -> NDArray[Any]:
        """The number of tokens of every sequence, special tokens included, (n,)."""
        ...

    def take(self, numbers: Ints, epoch: int) -> Any:
        """These rows."""
        ...


class SequenceSource(RowSource, Protocol):
    """Numbered sequences."""

    def take(self, numbers: Ints, epoch: int) -> Sequences:
        """These sequences, sorted by length (stable)."""
        ...


def frame(layout: Layout, texts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints, NDArray[np.bool_], Ints]:
    """Put the layout's special tokens around B texts, or B pairs.

    texts: for the first, and for a pair the second: ids one text after the other, and the lengths (B,)
    Returns ids (T,), lengths (B,), which tokens are special (T,), segments (T,).
    """
    runs = (layout.prefix, *([layout.middle] if len(texts) == 2 else []), layout.suffix)
    lengths = np.sum([text_lengths for _, text_lengths in texts], axis=0) + sum(map(len, runs))
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    ids, segments = np.empty(total, np.int64), np.empty(total, np.int64)
    special = np.zeros(total, np.bool_)
    place = ends - lengths  # (B,) where the next token of each sequence goes

    def put_special(run: Special) -> None:
        for offset, (token, segment) in enumerate(zip(run.ids, run.segments, strict=True)):
            ids[place + offset], segments[place + offset], special[place + offset] = token, segment, True

    put_special(runs[0])
    for number, (text, text_lengths) in enumerate(texts):
        place = place + len(runs[number])
        inside = ranges(place, text_lengths)
        ids[inside], segments[inside] = text, layout.segments[number]
        place = place + text_lengths
        put_special(runs[number + 1])
    return ids, lengths, special, segments
