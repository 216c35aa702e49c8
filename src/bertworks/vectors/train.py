"""From texts to word vectors: read, learn, and tell how it goes.

One function does it all. The text is read once into numbered words (`reading`), in a folder that is removed at the end;
the algorithm is a generator of steps whose return value is the vectors (`negative`, `glove`, `bernoulli`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bertworks.errors import DataError
from bertworks.vectors import bernoulli, glove, negative
from bertworks.vectors.kernels import Floats
from bertworks.vectors.negative import Learning
from bertworks.vectors.options import TrainingOptions, VectorsConfig
from bertworks.vectors.reading import Encoded, Progress, encode
from bertworks.vectors.words import WordVectors

LEARN = "learn vectors"


@dataclass(frozen=True)
class Trained:
    """Vectors, and how they came about."""

    vectors: WordVectors
    config: VectorsConfig
    """Settled: nothing is left open."""
    losses: list[float]
    """Per epoch, the mean loss: per pair of a word and a neighbour (skip-gram), per word (CBOW, and Bernoulli's bound),
    per pair of words, weighted (GloVe)."""
    words_read: int
    words_used: int
    """In each epoch: without rare words, before subsampling."""
    learning_seconds: float

    @property
    def words_per_second(self) -> float:
        """Over all epochs, without reading the text."""
        return self.words_used * len(self.losses) / max(self.learning_seconds, 1e-9)


def train_vectors(
    texts: Iterable[str],
    config: VectorsConfig | None = None,
    *,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> Trained:
    """Learn word vectors from texts; no window reaches from one text into the next.

    folder: where the numbered text lies meanwhile, 4 bytes a word; by default where the system keeps temporary files
    """
    config = (config or VectorsConfig()).settled()
    with tempfile.TemporaryDirectory(dir=folder, prefix="bertworks-") as name:
        corpus = encode(texts, config.text, Path(name), progress)
        started = time.monotonic()
        learned = learnt(corpus, config.training, progress)
        seconds = time.monotonic() - started
        used = int(corpus.texts.starts[-1])
    vectors = WordVectors(corpus.words, learned.matrix, counts=corpus.counts, deviations=learned.deviations)
    return Trained(vectors, config, learned.losses, corpus.read, used, seconds)


class Learnt(NamedTuple):
    """What an algorithm gives."""

    matrix: Floats  # (V, D)
    deviations: Floats | None  # (V, D), of Bernoulli embeddings
    losses: list[float]


def learnt(corpus: Encoded, options: TrainingOptions, progress: Progress | None = None) -> Learnt:
    """Learn from a text that is read; the options are settled."""
    steps = _steps(corpus, options, progress)
    totals = [[0.0, 0] for _ in range(negative.epochs_of(options))]  # per epoch, the losses and of how many
    words = int(corpus.texts.starts[-1]) * len(totals)
    started = time.monotonic()
    done = 0
    if progress is not None:
        progress(LEARN, 0.0, f"epoch 1 of {len(totals)}")
    while True:
        try:
            step = next(steps)
        except StopIteration as finished:
            matrix, deviations = finished.value
            if not any(count for _, count in totals):
                raise DataError(
                    f"nothing was learnt: training.subsample = {options.subsample:g} leaves no two neighbours of so short a "
                    "text; give more text, or skip no words with --set training.subsample=0"
                ) from None
            return Learnt(matrix, deviations, [loss / max(pairs, 1) for loss, pairs in totals])
        total = totals[step.epoch]
        total[0] += step.loss
        total[1] += step.pairs
        done += step.words
        if progress is not None:
            rate = done / max(time.monotonic() - started, 1e-9)
            detail = (
                f"epoch {step.epoch + 1} of {len(totals)}, {rate:,.0f} words/s, loss {total[0] / max(total[1], 1):.4f}"
            )
            progress(LEARN, min(done / words, 1.0), detail)


def _steps(corpus: Encoded, options: TrainingOptions, progress: Progress | None) -> Learning:
    if options.algorithm == "glove":
        return glove.learn(corpus, options, progress)
    return bernoulli.learn(corpus, options) if options.algorithm == "bernoulli" else negative.learn(corpus, options)
