"""What the learners share: how words are drawn and skipped, in which portions the texts are worked on, and by whom.

Negative words are drawn with their count to the power 3/4, in constant time (Walker's alias method, 1977). A word with
the share f of the text stays with the probability √(t/f) + t/f, t being `subsample`, as in the original program.

A portion is some texts with the learning rate that belongs to their place in the run. Which portions there are does not
depend on the threads; without `hogwild` they are worked on one after the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertworks.vectors.kernels import LANE, Floats, Ints, Sampling, Scratch, compiled, logistic_table
from bertworks.vectors.options import TrainingOptions

POWER = 0.75
PORTION_WORDS = 20_000  # some hundredths of a second
PORTIONS = 100  # of an epoch at least, so that the learning rate falls smoothly on a short text too
FIRST_LENGTH = 0.46
LOWEST_RATE = 1e-4  # of the first one
WHOLE = 2**32  # a probability of 1, in the kernels' whole numbers

Space = TypeVar("Space")
Job = TypeVar("Job")
Result = TypeVar("Result")


class Portion(NamedTuple):
    """Texts `first` to `last` and what is done with them."""

    first: int
    last: int
    words: int
    rate: float


def sampling(counts: NDArray[np.int64], subsample: float) -> Sampling:
    """The tables of a vocabulary."""
    chances, aliases = alias_table(counts.astype(np.float64) ** POWER)
    return Sampling(_whole(keep_probabilities(counts, subsample)), _whole(chances), aliases)


def keep_probabilities(counts: NDArray[np.int64], subsample: float) -> NDArray[np.float64]:
    """(V,): how likely an occurrence of each word stays."""
    if not subsample:
        return np.ones(len(counts))
    ratio = subsample * counts.sum() / np.maximum(counts, 1)  # a word that never occurs is never asked for
    return np.minimum(np.sqrt(ratio) + ratio, 1.0)


def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], Ints]:
    """For each of V slots the chance to stay in it, and where to go else: a draw is one slot and one chance."""
    chances, aliases = weights * (len(weights) / weights.sum()), np.arange(len(weights), dtype=np.int32)
    _fill_aliases(chances, aliases)
    return np.minimum(chances, 1.0), aliases


@compiled
def _fill_aliases(chances: NDArray[np.float64], aliases: Ints) -> None:
    """Fill each slot with less than its share from one with more."""
    rich, poor = np.empty(chances.size, np.int32), np.empty(chances.size, np.int32)
    num_rich = num_poor = 0
    for slot in range(chances.size):
        if chances[slot] < 1.0:
            poor[num_poor] = slot
            num_poor += 1
        else:
            rich[num_rich] = slot
            num_rich += 1
    while num_rich and num_poor:
        num_poor -= 1
        taker, giver = poor[num_poor], rich[num_rich - 1]
        aliases[taker] = giver
        chances[giver] -= 1.0 - chances[taker]
        if chances[giver] < 1.0:
            num_rich -= 1
            poor[num_poor] = giver
            num_poor += 1
    for number in range(num_poor):  # only rounding is left
        chances[poor[number]] = 1.0


def _whole(probabilities: NDArray[np.float64]) -> NDArray[np.uint64]:
    return np.round(probabilities * WHOLE).astype(np.uint64)


def padded(dim: int) -> int:
    """The size of a row that holds `dim` numbers."""
    return -(-dim // LANE) * LANE


def first_vectors(words: int, options: TrainingOptions, stream: int = 0, *, length: float = FIRST_LENGTH) -> Floats:
    """(V, P): random numbers such that a vector's length is about `length`, 0 in the padding.

    The original program starts much smaller, at a point where there is hardly a gradient; from larger ones the same epochs
    lead further (skip-gram on 4 million words, eight seeds: 14.8 % of Google's analogies from 0.46, 14.5 % from 0.2, 13.9 %
    from gensim's 0.06).
    """
    matrix = np.zeros((words, padded(options.dim)), np.float32)
    random = np.random.default_rng([options.seed, stream])
    most = np.float32(length * math.sqrt(3 / options.dim))  # of numbers spread evenly from -most to most
    matrix[:, : options.dim] = (2 * random.random((words, options.dim), np.float32) - 1) * most
    return matrix


def scratch(longest: int, window: int, options: TrainingOptions) -> Scratch:
    """Working space for one thread."""
    near, targets, size = 2 * window, options.negative + 1, padded(options.dim)
    return Scratch(
        kept=np.empty(longest, np.int32),
        neighbours=np.empty(near, np.int32),
        targets=np.empty(targets, np.int32),
        one=np.empty((near, size), np.float32),
        other=np.empty((targets, size), np.float32),
        errors=np.empty((near, targets), np.float32),
        logistic=logistic_table(),
    )


def portions(starts: NDArray[np.int64], epoch: int, epochs: int, rate: float) -> list[Portion]:
    """All texts in order; the rate falls in a line with the words that come before, over all epochs."""
    total = int(starts[-1])
    size = max(min(PORTION_WORDS, total // PORTIONS), 1)
    cuts = np.unique(np.searchsorted(starts, np.arange(size, total, size)))
    bounds = [0, *(int(cut) for cut in cuts if 0 < cut < len(starts) - 1), len(starts) - 1]
    found = []
    for first, last in itertools.pairwise(bounds):
        done = (epoch + int(starts[first]) / total) / epochs
        words = int(starts[last] - starts[first])
        found.append(Portion(first, last, words, rate * max(1 - done, LOWEST_RATE)))
    return found


def in_threads(
    work: Callable[[Job, Space], Result], jobs: Sequence[Job], spaces: Sequence[Space]
) -> Iterator[tuple[Job, Result]]:
    """Do all jobs, in as many threads as there are working spaces; in order, and one by one where there is one space."""
    if len(spaces) == 1:
        for job in jobs:
            yield job, work(job, spaces[0])
        return
    free: SimpleQueue[Space] = SimpleQueue()
    for space in spaces:
        free.put(space)

    def one(job: Job) -> Result:
        space = free.get()
        try:
            return work(job, space)
        finally:
            free.put(space)

    pool = ThreadPoolExecutor(len(spaces))
    try:
        yield from zip(jobs, pool.map(one, jobs), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)
