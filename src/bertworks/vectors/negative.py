"""Skip-gram and CBOW with negative sampling (Mikolov et al. 2013, "Distributed representations of words and phrases").

Two sets of vectors learn to tell true neighbours from words drawn at random: the logistic function of their product is
the probability of being true. Skip-gram asks each neighbour alone, CBOW the mean of all neighbours. The first set is
the result. The loops are in `kernels`, which says what differs from the original program.

Left out: hierarchical softmax, sub-word vectors (fastText).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from bertworks.data.pretraining import draw
from bertworks.data.pretraining.draw import Stream
from bertworks.errors import UsageError
from bertworks.vectors import sampling
from bertworks.vectors.kernels import LANE, Floats, Scratch, train_cbow, train_skip_gram
from bertworks.vectors.options import TrainingOptions
from bertworks.vectors.reading import Encoded
from bertworks.vectors.sampling import Portion

FIRST_LENGTH = 0.2
"""Of new vectors. From 0.46, as elsewhere, more analogies are found and a little less of SimLex-999; gensim has 0.06."""


class Step(NamedTuple):
    """A portion of the work is done."""

    epoch: int
    words: int
    loss: float
    """The sum of the losses that were measured …"""
    pairs: int
    """… and of how many."""


Kernel = Callable[..., tuple[float, int]]
Learning = Generator[Step, None, tuple[Floats, Floats | None]]
"""Steps, and in the end the vectors and, where there is a posterior, their standard deviations, (V, D) each."""


def learn(corpus: Encoded, options: TrainingOptions) -> Learning:
    """Train skip-gram or CBOW."""
    kernel = train_skip_gram if options.algorithm == "skipgram" else train_cbow
    inputs = sampling.first_vectors(len(corpus.words), options, length=FIRST_LENGTH)
    outputs = np.zeros_like(inputs)
    for epoch in range(epochs_of(options)):
        yield from epoch_steps(kernel, corpus, options, epoch, (inputs, outputs))
    return inputs[:, : options.dim].copy(), None


def epochs_of(options: TrainingOptions) -> int:
    """The number of epochs of settled options."""
    assert options.epochs is not None
    return options.epochs


def epoch_steps(
    kernel: Kernel,
    corpus: Encoded,
    options: TrainingOptions,
    epoch: int,
    matrices: tuple[Floats, Floats],
    more: tuple[Any, ...] = (),
) -> Generator[Step]:
    """One pass over the texts with a kernel of `kernels`; `more` are its last arguments."""
    assert options.window is not None
    assert options.learning_rate is not None
    window = options.window
    texts = corpus.texts
    tables = sampling.sampling(corpus.counts, options.subsample)
    key = draw.bits(Stream.WORD_VECTORS, options.seed, epoch, 0)[()]
    blocks = (0,) * (matrices[0].shape[1] // LANE)
    longest = int(np.diff(texts.starts).max())
    spaces = [sampling.scratch(longest, window, options) for _ in range(options.threads)]

    def work(portion: Portion, space: Scratch) -> tuple[float, int]:
        first, last, rate = portion.first, portion.last, np.float32(portion.rate)
        numbers = (window, options.negative, rate, blocks)
        return kernel(texts, first, last, key, *matrices, tables, space, *numbers, *more)

    jobs = sampling.portions(texts.starts, epoch, epochs_of(options), options.learning_rate)
    for portion, (loss, pairs) in sampling.in_threads(work, jobs, spaces):
        yield Step(epoch, portion.words, loss, pairs)
    check_finite(matrices, options.learning_rate)


def check_finite(matrices: tuple[Floats, ...], rate: float) -> None:
    """Vectors that have grown out of all bounds are an error, not a result."""
    if not all(np.isfinite(matrix).all() for matrix in matrices):
        raise UsageError(f"the vectors have grown out of all bounds; lower --learning-rate (it is {rate})")
