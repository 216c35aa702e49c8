"""Outputs: the three formats, stopping and continuing, and everything that must refuse to go wrong quietly."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from bertworks.data.outputs import ResumableOutput
from bertworks.data.writers import Kind, NumpyWriter, Rows, Vectors
from bertworks.errors import OutputError, UsageError

WIDTH = 5
SETTINGS = {"input": "a.txt", "model": "m", "layers": "last"}


@dataclass(frozen=True)
class SomePiece:
    text: str
    start: int
    end: int
    vector: Vectors


def vector_rows(start: int, count: int) -> Rows:
    vectors = np.random.default_rng(start).normal(size=(count, WIDTH)).astype(np.float32)
    return Rows(start=start, texts=[f"text {start + number}" for number in range(count)], vectors=vectors)


def piece_rows(start: int, count: int) -> Rows:
    """As many pieces in text n as n modulo 3, so some have none."""
    generator = np.random.default_rng(start)
    texts = ["ab cd"[: 3 * (number % 3)] for number in range(start, start + count)]
    pieces = [
        [
            SomePiece(["ab", "cd"][piece], 3 * piece, 3 * piece + 2, generator.normal(size=WIDTH).astype(np.float32))
            for piece in range(number % 3)
        ]
        for number in range(start, start + count)
    ]
    return Rows(start=start, texts=texts, pieces=pieces)


def rows_for(kind: Kind, start: int, count: int) -> Rows:
    return vector_rows(start, count) if kind == "vector" else piece_rows(start, count)


CHUNKS = [(0, 3), (3, 3), (6, 1), (7, 4)]
COMBINATIONS: list[tuple[str, Kind]] = [
    ("out.npy", "vector"),
    ("out.parquet", "vector"),
    ("out.parquet", "tokens"),
    ("out.jsonl", "vector"),
    ("out.jsonl", "words"),
]


def write_all(path: Path, kind: Kind, **options: Any) -> None:
    with ResumableOutput(path, kind, SETTINGS, **options) as output:
        for start, count in CHUNKS:
            output.append(rows_for(kind, start, count))
        output.finish()


def only_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# The formats.


def test_npy(tmp_path: Path) -> None:
    write_all(tmp_path / "out.npy", "vector")
    expected = np.concatenate([vector_rows(start, count).vectors for start, count in CHUNKS])
    found = np.load(tmp_path / "out.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy", mmap_mode="r"), expected)
    assert only_files(tmp_path) == ["out.npy"]


def test_parquet_vectors(tmp_path: Path) -> None:
    write_all(tmp_path / "out.parquet", "vector")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["index", "text", "vector"]
    assert str(table.schema.field("vector").type).startswith("fixed_size_list")
    assert table["index"].to_pylist() == list(range(11))
    assert table["text"].to_pylist() == [f"text {number}" for number in range(11)]
    expected = np.concatenate([vector_rows(start, count).vectors for start, count in CHUNKS])
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), dtype=np.float32), expected)


def test_parquet_pieces(tmp_path: Path) -> None:
    write_all(tmp_path / "out.parquet", "tokens")
    table = pq.read_table(tmp_path / "out.parquet").to_pylist()
    expected = [of_text for start, count in CHUNKS for of_text in piece_rows(start, count).pieces or ()]
    assert len(table) == len(expected) == 11
    for number, (row, of_text) in enumerate(zip(table, expected, strict=True)):
        assert row["index"] == number
        assert row["tokens"] == [{"text": piece.text, "start": piece.start, "end": piece.end} for piece in of_text]
        assert row["vectors"] == [piece.vector.tolist() for piece in of_text]


def test_jsonl_vectors_lose_nothing(tmp_path: Path) -> None:
    write_all(tmp_path / "out.jsonl", "vector")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["index"] for row in rows] == list(range(11))
    expected = np.concatenate([vector_rows(start, count).vectors for start, count in CHUNKS])
    np.testing.assert_array_equal(np.array([row["vector"] for row in rows], dtype=np.float32), expected)


def test_jsonl_pieces(tmp_path: Path) -> None:
    write_all(tmp_path / "out.jsonl", "words")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {"index": 0, "words": []}
    assert [(word["text"], word["start"], word["end"]) for word in rows[2]["words"]] == [("ab", 0, 2), ("cd", 3, 5)]
    np.testing.assert_array_equal(
        np.array(rows[2]["words"][1]["vector"], dtype=np.float32), piece_rows(0, 3).pieces[2][1].vector
    )


def test_pieces_do_not_fit_a_npy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot hold one vector per word.*use \.parquet or \.jsonl"):
        ResumableOutput(tmp_path / "out.npy", "words", SETTINGS)
    with pytest.raises(UsageError, match=r"unknown output extension '\.npz' \(did you mean '\.npy'\?\)"):
        ResumableOutput(tmp_path / "out.npz", "vector", SETTINGS)
    assert only_files(tmp_path) == []


# Stopping and continuing.


@pytest.mark.parametrize(("name", "kind"), COMBINATIONS)
@pytest.mark.parametrize("stopped_after", [1, 2, 4])
def test_continued_equals_uninterrupted(tmp_path: Path, name: str, kind: Kind, stopped_after: int) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "stopped").mkdir()
    write_all(tmp_path / "whole" / name, kind)
    path = tmp_path / "stopped" / name

    output = ResumableOutput(path, kind, SETTINGS)
    for start, count in CHUNKS[:stopped_after]:
        output.append(rows_for(kind, start, count), {"start": start})
    output.close()
    assert only_files(path.parent) == [f"{name}.part"]

    with ResumableOutput(path, kind, SETTINGS) as output:
        assert output.rows == output.resumed_rows == sum(count for _, count in CHUNKS[:stopped_after])
        assert output.notes == [{"start": start} for start, _ in CHUNKS[:stopped_after]]
        for start, count in CHUNKS[stopped_after:]:
            output.append(rows_for(kind, start, count))
        assert output.width == WIDTH
        output.finish()
    assert path.read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert only_files(path.parent) == [name]


def test_killed_without_a_word(tmp_path: Path) -> None:
    """A real process that dies in the middle of a chunk: its whole chunks count, the half one does not."""
    path = tmp_path / "out.npy"
    program = f"""
        import os, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_outputs import SETTINGS, vector_rows
        from bertworks.data.outputs import ResumableOutput
        from bertworks.data.writers import NumpyWriter

        output = ResumableOutput({str(path)!r}, "vector", SETTINGS)
        output.append(vector_rows(0, 3))
        output.append(vector_rows(3, 3))

        def half(self, path, rows):
            path.write_bytes(b"half a ch")
            os._exit(9)

        NumpyWriter.write_chunk = half
        output.append(vector_rows(6, 1))
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False, capture_output=True)
    assert result.returncode == 9, result.stderr.decode()
    assert not path.exists()
    with ResumableOutput(path, "vector", SETTINGS) as output:
        assert output.rows == 6
        assert not list(output.part.glob("*.tmp"))
        output.append(vector_rows(6, 1))
        output.append(vector_rows(7, 4))
        output.finish()
    write_all(tmp_path / "whole.npy", "vector")
    assert path.read_bytes() == (tmp_path / "whole.npy").read_bytes()


