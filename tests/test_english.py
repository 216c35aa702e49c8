"""How bertworks-en came about: a piece is noted, its weights are put in place, and the card says what the files say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks import english

import bertworks
from bertworks.hub.resolve import ENGLISH_DIRECTORY
from bertworks.train.run import RunOptions, Stepped, pretrain
from tests.test_results_page import made_up
from tests.train.runs import SMALL, make_corpus, run

ROOT = Path(__file__).parents[1]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which other weights were measured."""
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    files = made_up()
    for name in ("cloze", "layers"):
        files[name]["models"]["bertworks-en"] = next(iter(files[name]["models"].values()))
        (tmp_path / f"{name}.json").write_text(json.dumps(files[name]))
        (tmp_path / "docs" / "benchmarks" / f"{name}.md").write_text("of other weights")
    monkeypatch.setattr(english, "RESULTS", tmp_path)
    monkeypatch.setattr(english, "OUTPUT", tmp_path / "english.json")
    monkeypatch.setattr(english, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(english, "ENGLISH_DIRECTORY", tmp_path / "encoders" / "bertworks-en")
    return tmp_path


def add(run: Path, number: int) -> None:
    english.main(["add", str(run), "--command", f"bertworks pretrain {number}", "--note", "a try", "--threads", "1"])


def test_pieces_are_noted_and_their_weights_put_in_place(places: Path) -> None:
    corpus = make_corpus(places, "bert")
    for number, name in enumerate(("one", "two", "two"), start=1):
        run(corpus, places / name, recipe="modern", steps=number, overwrite=True)
        add(places / name, number)
        assert bertworks.load(places / "encoders" / "bertworks-en").fill("a [MASK].")
    pieces = json.loads((places / "english.json").read_text())["pieces"]
    assert [(entry["run"], entry["steps"]) for entry in pieces] == [("one", 1), ("two", 3)]  # the second was noted anew
    assert pieces[1]["held_out"].keys() >= {"mlm_accuracy", "mlm_perplexity"}
    text = (places / "docs" / "bertworks-en.md").read_text()
    assert "```text\nbertworks pretrain 1\nbertworks pretrain 3\n```" in text
    assert "## What it knows\n\nNot measured yet." in text
    assert not re.search(r"\{\w+\}", text)
    assert not (places / "cloze.json").exists()  # it was of other weights, and of this model alone
    assert not (places / "docs" / "benchmarks" / "cloze.md").exists()
    assert list(json.loads((places / "layers.json").read_text())["models"]) == ["minilm"]
    page = (places / "docs" / "benchmarks" / "layers.md").read_text()
    assert "minilm" in page
    assert "bertworks-en" not in page
    assert (places / "encoders" / "bertworks-en" / "README.md").read_text() == english.HEADER + "\n" + text


def test_of_a_run_that_is_not_over_it_is_the_last_checkpoint(places: Path) -> None:
    corpus = make_corpus(places, "bert")
    events = pretrain(
        RunOptions(
            corpus=corpus,
            output=places / "run",
            recipe="modern",
            settings=(*SMALL, "train.checkpoint_steps=2", "train.evaluation.steps=1"),
            steps=9,
            track=(),
        )
    )
    for event in events:
        if isinstance(event, Stepped) and event.report.step == 3:
            break
    events.close()
    add(places / "run", 1)
    (piece,) = json.loads((places / "english.json").read_text())["pieces"]
    assert (piece["steps"], piece["held_out"]["step"]) == (2, 2)


def test_the_same_weights_keep_their_figures(places: Path) -> None:
    run(make_corpus(places, "bert"), places / "run", recipe="modern", steps=1)
    add(places / "run", 1)
    layers = made_up()["layers"]
    layers["models"]["bertworks-en"] = layers["models"]["minilm"]
    (places / "layers.json").write_text(json.dumps(layers))
    before = english.weights()
    add(places / "run", 2)
    assert english.weights() == before == json.loads((places / "english.json").read_text())["weights"]
    assert "bertworks-en" in json.loads((places / "layers.json").read_text())["models"]
    (places / "english.json").write_text('{"benchmark": "english", "pieces": []}')  # not told whose the figures are
    add(places / "run", 3)
    assert "bertworks-en" not in json.loads((places / "layers.json").read_text())["models"]


def test_the_card_has_what_was_measured(places: Path) -> None:
    run(make_corpus(places, "bert"), places / "run", recipe="modern", steps=1)
    add(places / "run", 1)
    for name in ("cloze", "encoders", "leanings"):
        (places / f"{name}.json").write_text(json.dumps(made_up()[name]))
    english.main(["card"])
    text = (places / "docs" / "bertworks-en.md").read_text()
    assert "Not measured yet" not in text
    assert "Benchmark:" not in text
    for part in ("the five most frequent words", "| CoNLL-2003 | f1 |", "nurse", "sequences of at most 128 tokens"):
        assert part in text


def test_a_checkpoint_in_the_meantime_is_told(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(make_corpus(places, "bert"), places / "run", recipe="modern", steps=1)
    steps = iter((1, 2))
    told = english.piece
    monkeypatch.setattr(english, "piece", lambda *given: {**told(*given), "steps": next(steps)})
    with pytest.raises(SystemExit, match="has written a checkpoint in the meantime"):
        add(places / "run", 1)


def test_a_card_of_nothing(places: Path) -> None:
    with pytest.raises(SystemExit, match="no piece of the training is noted yet"):
        english.main(["card"])


def test_a_run_without_figures_is_refused_before_anything_changes(places: Path) -> None:
    corpus = make_corpus(places, "bert")
    run(corpus, places / "run", "data.held_out_tokens=0", recipe="modern", steps=1)
    with pytest.raises(SystemExit, match="was judged on held-out text at least once"):
        add(places / "run", 1)
    assert not (places / "english.json").exists()
    assert not (places / "encoders").exists()


def test_the_card_is_that_of_the_files() -> None:
    """`benchmarks.english card` was run after the last measurement."""
    report = json.loads((ROOT / "benchmarks" / "results" / "english.json").read_text(encoding="utf-8"))
    text = english.card(report)
    assert (ROOT / "docs" / "bertworks-en.md").read_text(encoding="utf-8") == text
    assert (ENGLISH_DIRECTORY / "README.md").read_text(encoding="utf-8") == english.HEADER + "\n" + text


def test_what_is_shipped() -> None:
    """A Hugging Face directory of at most 25 MB, whose card has a licence."""
    names = {path.name for path in ENGLISH_DIRECTORY.iterdir()}
    assert names >= {"int8.safetensors", "bertworks.json", "README.md"}
    assert names >= {"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"}
    assert sum(path.stat().st_size for path in ENGLISH_DIRECTORY.iterdir()) < 25e6
    assert "license: apache-2.0" in (ENGLISH_DIRECTORY / "README.md").read_text(encoding="utf-8")
