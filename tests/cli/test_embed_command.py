"""`bertworks embed` with a model that is a stand-in: what is asked of it, what is written, what is said."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import bertworks
from bertworks.cli.main import main
from bertworks.errors import ModelError, UsageError
from bertworks.infer.embed import EmbedReport, TokenVector

WINDOW = 20


@dataclass
class StandIn:
    """The vector of a text is (its length, its first character's number, 1); `calls` remembers what was asked."""

    calls: list[dict[str, Any]]
    stop_at: int | None = None  # the call that is interrupted

    def embed(self, texts: Sequence[str], *, report: EmbedReport, progress: Any, **asked: Any) -> np.ndarray:
        self.calls.append({**asked, "texts": list(texts)})
        if self.stop_at is not None and len(self.calls) > self.stop_at:
            raise KeyboardInterrupt
        if asked["layers"] == "lst":
            raise UsageError("unknown layers 'lst'")
        report.windowed += sum(len(text) > WINDOW for text in texts)
        progress(len(texts), len(texts))
        return np.array([[len(text), ord(text[0]) if text else 0, 1] for text in texts], dtype=np.float32)

    def embed_words(
        self, texts: Sequence[str], *, layers: str, report: EmbedReport, progress: Any
    ) -> list[list[TokenVector]]:
        progress(len(texts), len(texts))
        return [[TokenVector(word, 0, len(word), np.ones(4, np.float32)) for word in text.split()] for text in texts]

    embed_tokens = embed_words


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn([])

    def load(name: str, **options: Any) -> StandIn:
        if name == "nobody":
            raise ModelError("there is no model 'nobody'")
        if options["precision"] == "int8" and options["device"] != "cpu":
            raise UsageError("int8 is for the CPU")
        return stand_in

    monkeypatch.setitem(vars(bertworks), "load", load)  # not setattr, which would load the real one first
    return stand_in


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("alpha\n\nbeta gamma\n" + "long " * 10 + "\n", encoding="utf-8")
    return path


def left(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_file_of_lines(model: StandIn, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", str(lines), "-o", str(tmp_path / "out.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), [[5, 97, 1], [0, 0, 1], [10, 98, 1], [50, 108, 1]])
    assert [call["layers"] for call in model.calls] == ["last"]
    assert model.calls[0]["pooling"] is None
    assert model.calls[0]["normalize"] is None
    said = capsys.readouterr()
    assert "4 rows of width 3 in " in said.out
    assert "1 text was longer than the model's window and was embedded over several windows" in said.out
    assert said.err == ""
    assert left(tmp_path) == {"lines.txt", "out.npy"}


def test_options_reach_the_model(model: StandIn, lines: Path, tmp_path: Path) -> None:
    options = ["--layers", "sum-last-4", "--pooling", "max", "--no-normalize", "--quiet"]
    assert main(["embed", str(lines), "-o", str(tmp_path / "out.jsonl"), *options]) == 0
    assert (model.calls[0]["layers"], model.calls[0]["pooling"], model.calls[0]["normalize"]) == (
        "sum-last-4",
        "max",
        False,
    )


def test_json_summary(model: StandIn, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", str(lines), "-o", str(tmp_path / "out.parquet"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    seconds = summary.pop("seconds")
    assert isinstance(seconds, float)
    assert summary == {
        "output": str(tmp_path / "out.parquet"),
        "rows": 4,
        "width": 3,
        "windowed": 1,
        "resumed_rows": 0,
    }


@pytest.mark.parametrize(("pooling", "column"), [("words", "words"), ("none", "tokens")])
def test_pieces(model: StandIn, lines: Path, tmp_path: Path, pooling: str, column: str) -> None:
    assert main(["embed", str(lines), "-o", str(tmp_path / "out.parquet"), "--pooling", pooling]) == 0
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [len(row[column]) for row in rows] == [1, 0, 2, 10]
    assert rows[2][column][1]["text"] == "gamma"
    assert rows[2]["vectors"] == [[1.0] * 4] * 2


def test_standard_input_and_columns(model: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"name,body\nx,hello\n")))
    arguments = ["embed", "-", "-o", str(tmp_path / "out.npy"), "--format", "csv", "--text-column", "body"]
    assert main(arguments) == 0
    assert model.calls[0]["texts"] == ["hello"]


