"""Word vectors in the studio: neighbours, analogies, and the axis of she and he."""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from bertworks.errors import UsageError, did_you_mean
from bertworks.vectors import bias
from bertworks.vectors.formats import TENSORS
from bertworks.vectors.word_lists import BUILT_IN
from bertworks.vectors.words import Neighbour, WordVectors

MOST_NEIGHBOURS = 50
MOST_WORDS = 100
EXAMPLES = ("programmer", "doctor", "captain", "scientist")


def is_vectors(path: str | Path) -> bool:
    """Whether a path names word vectors and not a model: a file, or a directory as `bertworks vectors train` writes it."""
    path = Path(path)
    return path.is_file() or (path / TENSORS).is_file()


def unused_name(name: str, taken: Container[str]) -> str:
    """Two of the same name are told apart by a number."""
    number, unused = 2, name
    while unused in taken:
        unused, number = f"{name}-{number}", number + 1
    return unused


class VectorTables:
    """Word vectors by the names that the page shows."""

    def __init__(self) -> None:
        self._tables: dict[str, WordVectors] = {}

    def add(self, name: str, vectors: WordVectors) -> None:
        self._tables[unused_name(name, self._tables)] = vectors

    def get(self, name: str) -> WordVectors:
        if name not in self._tables:
            there = ", ".join(self._tables) or "none; start the studio with a directory of word vectors"
            raise UsageError(f"no word vectors {name!r} are loaded{did_you_mean(name, self._tables)}; loaded: {there}")
        return self._tables[name]

    def describe(self) -> list[dict[str, Any]]:
        return [{"name": name, "words": len(one), "dim": one.dim} for name, one in self._tables.items()]


def similar(vectors: WordVectors, word: str, top: int = 10) -> dict[str, Any]:
    """The words nearest to a word."""
    return {"word": _known(vectors, word), "neighbours": _plain(vectors.similar(_asked(word), _top(top)))}


def analogy(vectors: WordVectors, a: str, b: str, c: str, top: int = 10) -> dict[str, Any]:
    """a is to b as c is to …"""
    words = [_known(vectors, word) for word in (a, b, c)]
    return {"words": words, "neighbours": _plain(vectors.analogy(_asked(a), _asked(b), _asked(c), _top(top)))}


def bias_axis(vectors: WordVectors, words: Sequence[str] = (), *, seed: int = 0) -> dict[str, Any]:
    """Where neutral words lie between she and he, before and after neutralising; `words` are measured beside them.

    seed: for the splits that association tests draw where there are too many to try all
    """
    if len(words) > MOST_WORDS:
        raise UsageError(f"there are {len(words)} words; {MOST_WORDS} at most are put on the axis at once")
    found = _measured(vectors, seed)
    direction = found["direction"]
    own = [
        {
            "word": _known(vectors, word),
            "projection": _projection(vectors, word, direction),
            "after": _projection(found["changed"], word, direction),
        }
        for word in map(_asked, words)
    ]
    return {
        "sides": {"positive": direction.pairs[0][0], "negative": direction.pairs[0][1]},
        "pairs": [list(pair) for pair in direction.pairs],
        "explained": direction.explained,
        "before": found["before"].to_dict(),
        "after": found["after"].to_dict(),
        "words": own,
    }


@functools.lru_cache(maxsize=2)
def _measured(vectors: WordVectors, seed: int) -> dict[str, Any]:
    """By the built-in lists, as `bertworks vectors bias` does."""
    direction = bias.find_direction(vectors, BUILT_IN.pairs)
    before = bias.measure(vectors, BUILT_IN, direction, examples=EXAMPLES, seed=seed)
    changed = bias.debiased(vectors, BUILT_IN, direction)
    after = bias.measure(changed, BUILT_IN, direction, sides=before.projections, examples=EXAMPLES, seed=seed)
    return {"direction": direction, "before": before, "after": after, "changed": changed}


def _projection(vectors: WordVectors, word: str, direction: bias.Direction) -> float:
    return float(vectors.units[vectors.number(word)] @ direction.vector)


def _asked(word: str) -> str:
    if not word.strip():
        raise UsageError("a word is missing: fill in every field")
    return word.strip()


def _known(vectors: WordVectors, word: str) -> str:
    """As the table writes it."""
    return vectors.words[vectors.number(_asked(word))]


def _top(top: int) -> int:
    if not 1 <= top <= MOST_NEIGHBOURS:
        raise UsageError(f"the number of neighbours is {top}; it must be 1 to {MOST_NEIGHBOURS}")
    return top


def _plain(found: Sequence[Neighbour]) -> list[dict[str, Any]]:
    return [
        {"word": near.word, "similarity": near.similarity}
        | ({} if near.deviation is None else {"deviation": near.deviation})
        for near in found
    ]
