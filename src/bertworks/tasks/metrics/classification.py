"""Figures of classes: accuracy, precision, recall, F1, Matthews correlation. They equal scikit-learn's.

Truth and prediction come in one of two forms, both the same:

    (N,) integers     one class per row, numbered from 0
    (N, C) booleans   several labels per row, one column each

A figure whose denominator is 0 (precision of a class that was never predicted) is 0.

Legend: N rows, C classes or labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import UsageError

Rows = NDArray[Any]


@dataclass(frozen=True, eq=False)
class LabelScores:
    """Each label's own figures; all (C,)."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    support: NDArray[np.int64]
    """How many rows have this label in truth."""
    predicted: NDArray[np.int64]
    """How many rows have this label in the prediction."""
    counted: NDArray[np.bool_]
    """Which are in the mean: classes that occur, in truth or in the prediction; of several labels per row, all."""

    @property
    def macro_f1(self) -> float:
        """The plain mean."""
        return float(self.f1[self.counted].mean()) if self.counted.any() else 0.0


def accuracy(truth: Rows, predicted: Rows) -> float:
    """The share of rows that are right; with several labels per row, right in all of them."""
    _check(truth, predicted)
    equal = truth == predicted
    rows = equal.all(axis=1) if equal.ndim == 2 else equal
    return float(rows.mean()) if len(rows) else 0.0


def per_label(truth: Rows, predicted: Rows, num_labels: int | None = None) -> LabelScores:
    """Precision, recall and F1 of each label; class numbers need `num_labels`."""
    right, support, claimed = _counts(truth, predicted, num_labels)
    return LabelScores(
        precision=ratio(right, claimed),
        recall=ratio(right, support),
        f1=ratio(2 * right, claimed + support),
        support=support,
        predicted=claimed,
        counted=np.ones(len(support), np.bool_) if truth.ndim == 2 else (support > 0) | (claimed > 0),
    )


def micro_f1(truth: Rows, predicted: Rows, num_labels: int | None = None) -> float:
    """F1 of all decisions together; with one class per row this is the accuracy."""
    right, support, claimed = _counts(truth, predicted, num_labels)
    return float(ratio(2 * right.sum(), claimed.sum() + support.sum()))


def confusion(truth: Rows, predicted: Rows, num_labels: int) -> NDArray[np.int64]:
    """(C, C): how many rows of the class (row) were taken for the class (column)."""
    _check(truth, predicted)
    return np.bincount(truth * num_labels + predicted, minlength=num_labels**2).reshape(num_labels, num_labels)


def matthews(truth: Rows, predicted: Rows) -> float:
    """Matthews correlation, for any number of classes (Gorodkin 2004); 0 where one side is constant."""
    size = 1 + int(max(truth.max(initial=0), predicted.max(initial=0)))
    table = confusion(truth, predicted, size).astype(np.float64)
    actual, claimed, total = table.sum(axis=1), table.sum(axis=0), table.sum()
    both = table.trace() * total - actual @ claimed
    spread = (total**2 - claimed @ claimed) * (total**2 - actual @ actual)
    return float(both / np.sqrt(spread)) if spread > 0 else 0.0


def ratio(part: Any, whole: Any) -> NDArray[np.float64]:
    """`part / whole`, and 0 where the whole is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole != 0)


def _counts(
    truth: Rows, predicted: Rows, num_labels: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Per label: rows where it is both true and predicted, true, predicted."""
    _check(truth, predicted)
    if truth.ndim == 2:
        truth, predicted = truth.astype(np.bool_), predicted.astype(np.bool_)
        return (truth & predicted).sum(axis=0), truth.sum(axis=0), predicted.sum(axis=0)
    if num_labels is None:
        raise UsageError("with one class number per row, say how many classes there are (num_labels)")
    return (
        np.bincount(truth[truth == predicted], minlength=num_labels),
        np.bincount(truth, minlength=num_labels),
        np.bincount(predicted, minlength=num_labels),
    )


def _check(truth: Rows, predicted: Rows) -> None:
    if truth.shape != predicted.shape:
        raise UsageError(f"truth and prediction must have one shape, got {truth.shape} and {predicted.shape}")
