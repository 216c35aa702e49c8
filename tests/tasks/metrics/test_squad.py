"""The official rules: worked by hand, and against a second, plain reading of them."""

from __future__ import annotations

import itertools
import re
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.tasks.metrics.squad import Rules, best_threshold, normalise, question_score, score

WORD = st.sampled_from(
    ["the", "The", "a", "An", "cat", "cats", "Theatre", "U.S.", "12", "é", "—", "!", "'s", "a-b", "中"]
)
TEXT = st.one_of(st.lists(WORD, max_size=6).map(" ".join), st.lists(WORD, max_size=4).map("".join), st.text(max_size=8))


def plain_words(text: str) -> list[str]:
    """The rules again, character by character."""
    kept = "".join(character for character in text.lower() if character not in set(string.punctuation))
    # Articles go wherever they stand between two word boundaries, also inside what white space holds together.
    parts = re.split(r"(\W)", kept)
    return "".join(" " if part in ("a", "an", "the") else part for part in parts).split()


def plain_f1(truth: str, text: str, rules: Rules) -> float:
    true, said = plain_words(truth), plain_words(text)
    if rules == "2.0" and (not true or not said):
        return 1.0 if true == said else 0.0
    left, shared = list(true), 0
    for word in said:
        if word in left:
            left.remove(word)
            shared += 1
    return 0.0 if shared == 0 else 2 * shared / (len(true) + len(said))


def plain_score(allowed: list[str], text: str, rules: Rules) -> tuple[float, float]:
    if rules == "2.0":
        allowed = [answer for answer in allowed if plain_words(answer)]
        allowed = allowed or [""]
    exact = [1.0 if plain_words(answer) == plain_words(text) else 0.0 for answer in allowed]
    return max(exact), max(plain_f1(answer, text, rules) for answer in allowed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat's  pyjamas!", "cats pyjamas"),
        ("a an the", ""),
        ("Theatre, and a thesis", "theatre and thesis"),
        ("U.S.A.", "usa"),
        ("a.b", "ab"),  # punctuation goes first, so this is no article
        ("the—end", "—end"),  # only ASCII punctuation is removed, and a dash bounds a word
        ("\t x \n y\u00a0z ", "x y z"),
        ("ÉCOLE", "école"),
    ],
)
def test_what_is_compared(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("allowed", "text", "rules", "exact", "f1"),
    [
        (["Denver Broncos"], "The Denver Broncos", "1.1", 1, 1),
        (["Denver Broncos"], "Broncos", "1.1", 0, 2 / 3),
        (["in 1066", "1066"], "the year 1066", "1.1", 0, 2 / 3),
        (["go go"], "go go go", "1.1", 0, 4 / 5),
        (["The"], "a", "1.1", 1, 0),  # nothing is left of either
        (["The"], "a", "2.0", 1, 1),
        (["The", "cat"], "", "2.0", 0, 0),  # an answer of which nothing is left does not count beside another
        ([], "", "2.0", 1, 1),
        ([], "the", "2.0", 1, 1),
        ([], "something", "2.0", 0, 0),
        (["cat"], "", "2.0", 0, 0),
        (["cat"], "", "1.1", 0, 0),
    ],
)
def test_by_hand(allowed: list[str], text: str, rules: Rules, exact: float, f1: float) -> None:
    assert question_score(allowed, text, rules) == pytest.approx((exact, f1))


@given(st.lists(TEXT, min_size=1, max_size=3), TEXT, st.sampled_from(["1.1", "2.0"]))
@settings(deadline=None, max_examples=400)
def test_a_second_reading_says_the_same(allowed: list[str], text: str, rules: Rules) -> None:
    assert question_score(allowed, text, rules) == pytest.approx(plain_score(allowed, text, rules))


def test_figures_of_a_set() -> None:
    found = score([["one"], ["two words"], [], []], ["one", "two", "", "wrong"], "2.0").figures()
    assert found == pytest.approx(
        {
            "exact_match": 2 / 4,
            "f1": (1 + 2 / 3 + 1 + 0) / 4,
            "has_answer_exact_match": 1 / 2,
            "has_answer_f1": (1 + 2 / 3) / 2,
            "no_answer_accuracy": 1 / 2,
        }
    )
    assert set(score([["one"]], ["one"], "1.1").figures()) == {"exact_match", "f1"}


def figure_at(threshold: float, values: np.ndarray, answerable: np.ndarray, leads: np.ndarray) -> float:
    return float(np.where(leads > threshold, ~answerable, values).mean())


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans(), st.integers(-3, 3)), min_size=1, max_size=12)
)
@settings(deadline=None, max_examples=150)
def test_the_threshold_is_the_best_there_is(rows: list[tuple[float, bool, int]]) -> None:
    values, answerable, leads = (np.array(column) for column in zip(*rows, strict=True))
    values = np.where(answerable, values, 0.0)
    best, threshold = best_threshold(values, answerable, leads)
    tried = [figure_at(place, values, answerable, leads) for place in np.arange(-4.5, 4.6, 0.5)]
    assert best == pytest.approx(max(tried))
    assert figure_at(threshold, values, answerable, leads) == pytest.approx(best)


def test_the_threshold_by_hand() -> None:
    # Two answered questions, then one without an answer; a fourth is answerable but beyond it.
    best, threshold = best_threshold([1.0, 1.0, 0.0, 0.4], [True, True, False, True], [-5.0, -1.0, 2.0, 3.0])
    assert (best, threshold) == (pytest.approx(3 / 4), pytest.approx(0.5))
    assert best_threshold([], [], []) == (0.0, 0.0)


def test_order_does_not_matter() -> None:
    rows = [(1.0, True, 0.0), (0.0, False, 0.0), (0.5, True, 1.0)]
    results = {best_threshold(*zip(*order, strict=True)) for order in itertools.permutations(rows)}
    assert len(results) == 1
