"""Parallel texts as ids, and which pairs make up a step.

A sentence is framed by the tokenizer's own template on both sides, `<s> x </s>`: the decoder starts from the first token of
the target and ends with the last.

A batch is pairs of like length. Attention runs over neighbours of equal source and target length, and a recurrent decoder
takes as many steps as the longest target: a batch of mixed lengths would be many small products. Each epoch's random order is
therefore sorted within pools of some batches, cut, and the batches are taken in random order. Everything is a function of
(seed, epoch), as in `bertworks.data.pretraining.batches`.

Legend: Ts/Tt source/target tokens of all pairs together, B pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertworks.data.parallel import ParallelText
from bertworks.data.pretraining import draw
from bertworks.data.pretraining.batches import Batches
from bertworks.data.pretraining.draw import Stream
from bertworks.data.pretraining.flat import Ints, ranges
from bertworks.errors import DataError, TokenizerError
from bertworks.text.tokenizer import Tokenizer

POOL_BATCHES = 32
"""Batches whose pairs are sorted by length together: few lengths in a batch, and a batch that is another in every epoch."""


@dataclass(frozen=True)
class Pairs:
    """Some pairs, one after the other, special tokens included, sorted by target and then source length."""

    source_ids: Ints  # (Ts,)
    source_lengths: Ints  # (B,)
    target_ids: Ints  # (Tt,)
    target_lengths: Ints  # (B,)
    index: Ints  # (B,) the number of each pair in the data
    epoch: int


class PairSource:
    """All pairs of a text that are at most `max_length` tokens long on either side."""

    def __init__(self, text: ParallelText, tokenizer: Tokenizer, *, max_length: int) -> None:
        check_frame(tokenizer)
        sides = [tokenizer.ids(list(side), special=True) for side in (text.sources, text.targets)]
        (source_ids, source_lengths), (target_ids, target_lengths) = sides
        kept = np.flatnonzero((source_lengths <= max_length) & (target_lengths <= max_length))
        if len(kept) == 0:
            raise DataError(
                f"every pair is longer than data.max_length = {max_length} tokens on one side or both; make it larger",
                path=text.name,
            )
        self.too_long = len(text) - len(kept)
        """Pairs that were left out for their length."""
        self._ids = (source_ids, target_ids)
        self._starts = [(np.cumsum(lengths) - lengths)[kept] for lengths in (source_lengths, target_lengths)]
        self.source_lengths: NDArray[np.int64] = source_lengths[kept]  # (n,)
        self.target_lengths: NDArray[np.int64] = target_lengths[kept]  # (n,)
        self.lengths: NDArray[np.int64] = self.source_lengths + self.target_lengths  # (n,)
        self.num_tokens = int(self.lengths.sum())

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, numbers: Ints, epoch: int) -> Pairs:
        """These pairs, sorted."""
        numbers = np.asarray(numbers, np.int64)
        order = np.lexsort((self.source_lengths[numbers], self.target_lengths[numbers]))
        numbers = numbers[order]
        lengths = (self.source_lengths[numbers], self.target_lengths[numbers])
        ids = [
            flat[ranges(starts[numbers], length)].astype(np.int64)
            for flat, starts, length in zip(self._ids, self._starts, lengths, strict=True)
        ]
        return Pairs(ids[0], lengths[0], ids[1], lengths[1], numbers, epoch)


class PairBatches(Batches):
    """Step number to (epoch, numbers of pairs): batches of like lengths in random order."""

    source: PairSource

    def _plan(self, epoch: int) -> tuple[Ints, Ints]:
        source = self.source
        order = draw.permutation(Stream.SHUFFLE, self.seed, epoch, len(source))
        pool = np.arange(len(order)) * -(-self.num_batches // POOL_BATCHES) // max(len(order), 1)
        order = order[np.lexsort((source.source_lengths[order], source.target_lengths[order], pool))]
        lengths = source.lengths[order]
        before = np.cumsum(lengths) - lengths
        first = -(-np.arange(self.num_batches + 1) * self.num_tokens // self.num_batches)
        bounds = np.searchsorted(before, first)
        batches = draw.permutation(Stream.BATCHES, self.seed, epoch, self.num_batches)
        sizes = np.diff(bounds)[batches]
        return order[ranges(bounds[batches], sizes)], np.concatenate([[0], np.cumsum(sizes)])


def check_frame(tokenizer: Tokenizer) -> None:
    """A sentence must begin and end with a special token of its own: the decoder starts from one and stops at the other."""
    frame = tokenizer.template.single
    if len(frame.prefix) != 1 or len(frame.suffix) != 1 or frame.prefix.ids[0] == frame.suffix.ids[0]:
        raise TokenizerError(
            "a translator's tokenizer must put one special token before a sentence and another one behind it, as in "
            f"<s> x </s>; this one adds {len(frame.prefix)} before and {len(frame.suffix)} behind"
        )


def frame_ids(tokenizer: Tokenizer) -> tuple[int, int]:
    """The ids of the tokens with which a sentence begins and ends."""
    check_frame(tokenizer)
    return int(tokenizer.template.single.prefix.ids[0]), int(tokenizer.template.single.suffix.ids[0])
