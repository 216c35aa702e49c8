"""Which form a file has: headers, separators, quotation marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertworks.data.labelled.layout import has_header
from bertworks.errors import UsageError
from tests.data.labelled.helpers import labelled, parsed, tabbed


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
