"""Texts that belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.labelled.helpers import examples, parsed, refused, tabbed


def shown(found: list[Any]) -> list[tuple[Any, ...]]:
    return [(*example.texts, example.score) for example in found]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "one text\n\nother text\n", [("one text", None), ("other text", None)]),
        ("a.tsv", tabbed("Go.| Va !", "Run now! | Cours !"), [("Go.", "Va !", None), ("Run now!", "Cours !", None)]),
        ("a.csv", "sentence1,sentence2,score\na b,a c,2.5\n", [("a b", "a c", 2.5)]),
        ("a.csv", "text1,text2,label\na b,a c,1\n", [("a b", "a c", 1.0)]),
        ("a.tsv", tabbed("a b | a c | 0.3", "d e | d f | 0.9"), [("a b", "a c", 0.3), ("d e", "d f", 0.9)]),
        ("a.csv", "anchor,positive,negative\na b,a c,x y\n", [("a b", "a c", "x y", None)]),
        ("a.csv", "query,positive\na b,a c\n", [("a b", "a c", None)]),
        ("a.csv", "sent0,sent1,hard_neg\na b,a c,x y\n", [("a b", "a c", "x y", None)]),
        ("a.jsonl", json.dumps(["a b", "a c"]), [("a b", "a c", None)]),
        ("a.jsonl", json.dumps(["a b", "a c", "x y"]), [("a b", "a c", "x y", None)]),
        (
            "a.jsonl",
            json.dumps({"query": "a b", "pos": ["a c", "a d"], "neg": ["x y", "z"]}),
            [("a b", "a c", "x y", "z", None), ("a b", "a d", "x y", "z", None)],
        ),
        ("a.csv", "text\none text\nother text\n", [("one text", None), ("other text", None)]),
    ],
)
def test_forms(tmp_path: Path, name: str, content: str, expected: list[tuple[Any, ...]]) -> None:
    assert shown(examples(tmp_path, name, content, "similarity")) == expected


def test_labels_are_no_scores(tmp_path: Path) -> None:
    content = "sentence1,sentence2,label\na b,a c,entailment\nd e,d f,neutral\n"
    assert "the column 'label' holds labels (entailment, neutral), not scores" in refused(
        tmp_path, "a.csv", content, "similarity"
    )


def test_a_missing_score(tmp_path: Path) -> None:
    content = "sentence1,sentence2,score\na b,a c,2.5\nd e,d f,\n"
    assert refused(tmp_path, "a.csv", content, "similarity").startswith("a.csv:3: the score is missing")
    assert parsed(tmp_path, "a.csv", content, "similarity", skip_bad_rows=True).skipped == 1


def test_empty_texts_are_left_out_and_half_pairs_are_bad_rows(tmp_path: Path) -> None:
    data = parsed(tmp_path, "a.csv", 'text\n""\none text\n', "similarity")
    assert (len(data.examples), data.skipped) == (1, 1)
    content = "anchor,positive,negative\na b,a c,\na b, ,x y\n,a c,x y\n"
    assert refused(tmp_path, "a.csv", content, "similarity").startswith(
        "a.csv:3: the text is empty (column 'positive')"
    )
    data = parsed(tmp_path, "a.csv", content, "similarity", skip_bad_rows=True)
    assert (shown(list(data.examples)), data.skipped) == ([("a b", "a c", None)], 2)


def test_a_pair_on_standard_input_is_a_pair(tmp_path: Path) -> None:
    (example,) = parsed(tmp_path, "a", "one\ttwo\n", "similarity", labelled=False).examples
    assert shown([example]) == [("one", "two", None)]


def test_labels_beside_single_texts_are_said_to_be_unused(tmp_path: Path) -> None:
    rows = "text,label\n" + "".join(f"some words {n},{n % 2}\n" for n in range(8))
    (said, *_) = parsed(tmp_path, "a.csv", rows, "similarity").understood
    assert "text = text (alone) (not used: label; its classes are learnt by the task `classify`)" in said
