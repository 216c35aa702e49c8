"""Against seqeval, on real tags, random ones and ones that break every rule."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval import metrics as seqeval

from bertworks.tasks.metrics.entities import EntityScores, Span, score
from bertworks.tasks.tags import spans_of

BIO = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "B-X-Y", "I-X-Y"])
ANYTHING = st.sampled_from(["O", *(f"{place}-{label}" for place in "BIES" for label in ("A", "B")), "B", "I", "E", "S"])


def pairs_of(tags: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[tuple[str, str]]]]:
    return st.lists(st.lists(st.tuples(tags, tags), max_size=9), min_size=1, max_size=6)


def both(
    sentences: list[list[tuple[str, str]]],
) -> tuple[EntityScores, dict[str, Any], list[list[str]], list[list[str]]]:
    truth = [[pair[0] for pair in sentence] for sentence in sentences]
    predicted = [[pair[1] for pair in sentence] for sentence in sentences]
    ours = score([spans_of(tags, "iobes") for tags in truth], [spans_of(tags, "iobes") for tags in predicted])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = seqeval.classification_report(truth, predicted, output_dict=True, zero_division=0)
    return ours, report, truth, predicted


def check(sentences: list[list[tuple[str, str]]]) -> None:
    if not any(tag[0] != "O" for sentence in sentences for tag in sentence) or not any(
        pair[0] != "O" for sentence in sentences for pair in sentence
    ):
        return  # seqeval's report fails where there is no true span at all
    ours, report, truth, predicted = both(sentences)
    overall = report.pop("micro avg")
    assert ours.overall.precision == pytest.approx(overall["precision"])
    assert ours.overall.recall == pytest.approx(overall["recall"])
    assert ours.overall.f1 == pytest.approx(overall["f1-score"])
    assert ours.overall.support == overall["support"]
    macro = report.pop("macro avg")
    report.pop("weighted avg")
    assert ours.macro_f1 == pytest.approx(macro["f1-score"])
    assert list(ours.labels) == sorted(report)
    for label, figures in report.items():
        assert ours.labels[label].precision == pytest.approx(figures["precision"])
        assert ours.labels[label].recall == pytest.approx(figures["recall"])
        assert ours.labels[label].f1 == pytest.approx(figures["f1-score"])
        assert ours.labels[label].support == figures["support"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours.overall.f1 == pytest.approx(seqeval.f1_score(truth, predicted, zero_division=0))


@given(pairs_of(BIO))
@settings(deadline=None, max_examples=150)
def test_bio_equals_seqeval(sentences: list[list[tuple[str, str]]]) -> None:
    check(sentences)


@given(pairs_of(ANYTHING))
@settings(deadline=None, max_examples=150)
def test_tags_that_break_the_rules_equal_seqeval(sentences: list[list[tuple[str, str]]]) -> None:
    check(sentences)


def test_by_hand() -> None:
    truth = [[Span("PER", 0, 2), Span("LOC", 3, 4)], [Span("PER", 1, 2)]]
    predicted = [[Span("PER", 0, 2), Span("PER", 3, 4)], [Span("PER", 1, 3), Span("LOC", 4, 5)]]
    scores = score(truth, predicted)
    assert (scores.overall.right, scores.overall.predicted, scores.overall.support) == (1, 4, 3)
    assert scores.overall.f1 == pytest.approx(2 * (1 / 4) * (1 / 3) / (1 / 4 + 1 / 3))
    assert scores.labels["LOC"].f1 == 0.0
    assert scores.labels["PER"].precision == pytest.approx(1 / 3)
    assert scores.macro_f1 == pytest.approx((0.0 + 2 / 5) / 2)


def test_no_spans_at_all() -> None:
    scores = score([[]], [[]])
    assert scores.overall.f1 == 0.0
    assert scores.macro_f1 == 0.0
