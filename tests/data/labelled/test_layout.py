"""Which form a file has: headers, separators, quotation marks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.data.labelled import TaskName
from bertworks.data.labelled.layout import has_header
from bertworks.errors import UsageError
from tests.data.labelled.helpers import examples, labelled, parsed, refused, tabbed


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["sentence", "label"], ["a fine film", "1"]], True),
        ([["a fine film", "1"], ["a dull film", "0"]], False),
        ([["a fine film", "pos"], ["a dull film", "neg"], ["what a film", "pos"]], False),  # pos comes again
        ([["great", "positive"], ["poor", "negative"], ["nice", "positive"]], False),  # though `positive` is a name
        ([["utterances of Bo", "how much"], ["a b", "2"], ["c d", "3.5"]], True),  # above numbers
        ([["ab12", "1", "", "The cat sat."], ["ab12", "0", "*", "Cat."]], False),
        ([["", "video-id", "ending0"], ["0", "x", "y"]], True),
        ([["Go.", "Va !"], ["Run!", "Cours !"], ["Hi there.", "Salut."]], False),
        (
            [
                ["english", "swedish"],
                ["I like my cat a lot.", "Jag gillar min katt."],
                ["No.", "Nej, det är det inte."],
            ],
            True,
        ),
        ([["text"], ["a fine film"]], True),
        ([["a fine film"], ["other"]], False),
        ([["text", "label"]], True),
    ],
)
def test_headers(rows: list[list[str]], expected: bool) -> None:
    assert has_header(rows) is expected


def test_the_user_knows_better(tmp_path: Path) -> None:
    content = tabbed("text | label", "a b | label", "c d | label", "e f | other")
    assert len(labelled(tmp_path, "a.tsv", content, "classify", header=True)) == 3
    assert len(labelled(tmp_path, "a.tsv", content, "classify", header=False, text_column="1", label_column="2")) == 4


@pytest.mark.parametrize(
    ("delimiter", "said"), [(",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "separated by |")]
)
def test_what_separates_the_fields_of_a_csv(tmp_path: Path, delimiter: str, said: str) -> None:
    content = f"text{delimiter}label\na fine film{delimiter}1\na dull film{delimiter}0\n"
    data = parsed(tmp_path, "a.csv", content, "classify")
    assert said in data.understood[0]
    assert [example.label for example in data.examples] == ["1", "0"]  # type: ignore[union-attr]


def test_a_comma_in_the_first_text_does_not_separate(tmp_path: Path) -> None:
    content = "well, a fine film;good\na dull film;bad\na good, long, fine film;good\n"
    assert labelled(tmp_path, "a.csv", content, "classify")[0] == ("well, a fine film", "good")


@pytest.mark.parametrize(
    "content", ["Subject:hello there my friend\n", "NOTE:that is so\n", "one\ttab\n", "title, text and label\n"]
)
def test_texts_to_predict_stay_whole(tmp_path: Path, content: str) -> None:
    (example,) = examples(tmp_path, "a.txt", content, "classify", labelled=False)
    assert example.text == content.rstrip("\n")


def test_a_header_with_a_known_column_makes_a_table(tmp_path: Path) -> None:
    """As from standard input, which has no extension; a text may have the name of a column in it."""
    rows = 'nr;Kommentar des Kunden\n1;"gut; sehr\ngut"\n2;schlecht\n'
    known = {"text_column": "Kommentar des Kunden"}
    found = examples(tmp_path, "rows", rows, "classify", remembered=known, labelled=False)
    assert [example.text for example in found] == ["gut; sehr\ngut", "schlecht"]
    texts = "Kommentar des Kunden\nKommentar des Kunden, und mehr\n"
    assert len(examples(tmp_path, "texts", texts, "classify", remembered=known, labelled=False)) == 2
    texts = "text, that is what I want\nand no table\n"
    assert len(examples(tmp_path, "texts", texts, "classify", remembered={"text_column": "text"}, labelled=False)) == 2


@pytest.mark.parametrize("text", ["a, b " * 50_000, "one\rtwo, three"], ids=["long", "carriage return"])
@pytest.mark.parametrize("known", [{}, {"text_column": "text"}])
def test_texts_that_csv_cannot_read_are_texts(tmp_path: Path, text: str, known: dict[str, str]) -> None:
    assert len(examples(tmp_path, "texts", f"{text}\nmore\n", "classify", remembered=known, labelled=False)) == 2


def test_tables_to_predict(tmp_path: Path) -> None:
    found = examples(tmp_path, "a", "id,text,label\n1,a b,x\n2,c d,y\n", "classify", labelled=False)
    assert [example.text for example in found] == ["a b", "c d"]
    (pair,) = examples(tmp_path, "a", "one text\tanother text\n", "pair", labelled=False)
    assert (pair.text, pair.pair) == ("one text", "another text")
    (question,) = examples(tmp_path, "TREC_10.label", "NUM:date When was it ?\n", "classify", labelled=False)
    assert question.text == "When was it ?"


@pytest.mark.parametrize(
    ("task", "record"),
    [
        ("choice", {"text": "It", "options": ["runs.", "flies."]}),
        ("tag", {"words": ["Anna", "sleeps"]}),
        ("tag", {"tokens": ["Anna", "sleeps"], "tags": ["B-PER", "O"]}),
        ("qa", {"question": "Who?", "context": "The cat.", "answers": [{"text": "cat", "answer_start": 4}]}),
    ],
)
def test_one_json_object_with_a_list_is_one_row(tmp_path: Path, task: TaskName, record: dict[str, Any]) -> None:
    for name in ("a", "a.json"):
        assert len(examples(tmp_path, name, json.dumps(record), task, labelled=False)) == 1


@pytest.mark.parametrize(
    "document",
    [
        {"text": ["a b", "c d"], "label": ["x", "y"]},
        {"version": "1", "data": [{"text": "a b", "label": "x"}, {"text": "c d", "label": "y"}]},
    ],
)
def test_a_table_in_one_line_of_json(tmp_path: Path, document: dict[str, Any]) -> None:
    assert labelled(tmp_path, "a.json", json.dumps(document), "classify") == [("a b", "x"), ("c d", "y")]


def test_quotation_marks_in_tab_separated_files(tmp_path: Path) -> None:
    plain = tabbed("text | label", '"a" or "b" | 1', '"c d" | 0', '"e | 1')
    assert [text for text, _ in labelled(tmp_path, "a.tsv", plain, "classify")] == ['"a" or "b"', '"c d"', '"e']
    quoted = 'text\tlabel\n"He said ""no"" to me"\t1\nplain text\t0\n"two\nlines"\t1\n'
    data = parsed(tmp_path, "a.tsv", quoted, "classify")
    assert [example.text for example in data.examples] == [  # type: ignore[union-attr]
        'He said "no" to me',
        "plain text",
        "two\nlines",
    ]
    assert "with quoted fields" in data.understood[0]
    unbalanced = 'text\tlabel\n"Unbalanced quote here\t1\nok it is "\t0\n'
    assert len(labelled(tmp_path, "a.tsv", unbalanced, "classify")) == 2


def test_a_text_file_with_tabs_is_a_table(tmp_path: Path) -> None:
    content = tabbed("a fine film | 1", "a dull film | 0")
    assert labelled(tmp_path, "train.txt", content, "classify") == [("a fine film", "1"), ("a dull film", "0")]
    comma = "review,sentiment\na fine film,1\na dull film,0\n"
    assert labelled(tmp_path, "train.txt", comma, "classify") == [("a fine film", "1"), ("a dull film", "0")]
    lines = '{"text": "a fine film", "label": 1}\n{"text": "a dull film", "label": 0}\n'
    assert labelled(tmp_path, "train", lines, "classify") == [("a fine film", "1"), ("a dull film", "0")]


def test_blank_lines_and_empty_texts(tmp_path: Path) -> None:
    content = "\n" + tabbed("text | label", "a fine film | 1") + "\n   \n" + tabbed(" | 0", "b c | 1") + "\n"
    data = parsed(tmp_path, "a.tsv", content, "classify")
    assert [example.text for example in data.examples] == ["a fine film", "", "b c"]  # type: ignore[union-attr]
    assert [example.place.line for example in data.examples] == [3, 6, 7]
    assert data.understood[1].endswith("a.tsv: 1 rows with an empty text")


def test_unknown_formats(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown file format \(--format\) 'cvs' \(did you mean 'csv'\?\)"):
        parsed(tmp_path, "a.csv", "text,label\na b,1\n", "classify", file_format="cvs")


def test_compressed(tmp_path: Path) -> None:
    import gzip

    content = gzip.compress(tabbed("a fine film | 1", "a dull film | 0").encode())
    assert labelled(tmp_path, "a.tsv.gz", content, "classify") == [("a fine film", "1"), ("a dull film", "0")]


def test_a_word_for_excel(tmp_path: Path) -> None:
    message = refused(tmp_path, "a.csv", "sep=;\ntext;label\na b;x\nc d;y\n", "classify")
    assert message == "a.csv:1: 'sep=;' is a word for Excel and no row; remove that line"
