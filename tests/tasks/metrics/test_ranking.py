"""Against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from bertworks.errors import UsageError
from bertworks.tasks.metrics import ranking as ours

NUMBER = st.one_of(st.integers(-4, 4).map(float), st.floats(-1e6, 1e6))
PAIRS = st.lists(st.tuples(NUMBER, NUMBER), min_size=2, max_size=30)


def test_by_hand() -> None:
    assert ours.ranks([3, 1, 3, 2]).tolist() == [3.5, 1.0, 3.5, 2.0]
    assert ours.pearson([1, 2, 3], [2, 4, 7]) == pytest.approx(5 / (2 * 38 / 3) ** 0.5)
    assert ours.spearman([1, 2, 3, 4], [10, 9, 100, 1000]) == pytest.approx(0.8)


@given(PAIRS)
@settings(deadline=None, max_examples=150)
def test_correlations_equal_scipy(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs).T
    for side in (first, second):  # scipy itself is unsure about values that differ in their last digits only
        assume(side.std() > 1e-9 * np.abs(side).max())
    assert ours.pearson(first, second) == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-7)
    assert ours.spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)
    np.testing.assert_allclose(ours.ranks(first), stats.rankdata(first))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_sizes(scale: float) -> None:
    values = np.array([1.0, 2.0, 4.0, 3.0])
    assert ours.pearson(values * scale, values) == pytest.approx(1.0)
    assert ours.pearson(values * scale, -values) == pytest.approx(-1.0)


def test_nothing_goes_with_a_constant() -> None:
    assert ours.pearson([1, 1, 1], [1, 2, 3]) == 0.0
    assert ours.spearman([1, 2, 3], [0, 0, 0]) == 0.0
    assert ours.pearson([], []) == 0.0
    assert ours.pearson([2.0], [3.0]) == 0.0


def test_lengths_must_agree() -> None:
    with pytest.raises(UsageError, match="got 2 and 3"):
        ours.pearson([1, 2], [1, 2, 3])
