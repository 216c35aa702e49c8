"""Development examples out of the training file."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.labelled import Place, QuestionExample, TaggedExample, TextExample, split
from bertworks.data.labelled.split import ungrouped
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


def test_one_document_is_split_within() -> None:
    assert [example.group for example in ungrouped(texts(["a", "b"], ["g", "g"]))] == [None, None]
    questions = [
        QuestionExample(id="1", question="Who?", context=context, group="g", place=Place("rows", 0))
        for context in ("A.", "A.", "B.")
    ]
    assert [example.group for example in ungrouped(questions)] == ["A.", "A.", "B."]
    assert [example.group for example in ungrouped(questions[:2])] == [None, None]
