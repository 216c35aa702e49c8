"""Exact match and F1 of answers by the rules of SQuAD's own scripts (Rajpurkar et al. 2016, section 6.1; 2018, section 4).

Before texts are compared they are written in lower case, ASCII punctuation is removed, then the words a, an, the; white
space becomes single spaces. Exact match: the rest is equal. F1: of the two bags of words. A question's figure is the best
over its allowed answers.

The two versions differ where nothing is left of a text:

    1.1   F1 is 0 when no word is shared, even where both are empty
    2.0   an empty text means "no answer": F1 is 1 where both are empty, 0 where one is. Allowed answers of which nothing
          is left are not counted

Figures are shares, 0 to 1; the scripts print percentages.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Rules = Literal["1.1", "2.0"]

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class QuestionScore(NamedTuple):
    """One question's figures."""

    exact_match: float
    f1: float


@dataclass(frozen=True, eq=False)
class SquadScores:
    """Each question's figures, (N,), and which questions have an answer."""

    exact_matches: NDArray[np.float64]
    f1s: NDArray[np.float64]
    answerable: NDArray[np.bool_]

    def figures(self) -> dict[str, float]:
        """`exact_match` and `f1`; where some questions have no answer, also those of the two kinds apart."""
        found = {"exact_match": _mean(self.exact_matches), "f1": _mean(self.f1s)}
        if not self.answerable.all():
            has = self.answerable
            if has.any():
                found["has_answer_exact_match"] = _mean(self.exact_matches[has])
                found["has_answer_f1"] = _mean(self.f1s[has])
            found["no_answer_accuracy"] = _mean(self.exact_matches[~has])  # where there is none, F1 is the same
        return found


def normalise(text: str) -> str:
    """The text as it is compared."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def question_score(allowed: Sequence[str], text: str, rules: Rules) -> QuestionScore:
    """One predicted text ("" = no answer) against the allowed ones (none = there is no answer)."""
    truths = [normalise(answer) for answer in allowed]
    if rules == "2.0":
        truths = [truth for truth in truths if truth] or [""]
    predicted = normalise(text)
    words = Counter(predicted.split())
    return QuestionScore(
        max((float(truth == predicted) for truth in truths), default=0.0),
        max((_f1(truth, words, rules) for truth in truths), default=0.0),
    )


def score(allowed: Sequence[Sequence[str]], texts: Sequence[str], rules: Rules) -> SquadScores:
    """Each question's allowed answers, and the text that was predicted for it."""
    pairs = [question_score(answers, text, rules) for answers, text in zip(allowed, texts, strict=True)]
    figures = np.array(pairs, np.float64).reshape(len(pairs), 2)
    answerable = np.array([len(answers) > 0 for answers in allowed], np.bool_)
    return SquadScores(figures[:, 0], figures[:, 1], answerable)


def best_threshold(values: ArrayLike, answerable: ArrayLike, no_answer: ArrayLike) -> tuple[float, float]:
    """The best mean figure that a no-answer threshold can give, and that threshold.

    `values` (N,): each question's figure if its best answer is given; `no_answer` (N,): how strongly "no answer" is
    preferred to it. Questions above the threshold get no answer, which is right (1) where there is none and wrong (0)
    otherwise. The threshold lies half-way between two questions; of several equally good ones, nearest to 0.
    """
    given = np.asarray(values, np.float64)
    refused = (~np.asarray(answerable, np.bool_)).astype(np.float64)
    preference = np.asarray(no_answer, np.float64)
    if len(given) == 0:
        return 0.0, 0.0
    order = np.argsort(preference, kind="stable")
    ascending = preference[order]
    # means[k]: the first k questions in this order get their answer, the others none.
    means = (refused.sum() + np.concatenate(([0.0], np.cumsum((given - refused)[order])))) / len(given)
    edges = np.concatenate(([ascending[0] - 2.0], ascending, [ascending[-1] + 2.0]))
    thresholds = (edges[:-1] + edges[1:]) / 2  # (N + 1,): between the k-th and the next
    possible = np.concatenate(([True], ascending[:-1] < ascending[1:], [True]))  # equal preferences cannot be parted
    best = means[possible].max()
    candidates = thresholds[possible & (means >= best - 1e-12)]
    return float(best), float(candidates[np.abs(candidates).argmin()])


def _f1(truth: str, predicted: Counter[str], rules: Rules) -> float:
    words = Counter(truth.split())
    if rules == "2.0" and not (words and predicted):
        return float(words == predicted)
    shared = (words & predicted).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / predicted.total(), shared / words.total()
    return 2 * precision * recall / (precision + recall)


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else 0.0
