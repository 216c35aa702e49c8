"""Compiled inner loops of skip-gram, CBOW and Bernoulli embeddings: one call trains on some texts, on one thread.

The cost of these models is reading and writing vectors, so that is what the loops spare.

- *Negative words are drawn once per position*, not once per pair (as in Ji et al. 2016, "Parallelizing word2vec in
  shared and distributed memory"): the neighbours of a word and the words it is told from meet in one small matrix of
  products, each vector is fetched once, and the number of products is that of the usual way.
- Vectors are padded to a multiple of 8 numbers. `blocks` is a tuple with one entry per 8 numbers, whose *length* the
  compiler knows: it makes loops without a remainder.
- The logistic function is a table, as in the original program.

Random numbers are SplitMix64's (see `data.pretraining.draw`): what is drawn for a text depends on the seed, the epoch
and the number of the text, never on the thread. Sums may be reordered (`FAST`), which is the same in every run on one
kind of processor, but not between kinds.

Legend: V words, P padded size of a vector, B texts, T words of all texts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertworks.compiled import compile_loop

FAST = {"reassoc", "contract", "nsz", "arcp"}
LANE = 8  # numbers of a vector register with AVX2
TABLE_SIZE, TABLE_LIMIT = 2048, 8.0  # the logistic function between -8 and 8
LOSS_EVERY = 16  # the loss needs logarithms, so it is measured at one place in so many

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


def compiled(function: Any) -> Any:
    """Without Python's lock, so that threads run side by side."""
    return compile_loop(function, nogil=True, fastmath=FAST, error_model="numpy")


class Texts(NamedTuple):
    """Texts as word numbers, one after the other."""

    ids: Ints  # (T,)
    starts: NDArray[np.int64]  # (B + 1,) where each begins; the last entry is T


class Sampling(NamedTuple):
    """How words are drawn and skipped."""

    keep: NDArray[np.uint64]  # (V,) a word stays where 32 random bits are below this
    chances: NDArray[np.uint64]  # (V,) Walker's alias table for the negative words: stay in the slot below this …
    aliases: Ints  # (V,) … else take this word


class Scratch(NamedTuple):
    """Working space of one thread; N is the number of negative words, W of neighbours at most."""

    kept: Ints  # (longest text,)
    neighbours: Ints  # (W,)
    targets: Ints  # (1 + N,) the true word, then the negative ones
    one: Floats  # (W, P) their vectors
    other: Floats  # (1 + N, P)
    errors: Floats  # (W, 1 + N)
    logistic: Floats  # (TABLE_SIZE,)


def logistic_table() -> Floats:
    """The logistic function in the middle of each step."""
    places = (np.arange(TABLE_SIZE) + 0.5) / TABLE_SIZE * 2 * TABLE_LIMIT - TABLE_LIMIT
    return (1.0 / (1.0 + np.exp(-places))).astype(np.float32)


@compiled
def mixed(value: np.uint64) -> np.uint64:
    """SplitMix64's output function."""
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return value ^ (value >> np.uint64(31))


@compiled
def logistic(table: Floats, value: np.float32) -> np.float32:
    """1 / (1 + e^-value), from the table."""
    place = int((value + np.float32(TABLE_LIMIT)) * np.float32(TABLE_SIZE / (2 * TABLE_LIMIT)))
    return table[min(max(place, 0), TABLE_SIZE - 1)]


@compiled
def keep_words(texts: Texts, text: int, keep: NDArray[np.uint64], kept: Ints, state: np.uint64) -> tuple[int, Any]:
    """Copy a text without the words that are skipped; their number, and the state of the random numbers."""
    number = 0
    for place in range(texts.starts[text], texts.starts[text + 1]):
        word = texts.ids[place]
        state += GOLDEN
        if (mixed(state) >> HALF) < keep[word]:
            kept[number] = word
            number += 1
    return number, state


@compiled
def draw_targets(sampling: Sampling, targets: Ints, true: int, negative: int, state: np.uint64) -> tuple[int, Any]:
    """The true word and the negative ones, which are others; their number, and the state of the random numbers."""
    targets[0] = true
    number = 1
    words = np.uint64(sampling.chances.size)
    for _ in range(negative):
        state += GOLDEN
        bits = mixed(state)
        slot = ((bits >> HALF) * words) >> HALF
        word = np.int32(slot) if (bits & LOW) < sampling.chances[slot] else sampling.aliases[slot]
        if word != true:
            targets[number] = word
            number += 1
    return number, state


@compiled
def bounds(place: int, count: int, window: int, state: np.uint64) -> tuple[int, int]:
    """A window of 1 to `window` words on each side: near neighbours are seen more often than far ones."""
    reach = 1 + int(np.int64(((mixed(state) >> HALF) * np.uint64(window)) >> HALF))
    return max(place - reach, 0), min(place + reach + 1, count)


