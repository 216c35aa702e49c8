"""Temperatures and thresholds are the best there are; reliability by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats
from sklearn import metrics as sk

from bertworks.errors import UsageError
from bertworks.tasks.metrics import calibration as ours


def draw(seed: int, rows: int, classes: int, sharpness: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and classes drawn from the probabilities that they would have at another temperature."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, classes)) * 3
    chances = special.softmax(logits * sharpness, axis=1)
    return logits, np.array([random.choice(classes, p=row) for row in chances])


@given(st.integers(0, 10**6), st.integers(2, 5), st.floats(0.3, 1.5))
@settings(deadline=None, max_examples=25)
def test_the_temperature_is_where_the_loss_is_lowest(seed: int, classes: int, sharpness: float) -> None:
    logits, truth = draw(seed, 300, classes, sharpness)
    temperature = ours.fit_temperature(logits, truth)

    def loss(value: float) -> float:
        rows = sk.log_loss(truth, special.softmax(logits / value, axis=1), labels=range(classes), normalize=False)
        return float(rows - ours.ROWS_FOR_ONE * stats.gamma.logpdf(1 / value, 2) + ours.ROWS_FOR_ONE)

    there = optimize.minimize_scalar(loss, bounds=ours.TEMPERATURES, method="bounded").x
    assert temperature == pytest.approx(there, rel=1e-3)


def test_the_temperature_recovers_what_the_rows_were_drawn_with() -> None:
    logits, truth = draw(0, 20_000, 4, 1 / 2.5)
    assert ours.fit_temperature(logits, truth) == pytest.approx(2.5, rel=0.05)


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_rows_that_are_all_right_promise_no_certainty(scale: float) -> None:
    """Two of two allow 3/4 and ten of ten 11/12, however high the logits."""
    for rows in (2, 10):
        logits = scale * np.tile([1.0, 0.0], (rows, 1))
        temperature = ours.fit_temperature(logits, np.zeros(rows, np.int64))
        most = (rows + 1) / (rows + 2)
        confidence = ours.softmax(logits, temperature).max(axis=1).mean()
        assert confidence <= most + 1e-9
        if scale == 5.0:
            assert confidence == pytest.approx(most)


def test_low_logits_get_a_low_temperature() -> None:
    """What nine of ten rows say is 90 %, also where the model has hardly been trained: where there are rows enough."""
    logits = np.tile([0.05, 0.0], (5000, 1))
    temperature = ours.fit_temperature(logits, np.array([1] * 500 + [0] * 4500))
    assert temperature < 0.1
    assert ours.softmax(logits, temperature)[0, 0] == pytest.approx(0.9, abs=0.01)


def test_a_handful_of_rows_moves_the_temperature_little() -> None:
    """Six rows that are right with low logits would make certainties of all other texts."""
    logits = np.tile([0.1, 0.0, 0.05], (6, 1))
    assert 0.7 < ours.fit_temperature(logits, np.zeros(6, np.int64)) < 1.0
    assert 1.0 < ours.fit_temperature(logits * 20, np.ones(6, np.int64)) < 5.0


def test_temperatures_at_the_ends() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 2.0]])
    assert ours.fit_temperature(np.tile(logits, (500, 1)), np.tile([1, 0], 500)) == pytest.approx(10.0)  # all wrong
    assert ours.fit_temperature(np.zeros((0, 2)), np.zeros(0, np.int64)) == 1.0


def test_probabilities_equal_scipy() -> None:
    logits = np.array([[1000.0, 0.0, -1000.0], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(ours.softmax(logits), special.softmax(logits, axis=1))
    np.testing.assert_allclose(ours.sigmoid(logits), special.expit(logits), atol=1e-15)
    np.testing.assert_allclose(ours.softmax(logits, 2.0), special.softmax(logits / 2, axis=1))


@given(
    st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=15),
    st.lists(st.integers(0, 8), min_size=ours.FEW_POSITIVES, max_size=12),
)
@settings(deadline=None, max_examples=100)
def test_no_threshold_has_a_better_f1(rows: list[tuple[int, bool]], true: list[int]) -> None:
    rows = [*rows, *((value, True) for value in true)]
    values = np.array([value / 8 for value, _ in rows])[:, None]
    truth = np.array([true for _, true in rows])[:, None]
    threshold = ours.fit_thresholds(values, truth)

    def f1(at: float) -> float:
        given_to = values >= at
        return 2 * (given_to & truth).sum() / max(given_to.sum() + truth.sum(), 1)

    assert f1(threshold[0]) == pytest.approx(max(f1(at) for at in np.arange(-0.03, 1.1, 0.0625)))


def test_thresholds_by_hand() -> None:
    probabilities = np.array([[0.9, 0.2, 0.3], [0.6, 0.1, 0.1], [0.4, 0.7, 0.2]])
    truth = np.array([[True, True, False], [True, False, False], [False, True, False]])
    np.testing.assert_allclose(ours.fit_thresholds(probabilities, truth), 0.5)  # three rows tell nothing
    many = ours.fit_thresholds(np.tile(probabilities, (6, 1)), np.tile(truth, (6, 1)))
    np.testing.assert_allclose(many, [0.5, 0.15, 0.5])


def test_rare_labels_share_a_threshold() -> None:
    probabilities = np.tile([[0.9, 0.2, 0.2], [0.6, 0.1, 0.1], [0.4, 0.1, 0.1], [0.3, 0.05, 0.1]], (6, 1))
    truth = np.tile([[True, True, True], [True, False, False], [False, False, False], [False, False, False]], (6, 1))
    np.testing.assert_allclose(ours.fit_thresholds(probabilities, truth), [0.5, 0.15, 0.15])
    lowest = ours.fit_thresholds([[0.9], [0.5], [0.2], [0.05]], [[False], [False], [False], [True]])
    np.testing.assert_allclose(lowest, 0.5)


def test_thresholds_have_a_shape() -> None:
    with pytest.raises(UsageError, match=r"one shape"):
        ours.fit_thresholds(np.zeros((2, 3)), np.zeros((3, 2)))


def test_reliability_by_hand() -> None:
    found = ours.reliability([0.05, 0.55, 0.58, 0.95, 1.0], [0, 1, 0, 1, 1], num_bins=10)
    assert found.counts.tolist() == [1, 0, 0, 0, 0, 2, 0, 0, 0, 2]
    assert found.accuracy[5] == 0.5
    assert found.confidence[9] == pytest.approx(0.975)
    assert found.error == pytest.approx((0.05 + 2 * 0.065 + 2 * 0.025) / 5)
    assert ours.reliability([], []).error == 0.0
