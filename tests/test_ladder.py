"""The ladder of taggers on a few sentences: rows run, are not run twice, and say what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import ladder

from tests.finetune.test_words import SMALL, tagged_lines


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

    monkeypatch.setattr(ladder, "run_row", lambda *_: pytest.fail("was done already"))
    ladder.main([*arguments, "--only", "crf", "glove"])


def test_every_row_names_sources_that_can_be_given() -> None:
    filled = dict.fromkeys(ladder.SOURCES, "x")
    for row in ladder.ROWS.values():
        whole = " ".join([row.model, *row.settings])
        assert "{" not in whole.format(**filled)
        assert all(f"{{{name}}}" in whole for name in row.needs)


def test_a_source_tells_its_budget(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps({"seconds": 120.0, "steps": 7, "other": 1}))
    assert ladder.budget(str(tmp_path)) == {"name": tmp_path.name, "seconds": 120.0, "steps": 7}