@pytest.mark.parametrize("damage", ["cut journal line", "short chunk", "missing chunk", "chunk without a line"])
def test_a_damaged_tail_is_made_again(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "out.npy"
    output = ResumableOutput(path, "vector", SETTINGS)
    output.append(vector_rows(0, 3))
    output.append(vector_rows(3, 3))
    output.close()
    journal, last = output.part / "journal.jsonl", output.part / "00000001.chunk"
    if damage == "cut journal line":
        journal.write_bytes(journal.read_bytes()[:-5])
    elif damage == "short chunk":
        last.write_bytes(last.read_bytes()[:-1])
    elif damage == "missing chunk":
        last.unlink()
    else:
        journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    with ResumableOutput(path, "vector", SETTINGS) as output:
        assert output.rows == 3
        for start, count in CHUNKS[1:]:
            output.append(vector_rows(start, count))
        output.finish()
    write_all(tmp_path / "whole.npy", "vector")
    assert path.read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_stopped_while_joining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.npy"

    def interrupted(self: NumpyWriter, chunks: list[Path], final: Path) -> None:
        final.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NumpyWriter, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_all(path, "vector")
    assert only_files(tmp_path) == ["out.npy.part"]
    with ResumableOutput(path, "vector", SETTINGS) as output:
        assert output.rows == 11
        output.finish()
    assert np.load(path).shape == (11, WIDTH)


def test_other_settings_are_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "out.npy"
    output = ResumableOutput(path, "vector", SETTINGS)
    output.append(vector_rows(0, 3))
    output.close()
    other = {**SETTINGS, "layers": "first"}
    with pytest.raises(OutputError) as caught:
        ResumableOutput(path, "vector", other)
    assert "(layers: last there, first now); use --restart to drop it" in str(caught.value)
    with ResumableOutput(path, "vector", SETTINGS) as output:
        assert output.rows == 3, "a refused run must not have touched the parts"
    with ResumableOutput(path, "vector", other, restart=True) as output:
        assert output.rows == 0
        output.append(vector_rows(0, 2))
        output.finish()
    assert np.load(path).shape == (2, WIDTH)


def test_standard_input_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "out.npy"
    with ResumableOutput(path, "vector", SETTINGS, resumable=False) as output:
        output.append(vector_rows(0, 3))
        assert "nothing was kept" in output.kept()
    assert only_files(tmp_path) == []
    write_all(path, "vector", resumable=False)
    assert only_files(tmp_path) == ["out.npy"]


def test_two_runs_at_once(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="this system has no file locks")
    with ResumableOutput(tmp_path / "out.npy", "vector", SETTINGS) as output:
        output.append(vector_rows(0, 3))
        with pytest.raises(OutputError, match="another run is writing"):
            ResumableOutput(tmp_path / "out.npy", "vector", SETTINGS, restart=True)


# Refusals.


def test_an_existing_output_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "out.npy"
    path.write_bytes(b"precious")
    with ResumableOutput(path, "vector", SETTINGS) as output:
        output.append(vector_rows(0, 3))
        assert path.read_bytes() == b"precious", "the old file stays until the new one is whole"
        output.finish()
    assert np.load(path).shape == (3, WIDTH)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "directory.npy").mkdir()
    for path, words in [
        (tmp_path / "nowhere" / "out.npy", "there is no directory"),
        (tmp_path / "file" / "out.npy", "there is no directory"),
        (tmp_path / "directory.npy", "it is a directory"),
        (Path("/proc/out.npy"), "cannot write /proc/out.npy"),
    ]:
        with pytest.raises(OutputError, match=words):
            ResumableOutput(path, "vector", SETTINGS)


def test_a_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out.npy.part").mkdir()
    (tmp_path / "out.npy.part" / "diary.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match="is not an unfinished run"):
        ResumableOutput(tmp_path / "out.npy", "vector", SETTINGS, restart=True)
    assert (tmp_path / "out.npy.part" / "diary.txt").read_text(encoding="utf-8") == "mine"


def test_a_full_disk_keeps_the_finished_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.npy"

    def full(self: NumpyWriter, path: Path, rows: Rows) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, ResumableOutput(path, "vector", SETTINGS) as output:
        output.append(vector_rows(0, 3))
        patch.setattr(NumpyWriter, "write_chunk", full)
        with pytest.raises(OutputError, match=r"No space left on device; the 3 finished rows are kept in .*\.part"):
            output.append(vector_rows(3, 3))
    with ResumableOutput(path, "vector", SETTINGS) as output:
        assert output.rows == 3


def test_nothing_done_leaves_nothing_behind(tmp_path: Path) -> None:
    with ResumableOutput(tmp_path / "out.npy", "vector", SETTINGS) as output, pytest.raises(OutputError):
        output.finish()
    assert only_files(tmp_path) == []