@compiled
def products(scratch: Scratch, rows: int, columns: int, size: int) -> None:
    """errors[i, j] = one[i] · other[j], three columns at a time, so that each number of `one` is read once for three."""
    one, other, errors = scratch.one, scratch.other, scratch.errors
    for i in range(rows):
        j = 0
        while j + 2 < columns:
            first = second = third = np.float32(0.0)
            for d in range(size):
                value = one[i, d]
                first += value * other[j, d]
                second += value * other[j + 1, d]
                third += value * other[j + 2, d]
            errors[i, j], errors[i, j + 1], errors[i, j + 2] = first, second, third
            j += 3
        while j < columns:
            first = np.float32(0.0)
            for d in range(size):
                first += one[i, d] * other[j, d]
            errors[i, j] = first
            j += 1


@compiled
def train_skip_gram(
    texts: Texts,
    first: int,
    last: int,
    key: np.uint64,
    inputs: Floats,
    outputs: Floats,
    sampling: Sampling,
    scratch: Scratch,
    window: int,
    negative: int,
    rate: np.float32,
    blocks: tuple[int, ...],
) -> tuple[float, int]:
    """Texts `first` to `last`: each word is told from negative words by the vectors of its neighbours.

    inputs:  (V, P) the vectors that are wanted, here of the neighbours
    outputs: (V, P) the second set, of the words that are predicted
    Returns the sum of the losses that were measured and the number of pairs they are of.
    """
    size = LANE * len(blocks)
    kept, neighbours, targets = scratch.kept, scratch.neighbours, scratch.targets
    one, other, errors = scratch.one, scratch.other, scratch.errors
    loss, pairs = 0.0, 0
    for text in range(first, last):
        count, state = keep_words(texts, text, sampling.keep, kept, mixed(key + GOLDEN * np.uint64(text + 1)))
        for place in range(count):
            state += GOLDEN
            low, high = bounds(place, count, window, state)
            rows = 0
            for near in range(low, high):
                if near != place:
                    word = kept[near]
                    neighbours[rows] = word
                    for d in range(size):
                        one[rows, d] = inputs[word, d]
                    rows += 1
            columns, state = draw_targets(sampling, targets, kept[place], negative, state)
            for j in range(columns):
                word = targets[j]
                for d in range(size):
                    other[j, d] = outputs[word, d]
            products(scratch, rows, columns, size)
            measured = place % LOSS_EVERY == 0
            pairs += rows if measured else 0
            for i in range(rows):
                for j in range(columns):
                    guess = logistic(scratch.logistic, errors[i, j])
                    if measured:
                        loss -= np.log(guess if j == 0 else np.float32(1.0) - guess)
                    errors[i, j] = ((np.float32(1.0) if j == 0 else np.float32(0.0)) - guess) * rate
            for j in range(columns):
                word = targets[j]
                i = 0
                while i + 2 < rows:
                    a, b, c = errors[i, j], errors[i + 1, j], errors[i + 2, j]
                    for d in range(size):
                        outputs[word, d] += a * one[i, d] + b * one[i + 1, d] + c * one[i + 2, d]
                    i += 3
                while i < rows:
                    a = errors[i, j]
                    for d in range(size):
                        outputs[word, d] += a * one[i, d]
                    i += 1
            for i in range(rows):
                word = neighbours[i]
                j = 0
                while j + 2 < columns:
                    a, b, c = errors[i, j], errors[i, j + 1], errors[i, j + 2]
                    for d in range(size):
                        inputs[word, d] += a * other[j, d] + b * other[j + 1, d] + c * other[j + 2, d]
                    j += 3
                while j < columns:
                    a = errors[i, j]
                    for d in range(size):
                        inputs[word, d] += a * other[j, d]
                    j += 1
    return loss, pairs


@compiled
def mean_of_neighbours(
    kept: Ints, low: int, high: int, place: int, inputs: Floats, mean: Floats, blocks: tuple[int, ...]
) -> None:
    """mean[0] = the mean vector of the words from `low` to `high` without `place`."""
    size = LANE * len(blocks)
    for d in range(size):
        mean[0, d] = np.float32(0.0)
    for near in range(low, high):
        if near != place:
            word = kept[near]
            for d in range(size):
                mean[0, d] += inputs[word, d]
    share = np.float32(1.0) / np.float32(high - low - 1)
    for d in range(size):
        mean[0, d] *= share


@compiled
def add_to_neighbours(
    kept: Ints, low: int, high: int, place: int, inputs: Floats, step: Floats, blocks: tuple[int, ...]
) -> None:
    """Add step[0] to the vectors of the words from `low` to `high` without `place`."""
    size = LANE * len(blocks)
    for near in range(low, high):
        if near != place:
            word = kept[near]
            for d in range(size):
                inputs[word, d] += step[0, d]


