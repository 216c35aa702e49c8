"""`bertworks probe gradients`: recurrent language models side by side; `bertworks info` on one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertworks.cli import main as command_line
from tests.train.runs import make_corpus, run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("corpus"), "bert")


@pytest.fixture(scope="module")
def models(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    for name in ("rnn", "gru"):
        run(corpus, folder / name, "model.size=1x16", recipe=name, steps=2)
    return {"rnn": folder / "rnn", "gru": folder / "gru"}


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = command_line.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_side_by_side(
    corpus: Path, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    code, out, err = call(capsys, "probe", "gradients", corpus, *models.values(), "--untrained", "-o", page)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["tokens", "back", "1", "2"]
    assert [line.rsplit("/", 1)[-1].split()[0].rstrip(",") for line in lines[1:]] == ["rnn", "rnn", "gru", "gru"]
    assert page.read_text(encoding="utf-8").count("<polyline") == 4
    code, out, _ = call(capsys, "probe", "gradients", corpus, models["rnn"], models["rnn"], "--steps", 5, "--json")
    found = json.loads(out)["norms"]
    assert len(found) == 2
    first, second = found.values()
    assert first == second
    assert len(first) == 4
    assert first[0] == 1.0


def test_what_cannot_be_probed(
    corpus: Path, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(corpus, tmp_path / "modern", steps=1)
    code, _, err = call(capsys, "probe", "gradients", corpus, tmp_path / "modern")
    assert code == 2
    assert "only a recurrent language model has states between its tokens; this one is modernbert 2x24x3" in err
    code, _, err = call(capsys, "probe", "gradients", corpus, models["rnn"], "-o", tmp_path / "none" / "page.html")
    assert code == 2
    assert "cannot write" in err


def test_info_says_what_it_is(models: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "info", models["gru"], "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["family"], facts["cell"], facts["layers"], facts["hidden_size"]) == ("bertworks", "gru", 1, 16)
    assert facts["heads"] == ["lm"]
    assert facts["problem"] is None
