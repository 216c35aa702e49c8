"""Finding the longest known run of tokens at every place of a text, in one pass.

Entries share their beginnings in a tree; its edges (node, token) → node are one hash table with open addressing, in
arrays, so that compiled code walks it. A text costs a look-up per token and a few more where entries begin alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertworks.data.pretraining.flat import Ints
from bertworks.text.train.kernels import compiled

EMPTY = -1


class Trie:
    """Runs of token ids, numbered as given; each has at least one token, and no two are equal."""

    def __init__(self, entries: Sequence[tuple[int, ...]]) -> None:
        lengths = np.array([len(entry) for entry in entries], np.int64)
        flat = np.fromiter((token for entry in entries for token in entry), np.int64, int(lengths.sum()))
        slots = 1 << max(4, int(2 * len(flat)).bit_length())  # at most half full
        self._keys = np.full(slots, EMPTY, np.int64)
        self._children = np.empty(slots, np.int32)
        ends = np.full(len(flat) + 1, EMPTY, np.int32)  # per node, the entry that ends there
        nodes = _build(flat, lengths, self._keys, self._children, ends)
        self._ends: NDArray[np.int32] = ends[:nodes].copy()

    def match(self, ids: Ints, lengths: Ints, starts: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Cut sequences into entries, the longest first from left to right, and single tokens.

        ids:     (T,) sequences one after the other
        lengths: (B,) theirs
        starts:  (T,) where an entry may begin, and where what follows one may begin
        Returns for each token the number of its unit, counting from 0, and its entry or -1: int64 (T,) each.
        """
        unit, entry = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
        _match(ids, lengths, starts, self._keys, self._children, self._ends, unit, entry)
        return unit, entry


@compiled
def find(keys: Ints, key: int) -> int:
    """The slot of a key, or the free one where it belongs."""
    mask = keys.size - 1
    place = ((np.int64(key) * np.int64(-7046029254386353131)) >> 20) & mask  # 2^64 / golden ratio, odd
    while keys[place] != EMPTY and keys[place] != key:
        place = (place + 1) & mask
    return int(place)


@compiled
def _build(flat: Ints, lengths: Ints, keys: Ints, children: NDArray[np.int32], ends: NDArray[np.int32]) -> int:
    nodes, place = 1, 0
    for number in range(len(lengths)):
        node = 0
        for _ in range(lengths[number]):
            key = (np.int64(node) << 32) | flat[place]
            slot = find(keys, key)
            if keys[slot] == EMPTY:
                keys[slot], children[slot] = key, nodes
                nodes += 1
            node = children[slot]
            place += 1
        ends[node] = number
    return nodes


@compiled
def _match(
    ids: Ints,
    lengths: Ints,
    starts: NDArray[np.bool_],
    keys: Ints,
    children: NDArray[np.int32],
    ends: NDArray[np.int32],
    unit: Ints,
    entry: Ints,
) -> None:
    number, token = 0, 0
    stop = 0
    for sequence in range(len(lengths)):
        stop += lengths[sequence]
        while token < stop:
            longest, found = 1, -1
            node, place = 0, token
            while starts[token] and place < stop:
                slot = find(keys, (np.int64(node) << 32) | ids[place])
                if keys[slot] == EMPTY:
                    break
                node = children[slot]
                place += 1
                if ends[node] != EMPTY and (place == stop or starts[place]):
                    longest, found = place - token, ends[node]
            for _ in range(longest):
                unit[token], entry[token] = number, found
                token += 1
            number += 1
