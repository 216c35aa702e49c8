"""Texts and vectors that are small enough to know by heart."""

from __future__ import annotations

import numpy as np

from bertworks.vectors import TextOptions, TrainingOptions, VectorsConfig, WordVectors

DIM = 12  # padded to 16


def made_up_texts(texts: int = 400, seed: int = 0) -> list[str]:
    """Two topics that share no words but those of grammar: words of a topic meet, words of both never do."""
    random = np.random.default_rng(seed)
    topics = [[f"{name}{number}" for number in range(12)] for name in ("sea", "sky")]
    grammar = ["the", "of", "and"]
    made = []
    for number in range(texts):
        topic = topics[number % 2]
        words = [str(random.choice(grammar if random.random() < 0.3 else topic)) for _ in range(15)]
        made.append(" ".join(words))
    return made


def config(algorithm: str = "skipgram", *, text: dict | None = None, **training: object) -> VectorsConfig:
    settings: dict = {"dim": DIM, "epochs": 6, "window": 3, "negative": 4, "subsample": 1e-2, "learning_rate": 0.1}
    settings |= {"algorithm": algorithm, **training}
    return VectorsConfig(text=TextOptions(**{"min_count": 2, **(text or {})}), training=TrainingOptions(**settings))


def topics_apart(vectors: WordVectors) -> float:
    """How much nearer words of one topic are than words of both, as a difference of mean cosines."""
    sides = [np.array([word.startswith(name) for word in vectors.words]) for name in ("sea", "sky")]
    cosines = vectors.units @ vectors.units.T
    np.fill_diagonal(cosines, np.nan)
    inside = np.nanmean([np.nanmean(cosines[np.ix_(side, side)]) for side in sides])
    return float(inside - np.nanmean(cosines[np.ix_(sides[0], sides[1])]))


def few_vectors() -> WordVectors:
    """Seven words in three dimensions: man and woman, king and queen differ in the second only."""
    words = ["man", "woman", "king", "queen", "apple", "pear", "New_York"]
    matrix = [[1, 1, 0], [1, -1, 0], [4, 1, 0], [4, -1, 0], [0, 0, 2], [0, 0.1, 2], [-1, 0, -1]]
    return WordVectors(words, matrix, counts=[70, 60, 50, 40, 30, 20, 10])
