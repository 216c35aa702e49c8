"""Figures of order: do larger predictions go with larger truths? They equal scipy's and scikit-learn's.

Where one side is constant no correlation is defined (scipy says nan); it is 0 here, since nothing goes with a constant,
and since figures are written to files that know no nan.

Legend: N rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertworks.errors import UsageError

Floats = NDArray[np.float64]


def pearson(first: ArrayLike, second: ArrayLike) -> float:
    """Pearson's correlation of two rows of N numbers, -1 to 1."""
    one, two = _centred(first), _centred(second)
    if len(one) != len(two):
        raise UsageError(f"a correlation needs as many numbers on both sides, got {len(one)} and {len(two)}")
    return float(np.clip(one @ two, -1.0, 1.0))


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's correlation: Pearson's of the ranks, -1 to 1."""
    return pearson(ranks(first), ranks(second))


def ranks(values: ArrayLike) -> Floats:
    """(N,): the place of each value in ascending order, from 1; equal values share the mean of their places."""
    _, inverse, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: Floats = last - (counts - 1) / 2
    return middle[inverse]


def _centred(values: ArrayLike) -> Floats:
    """Moved to mean 0 and scaled to length 1; all 0 where the values are constant."""
    numbers = np.asarray(values, np.float64)
    if len(numbers) == 0 or (numbers == numbers[0]).all():
        return np.zeros(len(numbers))
    numbers = numbers / np.abs(numbers).max()  # so that squares of huge or tiny values stay in range
    numbers = numbers - numbers.mean()
    return numbers / np.linalg.norm(numbers)
