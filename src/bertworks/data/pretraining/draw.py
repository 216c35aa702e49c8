"""Random numbers without a generator: each is a function of what it is for.

A generator hands out its numbers one after the other, so that which number a token gets depends on everything drawn
before: on the batch, the worker, the number of processes, and on how often a run was stopped. Here a number is a *hash*
of the question it answers, (stream, seed, epoch, index, position): "is token 17 of sequence 4,711 masked in epoch 2?"
has one answer, whoever asks, in whatever order, and nothing need be replayed to go on in the middle.

The hash is the output function of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
generators"; its constants are Stafford's mix 13), applied once for each part of the key: each part is
multiplied by the odd number 2⁶⁴/φ, added to the hash so far, and mixed. For a fixed beginning of the key that is a
bijection, so two positions of one sequence never share a hash. It is quick (numpy, whole arrays); it is not for secrets.

`Stream` has one number for each use, so that two uses never see related numbers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
WHOLE = 2**64 - 1


class Stream(IntEnum):
    """What a number is for. The values are part of the results: add at the end, never renumber."""

    SHUFFLE = 1  # the order of an epoch
    SELECT = 2  # which units are masked
    CHANGE = 3  # mask, random token or unchanged
    REPLACE = 4  # which random token
    SPLIT = 5  # where a chunk of sentences is split into a pair
    PAIR = 6  # whether the pair is a true one, and the partner if not
    SHORT = 7  # which sequences are shorter
    SPAN = 8  # where spans end
    SAMPLE = 9  # tokens sampled from a model
    DROPOUT = 10  # seeds of torch's generator
    HELD_OUT = 11  # which documents are held out
    MINE = 12  # which documents phrases are mined from
    GENERATE = 13  # texts that a model writes
    BATCHES = 14  # the order of an epoch's batches, where they are not shuffled one by one
    UNLABELLED = 15  # the order of text without labels
    WORD_VECTORS = 16  # everything that is drawn for a text of word vectors
    SOFTMAX = 17  # which words of a large vocabulary a step predicts against


def bits(stream: int, seed: int, epoch: int, index: ArrayLike, position: ArrayLike = 0) -> NDArray[np.uint64]:
    """64 random bits for each (index, position), which are broadcast against each other and must not be negative."""
    key = 0
    for part in (stream, seed, epoch):
        key = _mixed_int(key + GOLDEN * (int(part) + 1))
    return _added(_added(np.uint64(key), index), position)


def uniform(stream: int, seed: int, epoch: int, index: ArrayLike, position: ArrayLike = 0) -> NDArray[np.float64]:
    """Numbers in [0, 1), all multiples of 2⁻⁵³ equally likely."""
    return (bits(stream, seed, epoch, index, position) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(
    high: int | NDArray[Any], stream: int, seed: int, epoch: int, index: ArrayLike, position: ArrayLike = 0
) -> NDArray[np.int64]:
    """Integers in [0, high), `high` at least 1 and broadcast too; uneven by at most high / 2⁵³."""
    return np.asarray(uniform(stream, seed, epoch, index, position) * high).astype(np.int64)


def permutation(stream: int, seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """The numbers 0 to count - 1 in a random order: sorted by their hashes."""
    return np.argsort(bits(stream, seed, epoch, np.arange(count)), kind="stable")


def _added(key: Any, part: ArrayLike) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant; numpy warns of it for single numbers
        mixed = np.array(part, np.int64).astype(np.uint64)
        mixed += np.uint64(1)
        mixed *= np.uint64(GOLDEN)
        mixed = np.asarray(mixed + key)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(FIRST)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(SECOND)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _mixed_int(value: int) -> int:
    value &= WHOLE
    value = ((value ^ (value >> 30)) * FIRST) & WHOLE
    value = ((value ^ (value >> 27)) * SECOND) & WHOLE
    return value ^ (value >> 31)
