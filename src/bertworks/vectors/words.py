"""Word vectors in use: the vector of a word, its nearest neighbours, analogies.

"Near" is the cosine. An analogy *a is to b as c is to ?* looks for the word nearest to b − a + c, with unit vectors, the
three words themselves left out (3CosAdd; Mikolov, Yih & Zweig 2013). Words are found as they are written, else in small
letters, since most published vectors know no others.

Where each vector has a posterior (Bernoulli embeddings, `bernoulli`), `deviations` are its standard deviations, and a
similarity has one too.

Legend: V words, D dimensions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertworks.errors import UsageError, did_you_mean

Floats = NDArray[np.float32]
DRAWS = 200  # of the posterior, for the deviation of a similarity
FREQUENT = 30_000  # the words that a suggestion is taken from


class Neighbour(NamedTuple):
    """A word that is near."""

    word: str
    similarity: float
    deviation: float | None = None
    """Standard deviation of the similarity over the posterior of both vectors; None where there is no posterior."""


class WordVectors:
    """Words with a vector each, the most frequent word first where that is known.

    matrix:     float32 (V, D)
    counts:     (V,) how often each word occurred in the text, or None
    deviations: float32 (V, D) standard deviations of the posterior, or None
    """

    def __init__(
        self,
        words: Sequence[str],
        matrix: ArrayLike,
        *,
        counts: ArrayLike | None = None,
        deviations: ArrayLike | None = None,
    ) -> None:
        self.words = list(words)
        self.matrix: Floats = np.ascontiguousarray(matrix, np.float32)
        self.counts = None if counts is None else np.asarray(counts, np.int64)
        self.deviations = None if deviations is None else np.ascontiguousarray(deviations, np.float32)
        self.index = {word: number for number, word in enumerate(self.words)}
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words):
            raise UsageError(f"{len(self.words):,} words need a matrix of as many rows, not {self.matrix.shape}")
        if len(self.index) != len(self.words):
            twice = next(word for number, word in enumerate(self.words) if self.index[word] != number)
            raise UsageError(f"the word {twice!r} is there twice; a word has one vector")

    @classmethod
    def load(cls, path: str | Path) -> WordVectors:
        """Read vectors in any known format (see `formats`), which is told by the file itself."""
        from bertworks.vectors.formats import load

        return load(Path(path))

    def save(self, path: str | Path, format: str | None = None) -> None:  # noqa: A002
        """Write vectors; without `format` the name decides: .bin, .kv, .txt or .vec, and a directory otherwise."""
        from bertworks.vectors.formats import save

        save(self, Path(path), format)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.find(word) is not None

    @property
    def dim(self) -> int:
        """D."""
        return int(self.matrix.shape[1])

    def find(self, word: str) -> int | None:
        """The number of a word, as it is written or in small letters; None where it is unknown."""
        number = self.index.get(word)
        return self.index.get(word.lower()) if number is None else number

    def number(self, word: str) -> int:
        """The number of a word; a `UsageError` where it is unknown."""
        number = self.find(word)
        if number is None:
            alike = [known for known in self.words[:FREQUENT] if known[:1].lower() == word[:1].lower()]
            raise UsageError(
                f"the word {word!r} has no vector here{did_you_mean(word.lower(), alike)}; "
                f"{len(self):,} words have one: those that were frequent enough in the text"
            )
        return number

    def vector(self, word: str) -> Floats:
        """(D,): the vector of a word."""
        return self.matrix[self.number(word)]

    @functools.cached_property
    def units(self) -> Floats:
        """(V, D): the vectors scaled to length 1 (0 stays 0)."""
        lengths = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        units: Floats = self.matrix / np.maximum(lengths, np.finfo(np.float32).tiny, dtype=np.float32)
        return units

    def similarity(self, one: str, other: str) -> float:
        """The cosine of two words."""
        return float(self.units[self.number(one)] @ self.units[self.number(other)])

    def similar(self, word: str, top: int = 10) -> list[Neighbour]:
        """The words nearest to a word."""
        number = self.number(word)
        found = self.nearest(self.units[number], top, without=[number])
        if self.deviations is None:
            return found
        return [near._replace(deviation=self._deviation(number, self.index[near.word])) for near in found]

    def analogy(self, a: str, b: str, c: str, top: int = 10) -> list[Neighbour]:
        """What is to c as b is to a: `analogy("man", "woman", "king")` should begin with queen."""
        numbers = [self.number(word) for word in (a, b, c)]
        first, second, third = self.units[numbers]
        return self.nearest(second - first + third, top, without=numbers)

    def nearest(self, query: Floats, top: int = 10, *, without: Iterable[int] = ()) -> list[Neighbour]:
        """The words nearest to a vector (D,), but for those with the numbers `without`."""
        if top < 1:
            raise UsageError(f"the number of neighbours must be at least 1, not {top}")
        length = float(np.linalg.norm(query))
        scores = self.units @ (query / length if length > 0 else query)  # (V,)
        scores[list(without)] = -np.inf
        top = min(top, len(scores))
        best = np.argpartition(-scores, top - 1)[:top]
        best = best[np.lexsort((best, -scores[best]))]
        return [Neighbour(self.words[number], float(scores[number])) for number in best if scores[number] > -np.inf]

    def _deviation(self, one: int, other: int) -> float:
        """How much a similarity varies over draws of both vectors, always the same draws."""
        assert self.deviations is not None
        noise = np.random.default_rng(0).standard_normal((2, DRAWS, self.dim), np.float32)
        draws = self.matrix[[one, other], None] + self.deviations[[one, other], None] * noise  # (2, DRAWS, D)
        draws /= np.linalg.norm(draws, axis=2, keepdims=True)
        return float((draws[0] * draws[1]).sum(1).std())
