"""Development examples out of the training file."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.labelled import Place, QuestionExample, SimilarityExample, TaggedExample, TextExample, split
from bertworks.errors import DataError, UsageError


def texts(labels: list[str], groups: list[str | None] | None = None) -> list[TextExample]:
    return [
        TextExample(text=str(row), label=label, group=groups[row] if groups else None, place=Place("rows", row))
        for row, label in enumerate(labels)
    ]


@given(st.lists(st.sampled_from("aaab"), min_size=2, max_size=80), st.floats(0.01, 0.99), st.integers(0, 2**32))
def test_each_label_keeps_its_share(labels: list[str], fraction: float, seed: int) -> None:
    examples = texts(labels)
    train, dev = split(examples, fraction, seed)
    assert sorted([*train, *dev], key=lambda example: int(example.text)) == examples
    assert train
    assert dev
    assert len(dev) == min(max(round(len(labels) * fraction), 1), len(labels) - 1)
    assert train == sorted(train, key=lambda example: int(example.text))  # the order of the file
    found, total = Counter(example.label for example in dev), Counter(labels)
    for label, count in total.items():
        assert abs(found[label] - count * len(dev) / len(labels)) < 1


@pytest.mark.parametrize("seed", range(5))
def test_a_rare_label_is_judged_too(seed: int) -> None:
    """Four of fifty would often be none of five; a single one is trained on."""
    _, dev = split(texts(["ok"] * 46 + ["urgent"] * 4 + ["threat"]), 0.1, seed)
    assert Counter(example.label for example in dev) == {"ok": 4, "urgent": 1}
    _, dev = split(texts([f"label {number}" for number in range(30)] * 2), 0.1, seed)  # more labels than places
    assert len(dev) == 6


@given(
    st.lists(st.sampled_from("abcdef"), min_size=2, max_size=60).filter(lambda groups: len(set(groups)) > 1),
    st.floats(0.01, 0.99),
)
def test_groups_stay_whole(groups: list[str], fraction: float) -> None:
    train, dev = split(texts(["x"] * len(groups), list(groups)), fraction, 7)
    assert not {example.group for example in train} & {example.group for example in dev}
    assert train
    assert dev


def test_groups_come_near_the_fraction() -> None:
    groups = [str(row // 7) for row in range(700)]
    for seed in range(5):
        _, dev = split(texts(["x"] * 700, list(groups)), 0.1, seed)
        assert 66 <= len(dev) <= 74


def test_the_seed_decides() -> None:
    examples = texts(["a", "b"] * 50)
    assert split(examples, 0.2, 3) == split(examples, 0.2, 3)
    assert split(examples, 0.2, 3) != split(examples, 0.2, 4)


def test_other_examples() -> None:
    place = Place("rows", 0)
    numbers = [TextExample(text="a", label=float(label), place=place) for label in range(10)]
    tagged = [TaggedExample(words=("a", "b"), tags=("O", "O"), place=place)] * 10
    for examples in (numbers, tagged):
        assert [len(part) for part in split(examples, 0.3, 0)] == [7, 3]


def test_what_cannot_be_split() -> None:
    with pytest.raises(UsageError, match=r"between 0 and 1, not 1\.5"):
        split(texts(["a", "b"]), 1.5, 0)
    with pytest.raises(DataError, match="1 example cannot be split"):
        split(texts(["a"]), 0.5, 0)
    with pytest.raises(DataError, match=r"all examples belong to one group \(g\)"):
        split(texts(["a", "b"], ["g", "g"]), 0.5, 0)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_about_the_same_stays_together(seed: int) -> None:
    place = Place("rows", 0)
    questions = [
        QuestionExample(id=str(number), question="Who?", context=f"Context {number // 3}.", place=place)
        for number in range(12)
    ]
    similar = [
        SimilarityExample(texts=(f"anchor {number // 3}", f"text {number}"), place=place) for number in range(12)
    ]
    for examples, about in ((questions, lambda one: one.context), (similar, lambda one: one.texts[0])):
        train, dev = split(examples, 0.25, seed)
        assert len(dev) == 3
        assert not {about(one) for one in train} & {about(one) for one in dev}


def test_questions_about_one_context_or_many_keep_their_share_of_answers() -> None:
    for contexts in (["A."] * 8, [f"Context {number}." for number in range(8)]):
        questions = [
            QuestionExample(
                id=str(n), question="Who?", context=context, answers=() if n % 2 else None, place=Place("", n)
            )
            for n, context in enumerate(contexts)
        ]
        assert len(split(questions, 0.5, 0)[1]) == 4
