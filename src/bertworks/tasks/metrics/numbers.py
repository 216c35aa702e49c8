"""Figures of predicted numbers. They equal scikit-learn's. Legend: N rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bertworks.errors import UsageError


def mean_squared_error(truth: ArrayLike, predicted: ArrayLike) -> float:
    """The mean of the squared differences."""
    return float(np.mean((np.asarray(truth, np.float64) - np.asarray(predicted, np.float64)) ** 2))


def mean_absolute_error(truth: ArrayLike, predicted: ArrayLike) -> float:
    """The mean of the differences' sizes."""
    return float(np.mean(np.abs(np.asarray(truth, np.float64) - np.asarray(predicted, np.float64))))


def r_squared(truth: ArrayLike, predicted: ArrayLike) -> float:
    """1 = perfect, 0 = no better than the mean of the truth. A constant truth gives 1 if it is met, else 0."""
    true = np.asarray(truth, np.float64)
    spread = float(np.mean((true - true.mean()) ** 2))
    error = mean_squared_error(true, predicted)
    if spread == 0.0:
        return 1.0 if error == 0.0 else 0.0
    return 1.0 - error / spread


def poisson_deviance(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Mean deviance of counts from predicted rates: 2 (y log(y / rate) - y + rate); 0 = perfect."""
    true, rate = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    if (true < 0).any() or (rate <= 0).any():
        raise UsageError("a Poisson deviance needs counts of at least 0 and rates above 0")
    log_part = true * np.log(np.where(true > 0, true, rate) / rate)  # 0 where the count is 0
    return float(np.mean(2.0 * (log_part - true + rate)))
