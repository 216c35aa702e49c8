"""The flat arrays that merge learning works on: words, live pairs, and a tournament that knows the best pair.

* A *word* w is `symbols[starts[w] : starts[w] + lengths[w]]`, and stands for `counts[w]` occurrences in the text.
* A live *pair* of neighbouring symbols owns a slot, with its count and the list of words that may hold it (a stretch
  of `pool`); a hash table (linear probing) finds the slot of a pair.
* The *tournament* is a binary tree over the slots whose inner nodes hold the better of their two children. A score
  may rise or fall: only the path from the slot to the root is played again, and only as far as the winner changes. A
  heap with stale entries would not do for WordPiece, whose scores rise when the counts of single symbols fall.

`kernels.better` is the one written tie rule: higher score, then higher count, then smaller left symbol, then smaller
right symbol. It is a total order on pairs, so the result depends on neither the order of the words nor that of the
slots.

Legend: W words, T symbols in all words, S slots (a power of two), V symbols (ids) that can ever exist.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NONE = -1  # no slot
DEAD = -1.0  # the score of a slot that holds no pair
WAITING = 0.0  # the score of a live pair that is still below the threshold

# Places in Pairs.numbers.
FREE_SLOTS = 0  # free slots left
POOL_USED = 1  # entries of the pool in use
MIN_COUNT = 2  # below this a pair is forgotten: counts of old pairs only fall
THRESHOLD = 3  # below this a pair waits; only ever lowered
MAX_LENGTH = 4  # of the two symbols together
LIKELIHOOD = 5  # 1: score count(ij) / (count(i) · count(j)), WordPiece; 0: score count(ij), BPE
NUM_NUMBERS = 6


class Words(NamedTuple):
    """The distinct words, rewritten in place as merges are learnt."""

    symbols: np.ndarray  # (T,) int32
    starts: np.ndarray  # (W,) int64
    lengths: np.ndarray  # (W,) int32, falls with every merge
    counts: np.ndarray  # (W,) int64


class Symbols(NamedTuple):
    """What is known of every symbol, by id."""

    counts: np.ndarray  # (V,) int64, occurrences in the text as it is segmented now
    lengths: np.ndarray  # (V,) int32, in characters, without markers
    first_as_left: np.ndarray  # (V,) int32, head of the list of the scored pairs that start with this symbol, or NONE
    first_as_right: np.ndarray  # (V,) int32, head of the list of pairs that end with it, or NONE


class Pairs(NamedTuple):
    """The live pairs, by slot. The linked lists hold those above the threshold; (0,) where the score is the count."""

    left: np.ndarray  # (S,) int32
    right: np.ndarray  # (S,) int32
    counts: np.ndarray  # (S,) int64
    scores: np.ndarray  # (S,) float64
    pool_start: np.ndarray  # (S,) int64
    pool_size: np.ndarray  # (S,) int32
    free: np.ndarray  # (S,) int32, a stack of free slots
    table: np.ndarray  # (2 S,) int32, hash table of slots
    winners: np.ndarray  # (S,) int32, the tournament; node n has the children 2n and 2n + 1, slot s is node S + s
    next_same_left: np.ndarray  # (S,) int32, doubly linked lists of the pairs with the same left symbol …
    back_same_left: np.ndarray
    next_same_right: np.ndarray  # … and with the same right symbol
    back_same_right: np.ndarray
    pool: np.ndarray  # int32, word numbers
    numbers: np.ndarray  # (NUM_NUMBERS,) int64


class Scratch(NamedTuple):
    """Sums of one merge, by neighbouring symbol; all zero between merges."""

    gained_left: np.ndarray  # (V,) int64, occurrences of the new pair (neighbour, new)
    gained_right: np.ndarray  # (V,) int64, of the new pair (new, neighbour)
    lost_left: np.ndarray  # (V,) int64, occurrences that (neighbour, left part) lost
    lost_right: np.ndarray  # (V,) int64, that (right part, neighbour) lost
    places_left: np.ndarray  # (V,) int32, entries of `left_events` with this neighbour
    places_right: np.ndarray  # (V,) int32
    touched_left: np.ndarray  # (V,) int32, the neighbours seen
    touched_right: np.ndarray  # (V,) int32
    slot_of: np.ndarray  # (V,) int32, where the new pairs went
    left_events: np.ndarray  # (T, 2) int32: neighbour, word; untouched pages cost no memory
    right_events: np.ndarray  # (T, 2) int32
