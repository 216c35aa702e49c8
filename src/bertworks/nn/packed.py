"""Packed batches: a flat run of tokens with sequence boundaries, so that padding is never computed.

    sequences   [CLS] a b [SEP]   [CLS] c [SEP]   [CLS] d [SEP]
    flat        [CLS] a b [SEP] [CLS] c [SEP] [CLS] d [SEP]          T = 10, lengths = (4, 3, 3)
    spans       |--- 1 x 4 ----|------- 2 x 3 --------------|        what attention sees

Linear layers, norms and activations see one dense (T, H) matrix. Attention sees *spans*: neighbouring sequences of
equal length, which are a (count, length, ...) view of the flat run, free of copies. Whoever builds a batch sorts its
sequences by length so that the spans are few; unsorted batches are right too, only slower.

Cross-attention, and a last layer that is computed at a few rows only, are the same picture with two layouts: one for the
queries and one for the keys, with the same number of sequences.

Legend: T tokens in the packed batch, B sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby

import numpy as np
import torch
from torch import Tensor


class Layout:
    """Where each of B sequences lies in a flat run of T tokens. Empty sequences are legal."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths: tuple[int, ...] = tuple(int(length) for length in lengths)
        self.starts: tuple[int, ...] = tuple(accumulate(self.lengths, initial=0))[:-1]
        self.total: int = sum(self.lengths)
        self.num_sequences: int = len(self.lengths)

    def __repr__(self) -> str:
        return f"Layout({list(self.lengths)})"

    @cached_property
    def _lengths(self) -> Tensor:
        return torch.tensor(self.lengths, dtype=torch.long)  # (B,)

    def positions(self, device: torch.device | str = "cpu") -> Tensor:
        """(T,) int64: the place of each token within its own sequence."""
        if self.num_sequences == 1:
            return torch.arange(self.total, device=device)
        starts = torch.tensor(self.starts, dtype=torch.long)
        return (torch.arange(self.total) - torch.repeat_interleave(starts, self._lengths)).to(device)

    def sequence_ids(self, device: torch.device | str = "cpu") -> Tensor:
        """(T,) int64: which sequence each token belongs to."""
        return torch.repeat_interleave(torch.arange(self.num_sequences), self._lengths).to(device)

    def first(self) -> Rows:
        """The first token of every sequence ([CLS]); every sequence must have one."""
        return Rows(torch.tensor(self.starts, dtype=torch.long), Layout([1] * self.num_sequences))

    def last(self) -> Rows:
        """The last token of every sequence; every sequence must have one."""
        ends = [start + length - 1 for start, length in zip(self.starts, self.lengths, strict=True)]
        return Rows(torch.tensor(ends, dtype=torch.long), Layout([1] * self.num_sequences))

    def rows(self, index: Tensor) -> Rows:
        """Rows at the ascending flat positions `index` (R,), grouped by the sequence they fall in."""
        if bool((index[1:] < index[:-1]).any()):
            raise ValueError("row positions must be in ascending order")
        ends = torch.tensor(self.starts, dtype=torch.long) + self._lengths
        upto = torch.searchsorted(index.cpu().contiguous(), ends)  # how many rows lie before each sequence's end
        counts = torch.diff(upto, prepend=torch.zeros(1, dtype=upto.dtype))
        return Rows(index, Layout(counts.tolist()))


@dataclass(frozen=True)
class Rows:
    """Some of the tokens of a packed batch: their flat positions, and how many fall in each sequence."""

    index: Tensor  # (R,) int64, ascending
    layout: Layout

    def to(self, device: torch.device | str) -> Rows:
        return Rows(self.index.to(device), self.layout)

    def take(self, flat: Tensor) -> Tensor:
        """These rows of a flat (T, ...) tensor: (R, ...)."""
        return flat.index_select(0, self.index)  # whose gradient is three times as quick as that of `flat[index]`


@dataclass(frozen=True)
class Span:
    """One dense attention problem: `count` neighbouring sequences with equal query lengths and equal key lengths."""

    count: int
    query_start: int
    query_length: int
    key_start: int
    key_length: int


