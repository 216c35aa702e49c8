"""ELMo on the command line: its published files are a model like any other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bertworks.cli.main import main

Output = tuple[int, str, str]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Output:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("The mill turns.\nRain fell on the U.S. coast.\n")
    return path


def test_vectors_of_words(capsys: pytest.CaptureFixture[str], weights_elmo: Path, texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "words.parquet"
    code, _, err = run(capsys, "embed", texts, "--model", weights_elmo, "--pooling", "words", "-o", output)
    assert code == 0, err
    rows = pq.read_table(output).to_pylist()
    assert [word["text"] for word in rows[1]["words"]] == ["Rain", "fell", "on", "the", "U.S.", "coast", "."]
    assert np.array(rows[1]["vectors"]).shape == (7, 32)
    code, _, err = run(capsys, "embed", texts, "--model", weights_elmo, "--layers", "first", "-o", tmp_path / "v.npy")
    assert code == 0, err
    assert np.load(tmp_path / "v.npy").shape == (2, 32)


def test_what_it_is(capsys: pytest.CaptureFixture[str], weights_elmo: Path, tmp_path: Path) -> None:
    code, out, _ = run(capsys, "info", weights_elmo, "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["family"], facts["model"], facts["predicts"]) == ("elmo, as published", "elmo 2x16", "nothing")
    assert run(capsys, "convert", weights_elmo, tmp_path / "ours")[0] == 0
    facts = json.loads(run(capsys, "info", tmp_path / "ours", "--json")[1])
    assert (facts["family"], facts["model"], facts["problem"]) == ("bertworks", "elmo 2x16", None)


def test_what_it_cannot_do(capsys: pytest.CaptureFixture[str], weights_elmo: Path, texts: Path, tmp_path: Path) -> None:
    code, _, err = run(capsys, "fill", "A [MASK].", "--model", weights_elmo)
    assert (code, err.startswith("error:")) == (2, True)
    code, _, err = run(capsys, "embed", texts, "--model", weights_elmo, "--pooling", "cls", "-o", tmp_path / "v.npy")
    assert code == 2
    assert "allowed: mean, max, none" in err


def test_published_files_cannot_be_trained_further(
    capsys: pytest.CaptureFixture[str], weights_elmo: Path, texts: Path, tmp_path: Path
) -> None:
    given = ("--algorithm", "word", "--vocab-size", 50, "--min-frequency", 1)
    assert run(capsys, "tokenizer", "train", texts, *given, "-o", tmp_path / "words")[0] == 0
    assert run(capsys, "corpus", "build", texts, "--tokenizer", tmp_path / "words", "-o", tmp_path / "corpus")[0] == 0
    run_of = ("--recipe", "elmo", "--from", weights_elmo, "--steps", 1, "-o", tmp_path / "run")
    code, _, err = run(capsys, "pretrain", tmp_path / "corpus", *run_of)
    assert code == 2
    assert "has no vocabulary of its own, as ELMo is published, and cannot be trained further" in err
