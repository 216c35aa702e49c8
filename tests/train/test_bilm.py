"""Whole runs of the recipes elmo and charlm: figures, exact resume, what comes out of them, and corpora that do not fit."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import bertworks
from bertworks.data.corpus import CorpusOptions, LocalEngine, build_corpus
from bertworks.errors import UsageError
from bertworks.infer.bilm import LoadedBiLM
from bertworks.models.elmo_config import BiLMConfig
from bertworks.text.train import TrainerOptions, train_tokenizer
from bertworks.train.events import Stopped
from bertworks.train.run import RunOptions, Stepped, pretrain
from tests.data.corpus_helpers import many, write_documents
from tests.train.runs import finished, make_corpus, run, timeless

SMALL = {
    "elmo": ("model.size=2x12", "model.bilm.cell_size=20", "model.bilm.filters=[4,6]", "model.bilm.vocab_size=40"),
    "charlm": ("model.size=1x12", "model.embedding_size=7"),
}
KINDS = {"elmo": "word", "charlm": "character"}


@pytest.fixture(scope="module", params=list(SMALL))
def recipe(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("corpora")
    documents = many(60)
    file = write_documents(folder / "texts.txt", documents)
    for name, algorithm in KINDS.items():
        options = TrainerOptions.of(algorithm, vocab_size=200, min_frequency=1)
        train_tokenizer(file.read_text().split("\n"), options).save(folder / algorithm)
        build_corpus([str(file)], folder / algorithm, folder / name, CorpusOptions(), engine=LocalEngine(1))
    return {name: folder / name for name in KINDS}


def small(recipe: str) -> tuple[str, ...]:
    return (*SMALL[recipe], "data.sequence_length=24")


def test_a_run_makes_a_source_of_vectors(recipe: str, corpora: dict[str, Path], tmp_path: Path) -> None:
    faster = "train.optimizer.learning_rate=2e-2"
    result = finished(run(corpora[recipe], tmp_path / "run", *small(recipe), faster, recipe=recipe, steps=12))
    metrics = result.metrics
    first = next(line for line in timeless(tmp_path / "run") if line["step"] == 0)
    assert metrics["loss"] < first["held_out_loss"]
    assert first["held_out_loss"] == pytest.approx(result.baseline["loss"], abs=0.7)  # it begins with the frequencies
    for direction in ("forward", "backward"):
        assert metrics[f"{direction}_perplexity"] == pytest.approx(np.exp(metrics[f"{direction}_loss"]))
        assert 0.0 <= metrics[f"{direction}_accuracy"] <= 1.0
    assert metrics["loss"] == pytest.approx((metrics["forward_loss"] + metrics["backward_loss"]) / 2)
    assert 0.0 < result.baseline["loss"] < 8.0
    loaded = bertworks.load(tmp_path / "run")
    assert isinstance(loaded, LoadedBiLM)
    assert loaded.name == "run"
    sentences = [["Ada", "wrote", "unheard-of", "words", "."]]
    vectors = loaded.vectors(sentences)[0]
    assert vectors.shape == ((3, 5, 24) if recipe == "elmo" else (1, 5, 24))
    again = bertworks.load(tmp_path / "run")
    assert isinstance(again, LoadedBiLM)
    assert np.array_equal(vectors, again.vectors(sentences)[0])
    report = (tmp_path / "run" / "report.html").read_text()
    assert "forward perplexity" in report
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["task"] == "bilm"


def test_a_resumed_run_is_the_same_to_the_last_bit(recipe: str, corpora: dict[str, Path], tmp_path: Path) -> None:
    settings = (
        *small(recipe),
        "model.dropout=0.2",
        "train.evaluation.steps=3",
        "train.log_steps=1",
        "train.batch_tokens=300",
        "objective.softmax_words=16",
    )

    def options(output: Path, **more: object) -> RunOptions:
        return RunOptions(
            corpus=corpora[recipe], output=output, recipe=recipe, settings=settings, track=(), **{"steps": 6, **more}
        )

    list(pretrain(options(tmp_path / "whole")))
    stop = threading.Event()
    for event in pretrain(options(tmp_path / "parts"), stop=stop):
        if isinstance(event, Stepped) and event.report.step == 2:
            stop.set()
    assert isinstance(event, Stopped)
    list(pretrain(RunOptions(corpus=corpora[recipe], output=tmp_path / "parts", resume=True, track=())))
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
    assert timeless(tmp_path / "whole") == timeless(tmp_path / "parts")


def test_it_goes_on_with_a_model(recipe: str, corpora: dict[str, Path], tmp_path: Path) -> None:
    run(corpora[recipe], tmp_path / "first", *small(recipe), recipe=recipe, steps=2)
    events = run(
        corpora[recipe],
        tmp_path / "second",
        "data.sequence_length=24",
        recipe=recipe,
        steps=2,
        start=str(tmp_path / "first"),
    )
    first, second = (bertworks.load(tmp_path / name).model.config for name in ("first", "second"))
    assert first == second
    assert finished(events).metrics["loss"] > 0


def test_the_words_that_are_predicted(corpora: dict[str, Path], tmp_path: Path) -> None:
    run(corpora["elmo"], tmp_path / "run", *small("elmo"), recipe="elmo", steps=1)
    loaded = bertworks.load(tmp_path / "run")
    body = loaded.model.config.body
    assert isinstance(body, BiLMConfig)
    assert (body.vocab_size, body.unknown_id) == (40, loaded.tokenizer.unk_id)
    assert loaded.tokenizer.vocab_size > 40
    assert body.describe() == "elmo 2x12"


def test_a_corpus_of_other_tokens_is_refused(recipe: str, corpora: dict[str, Path], tmp_path: Path) -> None:
    pieces = make_corpus(tmp_path, "bert")
    with pytest.raises(UsageError, match=f"--algorithm {KINDS[recipe]}"):
        run(pieces, tmp_path / "run", *small(recipe), recipe=recipe)
    other = corpora["charlm" if recipe == "elmo" else "elmo"]
    with pytest.raises(UsageError, match=f"--algorithm {KINDS[recipe]}"):
        run(other, tmp_path / "run", *small(recipe), recipe=recipe)


def test_a_model_that_spells_its_words_has_no_use_for_them(corpora: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is for models with a table of token vectors, and the model is elmo"):
        run(corpora["elmo"], tmp_path / "run", *small("elmo"), "model.first_vectors=skipgram", recipe="elmo", steps=1)
