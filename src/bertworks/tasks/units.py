"""Encoded examples as flat arrays, and packed batches cut from them: what every task shares.

    texts ---frame_texts / frame_pairs---> Framed (many sequences as flat arrays; nothing is made per token)
    encodings (with offsets) ----framed----^
    Framed + owners ----units_of----> Units ----pack_units----> Packed

Tasks about whole texts need ids only and take the quick path of the tokenizer; those about words and characters have an
`Encoding` per window already, and join them.

Legend: U units, S sequences, B sequences of one batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertworks.data.pretraining.flat import ranges
from bertworks.data.pretraining.sequences import frame
from bertworks.errors import UsageError
from bertworks.nn.packed import Layout, Packed
from bertworks.tasks.base import Chosen, Units
from bertworks.text.encoding import Encoding
from bertworks.text.template import Template

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Framed:
    """S sequences one after the other, special tokens included."""

    ids: NDArray[np.int32]
    segments: NDArray[np.int32]
    lengths: Ints  # (S,)


@dataclass(frozen=True)
class Runs:
    """Texts one after the other without special tokens, as `Tokenizer.ids` gives them."""

    ids: NDArray[np.int32]
    lengths: Ints  # (number of texts,)

    @property
    def starts(self) -> Ints:
        return np.cumsum(self.lengths) - self.lengths

    def take(self, starts: Ints, lengths: Ints) -> Runs:
        """Runs of `lengths` tokens from `starts` on, both counted in `ids`."""
        return Runs(self.ids[ranges(starts, lengths)], lengths)


def framed(encodings: Sequence[Encoding]) -> Framed:
    """Encodings that have their special tokens already."""
    nothing: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    return Framed(
        np.concatenate(nothing + [encoding.ids for encoding in encodings]),
        np.concatenate(nothing + [encoding.segments for encoding in encodings]),
        np.array([len(encoding) for encoding in encodings], np.int64),
    )


def frame_texts(template: Template, texts: Runs) -> Framed:
    """Special tokens around each text."""
    ids, lengths, _, segments = frame(template.single, [(texts.ids.astype(np.int64), texts.lengths)])
    return Framed(ids.astype(np.int32), segments.astype(np.int32), lengths)


def frame_pairs(template: Template, first: Runs, second: Runs) -> Framed:
    """Special tokens around and between the texts of each pair."""
    ids, lengths, _, segments = frame(
        template.pair,
        [(first.ids.astype(np.int64), first.lengths), (second.ids.astype(np.int64), second.lengths)],
    )
    return Framed(ids.astype(np.int32), segments.astype(np.int32), lengths)


def room_for(template: Template, window: int, *, pair: bool, least: int = 1) -> int:
    """How many tokens of text a window holds beside the special ones."""
    room = window - template.num_special(pair)
    if room < least:
        raise UsageError(
            f"a window of {window} tokens leaves room for {max(room, 0)} beside {template.num_special(pair)} special "
            f"tokens; use at least {template.num_special(pair) + least}"
        )
    return room


def cut_texts(texts: Runs, room: int) -> Runs:
    """The first `room` tokens of each text."""
    return texts.take(texts.starts, np.minimum(texts.lengths, room))


def cut_pairs(first: Runs, second: Runs, room: int) -> tuple[Runs, Runs]:
    """At most `room` tokens of each pair: the longer text loses tokens first, as in `bertworks.text.cut`."""
    keep_second = np.minimum(second.lengths, np.maximum(room - first.lengths, room // 2))
    keep_first = np.minimum(first.lengths, room - keep_second)
    return first.take(first.starts, keep_first), second.take(second.starts, keep_second)


def units_of(
    sequences: Framed,
    owners: Sequence[int] | Ints,
    *,
    per_unit: Sequence[int] | Ints | None = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    num_cut: int = 0,
) -> Units:
    """Units of one sequence each, or of `per_unit` (U,) sequences each; `owners` (U,) are the examples' numbers."""
    counts = np.ones(len(sequences.lengths), np.int64) if per_unit is None else np.asarray(per_unit, np.int64)
    owners = np.asarray(owners, np.int64)
    if len(counts) != len(owners) or counts.sum() != len(sequences.lengths):
        raise ValueError(
            f"{len(owners)} units with {len(counts)} counts of {counts.sum()} sequences, "
            f"but there are {len(sequences.lengths)} sequences"
        )
    return Units(
        ids=sequences.ids,
        segments=sequences.segments if sequences.segments.any() else None,
        starts=_bounds(sequences.lengths),
        first=_bounds(counts),
        owners=owners,
        arrays=dict(arrays or {}),
        num_cut=num_cut,
    )


def _bounds(lengths: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def sequences_of(rows: Chosen) -> Ints:
    """(B,): the numbers of the chosen units' sequences, unit by unit."""
    first = rows.units.first
    return ranges(first[rows.numbers], first[rows.numbers + 1] - first[rows.numbers])


def units_per_sequence(rows: Chosen) -> Ints:
    """(B,): for each of these sequences, which of the chosen units (counted from 0) it belongs to."""
    first = rows.units.first
    return np.repeat(np.arange(len(rows.numbers)), first[rows.numbers + 1] - first[rows.numbers])


def pack_units(rows: Chosen, sequences: Ints | None = None) -> Packed:
    """The chosen units' sequences as one packed batch, in the order of the units, or of `sequences` where it is given.

    Whoever chooses the units sorts them by length, which keeps attention's spans few.
    """
    units = rows.units
    chosen = sequences_of(rows) if sequences is None else sequences
    starts, lengths = units.starts[chosen], units.starts[chosen + 1] - units.starts[chosen]
    places = ranges(starts, lengths)  # (T,)
    return Packed(
        input_ids=torch.from_numpy(units.ids[places].astype(np.int64)),
        layout=Layout(lengths.tolist()),
        segments=None if units.segments is None else torch.from_numpy(units.segments[places].astype(np.int64)),
    )


def split_by(flat: NDArray[Any], lengths: Sequence[int] | Ints) -> list[NDArray[Any]]:
    """Cut (sum of lengths, …) into one array per length."""
    return np.split(flat, np.cumsum(lengths)[:-1]) if len(lengths) else []


def of_examples(units: Units, num_examples: int) -> list[range]:
    """For each example, the numbers of its units."""
    bounds = np.searchsorted(units.owners, np.arange(num_examples + 1))
    return [range(start, stop) for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
