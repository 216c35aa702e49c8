"""The ladder of taggers on a few sentences: rows run, are not run twice, and say what is missing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks import ladder, ladder_models
from benchmarks.keys import content_of

from tests.finetune.test_words import SMALL, tagged_lines


@pytest.fixture(autouse=True)
def _contents() -> Iterator[None]:
    yield
    content_of.cache_clear()


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    data = tmp_path / "data"
    (data / "conll2003").mkdir(parents=True)
    (data / "conll2003" / "train.conll").write_text(tagged_lines(24))
    (data / "conll2003" / "dev.conll").write_text(tagged_lines(8, seed=1))
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("ann 1 2\nrome 3 4\n")
    settings = [part for setting in (*SMALL, "train.epochs=1") for part in ("--set", setting)]
    places = ["--data", str(data), "--output", str(tmp_path / "ladder.json"), "--cache", str(tmp_path / "cache")]
    return [*places, "--glove", str(vectors), "--seeds", "2", *settings]


def test_rows_are_trained_once(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder.main([*arguments, "--only", "crf", "glove", "elmo"])
    out, err = capsys.readouterr()
    assert "BiLSTM-CRF + GloVe" in out
    assert "elmo: left out, for want of --bilm" in err
    report = json.loads((tmp_path / "ladder.json").read_text())
    assert list(report["rows"]) == ["crf", "glove"]
    row: dict[str, Any] = report["rows"]["glove"]
    assert len(row["f1"]) == len(row["seconds"]) == 2
    assert row["sources"] == {"glove": {"name": "vectors.txt"}}

    (tmp_path / "ladder.json").unlink()  # the runs are still there, and finished
    ladder.main([*arguments, "--only", "crf", "glove"])
    later = json.loads((tmp_path / "ladder.json").read_text())
    assert " ".join(later["command"].split()[-3:]) == "--only crf glove"
    for found in (report, later):
        assert all(each.pop("command") == found["command"] for each in found["rows"].values())
    assert later["rows"] == report["rows"]
    (tmp_path / "ladder.json").write_text(json.dumps(later))  # as an earlier version wrote it

    again: list[str] = []

    def run_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
        again.append(name)
        return report["rows"][name] | {"key": ladder.key(name, options)}

    monkeypatch.setattr(ladder, "run_row", run_row)
    ladder.main([*arguments, "--only", "crf", "glove"])
    assert again == []
    report["machine"]["processor"] = "an older one"
    for row in report["rows"].values():
        row["processor"] = "an older one"
    report["rows"]["crf"].pop("processor")  # as files have it that were made before rows had one
    (tmp_path / "ladder.json").write_text(json.dumps(report))
    ladder.main([*arguments, "--only", "crf"])
    assert "of an older one. Every row" in capsys.readouterr().out
    (tmp_path / "vectors.txt").write_text("ann 1 2\nrome 3 5\n")  # other vectors: another row
    content_of.cache_clear()
    ladder.main([*arguments, "--only", "crf", "glove"])
    assert again == ["glove"]


def test_language_models_are_pretrained_where_they_are_wanted(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def run(command: Any, words: list[str]) -> None:
        commands.append(words)
        output = Path(words[words.index("-o") + 1])
        output.mkdir(parents=True)
        name = {"tokenizer": "tokenizer.json", "corpus": "manifest.json", "pretrain": "metrics.json"}[words[0]]
        (output / name).write_text(json.dumps({"seconds": 60.0, "steps": 7, "tokens": 2_000_000}))

    def run_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
        told = {source: ladder.budget(ladder.sources_of(options)[source]) for source in ladder.ROWS[name].needs}
        figures = {"f1": [0.5], "accuracy": [0.5], "seconds": [1.0], "baseline": 0.1, "parameters": 1}
        return {"key": ladder.key(name, options), "sources": told, **figures}

    monkeypatch.setattr(ladder_models, "run", run)
    monkeypatch.setattr(ladder, "run_row", run_row)
    corpus = tmp_path / "data" / "corpus"
    corpus.mkdir()
    for stem in ladder_models.FILES:
        (corpus / f"{stem}.txt.xz").write_bytes(b"x")
    given = [*arguments, "--prepare-budget", "15m", "--only", "elmo"]
    ladder.main([*given, "--prepare-only"])
    assert [words[0] for words in commands] == ["tokenizer", "corpus", "pretrain"]  # of the one that a row needs
    assert commands[2][commands[2].index("--budget") + 1] == "15m"
    ladder.main([*given, "charlm"])
    assert len(commands) == 6
    page = capsys.readouterr().out
    assert "bilm, 2 M tokens, 1 minutes" in page
    assert "bilm: `--recipe elmo --size 2x128` (word, 200,000), 15m; charlm: " in page
    ladder.main([*arguments, "--prepare-budget", "30m", "--only", "elmo", "--prepare-only"])
    assert len(commands) == 7  # another budget is another model of the same text


def test_every_row_names_sources_that_can_be_given() -> None:
    filled = dict.fromkeys(ladder.SOURCES, "x")
    for row in ladder.ROWS.values():
        whole = " ".join([row.model, *row.settings])
        assert "{" not in whole.format(**filled)
        assert all(f"{{{name}}}" in whole for name in row.needs)


def test_a_source_tells_its_budget(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps({"seconds": 120.0, "steps": 7, "other": 1}))
    assert ladder.budget(str(tmp_path)) == {"name": tmp_path.name, "seconds": 120.0, "steps": 7}
