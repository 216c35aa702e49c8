"""Against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from bertworks.errors import UsageError
from bertworks.tasks.metrics import numbers as ours


def test_by_hand() -> None:
    assert ours.mean_squared_error([1, 2], [3, 2]) == 2.0
    assert ours.mean_absolute_error([1, 2], [3, 2]) == 1.0
    assert ours.r_squared([1, 2, 3], [1, 2, 2]) == pytest.approx(1 - 1 / 2)
    assert ours.poisson_deviance([0, 2], [1.0, 2.0]) == pytest.approx(2 * 1 / 2)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(1e-3, 20)), min_size=2, max_size=30))
@settings(deadline=None, max_examples=80)
def test_they_equal_scikit_learn(pairs: list[tuple[int, float]]) -> None:
    truth, predicted = np.array(pairs, np.float64).T
    assert ours.mean_squared_error(truth, predicted) == pytest.approx(sk.mean_squared_error(truth, predicted))
    assert ours.mean_absolute_error(truth, predicted) == pytest.approx(sk.mean_absolute_error(truth, predicted))
    assert ours.r_squared(truth, predicted) == pytest.approx(sk.r2_score(truth, predicted))
    assert ours.poisson_deviance(truth, predicted) == pytest.approx(
        sk.mean_poisson_deviance(truth, predicted), abs=1e-12
    )


def test_a_rate_must_be_positive() -> None:
    with pytest.raises(UsageError, match="rates above 0"):
        ours.poisson_deviance([1], [0.0])