@compiled
def train_cbow(
    texts: Texts,
    first: int,
    last: int,
    key: np.uint64,
    inputs: Floats,
    outputs: Floats,
    sampling: Sampling,
    scratch: Scratch,
    window: int,
    negative: int,
    rate: np.float32,
    blocks: tuple[int, ...],
) -> tuple[float, int]:
    """Texts `first` to `last`: each word is told from negative words by the mean of its neighbours' vectors.

    As in the original program, every neighbour gets the whole step of the mean. Arguments and result are those of
    `train_skip_gram`, a pair being a word and its neighbours.
    """
    size = LANE * len(blocks)
    kept, targets = scratch.kept, scratch.targets
    mean, step = scratch.one, scratch.other
    loss, pairs = 0.0, 0
    for text in range(first, last):
        count, state = keep_words(texts, text, sampling.keep, kept, mixed(key + GOLDEN * np.uint64(text + 1)))
        if count < 2:
            continue
        for place in range(count):
            state += GOLDEN
            low, high = bounds(place, count, window, state)
            columns, state = draw_targets(sampling, targets, kept[place], negative, state)
            mean_of_neighbours(kept, low, high, place, inputs, mean, blocks)
            for d in range(size):
                step[0, d] = np.float32(0.0)
            measured = place % LOSS_EVERY == 0
            pairs += 1 if measured else 0
            for j in range(columns):
                word = targets[j]
                product = np.float32(0.0)
                for d in range(size):
                    product += mean[0, d] * outputs[word, d]
                guess = logistic(scratch.logistic, product)
                if measured:
                    loss -= np.log(guess if j == 0 else np.float32(1.0) - guess)
                error = ((np.float32(1.0) if j == 0 else np.float32(0.0)) - guess) * rate
                for d in range(size):
                    step[0, d] += error * outputs[word, d]
                for d in range(size):
                    outputs[word, d] += error * mean[0, d]
            add_to_neighbours(kept, low, high, place, inputs, step, blocks)
    return loss, pairs


@compiled
def train_bernoulli(
    texts: Texts,
    first: int,
    last: int,
    key: np.uint64,
    contexts: Floats,
    means: Floats,
    sampling: Sampling,
    scratch: Scratch,
    window: int,
    negative: int,
    rate: np.float32,
    blocks: tuple[int, ...],
    variances: Floats,
    precisions: Floats,
) -> tuple[float, int]:
    """Texts `first` to `last` of Bernoulli embeddings; the mathematics is told in `bernoulli`.

    contexts, means, variances: (V, P), the context vectors and the posterior of the word vectors; the variances stay
    precisions: (V, P) to which every observation adds
    Returns the sum of the bounds on the loss that were measured and their number.
    """
    size = LANE * len(blocks)
    kept, targets = scratch.kept, scratch.targets
    mean, step = scratch.one, scratch.other
    loss, pairs = 0.0, 0
    for text in range(first, last):
        count, state = keep_words(texts, text, sampling.keep, kept, mixed(key + GOLDEN * np.uint64(text + 1)))
        if count < 2:
            continue
        for place in range(count):
            state += GOLDEN
            low, high = bounds(place, count, window, state)
            columns, state = draw_targets(sampling, targets, kept[place], negative, state)
            mean_of_neighbours(kept, low, high, place, contexts, mean, blocks)
            for d in range(size):
                step[0, d] = np.float32(0.0)
            measured = place % LOSS_EVERY == 0
            pairs += 1 if measured else 0
            for j in range(columns):
                word = targets[j]
                product = variance = np.float32(0.0)
                for d in range(size):
                    product += mean[0, d] * means[word, d]
                    variance += mean[0, d] * mean[0, d] * variances[word, d]
                # ξ, and 2 λ(ξ) = tanh(ξ/2) / 2ξ = (σ(ξ) - 1/2) / ξ, which is 1/4 at 0
                spread = np.sqrt(product * product + variance)
                curve = np.float32(0.25)
                if spread > np.float32(0.1):
                    curve = (logistic(scratch.logistic, spread) - np.float32(0.5)) / spread
                sign = np.float32(0.5) if j == 0 else np.float32(-0.5)
                if measured:
                    loss -= np.log(logistic(scratch.logistic, spread)) + sign * product - np.float32(0.5) * spread
                error = sign - curve * product
                for d in range(size):
                    step[0, d] += error * means[word, d] - curve * variances[word, d] * mean[0, d]
                for d in range(size):
                    means[word, d] += rate * error * mean[0, d]
                for d in range(size):
                    precisions[word, d] += curve * mean[0, d] * mean[0, d]
            for d in range(size):
                step[0, d] *= rate
            add_to_neighbours(kept, low, high, place, contexts, step, blocks)
    return loss, pairs
