"""Precision, recall and F1 of labelled spans, as in the CoNLL shared tasks and seqeval: a span counts as found only where
label, first and last word are all right.

Works on spans, not on tags: `bertworks.tasks.tags` reads spans from every tag scheme. One label's figures are made from
all spans of that label; the overall ones (micro) from all spans together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """Words `first` up to but not including `stop`, with a label."""

    label: str
    first: int
    stop: int


@dataclass(frozen=True)
class SpanScore:
    """Counts of spans; the figures follow from them. A figure whose denominator is 0 is 0."""

    right: int
    """Spans that are both true and predicted."""
    predicted: int
    support: int
    """True spans."""

    @property
    def precision(self) -> float:
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        both = self.predicted + self.support
        return 2 * self.right / both if both else 0.0


@dataclass(frozen=True)
class EntityScores:
    """All spans together, and each label's."""

    overall: SpanScore
    labels: Mapping[str, SpanScore]
    """By label, sorted: those that occur in truth or in the prediction."""

    @property
    def macro_f1(self) -> float:
        """The plain mean over labels."""
        return sum(score.f1 for score in self.labels.values()) / len(self.labels) if self.labels else 0.0


def score(truth: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> EntityScores:
    """The spans of each sentence, true and predicted, compared."""
    right, found, support = Counter[str](), Counter[str](), Counter[str]()
    for true_spans, predicted_spans in zip(truth, predicted, strict=True):
        true, guessed = set(true_spans), set(predicted_spans)
        support.update(span.label for span in true)
        found.update(span.label for span in guessed)
        right.update(span.label for span in true & guessed)
    return EntityScores(
        overall=SpanScore(right.total(), found.total(), support.total()),
        labels={
            label: SpanScore(right[label], found[label], support[label]) for label in sorted(support.keys() | found)
        },
    )