def test_stopped_and_continued(
    model: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertworks.data.readers.CHUNK_CHARACTERS", 40)
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{'x' * (number % 30)}\n" for number in range(40)), encoding="utf-8")
    assert main(["embed", str(lines), "-o", str(tmp_path / "whole.npy")]) == 0
    capsys.readouterr()

    command = ["embed", str(lines), "-o", str(tmp_path / "out.npy")]
    model.calls.clear()
    model.stop_at = 3
    assert main(command) == 130
    done = sum(len(call["texts"]) for call in model.calls[:3])
    said = capsys.readouterr().err
    assert f"stopped: the {done} finished rows are kept in {tmp_path / 'out.npy.part'}; the same command" in said
    assert not (tmp_path / "out.npy").exists()

    assert main([*command, "--layers", "first"]) == 2
    assert "layers: last there, first now" in capsys.readouterr().err

    model.stop_at = None
    assert main([*command, "--json"]) == 0
    said = capsys.readouterr()
    assert f"continuing after the {done} rows of an earlier run" in said.err
    summary = json.loads(said.out)
    assert (summary["rows"], summary["resumed_rows"], summary["windowed"]) == (40, done, 9)
    assert (tmp_path / "out.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert left(tmp_path) == {"lines.txt", "out.npy", "whole.npy"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--layers", "lst"], "unknown layers 'lst'"),
        (["--pooling", "men"], "unknown pooling 'men' (did you mean 'mean'?); allowed: mean, cls, max, none, words"),
        (["--pooling", "words"], "use .parquet or .jsonl"),
        (["--pooling", "cls", "--precision", "fp23"], "unknown precision 'fp23'"),
        (["--precision", "int8", "--device", "cuda"], "int8 is for the CPU"),
        (["--encoding", "klingon"], "unknown encoding 'klingon'"),
        (["--text-column", "body"], "text lines have no columns"),
        (["--format", "xml"], "unknown format 'xml'"),
        (["--model", "nobody"], "there is no model 'nobody'"),
    ],
)
def test_wrong_options(
    model: StandIn, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["embed", str(lines), "-o", str(tmp_path / "out.npy"), *options]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert words in said.err
    assert said.err.count("\n") == 1
    assert left(tmp_path) == {"lines.txt"}, "nothing may be left behind"


def test_normalize_is_for_texts(
    model: StandIn, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["embed", str(lines), "-o", str(tmp_path / "o.jsonl"), "--pooling", "words", "--normalize"]) == 2
    assert "--normalize is for one vector per text" in capsys.readouterr().err


def test_bad_files_are_told_before_the_model_is_loaded(
    model: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    for content, words in [(b"", "holds no texts"), (b"good\n\xff\n", f"{path}:2: is not valid utf-8")]:
        path.write_bytes(content)
        assert main(["embed", str(path), "-o", str(tmp_path / "out.npy"), "--model", "nobody"]) == 2
        assert words in capsys.readouterr().err
    assert main(["embed", str(tmp_path / "none.txt"), "-o", str(tmp_path / "out.npy")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["embed", str(path), "-o", str(tmp_path / "no" / "out.npy")]) == 2
    assert "there is no directory" in capsys.readouterr().err
    assert left(tmp_path) == {"a.txt"}


def test_a_retrained_model_does_not_continue(
    model: StandIn, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "my-model"
    directory.mkdir()
    (directory / "model.safetensors").write_bytes(b"old")
    command = ["embed", str(lines), "-o", str(tmp_path / "out.npy"), "--model", str(directory)]
    model.stop_at = 0
    assert main(command) == 130
    assert "no row was finished" in capsys.readouterr().err
    from bertworks.cli.common import model_identity

    before = model_identity(str(directory))
    (directory / "model.safetensors").write_bytes(b"newer")
    assert model_identity(str(directory)) != before
    assert model_identity("minilm") == "minilm"


def test_other_weights_of_our_encoder_are_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bertworks.cli.common import model_identity

    resolving = sys.modules["bertworks.hub.resolve"]
    before = model_identity("bertworks-en")
    assert before[0] == "bertworks-en"
    shutil.copytree(resolving.ENGLISH_DIRECTORY, tmp_path / "next")
    monkeypatch.setattr(resolving, "ENGLISH_DIRECTORY", tmp_path / "next")
    assert model_identity("bertworks-en") == before  # wherever the package lies
    (tmp_path / "next" / "int8.safetensors").write_bytes(b"trained further")
    assert model_identity("bertworks-en") != before
