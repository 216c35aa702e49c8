"""Files that are wrong: each error says where and what to do; bad rows can be counted instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertworks.data.labelled import ReadOptions, read
from bertworks.errors import DataError
from tests.data.labelled.helpers import parsed, refused, tabbed

GOOD = "text,label\na fine film,1\na dull film,0\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.csv: is empty"),
        ("\n \n", "a.csv: is empty"),
        ("text,label\n", "a.csv: has no rows"),
        ("text,label,text\na b,1,c\n", "a.csv:1: the column name 'text' occurs twice in the header; rename one"),
        (GOOD + "just a text\n", "a.csv:4: has 1 field where 2 are expected (text, label)"),
        (GOOD + "one, two,1\n", "a.csv:4: has 3 fields where 2 are expected"),
        (GOOD + "a b,\n", "a.csv:4: the label is missing (column 'label' is empty)"),
        (GOOD + '"never closed,1\nc d,1\n', "a.csv:4: is not valid csv (a quotation mark is opened and never closed)"),
        (GOOD + '"a" b,1\n', "a.csv:4: is not valid csv"),
        (GOOD.encode() + "caf\u00e9,1\n".encode("latin-1"), "a.csv:4: is not valid utf-8"),
    ],
)
def test_each_has_its_place(tmp_path: Path, content: str | bytes, message: str) -> None:
    assert refused(tmp_path, "a.csv", content, "classify").startswith(message)


def test_a_tsv(tmp_path: Path) -> None:
    content = tabbed("a fine film | 1", "a dull film | 0", "no label", " | 1", "c d | ")
    assert refused(tmp_path, "a.tsv", content, "classify").startswith(
        "a.tsv:3: has 1 field where 2 are expected (1, 2)"
    )


def test_json_lines(tmp_path: Path) -> None:
    good = '{"text": "a b", "label": 1}\n'
    for bad, message in [
        ('{"text": "a b"', "is not valid JSON"),
        ('{"text": "a b"}', "the label is missing"),
        ('{"label": 1}', "the column 'text' holds null, not a text"),
        ('{"text": "\\ud83d", "label": 1}', "half of a surrogate pair"),
        ('{"text": "c d", "label": {"x": 1}}', "which is no label"),
    ]:
        found = refused(tmp_path, "a.jsonl", good + bad + "\n" + good, "classify")
        assert found.startswith("a.jsonl:2: ")
        assert message in found
        data = parsed(tmp_path, "a.jsonl", good + bad + "\n" + good, "classify", skip_bad_rows=True)
        assert (len(data.examples), data.skipped, len(data.bad)) == (2, 1, 1)


def test_the_way_out_is_said(tmp_path: Path) -> None:
    assert refused(tmp_path, "a.csv", GOOD + "x\n", "classify").endswith(
        "; --skip-bad-rows leaves out what cannot be used"
    )


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    content = GOOD + "ragged\n" + '"never closed,1\n' + "good film,1\nno label,\n" + "last film,0\n"
    data = parsed(tmp_path, "a.csv", content, "classify", skip_bad_rows=True)
    texts = [example.text for example in data.examples]  # type: ignore[union-attr]
    assert texts == ["a fine film", "a dull film", "good film", "last film"]  # what follows an open mark is not lost
    assert [example.place.line for example in data.examples] == [2, 3, 6, 8]
    assert data.skipped == 3
    assert [error.line for error in data.bad] == [4, 5, 7]
    assert "3 bad rows left out, the first: " in data.understood[1]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "none.csv", "classify", ReadOptions())
    with pytest.raises(DataError, match="is a directory"):
        read(tmp_path, "classify")


def test_a_file_of_another_task(tmp_path: Path) -> None:
    assert "for the task `classify`, not `pair`" in refused(tmp_path, "a.label", "NUM:date When ?\n", "pair")
    assert "for the task `tag`, not `classify`" in refused(tmp_path, "a.conll", "Anna PER\n", "classify")
