"""Probabilities that mean what they say: temperatures, thresholds, and how far off they are.

A *temperature* divides the logits before the softmax, so that the probabilities fit labelled rows best (Guo et al. 2017);
it never changes which class wins. A *threshold* per label says from which probability on a label is given, chosen for the
best F1. *Reliability* compares confidence with the share of right answers, bin by bin.

Legend: N rows, C classes or labels, K bins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertworks.errors import UsageError

Floats = NDArray[np.float64]

TEMPERATURES = (0.01, 10.0)
"""Allowed temperatures. A model that was trained little is right with low logits, and asks for one far below 1."""

ROWS_FOR_ONE = 2
"""How many rows' worth of evidence stands against a temperature that is not 1."""

FEW_POSITIVES = 10
"""A threshold that is chosen on fewer true rows than this is chosen by chance."""


def softmax(logits: ArrayLike, temperature: float = 1.0) -> Floats:
    """(…, C) logits -> probabilities over the last axis."""
    scores = np.asarray(logits, np.float64) / temperature
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Floats = scores / scores.sum(axis=-1, keepdims=True)
    return result


def sigmoid(logits: ArrayLike, temperature: float = 1.0) -> Floats:
    """Logits of any shape -> probabilities, each by itself."""
    half = np.asarray(logits, np.float64) / (2.0 * temperature)
    result: Floats = 0.5 * (1.0 + np.tanh(half))  # which never overflows
    return result


def fit_temperature(logits: ArrayLike, truth: NDArray[np.integer]) -> float:
    """The temperature with the lowest log loss on labelled rows; 1.0 where there are none.

    A handful of rows does not move it far: with b = 1 / temperature, the loss over all rows is joined by
    `ROWS_FOR_ONE` * (b - 1 - log b), a Gamma prior whose mode is 1. Both are convex in b; the slope changes sign once, which
    halving finds. Rows that are all right would ask for 0, and promise certainty ever after: N of them allow no more than a
    mean confidence of (N + 1) / (N + 2), which is Laplace's rule of succession.
    """
    scores = np.asarray(logits, np.float64)
    if len(scores) == 0:
        return 1.0
    true = float(scores[np.arange(len(scores)), truth].mean())
    most = (len(scores) + 1) / (len(scores) + 2)

    def slope(inverse: float) -> float:
        of_loss = float((softmax(scores, 1.0 / inverse) * scores).sum(axis=1).mean()) - true
        return of_loss + ROWS_FOR_ONE * (1.0 - 1.0 / inverse) / len(scores)

    def excess(inverse: float) -> float:
        return float(softmax(scores, 1.0 / inverse).max(axis=1).mean()) - most

    best = _crossing(slope)
    return 1.0 / (best if excess(best) <= 0.0 else _crossing(excess))


def _crossing(rising: Callable[[float], float]) -> float:
    """The 1 / temperature at which a rising function of it is 0, or the end of the allowed ones that is nearest."""
    low, high = 1.0 / TEMPERATURES[1], 1.0 / TEMPERATURES[0]
    if rising(low) >= 0.0:
        return low
    if rising(high) <= 0.0:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0.0 else (low, middle)
    return (low + high) / 2


def fit_thresholds(probabilities: ArrayLike, truth: ArrayLike) -> Floats:
    """(C,): per label, the probability from which on to give it, for the best F1 on labelled rows; both (N, C).

    It lies half-way between two rows; of several equally good ones, nearest to 0.5. Labels that few rows have would learn
    the chance of these rows by heart: they share one threshold, which is 0.5 where they are few even together.
    """
    values, true = np.asarray(probabilities, np.float64), np.asarray(truth, np.bool_)
    if values.shape != true.shape or values.ndim != 2:
        raise UsageError(
            f"thresholds need probabilities and truth of one shape (N, C), got {values.shape}, {true.shape}"
        )
    rare = true.sum(axis=0) < FEW_POSITIVES
    thresholds = np.empty(values.shape[1])
    thresholds[rare] = _threshold(values[:, rare].ravel(), true[:, rare].ravel())
    for label in np.flatnonzero(~rare):
        thresholds[label] = _threshold(values[:, label], true[:, label])
    return thresholds


def _threshold(values: Floats, true: NDArray[np.bool_]) -> float:
    positives = int(true.sum())
    if positives < FEW_POSITIVES:
        return 0.5
    order = np.argsort(-values, kind="stable")
    descending = values[order]
    given = np.arange(1, len(values) + 1)
    f1 = 2 * np.cumsum(true[order]) / (given + positives)  # (N,): of giving the label to the first k rows
    following = np.append(descending[1:], 0.0)
    f1[:-1][descending[:-1] == following[:-1]] = -1.0  # equal probabilities cannot be parted
    cuts = ((descending + following) / 2)[f1 >= f1.max() - 1e-12]
    return float(cuts[np.abs(cuts - 0.5).argmin()])


@dataclass(frozen=True, eq=False)
class Reliability:
    """K bins of equal width over confidences from 0 to 1; empty bins have 0 in all three."""

    edges: Floats
    """(K + 1,)"""
    confidence: Floats
    """(K,): the mean confidence of the rows in each bin."""
    accuracy: Floats
    """(K,): the share of them that were right."""
    counts: NDArray[np.int64]
    """(K,)"""

    @property
    def error(self) -> float:
        """Expected calibration error: how far confidence is from accuracy, on average over rows."""
        total = self.counts.sum()
        return float((np.abs(self.confidence - self.accuracy) * self.counts).sum() / total) if total else 0.0


def reliability(confidence: ArrayLike, correct: ArrayLike, num_bins: int = 10) -> Reliability:
    """Confidence (N,), 0 to 1, against right and wrong (N,)."""
    values, right = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    if values.shape != right.shape:
        raise UsageError(f"confidence and correctness must have one shape, got {values.shape} and {right.shape}")
    bins = np.minimum((values * num_bins).astype(np.int64), num_bins - 1)
    counts = np.bincount(bins, minlength=num_bins)
    per_bin = np.maximum(counts, 1)
    return Reliability(
        edges=np.linspace(0.0, 1.0, num_bins + 1),
        confidence=np.bincount(bins, values, num_bins) / per_bin,
        accuracy=np.bincount(bins, right, num_bins) / per_bin,
        counts=counts,
    )
