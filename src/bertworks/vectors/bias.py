"""Bias in word vectors: measured along a direction and by association tests, and taken out.

*Direction* (Bolukbasi et al. 2016, "Man is to computer programmer as woman is to homemaker?"): the first principal
component of the differences within pairs such as she/he, each pair centred. Unit vectors throughout. The projection of
a word is its cosine with the direction (positive: the side of the pairs' first words); direct bias is the mean size of
the projections of words that should be neutral.

*Association* (WEAT; Caliskan et al. 2017): do the words X lean to the attributes A rather than B, more than the words Y
do? s(w) = mean cos(w, A) − mean cos(w, B); the effect size is the difference of the mean s over X and Y, in standard
deviations over both. Its one-sided p-value is the share of the equal splits of X ∪ Y with at least this difference:
all splits where they are few, else `SPLITS` drawn ones (the split that was found counts as one of them).

*Neutralise and equalise* (Bolukbasi's hard debiasing): every word that does not mean the direction loses its component
along it; the words of an equalised pair become equally far from every neutral word, differing in the direction alone.
That removes what is measured here. It does not remove bias: words that leaned the same way still stand together
(Gonen & Goldberg 2019), which the report shows as well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import DataError
from bertworks.vectors.word_lists import Association, Pair, WordLists
from bertworks.vectors.words import Neighbour, WordVectors

Floats = NDArray[np.float32]
SPLITS = 20_000
NO_SPREAD = 1e-5  # projections that differ by less are equal but for rounding
LEAST_WORDS = 2  # of a list, for a test to mean anything


class Direction(NamedTuple):
    """A direction in the space of the vectors."""

    vector: Floats  # (D,) unit
    explained: list[float]
    """The share of the variance within the pairs that each principal component has; the first is the direction."""
    pairs: list[Pair]
    """Those whose words both have vectors."""


class Test(NamedTuple):
    """One association test."""

    title: str
    effect: float
    """From -2 to 2, 0 for no association."""
    p_value: float
    words: tuple[int, int, int, int]
    """How many words of X, Y, A and B have vectors."""


@dataclass(frozen=True)
class Bias:
    """What is measured of one set of vectors."""

    explained: float
    direct: float
    projections: dict[str, float]
    """Of the neutral words, ascending."""
    stereotype: float | None
    """Correlation of the projections with what people said; None where nobody was asked."""
    clustering: float
    """How well a word's neighbours among the neutral ones tell to which side it leant before: 0.5 is chance."""
    tests: list[Test]
    analogies: dict[str, list[Neighbour]]
    """`he : X :: she : ?` for some words X: the nearest of all words."""
    partners: dict[str, list[Neighbour]]
    """The neutral words that differ from X most nearly in the direction alone: the cosine of the difference with it."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **vars(self),
            "tests": [test._asdict() for test in self.tests],
            "analogies": _plain(self.analogies),
            "partners": _plain(self.partners),
        }


def _plain(found: Mapping[str, Sequence[Neighbour]]) -> dict[str, list[dict[str, Any]]]:
    return {
        word: [{"word": near.word, "similarity": near.similarity} for near in neighbours]
        for word, neighbours in found.items()
    }


def find_direction(vectors: WordVectors, pairs: Sequence[Pair]) -> Direction:
    """The direction of pairs; positive is the side of their first words."""
    known = [pair for pair in pairs if pair[0] in vectors and pair[1] in vectors]
    if not known:
        listed = ", ".join("/".join(pair) for pair in pairs[:5])
        raise DataError(f"none of the pairs that define the direction ({listed}, …) have vectors")
    one, other = (vectors.units[[vectors.number(pair[side]) for pair in known]] for side in (0, 1))  # (pairs, D)
    half = (one - other) / 2  # each pair around its own centre
    _, sizes, components = np.linalg.svd(np.concatenate([half, -half]).astype(np.float64), full_matrices=False)
    explained = sizes**2 / max(float((sizes**2).sum()), 1e-12)
    vector = components[0] if float((half @ components[0]).sum()) > 0 else -components[0]
    return Direction(vector.astype(np.float32), [float(share) for share in explained[: len(known)]], known)


def association_test(vectors: WordVectors, title: str, lists: Association, seed: int = 0) -> Test | None:
    """One test; None where a list has fewer than two words with vectors."""
    numbers = [[number for word in words if (number := vectors.find(word)) is not None] for words in lists]
    if min(map(len, numbers)) < LEAST_WORDS:
        return None
    x, y, a, b = (vectors.units[list(dict.fromkeys(words))] for words in numbers)
    lean = [(words @ a.T).mean(1) - (words @ b.T).mean(1) for words in (x, y)]
    both = np.concatenate(lean).astype(np.float64)
    effect = float((lean[0].mean() - lean[1].mean()) / max(float(both.std(ddof=1)), 1e-12))
    return Test(title, effect, _p_value(both, len(x), seed), (len(x), len(y), len(a), len(b)))


def _p_value(lean: NDArray[np.float64], first: int, seed: int) -> float:
    """The share of the splits into `first` words and the rest whose sum is at least that of the first ones."""
    found = lean[:first].sum() - 1e-12
    if math.comb(len(lean), first) <= SPLITS:
        chosen = np.array(list(itertools.combinations(range(len(lean)), first)))
        return float((lean[chosen].sum(1) >= found).mean())
    random = np.random.default_rng(seed)
    orders = random.permuted(np.broadcast_to(lean, (SPLITS - 1, len(lean))), axis=1)
    return float(((orders[:, :first].sum(1) >= found).sum() + 1) / SPLITS)


def measure(
    vectors: WordVectors,
    lists: WordLists,
    direction: Direction,
    *,
    sides: Mapping[str, float] | None = None,
    examples: Sequence[str] = (),
    seed: int = 0,
) -> Bias:
    """Measure along a direction, which may have been found in other vectors.

    sides:    the projections that say to which side the neutral words lean; their own without it
    examples: words X of the analogies
    """
    neutral = {word: said for word, said in lists.neutral.items() if word in vectors and word not in lists.specific}
    if len(neutral) < LEAST_WORDS:
        raise DataError("fewer than two of the neutral words of the lists have vectors; measure with other lists")
    rows = vectors.units[[vectors.number(word) for word in neutral]]
    values = rows @ direction.vector
    projections = {word: float(value) for word, value in zip(neutral, values, strict=True)}
    said = [(projections[word], value) for word, value in neutral.items() if value is not None]
    correlation = None
    if len(said) > 1 and len({value for _, value in said}) > 1:
        flat = float(np.std([value for value, _ in said])) < NO_SPREAD
        correlation = 0.0 if flat else float(np.corrcoef(np.array(said).T)[0, 1])
    signs = np.array([(sides or projections)[word] for word in neutral]) > 0
    tests = (association_test(vectors, title, words, seed) for title, words in lists.associations.items())
    one, other = direction.pairs[0]
    return Bias(
        explained=direction.explained[0],
        direct=float(np.abs(values).mean()),
        projections=dict(sorted(projections.items(), key=lambda item: item[1])),
        stereotype=correlation,
        clustering=_clustering(rows, signs),
        tests=[test for test in tests if test is not None],
        analogies={word: vectors.analogy(other, word, one, top=5) for word in examples if word in vectors},
        partners={word: _partners(vectors, word, list(neutral), direction) for word in examples if word in vectors},
    )


def _partners(vectors: WordVectors, word: str, others: Sequence[str], direction: Direction) -> list[Neighbour]:
    """The five words whose difference from `word` points most nearly along the direction."""
    rows = vectors.units[[vectors.number(other) for other in others]] - vectors.units[vectors.number(word)]
    lengths = np.linalg.norm(rows, axis=1)
    cosines = rows @ direction.vector / np.where(lengths > 0, lengths, 1)
    best = np.argsort(-cosines, kind="stable")[:5]
    return [Neighbour(others[number], float(cosines[number])) for number in best]


def _clustering(rows: Floats, signs: NDArray[np.bool_], neighbours: int = 10) -> float:
    """How often most of a word's nearest neutral words are of its own side, both sides weighing the same."""
    scores = rows @ rows.T
    np.fill_diagonal(scores, -np.inf)
    nearest = np.argsort(-scores, axis=1)[:, : max(min(neighbours, len(rows) // 3), 1)]
    share = signs[nearest].mean(1)
    right = np.where(share == 0.5, 0.5, (share > 0.5) == signs)
    present = [side for side in (True, False) if (signs == side).any()]
    return float(np.mean([right[signs == side].mean() for side in present]))


def debiased(vectors: WordVectors, lists: WordLists, direction: Direction) -> WordVectors:
    """Neutralise and equalise; unit vectors. The deviations of a posterior go the same way, lengths taken as known."""
    matrix = vectors.units.copy()
    before = np.maximum(np.linalg.norm(vectors.matrix, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    known = np.zeros_like(matrix) if vectors.deviations is None else vectors.deviations
    variances = (known / before) ** 2
    specific = _numbers(vectors, lists.specific)
    paired = list(_known_pairs(vectors, [*lists.equalize, *lists.pairs]))
    keeps = np.zeros(len(matrix), np.bool_)
    keeps[[*specific, *itertools.chain.from_iterable(paired)]] = True
    axis = direction.vector
    neutral = ~keeps
    matrix[neutral] -= np.outer(matrix[neutral] @ axis, axis)
    lengths = np.linalg.norm(matrix[neutral], axis=1, keepdims=True)
    lengths = np.where(lengths > 0, lengths, 1)
    matrix[neutral] /= lengths
    variances[neutral] = _without(axis, variances[neutral]) / lengths**2
    for one, other in paired:
        middle = (matrix[one] + matrix[other]) / 2
        common = middle - (middle @ axis) * axis
        rest = math.sqrt(max(0.0, 1.0 - float(common @ common)))
        sign = 1.0 if float((matrix[one] - matrix[other]) @ axis) >= 0 else -1.0
        matrix[one], matrix[other] = common + sign * rest * axis, common - sign * rest * axis
        variances[[one, other]] = _without(axis, (variances[one] + variances[other])[None] / 4)
    deviations = None if vectors.deviations is None else np.sqrt(variances)
    return WordVectors(vectors.words, matrix, counts=vectors.counts, deviations=deviations)


def _without(axis: Floats, variances: Floats) -> Floats:
    """The variances (N, D) of vectors that lose their component along the unit vector `axis`: diag(P Σ P), P = I − a aᵀ."""
    squares = axis**2
    left: Floats = variances * (1 - 2 * squares) + np.outer(variances @ squares, squares)
    return np.maximum(left, 0)  # but for rounding it is never below


def _numbers(vectors: WordVectors, words: set[str]) -> list[int]:
    return [number for word in sorted(words) if (number := vectors.find(word)) is not None]


def _known_pairs(vectors: WordVectors, pairs: Sequence[Pair]) -> Iterator[tuple[int, int]]:
    """The numbers of the pairs that have vectors; no word twice, for the second pair would undo the first."""
    seen: set[int] = set()
    for one, other in pairs:
        numbers = vectors.find(one), vectors.find(other)
        if numbers[0] is None or numbers[1] is None or numbers[0] == numbers[1] or seen & {*numbers}:
            continue
        seen |= {numbers[0], numbers[1]}
        yield numbers[0], numbers[1]
