"""Fine-tuning recurrent models: ULMFiT's way from a language model, and new BiLSTMs that nobody has pretrained."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import bertworks
from bertworks import hub
from bertworks.config import override
from bertworks.errors import ConfigError, UsageError
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.defaults import suited
from bertworks.finetune.events import Fitted, Stepped, Stopped
from bertworks.finetune.fit import TrainingData, fit
from bertworks.finetune.run import FinetuneOptions, finetune
from bertworks.models.config import RecurrentConfig
from bertworks.models.model import Model
from bertworks.tasks.attach import attach
from bertworks.tasks.classification import Classification
from bertworks.tasks.tagging import Tagging
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.architecture import ModelSection, new_config
from tests.finetune import small
from tests.finetune.small import assert_same_run, examples, finished, options, run
from tests.tasks.small import make_tokenizer, tagged

TASK = Classification(labels=("quick", "still"))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def language_model(kind: str = "bert", cell: str = "lstm", **more: Any) -> tuple[Model, Tokenizer]:
    tokenizer = make_tokenizer(kind)
    torch.manual_seed(4)
    section = ModelSection(family=cell, size="2x16", embedding_size=12, max_position_embeddings=60, dropout=0.1, **more)
    return Model(new_config(section, tokenizer, ("lm",))), tokenizer


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    found = small.make_files(folder)
    hub.save(*language_model(), folder / "lm")
    return {**found, "model": folder / "lm"}


# -- from a language model ---------------------------------------------------------------------------------------------


def test_a_language_model_becomes_a_classifier(files: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "run"
    events = run(
        files, output, "train.epochs=20", "train.optimizer.learning_rate=2e-2", "train.optimizer.layer_decay=1"
    )
    assert finished(events).figures["accuracy"] > 0.7
    loaded = hub.load(output)
    assert [head.reads for head in loaded.model.config.heads] == ["concat"]
    given = [example.text for example in examples(16, seed=1)]
    said = [json.loads(line) for line in (output / "predictions.jsonl").read_text().splitlines()]
    predictions = bertworks.load(output).predict(given)
    assert [prediction.label for prediction in predictions] == [line["label"] for line in said]
    assert "library_name: bertworks" in (output / "README.md").read_text()


def test_ulmfits_settings_are_the_defaults(files: dict[str, Path]) -> None:
    model, _ = language_model()
    config = suited(TASK, 500, model)
    assert config.method.gradual_unfreezing == 0.2
    assert config.train.optimizer.layer_decay == 0.385
    assert config.train.optimizer.betas == (0.7, 0.99)
    assert config.train.schedule.final == 1 / 32
    fresh = suited(TASK, 500, model, fresh=True)
    assert fresh.method.gradual_unfreezing == 0.0
    assert fresh.train.optimizer.layer_decay == 1.0
    assert suited(TASK, 5000, model).train.epochs < config.train.epochs


def test_layers_join_from_the_top() -> None:
    model, tokenizer = language_model()
    config = override(FinetuneConfig(), [*small.QUICK, "train.epochs=1", "method.gradual_unfreezing=1.0"])
    changed: list[set[str]] = []
    events = fit(TASK, TrainingData(examples(32), window=32), model, tokenizer, config)
    before = dict(model.named_parameters())
    for event in events:
        if isinstance(event, Fitted):
            after = dict(event.model.named_parameters())
            changed.append(
                {name for name in before.keys() & after.keys() if not torch.equal(before[name], after[name])}
            )
    # Four steps and four parts: head, second layer, first layer, token vectors; the last one joins after the end.
    assert changed == [{name for name in before if name.startswith("body.recurrent.layers")}]


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_language_model_tags(kind: str) -> None:
    model, tokenizer = language_model(kind)
    task = Tagging.for_examples("tag", tagged())
    config = override(FinetuneConfig(), [*small.QUICK, "train.epochs=100", "train.optimizer.learning_rate=3e-2"])
    *_, event = fit(task, TrainingData(tagged(), tagged(), window=40), model, tokenizer, config)
    assert isinstance(event, Fitted)
    assert event.figures["accuracy"] > 0.8  # 0.75 of the words have no name


def test_marks_where_the_tokenizer_has_none() -> None:
    """An empty text has a state to read, too."""
    model, tokenizer = language_model("gpt2")
    assert tokenizer.template.num_special(pair=False) == 0
    marked = attach(TASK, model, tokenizer)
    assert marked.template.num_special(pair=False) == 2
    assert model.config.body.embeddings.vocab_size == marked.vocab_size


def test_adapters_are_for_transformers(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lora_rank is for Transformers; the model is lstm 2x16"):
        run(files, tmp_path / "run", "method.lora_rank=2", "method.gradual_unfreezing=0")


# -- new models --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bilstm", "bigru", "birnn"])
def test_a_new_model_learns(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "run"
    given = {**files, "model": Path(name)}
    small_size = ("fresh.size=1x12", "fresh.embedding_size=10", "train.epochs=15", "train.optimizer.learning_rate=1e-2")
    events = run(given, output, *small_size)
    assert finished(events).figures["accuracy"] > 0.8
    body = hub.load(output).model.config.body
    assert isinstance(body, RecurrentConfig)
    assert body.bidirectional
    assert (body.cell, body.hidden_size) == (name.removeprefix("bi"), 12)
    assert bertworks.load(output).predict("river runs mill").label == "quick"
    result = json.loads((output / "metrics.json").read_text())
    assert result["model"] == name


def test_each_seed_draws_its_own_weights_and_a_stopped_run_goes_on(files: dict[str, Path], tmp_path: Path) -> None:
    given = {**files, "model": Path("bilstm")}
    settings = ("fresh.size=1x12", "fresh.embedding_size=10")
    run(given, tmp_path / "whole", *settings, seeds=2)
    first, second = (
        json.loads((tmp_path / "whole" / "seeds" / seed / "outcome.json").read_text()) for seed in ("0", "1")
    )
    assert first["steps"] == second["steps"]
    lines = [(tmp_path / "whole" / "seeds" / seed / "metrics.jsonl").read_text().splitlines()[0] for seed in "01"]
    assert json.loads(lines[0])["loss"] != json.loads(lines[1])["loss"]
    stop = threading.Event()
    last: Any = None
    for event in finetune(options(given, tmp_path / "stopped", *settings, seeds=2), stop=stop):
        last = event
        if isinstance(event, Stepped) and event.report.step == 3:
            stop.set()
    assert isinstance(last, Stopped)
    rest = list(finetune(FinetuneOptions(task="classify", output=tmp_path / "stopped", resume=True, track=())))
    finished(rest)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")


def test_a_new_model_has_no_vectors_to_read(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="bilstm is a new one"):
        run({**files, "model": Path("bilstm")}, tmp_path / "run", frozen=True)
    with pytest.raises(ConfigError, match=r"allowed for rnn, lstm, gru"):
        run({**files, "model": Path("bilstm")}, tmp_path / "run", "fresh.size=12")