def spans(queries: Layout, keys: Layout) -> tuple[Span, ...]:
    """Cut two layouts with the same sequences into runs of neighbours of equal shape; empty queries are left out."""
    if len(set(queries.lengths)) == len(set(keys.lengths)) == 1 and queries.lengths[0] > 0:  # every step of decoding
        if queries.num_sequences != keys.num_sequences:
            raise ValueError(f"{queries.num_sequences} sequences cannot look at {keys.num_sequences}")
        return (Span(queries.num_sequences, 0, queries.lengths[0], 0, keys.lengths[0]),)
    found: list[Span] = []
    shapes = zip(queries.lengths, keys.lengths, queries.starts, keys.starts, strict=True)
    for query_length, key_length, query_start, key_start in shapes:
        if query_length == 0:
            continue
        before = found[-1] if found else None
        if before and (before.query_length, before.key_length) == (query_length, key_length):
            found[-1] = Span(before.count + 1, before.query_start, query_length, before.key_start, key_length)
        else:
            found.append(Span(1, query_start, query_length, key_start, key_length))
    return tuple(found)


def per_sequence(flat: Tensor, layout: Layout, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """Reduce each sequence of a flat (T, H) tensor to one row: (B, H).

    `reduce` gets the (n, L, H) view of n neighbouring sequences of equal length and returns (n, H). Empty sequences give zeros.
    """
    if layout.num_sequences == 1 and layout.total:
        return reduce(flat[None, : layout.total])
    pieces = []
    start = 0
    for length, run in groupby(layout.lengths):
        count = len(list(run))
        piece = flat[start : start + count * length]
        start += count * length
        pieces.append(reduce(piece.unflatten(0, (count, length))) if length else flat.new_zeros(count, flat.shape[-1]))
    return torch.cat(pieces) if pieces else flat.new_zeros(0, flat.shape[-1])


def mean_per_sequence(flat: Tensor, layout: Layout) -> Tensor:
    """(T, H) -> (B, H): the mean over each sequence's tokens."""
    return per_sequence(flat, layout, lambda dense: dense.mean(dim=1))


def max_per_sequence(flat: Tensor, layout: Layout) -> Tensor:
    """(T, H) -> (B, H): the largest value over each sequence's tokens, per column."""
    return per_sequence(flat, layout, lambda dense: dense.amax(dim=1))


def shifted(flat: Tensor, layout: Layout, by: int) -> Tensor:
    """(T, H) -> (T, H): each token gets the row of the token `by` places before it (after it, where `by` is negative).

    Where its sequence has no such token, the row is zeros.
    """
    if by == 0 or layout.total == 0:
        return flat
    places = layout.positions(flat.device) - by  # (T,), within the sequence
    lengths = torch.repeat_interleave(layout._lengths, layout._lengths).to(flat.device)
    inside = (places >= 0) & (places < lengths)
    return flat.roll(by, dims=0) * inside[:, None].to(flat.dtype)


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A batch of token ids. `positions` and `segments` default to 0, 1, 2 … per sequence and to segment 0."""

    input_ids: Tensor  # (T,) int64
    layout: Layout
    segments: Tensor | None = None  # (T,) int64
    positions: Tensor | None = None  # (T,) int64
    tasks: Tensor | None = None  # (T,) int64, ERNIE's task ids

    @classmethod
    def from_sequences(
        cls,
        sequences: Sequence[np.ndarray | Sequence[int]],
        segments: Sequence[np.ndarray | Sequence[int]] | None = None,
    ) -> Packed:
        """Pack sequences of ids (and their segment ids) in the given order."""

        def flat(rows: Sequence[np.ndarray | Sequence[int]]) -> Tensor:
            if not rows:
                return torch.zeros(0, dtype=torch.long)
            return torch.from_numpy(np.concatenate([np.asarray(row, dtype=np.int64) for row in rows]))

        return cls(
            input_ids=flat(sequences),
            layout=Layout([len(row) for row in sequences]),
            segments=None if segments is None else flat(segments),
        )

    def to(self, device: torch.device | str) -> Packed:
        def move(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device)

        return Packed(
            input_ids=self.input_ids.to(device),
            layout=self.layout,
            segments=move(self.segments),
            positions=move(self.positions),
            tasks=move(self.tasks),
        )
