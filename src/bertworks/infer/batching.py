"""Batches for inference: pieces of near-equal length together, up to a budget of tokens, in packed form.

    texts -> flat ids -> pieces (a text longer than the window has several) -> sorted by length -> batches

A *piece* is a run of one text's ids that fits the window, special tokens added around it. Everything here works on flat
arrays; no Python object is made per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from bertworks.models.batches import batches, default_batch_tokens, over_batches, over_plan
from bertworks.nn.packed import Layout, Packed

__all__ = ["Pieces", "batches", "cut_pieces", "default_batch_tokens", "over_batches", "over_plan", "pack_pieces"]


@dataclass(frozen=True)
class Pieces:
    """P pieces of n texts: piece p is ids[start[p] : start[p] + length[p]] of text owner[p], in the texts' order."""

    ids: np.ndarray  # (all ids,) int32, no special tokens
    owner: np.ndarray  # (P,) int64
    start: np.ndarray  # (P,) int64
    length: np.ndarray  # (P,) int64
    num_texts: int

    @cached_property
    def counts(self) -> np.ndarray:
        """(n,) int64: how many pieces each text has; more than one means that it is longer than the window."""
        return np.bincount(self.owner, minlength=self.num_texts)


def cut_pieces(ids: np.ndarray, lengths: np.ndarray, room: int | None) -> Pieces:
    """Cut each text into pieces of at most `room` ids, nearly equal in length; an empty text is one empty piece.

    Equal pieces rather than full ones: a tail of two words would be embedded without any context.
    """
    lengths = lengths.astype(np.int64)
    if room is None or lengths.max(initial=0) <= room:  # nothing to cut
        return Pieces(ids, np.arange(len(lengths)), np.cumsum(lengths) - lengths, lengths, len(lengths))
    counts = np.maximum(1, -(-lengths // room))
    owner = np.repeat(np.arange(len(lengths)), counts)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)  # the piece's number within its text
    base, extra = np.divmod(lengths[owner], counts[owner])
    length = base + (rank < extra)
    start = (np.cumsum(lengths) - lengths)[owner] + rank * base + np.minimum(rank, extra)
    return Pieces(ids, owner, start, length, len(lengths))


def pack_pieces(pieces: Pieces, chosen: np.ndarray, prefix: np.ndarray, suffix: np.ndarray) -> Packed:
    """Lay the chosen pieces one after the other, each between the special ids `prefix` and `suffix`."""
    length = pieces.length[chosen]
    if len(chosen) == 1:
        start = int(pieces.start[chosen[0]])
        one = np.concatenate((prefix, pieces.ids[start : start + int(length[0])], suffix), dtype=np.int64)
        return Packed(input_ids=torch.from_numpy(one), layout=Layout([len(one)]))
    around = len(prefix) + len(suffix)
    starts = np.cumsum(length + around) - (length + around)  # where each piece's prefix goes
    flat = np.empty(int(length.sum()) + around * len(chosen), dtype=np.int64)
    for offset, value in enumerate(prefix):
        flat[starts + offset] = value
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    flat[np.repeat(starts + len(prefix), length) + within] = pieces.ids[
        np.repeat(pieces.start[chosen], length) + within
    ]
    for offset, value in enumerate(suffix):
        flat[starts + len(prefix) + length + offset] = value
    return Packed(input_ids=torch.from_numpy(flat), layout=Layout((length + around).tolist()))
