"""Choices: SWAG's own files and the forms that others use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.errors import DataError
from tests.data.labelled.helpers import examples, parsed, refused, tabbed

SWAG = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    '0,v_1,3416,A man sits. He,A man sits.,He,gold,stands up.,"sings, loudly.",eats a chair.,flies.,0\n'
    "1,v_1,3417,A dog runs. It,A dog runs.,It,gen,reads.,writes.,sings.,barks.,3\n"
)
SWAG_FULL = (
    "video-id,fold-ind,startphrase,gold-ending,distractor-0,distractor-1,distractor-2,distractor-3,gold-source,"
    "gold-type,distractor-0-type,distractor-1-type,distractor-2-type,distractor-3-type,sent1,sent2\n"
    "v_1,1,A man sits. He,stands up.,sings.,eats a chair.,flies.,,gold,pos,n,n,n,,A man sits.,He\n"
    "v_2,2,A dog runs. It,barks.,reads.,writes.,sings.,cooks.,gold,pos,n,n,n,n,A dog runs.,It\n"
)
CODAH = tabbed(
    "o | I am hungry. I am | ill. | glad that I eat. | a monster here. | off to eat now. | 3",
    "i | I feel sick. I think | I will run far. | I see him. | I will fly. | I stay in bed. | 0",
    " | A cat sat. It | was on the mat. | ran to Mars. | was a dog. | is red now. | 1",
)


def shown(found: list[Any]) -> list[tuple[Any, ...]]:
    return [(example.text, example.options, example.label) for example in found]


def test_swag(tmp_path: Path) -> None:
    data = parsed(tmp_path, "train.csv", SWAG, "choice")
    assert shown(data.examples) == [
        ("A man sits.", ("He stands up.", "He sings, loudly.", "He eats a chair.", "He flies."), 0),
        ("A dog runs.", ("It reads.", "It writes.", "It sings.", "It barks."), 3),
    ]
    assert [example.group for example in data.examples] == ["v_1", "v_1"]
    assert "options = sent2 + ending0, sent2 + ending1" in data.understood[0]
    test = "\n".join(line.rpartition(",")[0] for line in SWAG.splitlines())
    assert [label for _, _, label in shown(examples(tmp_path, "test.csv", test, "choice", labelled=False))] == [
        None,
        None,
    ]
    assert "no column that says which option is right" in refused(tmp_path, "test.csv", test, "choice")


def test_swag_full(tmp_path: Path) -> None:
    found = examples(tmp_path, "train_full.csv", SWAG_FULL, "choice")
    assert [example.options[example.label] for example in found] == ["He stands up.", "It barks."]
    assert [len(example.options) for example in found] == [4, 5]
    assert set(found[1].options) == {"It barks.", "It reads.", "It writes.", "It sings.", "It cooks."}


def test_codah_without_a_header(tmp_path: Path) -> None:
    found = examples(tmp_path, "full_data.tsv", CODAH, "choice")
    assert shown(found)[0] == (
        "I am hungry. I am",
        ("ill.", "glad that I eat.", "a monster here.", "off to eat now."),
        3,
    )
    assert [example.label for example in found] == [3, 0, 1]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {
                "ind": 4,
                "ctx_a": "A cat.",
                "ctx_b": "It",
                "ctx": "A cat. It",
                "endings": ["runs.", "flies."],
                "label": 0,
            },
            ("A cat. It", ("runs.", "flies."), 0),
        ),
        (
            {
                "id": "7",
                "answerKey": "B",
                "question": {
                    "stem": "Where is it?",
                    "choices": [{"label": "A", "text": "here"}, {"label": "B", "text": "there"}],
                },
            },
            ("Where is it?", ("here", "there"), 1),
        ),
        (
            {"question": "Where?", "choices": {"text": ["here", "there"], "label": ["1", "2"]}, "answerKey": "2"},
            ("Where?", ("here", "there"), 1),
        ),
        (
            {"premise": "It rained.", "choice1": "I got wet.", "choice2": "I flew.", "label": 0},
            ("It rained.", ("I got wet.", "I flew."), 0),
        ),
        (
            {"sentence": "The _ ran.", "option1": "cat", "option2": "mat", "answer": "2"},
            ("The _ ran.", ("cat", "mat"), 1),
        ),
        (
            {
                "context": "Bo ran.",
                "question": "Why?",
                "answerA": "late",
                "answerB": "sad",
                "answerC": "fun",
                "label": "3",
            },
            ("Bo ran. Why?", ("late", "sad", "fun"), 2),
        ),
        (
            {"article": "A story.", "question": "Who?", "options": ["Bo", "Al", "Di"], "answer": "C"},
            ("A story. Who?", ("Bo", "Al", "Di"), 2),
        ),
        ({"prompt": "I am", "options": ["glad", "a chair"], "answer": "a chair"}, ("I am", ("glad", "a chair"), 1)),
    ],
    ids=["hellaswag", "commonsenseqa", "arc", "copa", "winogrande", "socialiqa", "race", "by-text"],
)
def test_other_forms(tmp_path: Path, record: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert shown(examples(tmp_path, "a.jsonl", json.dumps(record), "choice")) == [expected]


def test_the_users_columns(tmp_path: Path) -> None:
    content = "start,good one,bad one,which\nI am,glad,a chair,1\nYou are,a table,nice,2\n"
    options = {"text_column": "start", "option_columns": ("good one", "bad one"), "label_column": "which"}
    assert shown(examples(tmp_path, "a.csv", content, "choice", **options)) == [
        ("I am", ("glad", "a chair"), 0),
        ("You are", ("a table", "nice"), 1),
    ]
    assert "the possible continuations cannot be told" in refused(tmp_path, "a.csv", content, "choice")


def counted(directory: Path, labels: list[Any], columns: str = "a,b,c,d", **options: Any) -> list[int]:
    rows = [f"It is,{','.join(f'end {name}' for name in columns.split(','))},{label}" for label in labels]
    content = "\n".join([f"text,{columns},label", *rows])
    given = {"option_columns": tuple(columns.split(",")), **options}
    return [example.label for example in examples(directory, "a.csv", content, "choice", **given)]


def test_options_are_counted_from_0_or_from_1(tmp_path: Path) -> None:
    assert counted(tmp_path, [0, 2]) == [0, 2]
    assert counted(tmp_path, [2, 4]) == [1, 3]
    assert counted(tmp_path, ["2.0", "4.0"]) == [1, 3]  # how a table with gaps is written
    assert counted(tmp_path, [2, 3], columns="ending1,ending2,ending3,ending4") == [1, 2]
    assert counted(tmp_path, [2, 3], columns="ending0,ending1,ending2,ending3") == [2, 3]
    assert counted(tmp_path, [2, 3], first_option=1) == [1, 2]
    assert counted(tmp_path, [2, 3], remembered={"first_option": 1}) == [1, 2]  # as the training file had it
    with pytest.raises(DataError, match=r"labels \(2, 3\) do not tell .* --first-option"):
        counted(tmp_path, [2, 3])


def test_bad_labels_have_their_line(tmp_path: Path) -> None:
    for label, message in [
        ("4", "allowed: 0 to 3, or A, B, …; if this file counts its options from 1, say --first-option 1"),
        ("7", "the label '7' names none of the 4 options; allowed: 0 to 3, or A, B, …; --skip-bad-rows"),
        ("", "the label is missing"),
    ]:
        found = refused(tmp_path, "a.csv", SWAG.replace("barks.,3", f"barks.,{label}"), "choice")
        assert found.startswith("a.csv:3: ")
        assert message in found
