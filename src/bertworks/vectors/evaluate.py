"""How good word vectors are, by the usual sets: analogies (Google's), and similarity (WordSim-353, SimLex-999).

    analogies    `: section` lines, then four words a line: a b c d, "a is to b as c is to d" (Mikolov et al. 2013)
    similarity   word, word, what people say; separated by tabs (Finkelstein et al. 2001; Hill et al. 2015)

Analogies: the share whose fourth word is the nearest to b − a + c, among the `MOST_WORDS` most frequent, the three words
themselves left out. Similarity: Spearman's correlation of the cosines with what people say. Both are of the rows whose
words all have vectors; how many those are is part of the result, for a small vocabulary has easy questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.source import Source
from bertworks.errors import DataError
from bertworks.vectors.words import WordVectors

MOST_WORDS = 300_000
SCORES_AT_ONCE = 2**24
SYNTACTIC = "gram"  # how Google's sections of grammar begin


@dataclass(frozen=True)
class Analogies:
    """Questions by section, each (a, b, c, d)."""

    name: str
    sections: Mapping[str, Sequence[tuple[str, str, str, str]]]


@dataclass(frozen=True)
class Similarities:
    """Pairs of words and how similar people find them."""

    name: str
    pairs: Sequence[tuple[str, str, float]]


@dataclass(frozen=True)
class Score:
    """What came out on one set."""

    name: str
    kind: str
    """analogies or similarity"""
    value: float | None
    """Share of right answers, or Spearman's correlation; None where no row could be asked."""
    rows: int
    asked: int
    """Rows whose words all have vectors."""
    parts: dict[str, float] = field(default_factory=dict)
    """Analogies: semantic, syntactic, and each section that could be asked."""
    parts_asked: dict[str, int] = field(default_factory=dict)
    """Rows of each of them that were."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


# --- reading ----------------------------------------------------------------------------------------------------------


def read_set(path: str | Path) -> Analogies | Similarities:
    """Read a set; which kind it is, its first line tells."""
    source = Source(path)
    try:
        name = Path(path).name if source.path is not None else source.name
        lines = [(line, text.strip()) for line, text in source.lines()]
        rows = [(line, text) for line, text in lines if text and not text.startswith("#")]
        if not rows:
            raise DataError("is empty; it should hold analogies or pairs of words", path=path)
        first = rows[0][1]
        if first.startswith(":") or (len(first.split()) == 4 and not set(first) & {"\t", ","}):
            return Analogies(name, _sections(rows, str(path)))
        return Similarities(name, list(_pairs(rows, str(path))))
    finally:
        source.close()


def _sections(rows: Sequence[tuple[int, str]], path: str) -> dict[str, list[tuple[str, str, str, str]]]:
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    current = "questions"
    for line, text in rows:
        if text.startswith(":"):
            current = text[1:].strip()
            continue
        words = text.split()
        if len(words) != 4:
            raise DataError(
                f"an analogy has four words, this line has {len(words)} ({text!r:.60})", path=path, line=line
            )
        sections.setdefault(current, []).append((words[0], words[1], words[2], words[3]))
    return sections


def _pairs(rows: Sequence[tuple[int, str]], path: str) -> Iterator[tuple[str, str, float]]:
    for number, (line, text) in enumerate(rows):
        fields = [field.strip() for field in text.split("\t" if "\t" in text else "," if "," in text else None)]
        said = next((value for value in map(_number, fields[2:]) if value is not None), None)
        if said is not None:
            yield fields[0], fields[1], said
        elif number or len(fields) < 3 or len(rows) == 1:  # else they are names of columns
            raise DataError(f"is not two words and a number ({text!r:.60})", path=path, line=line)


def _number(field: str) -> float | None:
    """SimLex-999 has a part of speech between the words and what was said of them."""
    try:
        return float(field)
    except ValueError:
        return None


# --- asking -----------------------------------------------------------------------------------------------------------


def score(
    vectors: WordVectors, questions: Analogies | Similarities, progress: Callable[[int, int], None] | None = None
) -> Score:
    """Ask one set; `progress` is told of analogies that are done, and of how many."""
    if isinstance(questions, Similarities):
        return _score_similarities(vectors, questions)
    return _score_analogies(vectors, questions, progress)


def _score_similarities(vectors: WordVectors, questions: Similarities) -> Score:
    from scipy.stats import spearmanr

    known = [(vectors.find(one), vectors.find(other), said) for one, other, said in questions.pairs]
    asked = [(one, other, said) for one, other, said in known if one is not None and other is not None]
    value = None
    if len(asked) > 1:
        ones, others, said = zip(*asked, strict=True)
        cosines = (vectors.units[list(ones)] * vectors.units[list(others)]).sum(1)
        found = float(spearmanr(cosines, said).statistic)
        value = found if np.isfinite(found) else 0.0
    return Score(questions.name, "similarity", value, len(questions.pairs), len(asked))


def _score_analogies(vectors: WordVectors, questions: Analogies, progress: Callable[[int, int], None] | None) -> Score:
    sections = {
        name: [numbers for row in rows if (numbers := _numbers(vectors, row)) is not None]
        for name, rows in questions.sections.items()
    }
    names = np.repeat(np.arange(len(sections)), [len(rows) for rows in sections.values()])
    asked = np.array([numbers for rows in sections.values() for numbers in rows], np.int64).reshape(-1, 4)
    right = _answered(vectors.units[:MOST_WORDS], asked, progress)
    chosen: dict[str, NDArray[np.bool_]] = {}
    kinds = np.array([name.startswith(SYNTACTIC) for name in sections], np.bool_)[names]
    if kinds.any() and not kinds.all():
        chosen = {"semantic": ~kinds, "syntactic": kinds}
    chosen |= {name: names == number for number, name in enumerate(sections) if (names == number).any()}
    parts = {name: float(right[rows].mean()) for name, rows in chosen.items()}
    counts = {name: int(rows.sum()) for name, rows in chosen.items()}
    total = sum(map(len, questions.sections.values()))
    value = float(right.mean()) if len(right) else None
    return Score(questions.name, "analogies", value, total, len(asked), parts, counts)


def _numbers(vectors: WordVectors, row: tuple[str, str, str, str]) -> tuple[int, ...] | None:
    numbers = tuple(number for word in row if (number := vectors.find(word)) is not None and number < MOST_WORDS)
    return numbers if len(numbers) == 4 else None


def _answered(
    units: NDArray[np.float32], asked: NDArray[np.int64], progress: Callable[[int, int], None] | None
) -> NDArray[np.bool_]:
    """Which analogies are right: the product with all words, in blocks."""
    right = np.zeros(len(asked), np.bool_)
    size = max(1, SCORES_AT_ONCE // len(units))
    for start in range(0, len(asked), size):
        a, b, c, d = asked[start : start + size].T
        scores = (units[b] - units[a] + units[c]) @ units.T  # (questions, V)
        for words in (a, b, c):
            scores[np.arange(len(scores)), words] = -np.inf
        right[start : start + size] = scores.argmax(1) == d
        if progress is not None:
            progress(min(start + size, len(asked)), len(asked))
    return right
