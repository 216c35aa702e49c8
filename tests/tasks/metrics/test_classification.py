"""Against scikit-learn, on hand-worked and random rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from bertworks.errors import UsageError
from bertworks.tasks.metrics import classification as ours

ROWS = st.integers(2, 5).flatmap(
    lambda classes: st.tuples(
        st.just(classes),
        st.lists(st.tuples(st.integers(0, classes - 1), st.integers(0, classes - 1)), min_size=1, max_size=40),
    )
)


def test_by_hand() -> None:
    truth, predicted = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 1, 1, 1, 0, 1])
    assert ours.accuracy(truth, predicted) == pytest.approx(3 / 6)
    assert ours.confusion(truth, predicted, 3).tolist() == [[1, 1, 0], [1, 2, 0], [0, 1, 0]]
    scores = ours.per_label(truth, predicted, 3)
    assert scores.precision.tolist() == pytest.approx([1 / 2, 2 / 4, 0])
    assert scores.recall.tolist() == pytest.approx([1 / 2, 2 / 3, 0])
    assert scores.f1.tolist() == pytest.approx([1 / 2, 4 / 7, 0])
    assert scores.support.tolist() == [2, 3, 1]
    assert scores.macro_f1 == pytest.approx((1 / 2 + 4 / 7) / 3)


def test_matthews_by_hand() -> None:
    truth, predicted = np.array([1] * 6 + [0] * 4), np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 1])
    tp, fn, tn, fp = 4, 2, 3, 1
    expected = (tp * tn - fp * fn) / ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    assert ours.matthews(truth, predicted) == pytest.approx(expected)
    assert ours.matthews(truth, np.ones(10, np.int64)) == 0.0


@pytest.mark.filterwarnings("ignore:A single label was found")
@given(ROWS)
@settings(deadline=None, max_examples=40)
def test_classes_equal_scikit_learn(rows: tuple[int, list[tuple[int, int]]]) -> None:
    classes, pairs = rows
    truth, predicted = np.array(pairs, np.int64).T
    everything = list(range(classes))
    scores = ours.per_label(truth, predicted, classes)
    precision, recall, f1, support = sk.precision_recall_fscore_support(
        truth, predicted, labels=everything, zero_division=0
    )
    np.testing.assert_allclose(scores.precision, precision)
    np.testing.assert_allclose(scores.recall, recall)
    np.testing.assert_allclose(scores.f1, f1)
    np.testing.assert_array_equal(scores.support, support)
    assert scores.macro_f1 == pytest.approx(sk.f1_score(truth, predicted, average="macro", zero_division=0))
    assert ours.micro_f1(truth, predicted, classes) == pytest.approx(sk.f1_score(truth, predicted, average="micro"))
    assert ours.accuracy(truth, predicted) == pytest.approx(sk.accuracy_score(truth, predicted))
    assert ours.matthews(truth, predicted) == pytest.approx(sk.matthews_corrcoef(truth, predicted), abs=1e-12)
    np.testing.assert_array_equal(
        ours.confusion(truth, predicted, classes), sk.confusion_matrix(truth, predicted, labels=everything)
    )


@given(st.integers(1, 4), st.integers(1, 20), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_several_labels_equal_scikit_learn(labels: int, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    truth, predicted = random.random((2, rows, labels)) < 0.4
    scores = ours.per_label(truth, predicted)
    if labels > 1:  # scikit-learn takes one column for classes
        precision, recall, f1, _ = sk.precision_recall_fscore_support(truth, predicted, zero_division=0)
        np.testing.assert_allclose(scores.precision, precision)
        np.testing.assert_allclose(scores.recall, recall)
        np.testing.assert_allclose(scores.f1, f1)
        micro = sk.f1_score(truth, predicted, average="micro", zero_division=0)
        assert ours.micro_f1(truth, predicted) == pytest.approx(micro)
        assert scores.macro_f1 == pytest.approx(sk.f1_score(truth, predicted, average="macro", zero_division=0))
    assert ours.accuracy(truth, predicted) == pytest.approx(sk.accuracy_score(truth, predicted))


def test_a_class_that_never_occurs_is_left_out_of_the_macro_mean() -> None:
    truth = np.array([0, 1, 1])
    assert ours.per_label(truth, truth, 5).macro_f1 == 1.0


def test_shapes_must_agree() -> None:
    with pytest.raises(UsageError, match=r"one shape, got \(2,\) and \(3,\)"):
        ours.accuracy(np.zeros(2), np.zeros(3))
    with pytest.raises(UsageError, match="num_labels"):
        ours.per_label(np.zeros(2, np.int64), np.zeros(2, np.int64))


def test_no_rows() -> None:
    nothing = np.zeros(0, np.int64)
    assert ours.accuracy(nothing, nothing) == 0.0
    assert ours.matthews(nothing, nothing) == 0.0
    assert ours.per_label(nothing, nothing, 2).macro_f1 == 0.0
