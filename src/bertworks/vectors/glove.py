"""GloVe: vectors whose products are the logarithms of how often words meet (Pennington, Socher & Manning 2014).

    minimise  Σ  f(x_ij) (w_i · c_j + b_i + d_j − ln x_ij)²,      f(x) = min(1, (x / x_max)^¾)

over all pairs that meet within the window, a pair at distance k counting 1/k. Pairs meet in both directions (a word that meets
itself thus does so twice, and counts 2/k), and the result is w + c. Steps are AdaGrad's with the constants of the published
program: the sums of squares start at 1 and are of the steps, learning rate included.

Counting in bounded memory. Words are numbered by falling frequency, and a pair belongs to its *rarer* word. A word that
occurs n times meets others at most 2·window·n times, and at most as many different words as are more frequent: so the
room that each row can need is known before counting, no table can overflow, and rows are counted part by part, each part
in one pass over the text. Rows of frequent words are counted in place, others are lists that are sorted and summed.
The pairs that are found stay in memory, 16 bytes each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertworks.vectors.kernels import LANE, Floats, Ints, Texts, compiled
from bertworks.vectors.negative import Learning, Step, check_finite, epochs_of
from bertworks.vectors.options import TrainingOptions
from bertworks.vectors.reading import Encoded, Progress
from bertworks.vectors.sampling import first_vectors, in_threads

POWER = 0.75
PART_ENTRIES = 2**24  # counted in one pass over the text, 12 bytes each
PORTION_PAIRS = 200_000
COUNT = "count pairs"

Doubles = NDArray[np.float64]
Longs = NDArray[np.int64]


class Pairs(NamedTuple):
    """Words that meet, each pair once: first ≥ second."""

    first: Ints  # (N,)
    second: Ints  # (N,)
    counts: Floats  # (N,) weighted by distance


class Model(NamedTuple):
    """What is learnt, and the sums of squares of its steps."""

    words: Floats  # (V, P)
    contexts: Floats  # (V, P)
    word_squares: Floats  # (V, P)
    context_squares: Floats  # (V, P)
    word_biases: Floats  # (V, 2) the bias, and its sum of squares
    context_biases: Floats  # (V, 2)


def count_pairs(corpus: Encoded, window: int, progress: Progress | None = None, part: int = PART_ENTRIES) -> Pairs:
    """Every pair of words that meets within `window` words of a text."""
    words = len(corpus.words)
    most = np.minimum(2 * window * corpus.counts, np.arange(1, words + 1))  # (V,) entries of each row
    ends = np.cumsum(most)
    found: list[tuple[Ints, Ints, Floats]] = []
    low = 0
    while low < words:
        before = int(ends[low - 1]) if low else 0
        high = max(int(np.searchsorted(ends, before + part, side="right")), low + 1)
        if progress is not None:
            progress(COUNT, before / int(ends[-1]), f"words {low + 1:,} to {high:,}")
        offsets = np.concatenate([[0], ends[low:high] - before]).astype(np.int64)
        second, values = np.empty(int(offsets[-1]), np.int32), np.zeros(int(offsets[-1]), np.float64)
        _count(corpus.texts, low, high, window, offsets, np.zeros(high - low, np.int64), second, values)
        lengths = np.zeros(high - low, np.int64)
        total = _summed(low, offsets, second, values, lengths)
        first = np.repeat(np.arange(low, high, dtype=np.int32), lengths)
        found.append((first, second[:total].copy(), values[:total].astype(np.float32)))
        low = high
    return Pairs(*(np.concatenate(column) for column in zip(*found, strict=True)))


@compiled
def _count(
    texts: Texts, low: int, high: int, window: int, offsets: Longs, used: Longs, second: Ints, values: Doubles
) -> None:
    """Add the pairs whose rarer word is in `low` to `high`; a row with room for every more frequent word is in place."""
    for text in range(texts.starts.size - 1):
        begin = texts.starts[text]
        for place in range(begin, texts.starts[text + 1]):
            here = texts.ids[place]
            for distance in range(1, min(window, place - begin) + 1):
                there = texts.ids[place - distance]
                rare, frequent = max(here, there), min(here, there)
                if rare < low or rare >= high:
                    continue
                row = rare - low
                offset = offsets[row]
                amount = (2.0 if rare == frequent else 1.0) / distance
                if offsets[row + 1] - offset == rare + 1:
                    values[offset + frequent] += amount
                else:
                    second[offset + used[row]] = frequent
                    values[offset + used[row]] = amount
                    used[row] += 1


@compiled
def _summed(low: int, offsets: Longs, second: Ints, values: Doubles, lengths: Longs) -> int:
    """Bring all rows together at the front, each pair once; `lengths` of the rows, and how much is used."""
    write = 0
    for row in range(lengths.size):
        begin, end = offsets[row], offsets[row + 1]
        start = write
        if end - begin == low + row + 1:
            for number in range(end - begin):
                value = values[begin + number]
                if value > 0.0:
                    second[write], values[write] = number, value
                    write += 1
        else:
            used = begin
            while used < end and values[used] > 0.0:
                used += 1
            order = np.argsort(second[begin:used], kind="mergesort")
            others, amounts = second[begin:used][order], values[begin:used][order]  # copies
            for number in range(order.size):
                if write > start and second[write - 1] == others[number]:
                    values[write - 1] += amounts[number]
                else:
                    second[write], values[write] = others[number], amounts[number]
                    write += 1
        lengths[row] = write - start
    return write


def learn(corpus: Encoded, options: TrainingOptions, progress: Progress | None = None) -> Learning:
    """Count, then train; a step's `words` are as large a share of the text as its pairs are of all pairs."""
    assert options.window is not None
    assert options.learning_rate is not None
    rate = np.float32(options.learning_rate)
    pairs = count_pairs(corpus, options.window, progress)
    order = np.random.default_rng([options.seed, 2]).permutation(len(pairs.counts))
    pairs = Pairs(pairs.first[order], pairs.second[order], pairs.counts[order])
    del order
    logarithms = np.log(pairs.counts)
    weights = np.minimum(pairs.counts / np.float32(options.max_weight_count), 1) ** np.float32(POWER)
    model = _first_model(len(corpus.words), options)
    blocks = (0,) * (model.words.shape[1] // LANE)
    bounds = np.append(np.arange(0, len(logarithms), PORTION_PAIRS), len(logarithms))
    jobs = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    spaces: list[Any] = [None] * options.threads

    def work(job: tuple[int, int], space: Any) -> float:
        return float(_train(pairs, logarithms, weights, job[0], job[1], model, rate, blocks))

    for epoch in range(epochs_of(options)):
        shuffled = [jobs[number] for number in np.random.default_rng([options.seed, 3, epoch]).permutation(len(jobs))]
        for (first, last), loss in in_threads(work, shuffled, spaces):
            words = int(corpus.texts.starts[-1]) * (last - first) // len(pairs.counts)
            with_itself = int((pairs.first[first:last] == pairs.second[first:last]).sum())
            yield Step(epoch, words, loss, 2 * (last - first) - with_itself)
        check_finite((model.words, model.contexts), float(rate))
    return (model.words + model.contexts)[:, : options.dim].copy(), None


def _first_model(words: int, options: TrainingOptions) -> Model:
    vectors = first_vectors(words, options), first_vectors(words, options, stream=1)
    squares = np.ones_like(vectors[0]), np.ones_like(vectors[0])
    biases = np.tile(np.array([0, 1], np.float32), (words, 1))
    return Model(*vectors, *squares, biases, biases.copy())


@compiled
def _train(
    pairs: Pairs,
    logarithms: Floats,
    weights: Floats,
    first: int,
    last: int,
    model: Model,
    rate: np.float32,
    blocks: tuple[int, ...],
) -> float:
    """Pairs `first` to `last`, each in both directions; the sum of the weighted squared errors."""
    size = LANE * len(blocks)
    loss = 0.0
    for number in range(first, last):
        one, other = pairs.first[number], pairs.second[number]
        for _ in range(1 if one == other else 2):
            product = np.float32(0.0)
            for d in range(size):
                product += model.words[one, d] * model.contexts[other, d]
            error = product + model.word_biases[one, 0] + model.context_biases[other, 0] - logarithms[number]
            loss += weights[number] * error * error
            step = rate * weights[number] * error
            for d in range(size):
                word, context = model.words[one, d], model.contexts[other, d]
                for_word, for_context = step * context, step * word
                model.words[one, d] = word - for_word / np.sqrt(model.word_squares[one, d])
                model.contexts[other, d] = context - for_context / np.sqrt(model.context_squares[other, d])
                model.word_squares[one, d] += for_word * for_word
                model.context_squares[other, d] += for_context * for_context
            for biases, row in ((model.word_biases, one), (model.context_biases, other)):
                biases[row, 0] -= step / np.sqrt(biases[row, 1])
                biases[row, 1] += step * step
            one, other = other, one
    return loss
