"""Examples from Python values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bertworks.data.labelled import (
    Answer,
    ChoiceExample,
    Place,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
    examples_from,
)
from bertworks.errors import DataError, UsageError


def test_texts() -> None:
    found = examples_from("classify", texts=np.array(["a", "b"]), labels=np.array([1, 0]))
    assert found == [
        TextExample(text="a", label="1", place=Place("rows", 0)),
        TextExample(text="b", label="0", place=Place("rows", 1)),
    ]
    assert type(found[0].text) is str  # type: ignore[union-attr]
    assert examples_from("pair", texts=["a"], pairs=["b"], labels=["x"])[0] == TextExample(
        text="a", pair="b", label="x", place=Place("rows", 0)
    )
    assert examples_from("regress", texts=["a"], labels=np.array([2]))[0].label == 2.0  # type: ignore[union-attr]
    assert examples_from("classify", texts=["a"], labels=[["x", "y"]])[0].label == ("x", "y")  # type: ignore[union-attr]
    assert examples_from("classify", texts=["a"])[0].label is None  # type: ignore[union-attr]


def test_others() -> None:
    place = Place("rows", 0)
    assert examples_from("choice", texts=["a"], options=[["b", "c"]], labels=[1]) == [
        ChoiceExample(text="a", options=("b", "c"), label=1, place=place)
    ]
    assert examples_from("tag", texts=[["a", "b"]], labels=[["O", "PER"]]) == [
        TaggedExample(words=("a", "b"), tags=("O", "PER"), place=place)
    ]
    assert examples_from("tag", texts=["a b"]) == [TextExample(text="a b", place=place)]
    assert examples_from("similarity", texts=["a"], pairs=["b"], labels=[0.5]) == [
        SimilarityExample(texts=("a", "b"), score=0.5, place=place)
    ]
    assert examples_from("similarity", texts=[("a", "b", "c")]) == [
        SimilarityExample(texts=("a", "b", "c"), place=place)
    ]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (None, None),
        ("cat", (Answer("cat", 4),)),
        (("cat", 4), (Answer("cat", 4),)),
        ([("cat", 4), "The"], (Answer("cat", 4), Answer("The", 0))),
        ([], ()),
        ("", ()),
    ],
)
def test_questions(label: Any, expected: Any) -> None:
    found = examples_from("qa", texts=["Who?"], pairs=["The cat sat."], labels=[label])
    assert found == [
        QuestionExample(id="0", question="Who?", context="The cat sat.", answers=expected, place=Place("rows", 0))
    ]


def test_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="there are 2 texts and 1 labels"):
        examples_from("classify", texts=["a", "b"], labels=["x"])
    with pytest.raises(UsageError, match="needs `pairs`"):
        examples_from("pair", texts=["a"])
    with pytest.raises(DataError, match="rows:0: the column 'texts' holds 3, not a text"):
        examples_from("classify", texts=[3])
    with pytest.raises(DataError, match="rows:0: the label 2 is not the number of an option"):
        examples_from("choice", texts=["a"], options=[["b", "c"]], labels=[2])
    with pytest.raises(DataError, match="has 2 words and 1 tags"):
        examples_from("tag", texts=[["a", "b"]], labels=[["O"]])
