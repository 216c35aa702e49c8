"""The table of live pairs: which pair is best now, and what one merge changes.

The arrays, described in `arrays`, are made and grown here; the loops over them are in `kernels`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertworks.text.train import kernels
from bertworks.text.train.arrays import (
    FREE_SLOTS,
    LIKELIHOOD,
    MAX_LENGTH,
    MIN_COUNT,
    NONE,
    NUM_NUMBERS,
    POOL_USED,
    THRESHOLD,
    WAITING,
    Pairs,
    Scratch,
    Symbols,
    Words,
)

MIN_SLOTS = 1024


class PairTable:
    """All pairs of neighbouring symbols that occur at least `min_count` times and are at most `max_length` long.

    `num_symbols` is how many symbols can ever exist; `lengths` are those of the first ones. With `likelihood` the
    score of a pair is count(ij) / (count(i) · count(j)), else its count. With `falling_threshold` only the most
    frequent pairs are offered at first, see `halve_threshold`.
    """

    def __init__(
        self,
        words: Words,
        lengths: Sequence[int],
        num_symbols: int,
        *,
        min_count: int = 1,
        max_length: int | None = None,
        likelihood: bool = False,
        falling_threshold: bool = False,
    ) -> None:
        self._words = words
        self._numbers = np.zeros(NUM_NUMBERS, dtype=np.int64)
        self._numbers[MIN_COUNT] = max(1, min_count)
        self._numbers[THRESHOLD] = np.iinfo(np.int64).max if falling_threshold else max(1, min_count)
        self._numbers[MAX_LENGTH] = np.iinfo(np.int32).max if max_length is None else max_length
        self._numbers[LIKELIHOOD] = likelihood
        total = words.symbols.size
        num_symbols = min(num_symbols, len(lengths) + total)  # every merge removes at least one symbol
        self._symbols = Symbols(
            counts=np.zeros(num_symbols, dtype=np.int64),
            lengths=np.zeros(num_symbols, dtype=np.int32),
            first_as_left=np.full(num_symbols, NONE, dtype=np.int32),
            first_as_right=np.full(num_symbols, NONE, dtype=np.int32),
        )
        self._symbols.lengths[: len(lengths)] = lengths
        self._scratch = Scratch(
            gained_left=np.zeros(num_symbols, dtype=np.int64),
            gained_right=np.zeros(num_symbols, dtype=np.int64),
            lost_left=np.zeros(num_symbols, dtype=np.int64),
            lost_right=np.zeros(num_symbols, dtype=np.int64),
            places_left=np.zeros(num_symbols, dtype=np.int32),
            places_right=np.zeros(num_symbols, dtype=np.int32),
            touched_left=np.zeros(num_symbols, dtype=np.int32),
            touched_right=np.zeros(num_symbols, dtype=np.int32),
            slot_of=np.zeros(num_symbols, dtype=np.int32),
            left_events=np.empty((total, 2), dtype=np.int32),
            right_events=np.empty((total, 2), dtype=np.int32),
        )
        self._count_all()
        if falling_threshold and self._pairs.counts.any():
            kernels.lower_threshold(self._pairs, self._symbols, int(self._pairs.counts.max()))

    def _count_all(self) -> None:
        """Count every symbol and every pair once; afterwards only differences are counted."""
        words, symbols = self._words, self._symbols
        word_of = np.repeat(np.arange(words.lengths.size, dtype=np.int32), words.lengths)  # (T,)
        weights = words.counts[word_of]  # (T,)
        np.add.at(symbols.counts, words.symbols, weights)
        inside = np.flatnonzero(word_of[1:] == word_of[:-1])  # places whose right neighbour is in the same word
        keys = (words.symbols[inside].astype(np.int64) << 32) | words.symbols[inside + 1]
        order = np.argsort(keys, kind="stable")
        keys, inside = keys[order], inside[order]
        starts = np.flatnonzero(
            np.concatenate(([True], keys[1:] != keys[:-1])) if keys.size else []
        )  # of the runs of equal keys
        counts = np.add.reduceat(weights[inside], starts) if keys.size else np.zeros(0, dtype=np.int64)
        sizes = np.diff(np.append(starts, keys.size)).astype(np.int32)
        left, right = (keys[starts] >> 32).astype(np.int32), (keys[starts] & 0xFFFFFFFF).astype(np.int32)
        kept = counts >= self._numbers[MIN_COUNT]
        kept &= symbols.lengths[left] + symbols.lengths[right] <= self._numbers[MAX_LENGTH]
        columns = (left[kept], right[kept], counts[kept], starts[kept].astype(np.int64), sizes[kept])
        self._fill(*columns, pool=word_of[inside])
        self._numbers[POOL_USED] = inside.size

    def _fill(
        self,
        left: np.ndarray,
        right: np.ndarray,
        counts: np.ndarray,
        pool_start: np.ndarray,
        pool_size: np.ndarray,
        *,
        pool: np.ndarray,
        spare: int = 0,
    ) -> None:
        """Make a table that holds these pairs and has room for at least `spare` more."""
        slots = MIN_SLOTS
        while slots < left.size + spare:
            slots *= 2

        def column(values: np.ndarray) -> np.ndarray:
            return np.concatenate((values, np.zeros(slots - values.size, dtype=values.dtype)))

        links = slots if self._numbers[LIKELIHOOD] else 0
        self._pairs = Pairs(
            left=column(left),
            right=column(right),
            counts=column(counts),
            scores=np.zeros(slots, dtype=np.float64),
            pool_start=column(pool_start),
            pool_size=column(pool_size),
            free=np.zeros(slots, dtype=np.int32),
            table=np.zeros(2 * slots, dtype=np.int32),
            winners=np.zeros(slots, dtype=np.int32),
            next_same_left=np.zeros(links, dtype=np.int32),
            back_same_left=np.zeros(links, dtype=np.int32),
            next_same_right=np.zeros(links, dtype=np.int32),
            back_same_right=np.zeros(links, dtype=np.int32),
            pool=pool,
            numbers=self._numbers,
        )
        kernels.rebuild(self._pairs, self._symbols, left.size)

    def _make_room(self, slots: int, pool: int) -> None:
        """Grow what has too little room for `slots` more pairs and `pool` more entries in their word lists."""
        pairs = self._pairs
        if self._numbers[POOL_USED] + pool > pairs.pool.size:
            needed = int(pairs.pool_size.sum()) + pool
            target = np.empty(needed + needed // 2, dtype=np.int32)
            self._numbers[POOL_USED] = kernels.pack_pool(pairs, target)
            self._pairs = pairs = pairs._replace(pool=target)
        if self._numbers[FREE_SLOTS] < slots:
            live = np.flatnonzero(pairs.scores >= WAITING)
            columns = (pairs.left, pairs.right, pairs.counts, pairs.pool_start, pairs.pool_size)
            self._fill(*(column[live] for column in columns), pool=pairs.pool, spare=slots + live.size // 2)

    def halve_threshold(self) -> bool:
        """Ask for half the count from now on, but at least `min_count`; False where that was reached before."""
        threshold, min_count = int(self._numbers[THRESHOLD]), int(self._numbers[MIN_COUNT])
        if threshold <= min_count:
            return False
        kernels.lower_threshold(self._pairs, self._symbols, max(threshold // 2, min_count))
        return True

    def best(self) -> tuple[int, int] | None:
        """The (left, right) symbols of the best pair, or None where no pair reaches the threshold."""
        slot = self._pairs.winners[1]
        if self._pairs.scores[slot] <= WAITING:
            return None
        return int(self._pairs.left[slot]), int(self._pairs.right[slot])

    def drop(self, pair: tuple[int, int]) -> None:
        """Never offer this pair again."""
        kernels.remove(self._pairs, self._symbols, kernels.find(self._pairs, *pair))

    def merge(self, pair: tuple[int, int], new: int) -> int:
        """Replace the pair by the symbol `new`, which occurs nowhere yet; returns how many occurrences there were."""
        left, right = pair
        symbols, scratch = self._symbols, self._scratch
        slot = kernels.find(self._pairs, left, right)
        merged, left_events, right_events, left_neighbours, right_neighbours = kernels.rewrite_words(
            self._words, self._pairs, scratch, slot, new
        )
        symbols.counts[new] = merged
        symbols.counts[left] -= merged
        symbols.counts[right] -= merged
        symbols.lengths[new] = symbols.lengths[left] + symbols.lengths[right]
        kernels.remove(self._pairs, symbols, slot)
        kernels.lower_counts(self._pairs, symbols, scratch, left, right, left_neighbours, right_neighbours)
        self._make_room(left_neighbours + right_neighbours, left_events + right_events)
        kernels.add_side(self._pairs, symbols, scratch, new, left_neighbours, left_events, True)
        kernels.add_side(self._pairs, symbols, scratch, new, right_neighbours, right_events, False)
        if self._numbers[LIKELIHOOD]:
            kernels.rate_neighbours(self._pairs, symbols, left)
            kernels.rate_neighbours(self._pairs, symbols, right)
        return int(merged)
