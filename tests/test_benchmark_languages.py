"""The benchmarks of translators and of language models with tiny or stubbed work: nothing twice, and nothing stale."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from benchmarks import language_models, translate
from benchmarks.keys import content_of

from tests.test_benchmark_mains import write_sst2
from tests.train.runs import make_corpus


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    for module in (language_models, translate):
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    content_of.cache_clear()


def test_a_translator_is_trained_again_where_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, commands = tmp_path / "data", []
    (data / "multi30k").mkdir(parents=True)
    for name in ("train.en", "train.de", "val.en", "val.de"):
        (data / "multi30k" / name).write_text(name)

    def run(command: list[str], check: bool) -> None:
        commands.append(command)
        output = Path(command[command.index("-o") + 1])
        output.mkdir(parents=True)
        (output / "metrics.json").write_text("{}")

    found = {"sentences": 2, "model": "m", "train_seconds": 60.0, "steps": 7, "parameters": 9}
    speed = {"bleu": 30.0, "sentences_per_second": 5.0}
    monkeypatch.setattr(translate, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(translate, "judge", lambda *_: {**found, "greedy": speed, "beam 5": speed})
    output = tmp_path / "translate.json"

    def main(*arguments: str) -> list[str]:
        content_of.cache_clear()
        translate.main([*arguments, "--threads", "1", "--data", str(data), "--output", str(output), "--write-docs"])
        return list(json.loads(output.read_text())["rows"])

    assert main("transformer", "luong") == ["transformer", "luong"]
    assert main("transformer") == ["transformer", "luong"]
    assert len(commands) == 2  # nothing twice
    main("transformer", "--budget", "5m")
    assert len(commands) == 3
    assert commands[-1][commands[-1].index("--budget") + 1] == "5m"
    page = (tmp_path / "docs" / "benchmarks" / "translate.md").read_text()
    assert "| GRU, Luong's attention | test2016 |" in page
    changed = dataclasses.replace(translate.ROWS["luong"], settings=("model.attention=luong", "train.epochs=3"))
    monkeypatch.setitem(translate.ROWS, "luong", changed)
    assert main("transformer", "--budget", "5m") == ["transformer"]  # what another recipe reached is left out
    (data / "multi30k" / "train.de").write_text("other pairs")
    main("transformer", "--budget", "5m")
    assert len(commands) == 4


def test_language_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = make_corpus(tmp_path, "bert")
    monkeypatch.setattr(language_models, "SIZES", {"lstm": "1x16", "gpt": "1x24x3"})
    monkeypatch.setattr(language_models, "corpus_directory", lambda name, data: corpus)
    output = tmp_path / "language_models.json"
    given = ["--budget", "1s", "--task-budget", "1s", "--epochs", "1", "--seeds", "1", "--threads", "1"]
    given += ["--data", str(write_sst2(tmp_path / "data")), "--output", str(output), "--write-docs"]
    language_models.main(given)
    page = (tmp_path / "docs" / "benchmarks" / "language_models.md").read_text()
    assert capsys.readouterr().out.endswith(page + "\n")
    assert "| LSTM | lstm 1x16 |" in page
    assert "24 sentences, 1 epochs" in page
    report: dict[str, Any] = json.loads(output.read_text())
    assert list(report["classifiers"]) == ["scratch", "pretrained", "ulmfit", "gpt"]
    assert all(len(each["accuracy"]) == 1 for each in report["classifiers"].values())
    seconds = [each["pretraining_seconds"] for each in report["classifiers"].values()]
    assert seconds[0] == 0 < seconds[1] < seconds[2]
    assert report["models"]["lstm"]["perplexity"] > 1
    monkeypatch.setattr(language_models, "run", lambda *_: pytest.fail("was done already"))
    language_models.main(given)
