"""`bertworks finetune tag --model bilstm`: the options reach the settings, and what is made works with the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertworks.cli import main as command_line
from tests.finetune.test_words import SMALL, tagged_lines

SETTINGS = [part for setting in (*SMALL, "train.epochs=1") for part in ("--set", setting)]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = command_line.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_options_and_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, vectors, text, output = (tmp_path / name for name in ("train.conll", "vectors.txt", "text.txt", "names"))
    train.write_text(tagged_lines(24))
    vectors.write_text("ann 1 2 3\nrome 3 4 5\n")
    text.write_text("Bo went to Bonn. She stayed there.\n")
    given = ["--train", train, "--model", "bilstm", "--crf", "--vectors", vectors, "--unlabelled", text]
    quiet = ["--threads", 1, "--track", "none"]
    code, out, err = run(capsys, "finetune", "tag", *given, *quiet, *SETTINGS, "-o", output)
    assert code == 0, err
    assert "model      bilstm (bilstm 2x9 over words)" in out
    assert f"vectors of {vectors} (3 wide, static) beside the words" in out
    assert "2 sentences without labels for cross-view training" in out
    written = (output / "config.toml").read_text()
    assert "crf = true" in written
    assert f'unlabelled = ["{text}"]' in written

    code, out, err = run(capsys, "info", output)
    assert code == 0, err
    assert "1 x 3" in out
    code, out, err = run(capsys, "evaluate", output, "--data", train, "--json")
    assert code == 0, err
    assert json.loads(out)["metric"] == "f1"
    code, out, err = run(capsys, "predict", output, text)
    assert code == 0, err
    assert json.loads(out.splitlines()[0])["words"][:3] == ["Bo", "went", "to"]
    code, _, err = run(capsys, "embed", text, "--model", output, "-o", tmp_path / "vectors.npy")
    assert code == 2
    assert "it can only predict" in err


def test_vectors_are_for_new_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = tmp_path / "train.conll"
    train.write_text(tagged_lines(8))
    code, _, err = run(capsys, "finetune", "tag", "--train", train, "--vectors", "some.txt", "-o", tmp_path / "run")
    assert code == 2
    assert "--model birnn, bilstm, bigru" in err
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_read_is_told_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, broken = tmp_path / "train.conll", tmp_path / "broken.txt"
    train.write_text(tagged_lines(8))
    broken.write_text("2 3\nann 1 2 3\nrome 3 4\n")
    given = ["finetune", "tag", "--train", train, "-o", tmp_path / "run"]
    for chosen, message in (
        (["--model", "bilstm", "--vectors", broken], "broken.txt:3: has 2 numbers, not 3 as the first line says\n"),
        (["--model", "bilstm", "--vectors", "brokn.txt"], "brokn.txt: no such file\n"),
        (["--model", "bilstn"], "there is no model 'bilstn' (did you mean 'bilstm'?)"),
    ):
        code, _, err = run(capsys, *given, *chosen)
        assert code == 2
        assert message in err
        assert not (tmp_path / "run").exists()
