"""`bertworks probe layers`: what is printed, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertworks.cli.main import main
from tests.finetune.probing import make_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    found = make_files(tmp_path_factory.mktemp("probe"), 12)
    return [
        *("probe", "layers", "--train", str(found["train"]), "--dev", str(found["dev"])),
        *("--model", str(found["model"]), "--threads", "1"),
    ]


def test_the_table(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*files, "-o", str(tmp_path / "out"), "--epochs", "1", "--lstm", "1x5"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert "linear tagger" in lines[0]
    assert "BiLSTM tagger" in lines[0]
    assert len(lines) == 12
    assert lines[1].startswith("layer 0 (embeddings: first)")
    assert "report: " in said.err
    assert main([*files, "-o", str(tmp_path / "out")]) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_json(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*files, "-o", str(tmp_path / "out"), "--tagger", "linear", "--epochs", "1", "--json"]
    assert main(command) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert {row["tagger"] for row in told["rows"]} == {"linear"}
    assert told["output"] == str(tmp_path / "out")
    assert said.err == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--tagger", "linaer"], "unknown tagger 'linaer' (did you mean 'linear'?)"),
        (["--lstm", "big"], "--lstm is 'big'"),
        (["--words", "last"], "unknown vector of a word 'last'"),
        (["--dev", "nowhere.conll"], "nowhere.conll"),
    ],
)
def test_errors(
    files: list[str], tmp_path: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*files, "-o", str(tmp_path / "out"), *more]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
