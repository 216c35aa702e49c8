"""Reading texts: every format, every way a file can be wrong, constant memory, cheap skipping."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertworks.data.readers import TextReader
from bertworks.errors import DataError, UsageError

TEXTS = ["first", "", "tredje: åäö", "四 🙂", 'with "quotes", commas', " spaces ", "sep\u2028inside"]


def read(path: str | Path, *, skip: int = 0, **options: Any) -> list[str]:
    with TextReader(path, **options) as reader:
        return list(reader.texts(skip=skip))


def refused(path: str | Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return str(caught.value)


def write_csv(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def write_txt(path: Path) -> None:
    path.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")


def write_csv_texts(path: Path) -> None:
    write_csv(path, [["id", "text"], *([str(number), text] for number, text in enumerate(TEXTS))])


def write_tsv(path: Path) -> None:
    path.write_text("text\tlabel\n" + "".join(f"{text}\t1\n" for text in TEXTS), encoding="utf-8")


def write_jsonl(path: Path) -> None:
    lines = [json.dumps(text if number % 2 else {"text": text}) for number, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines), encoding="utf-8")


def write_parquet(path: Path) -> None:
    pq.write_table(pa.table({"id": range(len(TEXTS)), "text": TEXTS}), path, row_group_size=2)


WRITERS: dict[str, Callable[[Path], None]] = {
    "a.txt": write_txt,
    "a.csv": write_csv_texts,
    "a.tsv": write_tsv,
    "a.jsonl": write_jsonl,
    "a.parquet": write_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_texts(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    assert read(tmp_path / name) == TEXTS
    for skip in range(len(TEXTS) + 2):
        assert read(tmp_path / name, skip=skip) == TEXTS[skip:]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
def test_compressed(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    content = (tmp_path / name).read_bytes()
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    (tmp_path / f"{name}.xz").write_bytes(lzma.compress(content))
    assert read(tmp_path / f"{name}.gz") == read(tmp_path / f"{name}.xz", skip=0) == TEXTS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"))), st.integers(1, 4))
def test_lines_round_trip_in_chunks(tmp_path: Path, texts: list[str], rows: int) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes("".join(text + "\n" for text in texts).encode())
    if texts and texts[0].startswith("\ufeff"):  # a byte order mark, which is not part of the text
        texts[0] = texts[0][1:]
    with TextReader(path) as reader:
        chunks = list(reader.chunks(rows=rows, characters=10))
    assert [text for chunk in chunks for text in chunk] == texts
    assert all(len(chunk) == 1 or (len(chunk) <= rows and sum(map(len, chunk)) <= 10) for chunk in chunks)


def test_chunks_do_not_depend_on_where_reading_began(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join("x" * (number % 7) + "\n" for number in range(50)), encoding="utf-8")
    with TextReader(path) as reader:
        chunks = list(reader.chunks(rows=5, characters=12))
    done = sum(len(chunk) for chunk in chunks[:4])
    with TextReader(path) as reader:
        assert list(reader.chunks(rows=5, characters=12, skip=done)) == chunks[4:]


def test_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\r\nno end")
    assert read(path) == ["one", "two", "", "no end"]
    path.write_bytes(b"")
    assert read(path) == []


def test_csv_fields_over_several_lines_keep_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"two\nlines",1\n"three\n\nlines",2\nshort\n', encoding="utf-8")
    with TextReader(path) as reader:
        texts = reader.texts()
        assert [next(texts), next(texts)] == ["two\nlines", "three\n\nlines"]
        with pytest.raises(DataError, match=r"a\.csv:7: has 1 field where 2 are expected \(text, label\)"):
            next(texts)


def test_a_field_of_a_megabyte(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [["text"], ["w" * 1_000_000]])
    assert len(read(tmp_path / "a.csv")[0]) == 1_000_000


# Which column.


def test_the_column_is_found_where_it_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_csv(path, [["id", "review", "stars"], ["1", "good", "5"], ["2", "", ""]])
    assert read(path) == ["good", ""]
    write_csv(path, [["label", "sentence"], ["pos", "good"]])
    assert read(path) == ["good"]
    write_csv(path, [["label", "sentence", "text"], ["pos", "no", "yes"]])
    assert read(path) == ["yes"]
    assert read(path, text_column="label") == ["pos"]
    write_csv(path, [["whatever"], ["12"]])
    assert read(path) == ["12"]
    jsonl = tmp_path / "a.jsonl"
    jsonl.write_text('{"n": 1, "body": "x"}\n\n{"n": 2, "body": "y"}\n', encoding="utf-8")
    assert read(jsonl) == ["x", "y"]
    parquet = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1], "body": pa.array(["x"]).dictionary_encode()}), parquet)
    assert read(parquet) == ["x"]


def test_an_ambiguous_column_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_csv(path, [["title", "body", "n"], ["t", "b", "1"]])
    message = refused(path)
    assert "2 columns hold text; choose one with --text-column, from: title, body;" in message
    assert "--no-header" in message
    write_csv(path, [["n", "m"], ["1", "2"]])
    assert "no column holds text" in refused(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_a_missing_column_is_told_with_those_there_are(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    message = refused(tmp_path / name, text_column="txt")
    assert "there is no column 'txt' (did you mean 'text'?); there are: " in message


def test_no_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("one long string\t0\nanother\t1\n", encoding="utf-8")
    assert "a.tsv:1: '0' in the header is no name; if the file has no header row, use --no-header" in refused(path)
    assert read(path, header=False) == ["one long string", "another"]
    assert read(path, header=False, text_column="2") == ["0", "1"]


def test_a_tab_separated_quotation_mark_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n" never closed\t1\nnext "one"\t0\n', encoding="utf-8")
    assert read(path) == ['" never closed', 'next "one"']


# What can be wrong.


def test_missing_and_directory(tmp_path: Path) -> None:
    assert "nothing.txt: no such file" in refused(tmp_path / "nothing.txt")
    assert "is a directory" in refused(tmp_path)


def test_invalid_utf8_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("good\nåäö\n".encode() + "åäö\n".encode("latin-1"))
    message = refused(path)
    assert message.startswith(f"{path}:3: is not valid utf-8 (0xe5 at byte 1 of the line)")
    assert "--encoding latin-1" in message
    path.write_bytes("bra\nåäö\n".encode("latin-1"))
    assert read(path, encoding="latin-1") == read(path, encoding="ISO-8859-1") == ["bra", "åäö"]


def test_encodings_that_cannot_be() -> None:
    for name, words in [
        ("klingon", "unknown encoding"),
        ("utf-16", "is not supported"),
        ("base64", "unknown encoding"),
    ]:
        with pytest.raises(UsageError, match=words):
            TextReader("-", encoding=name)


def test_binary_files_are_not_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\nab\0cd\n")
    assert f"{path}:2: has a NUL byte at column 3" in refused(path)
    path.write_bytes("hello\n".encode("utf-16"))
    assert "looks like UTF-16" in refused(path)
    parquet = tmp_path / "a.parquet"
    parquet.write_bytes(b"not parquet at all")
    assert "is not a readable parquet file" in refused(parquet)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": ', "is not valid JSON"),
        ("[1]", "must be a JSON object or string, not a list"),
        ("null", "must be a JSON object or string, not null"),
        ('{"txt": "x"}', "there is no column 'text'"),
        ('{"text": null}', "the column 'text' holds null, not a text"),
        ('{"text": 3}', "the column 'text' holds 3, not a text"),
        ('{"text": "\\ud83d"}', "half of a surrogate pair"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_broken_jsonl_rows(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "good"}}\n{line}\n', encoding="utf-8")
    assert refused(path, text_column="text").startswith(f"{path}:2: ")
    assert message in refused(path, text_column="text")


def test_broken_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("", encoding="utf-8")
    assert "is empty; a table needs at least a header row" in refused(path)
    path.write_text('text,n\ngood,1\n"never closed,2\n', encoding="utf-8")
    assert f"{path}:3: is not valid csv" in refused(path, text_column="text")
    path.write_text("text,text\na,b\n", encoding="utf-8")
    assert f"{path}:1: the column name 'text' occurs twice in the header" in refused(path)


@pytest.mark.parametrize("column", [None, "text", "id"])
def test_a_parquet_file_with_a_name_twice(tmp_path: Path, column: str | None) -> None:
    columns = [pa.array(["a"]), pa.array(["b"]), pa.array([1])]
    pq.write_table(pa.Table.from_arrays(columns, names=["text", "text", "id"]), tmp_path / "a.parquet")
    message = refused(tmp_path / "a.parquet", text_column=column)
    assert message == f"{tmp_path / 'a.parquet'}: the column name 'text' occurs twice; rename one of the two"


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
def test_damaged_compression(tmp_path: Path, name: str) -> None:
    lines = "".join(f"line {number * 7919 % 10007}\n" for number in range(20_000)).encode()
    content = gzip.compress(lines) if name.endswith("gz") else lzma.compress(lines)
    path = tmp_path / name
    path.write_bytes(content[: len(content) // 2])
    assert "the compressed file is damaged or cut off" in refused(path)
    path.write_bytes(b"no compression here\n")
    assert f"is not {name[-2:]}-compressed at all: it begins with b'no" in refused(path)


def test_parquet_nulls_and_wrong_formats(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", None]}), path)
    assert f"{path}:2: the column 'text' holds null" in refused(path)
    pq.write_table(pa.table({"text": [1, 2]}), path)
    assert "holds 1, not a text" in refused(path)
    other = tmp_path / "a.txt"
    other.write_text("x\n", encoding="utf-8")
    assert "unknown format 'jsnl' (did you mean 'jsonl'?)" in refused(other, file_format="jsnl")
    assert "text lines have no columns, so no 'body'" in refused(other, text_column="body")


def test_unknown_extensions_are_text_lines_and_format_overrides(tmp_path: Path) -> None:
    path = tmp_path / "train.en"
    path.write_text('"a"\n"b"\n', encoding="utf-8")
    assert read(path) == ['"a"', '"b"']
    assert read(path, file_format="jsonl") == ["a", "b"]
    document = tmp_path / "squad.json"
    document.write_text('{"version": "1.1", "data": []}', encoding="utf-8")
    assert "a .json file is not a table" in refused(document)
    assert read(document, file_format="jsonl", text_column="version") == ["1.1"]


# Streams, progress, memory.


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("ett\n\ntvå".encode())))
    with TextReader("-") as reader:
        assert (reader.total_bytes, reader.repeatable, reader.name) == (None, False, "standard input")
        assert list(reader.texts()) == ["ett", "", "två"]
        assert reader.bytes_read is None
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id,text\n1,x\n")))
    assert read("-", file_format="csv") == ["x"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n")))
    assert "standard input:1: is not valid utf-8" in refused("-")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.parquet"])
def test_progress_reaches_the_end(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    lines = [f"line {number * 7919 % 10007}" for number in range(20_000)]
    if name == "a.parquet":
        pq.write_table(pa.table({"text": lines}), path)
    else:
        content = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with TextReader(path) as reader:
        seen = []
        for _ in reader.chunks(rows=1000):
            assert reader.bytes_read is not None
            seen.append(reader.bytes_read)
        assert seen == sorted(seen)
        assert 0 < seen[0] < seen[-1] <= path.stat().st_size == reader.total_bytes


def test_identity_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n", encoding="utf-8")
    with TextReader(path) as reader:
        before = reader.identity()
    with TextReader(path) as reader:
        assert reader.identity() == before
    path.write_text("a\nb\n", encoding="utf-8")
    with TextReader(path) as reader:
        assert reader.identity() != before
    assert json.loads(json.dumps(before)) == before


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl", "a.txt.gz", "a.parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    line, count = "word " * 200, 8_000  # 8 MB
    if name == "a.parquet":
        pq.write_table(pa.table({"text": [line] * count}), path, row_group_size=200, use_dictionary=False)
    else:
        content = {"a.csv": "text\n" + f"{line}\n" * count, "a.jsonl": f"{json.dumps(line)}\n" * count}.get(
            name, f"{line}\n" * count
        )
        path.write_bytes(gzip.compress(content.encode(), 1) if name.endswith("gz") else content.encode())
        del content
    tracemalloc.start()
    try:
        with TextReader(path) as reader:
            total = sum(len(chunk) for chunk in reader.chunks(rows=100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == count
    assert peak < 2_000_000


def test_a_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match="standard input: is closed; give a file"):
        TextReader("-")
