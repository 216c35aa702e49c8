"""Recurrent language models: recipes, exact resume and accumulation, what they cost, going on as ULMFiT does."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks import hub
from bertworks.errors import ConfigError, ModelError, UsageError
from bertworks.models.config import RecurrentConfig
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.architecture import ModelSection, new_config
from bertworks.train.config import OptimizerConfig
from bertworks.train.describe import how_made
from bertworks.train.optim import make_optimizer, parameter_groups
from bertworks.train.plan import flops_per_token
from bertworks.train.recipes import load_recipe
from bertworks.train.recurrent import SHAPES, RecurrentSection, parse_shape
from bertworks.train.run import Note, Planned, RunOptions, Stepped, Stopped, pretrain
from tests.text import tiny
from tests.train.runs import finished, losses, make_corpus, run

SMALL = "model.size=2x24"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("corpora"), "bert")


@pytest.fixture(scope="module")
def language_model(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("pretrained") / "run"
    run(corpus, output, SMALL, "model.embedding_size=16", recipe="lstm", steps=5)
    return output


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def section(family: str = "lstm", size: str = "2x24", **options: Any) -> ModelSection:
    return ModelSection(family=family, size=size, **options)


# -- recipes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["rnn", "lstm", "gru"])
def test_every_recipe_ends_in_a_language_model(recipe: str, corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    events = run(corpus, output, SMALL, recipe=recipe, steps=30)
    plan = next(event for event in events if isinstance(event, Planned))
    assert plan.model == f"{recipe} 2x24"
    result = finished(events)
    assert result.metrics["lm_perplexity"] == pytest.approx(np.exp(result.metrics["loss"]))
    seen = losses(events)
    assert np.mean(seen[-5:]) < np.mean(seen[:5]) - 0.2
    loaded = hub.load(output)
    body = loaded.model.config.body
    assert isinstance(body, RecurrentConfig)
    assert (body.cell, body.hidden_size, body.num_hidden_layers) == (recipe, 24, 2)
    assert tuple(loaded.model.heads) == ("lm",)
    assert loaded.model.head("lm").output is None  # it is the token table
    vectors = bertworks.load(output).embed(["The river runs.", ""])
    assert vectors.shape == (2, 24)
    assert how_made(output)["recipe"].startswith(recipe.upper())
    page, card = ((output / name).read_text(encoding="utf-8") for name in ("report.html", "README.md"))
    assert "How far the gradient reaches back" in page
    assert card.startswith("---\nlibrary_name: bertworks\npipeline_tag: text-generation\n")
    assert "transformers" not in card
    reach = json.loads((output / "metrics.json").read_text())["gradient_reach"]
    assert reach["trained"][0] == reach["untrained"][0] == 1.0


def test_stopped_and_resumed_is_the_same(corpus: Path, tmp_path: Path) -> None:
    """With every kind of dropout, an average, and several micro-batches a step."""
    dropouts = [f"model.recurrent.{place}_dropout=0.3" for place in ("input", "output", "embedding", "weight")]
    settings = (SMALL, *dropouts, "model.dropout=0.3", "train.ema=0.9", "train.micro_tokens=200")
    whole = run(corpus, tmp_path / "whole", *settings, recipe="lstm", steps=6)
    stop = threading.Event()
    output = tmp_path / "stopped"
    options = RunOptions(
        corpus=corpus,
        output=output,
        recipe="lstm",
        steps=6,
        settings=(*settings, "train.batch_tokens=512", "train.log_steps=1", "train.optimizer.learning_rate=2e-3"),
        track=(),
    )
    for event in pretrain(options, stop=stop):
        if isinstance(event, Stepped) and event.report.step == 2:
            stop.set()
    assert isinstance(event, Stopped)
    rest = list(pretrain(RunOptions(corpus=corpus, output=output, resume=True, track=())))
    assert losses(rest) == losses(whole)[-len(losses(rest)) :]
    ours, theirs = (dict(hub.load(path).model.named_parameters()) for path in (output, tmp_path / "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_micro_batches_change_nothing(corpus: Path, tmp_path: Path) -> None:
    still = ("model.dropout=0", "model.recurrent.input_dropout=0", "model.recurrent.output_dropout=0")
    one = run(corpus, tmp_path / "one", SMALL, *still, "train.micro_tokens=4096", recipe="gru", steps=4)
    many = run(corpus, tmp_path / "many", SMALL, *still, "train.micro_tokens=70", recipe="gru", steps=4)
    np.testing.assert_allclose(losses(one), losses(many), rtol=1e-5)


# -- shapes and costs --------------------------------------------------------------------------------------------------


def test_shapes() -> None:
    assert parse_shape("3x400") == (3, 400)
    assert parse_shape("base") == (3, 1152)
    assert SHAPES.keys() == {"tiny", "mini", "small", "medium", "base", "large"}
    for size in ("3x400x2", "huge", "0x12"):
        with pytest.raises(ConfigError, match=r"model\.size is .*allowed for rnn, lstm, gru: .* LAYERSxWIDTH"):
            section(size=size)


def test_tables_are_tied_or_not() -> None:
    tokenizer = Tokenizer(tiny.bert())
    count = tokenizer.vocab_size

    def parameters(**options: Any) -> int:
        return sum(weight.numel() for weight in Model(new_config(section(**options), tokenizer, ("lm",))).parameters())

    layers = 2 * 4 * 24 * (24 + 24 + 2)
    assert parameters() == count * 24 + layers + count  # table, layers, output bias
    assert parameters(recurrent=RecurrentSection(tied=False)) == 2 * count * 24 + layers + count
    narrow = 4 * 24 * (10 + 24 + 2) + 4 * 24 * (24 + 24 + 2)
    assert parameters(embedding_size=10) == count * 10 + narrow + (24 * 10 + 10) + count


def test_operations_by_hand() -> None:
    tokenizer = Tokenizer(tiny.bert())
    for family, gates in (("rnn", 1), ("gru", 3), ("lstm", 4)):
        config = new_config(section(family, embedding_size=10), tokenizer, ("lm",))
        layers = gates * 24 * (10 + 24) + gates * 24 * (24 + 24)
        head = 24 * 10 + 10 * tokenizer.vocab_size
        assert flops_per_token(config, 50, predicted=1.0) == 6 * (layers + head)


def test_lower_layers_learn_slower() -> None:
    model = Model(new_config(section(embedding_size=10), Tokenizer(tiny.bert()), ("lm",)))
    groups = parameter_groups(model, OptimizerConfig(learning_rate=1.0, layer_decay=0.5))
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    by_name = {name: rates[id(parameter)] for name, parameter in model.named_parameters()}
    assert by_name["body.embeddings.tokens.weight"] == 0.125
    assert by_name["body.recurrent.layers.0.weight_hh_l0"] == 0.25
    assert by_name["body.recurrent.layers.1.bias_ih_l0"] == 0.5
    assert by_name["heads.lm.output_bias"] == by_name["heads.lm.transform.dense.weight"] == 1.0


def test_muon_turns_each_gate() -> None:
    model = Model(new_config(section("gru", embedding_size=10), Tokenizer(tiny.bert()), ("lm",)))
    config = OptimizerConfig(name="muon")
    parts = {group["parts"] for group in parameter_groups(model, config) if group["parts"]}
    assert parts == {3}
    optimizer = make_optimizer(model, config)
    model.logits(Packed.from_sequences([[5, 6, 7]]), "lm").square().sum().backward()
    before = model.body.blocks[0].weight_hh_l0.detach().clone()
    optimizer.step()
    assert not torch.equal(before, model.body.blocks[0].weight_hh_l0)


# -- going on ----------------------------------------------------------------------------------------------------------


def test_going_on_is_ulmfits_second_step(language_model: Path, corpus: Path, tmp_path: Path) -> None:
    before = hub.load(language_model).model
    events = run(corpus, tmp_path / "adapted", recipe=None, start=str(language_model), steps=4)
    again = hub.load(tmp_path / "adapted").model
    assert again.config == before.config
    assert not [event for event in events if isinstance(event, Note) and "head" in event.text]
    recipe = load_recipe(tmp_path / "adapted" / "config.toml")
    assert recipe.about.startswith("ULMFiT")
    assert recipe.train.optimizer.layer_decay == 0.385
    assert (recipe.model.family, recipe.model.size) == ("lstm", "2x24")
    first = next(event for event in events if isinstance(event, Stepped))
    scratch = run(corpus, tmp_path / "scratch", SMALL, recipe="lstm", steps=1)
    assert first.loss < losses(scratch)[0]  # it begins with what it knew


def test_what_does_not_go(language_model: Path, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not go with .*: a lstm has no 'mlm' head"):
        run(corpus, tmp_path / "a", recipe="bert", start=str(language_model))
    with pytest.raises(UsageError, match="gradient_checkpointing is for Transformers"):
        run(corpus, tmp_path / "b", SMALL, "train.gradient_checkpointing=true", recipe="lstm")
    with pytest.raises(ModelError, match="a gru has no 'mlm' head"):
        run(corpus, tmp_path / "c", SMALL, "model.family=gru", recipe="bert")
    teacher = RunOptions(
        corpus=corpus, output=tmp_path / "d", command="distill", teacher=str(language_model), steps=1, track=()
    )
    with pytest.raises(ModelError, match="this is for Transformers"):
        list(pretrain(replace(teacher, settings=("model.size=half",))))
