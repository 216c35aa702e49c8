"""Word vectors: skip-gram, CBOW, GloVe and Bernoulli embeddings, in the formats that are about, measured and debiased.

from bertworks.vectors import WordVectors, train_vectors
vectors = train_vectors(texts).vectors
vectors.similar("tea")                  vectors.analogy("man", "woman", "king")
vectors.save("vectors.kv")              WordVectors.load("glove.6B.50d.txt")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bertworks.vectors.options import TextOptions, TrainingOptions, VectorsConfig
from bertworks.vectors.words import Neighbour, WordVectors

__all__ = ["Neighbour", "TextOptions", "Trained", "TrainingOptions", "VectorsConfig", "WordVectors", "train_vectors"]

if TYPE_CHECKING:
    from bertworks.vectors.train import Trained, train_vectors


def __getattr__(name: str) -> Any:
    """Import the compiler only for training: vectors that are there need none."""
    if name in ("Trained", "train_vectors"):
        from bertworks.vectors import train

        return getattr(train, name)
    raise AttributeError(f"module 'bertworks.vectors' has no attribute {name!r}")
