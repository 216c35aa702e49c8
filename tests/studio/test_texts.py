"""Uploaded files: read as the commands read them, labels found by their name, messages with the user's name of the file."""

from __future__ import annotations

import base64
import gzip

import pytest

from bertworks.errors import UsageError
from bertworks.studio import texts
from bertworks.studio.texts import check_texts, read_upload


def upload(name: str, content: str | bytes, **options: str) -> texts.ReadTexts:
    raw = content.encode() if isinstance(content, str) else content
    return read_upload(name, base64.b64encode(raw).decode(), **options)


def test_formats() -> None:
    plain = upload("notes.txt", "one\n\ntwo, too\n")
    assert (plain.texts, plain.labels, plain.columns, plain.cut) == (["one", "two, too"], None, ["text"], False)
    table = upload("r.csv", 'label,sentence,id\npos,"good, very",1\nneg,bad,2\n')
    assert (table.texts, table.labels) == (["good, very", "bad"], ["pos", "neg"])
    assert (table.text_column, table.label_column, table.columns) == ("sentence", "label", ["label", "sentence", "id"])
    lines = upload("r.jsonl", '{"text": "a b", "topic": "x"}\n{"text": "c", "topic": null}\n')
    assert (lines.texts, lines.labels) == (["a b", "c"], ["x", ""])
    assert upload("r.tsv.gz", gzip.compress(b"text\tclass\nhello\t1\n")).labels == ["1"]


def test_columns_that_are_asked_for() -> None:
    content = "headline,body,label\nRain,It rains.,0\nSun,It shines.,1\n"
    longest = upload("two.csv", content)  # where a command would ask
    assert (longest.text_column, longest.label_column) == ("body", "label")
    found = upload("two.csv", content, text_column="body", label_column="headline")
    assert (found.texts, found.labels) == (["It rains.", "It shines."], ["Rain", "Sun"])
    assert upload("two.csv", content, text_column="body", label_column="-").labels is None
    with pytest.raises(UsageError, match=r"there is no column 'topic'; there are: headline, body, label"):
        upload("two.csv", content, text_column="body", label_column="topic")


def test_a_file_with_more_texts_than_a_map_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MAX_TEXTS", 3)
    found = upload("many.txt", "a\nb\nc\nd\n")
    assert (found.texts, found.cut) == (["a", "b", "c"], True)
    monkeypatch.setattr(texts, "MAX_CHARACTERS", 5)
    assert upload("long.txt", "aaaa\nbbbb\n").texts == ["aaaa"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.txt", b"\n  \n", "x.txt holds no text"),
        ("x.txt", b"a\0b", "x.txt:1: has a NUL byte"),
        ("x.json", b"{}", "x.json: a .json file is not a table"),
        ("../../.bashrc", b"a", "give it a name"),
        ("x.csv", b"", "x.csv: is empty"),
        ("x.csv", b"a,b\n1,2\n", "x.csv: no column holds text"),
        ("x.txt.gz", b"a", "x.txt.gz: is not gz-compressed"),
    ],
)
def test_bad_files(name: str, content: bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        upload(name, content)


def test_no_base64() -> None:
    with pytest.raises(UsageError, match="not base64"):
        read_upload("x.txt", "ü")


def test_texts_for_a_map() -> None:
    assert check_texts(["a"]) == ["a"]
    for given, problem in (
        ([], "there are no texts"),
        (["a", " "], "text 2 is empty"),
        (["a"] * 2001, "2,001 texts; a map takes 2,000 at most"),
        (["a" * 400_001], "400,001 characters together"),
    ):
        with pytest.raises(UsageError, match=problem):
            check_texts(given)
