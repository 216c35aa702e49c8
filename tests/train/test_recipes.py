"""Recipes: the files say what the papers say, every field can be overridden, and each makes the model it promises."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from bertworks.config import from_dict, to_dict, to_toml
from bertworks.errors import ConfigError, UsageError
from bertworks.hub.families import FAMILIES, new_head
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.architecture import (
    NEW_FAMILIES,
    SIZES,
    ModelSection,
    Size,
    feed_forward_size,
    generator_config,
    narrowed,
    new_config,
    parse_size,
)
from bertworks.train.plan import flops_per_token, steps_within
from bertworks.train.recipes import CONTINUE_RECIPE, DISTILL_RECIPE, RECIPES, ULMFIT_RECIPE, Recipe, load_recipe
from tests.text import tiny

ALL = (*RECIPES, DISTILL_RECIPE, CONTINUE_RECIPE, ULMFIT_RECIPE)


@pytest.mark.parametrize("name", ALL)
def test_every_recipe_is_a_file_that_round_trips(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.about
    assert from_dict(Recipe, to_dict(recipe)) == recipe
    assert from_dict(Recipe, tomllib.loads(to_toml(recipe))) == recipe
    text = files("bertworks.train").joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    assert text.startswith("# ")  # it says what it follows


def test_there_is_no_recipe_without_a_name() -> None:
    folder = files("bertworks.train").joinpath("recipes")
    assert sorted(path.name.removesuffix(".toml") for path in folder.iterdir()) == sorted(ALL)


def test_robertas_five_changes() -> None:
    bert, roberta = load_recipe("bert"), load_recipe("roberta")
    assert (bert.objective.masking.copies, roberta.objective.masking.copies) == (10, None)
    assert (bert.data.sequence_length, roberta.data.sequence_length) == (128, 512)
    assert (bert.objective.pairs, roberta.objective.pairs) == ("nsp", "none")
    assert (bert.data.tokenizer, roberta.data.tokenizer) == ("wordpiece", "byte-bpe")
    assert roberta.train.batch_tokens > bert.train.batch_tokens


def test_fields_are_overridden() -> None:
    settings = ("train.checkpoint_steps=10", "objective.masking.rate=0.4", "model.size=3x96x4", "train.ema=0.99")
    recipe = load_recipe("modern", settings)
    assert recipe.train.checkpoint_steps == 10
    assert recipe.objective.masking.rate == 0.4
    assert recipe.objective.masking.final_rate == 0.15  # the recipe's own stays
    assert recipe.model.size == "3x96x4"
    assert recipe.train.ema == 0.99


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('about = "mine"\n[data]\nsequence_length = 77\n', encoding="utf-8")
    assert load_recipe(path).data.sequence_length == 77
    path.write_text("[data]\nsequence_lenght = 77\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine.toml: .*did you mean 'sequence_length'"):
        load_recipe(path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_recipe(tmp_path / "none.toml")
    with pytest.raises(UsageError, match=r"unknown recipe 'burt' \(did you mean 'bert'\?\)"):
        load_recipe("burt")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("data.long_sequence_length=64", "must be above data.sequence_length = 128"),
        ("data.long_share=1.5", "between 0 and 1"),
        ("data.sequence_length=2", "at least 8"),
        ("data.held_out_tokens=-1", "at least 0"),
        ("model.generator_factor=0", "above 0 and at most 1"),
    ],
)
def test_values_that_cannot_be(settings: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_recipe("modern", (settings,))


# -- sizes and models --------------------------------------------------------------------------------------------------


def test_sizes() -> None:
    assert {name: str(size) for name, size in SIZES.items()} == {
        "tiny": "2x128x2",
        "mini": "4x256x4",
        "small": "4x512x8",
        "medium": "8x512x8",
        "base": "12x768x12",
        "large": "24x1024x16",
    }
    assert parse_size("3x384x12") == Size(3, 384, 12)
    for text in ("3x384", "huge", "3x384x0", "3x100x7", "0x8x2"):
        with pytest.raises(ConfigError, match=r"model\.size"):
            parse_size(text)


def test_feed_forward_sizes() -> None:
    assert feed_forward_size(768, gated=False) == 3072
    assert feed_forward_size(768, gated=True) == 2048
    assert feed_forward_size(256, gated=True) == 704  # 682.7, to the next multiple of 64
    assert feed_forward_size(16, gated=True) == 64


def test_base_is_bert_base() -> None:
    """110 million parameters with the published vocabulary; ours is smaller, the rest is the same."""
    tokenizer = Tokenizer(tiny.bert())
    section = ModelSection(family="bert", size="base", type_vocab_size=2)
    model = Model(new_config(section, tokenizer, ("mlm",)))
    body = sum(p.numel() for name, p in model.named_parameters() if name.startswith("body."))
    assert body == 108_891_648 - (30_522 - tokenizer.vocab_size) * 768  # BERT-base without its pooler


@pytest.mark.parametrize("family", NEW_FAMILIES)
def test_new_models_can_be_written(family: str) -> None:
    kind = {"gpt2": "gpt2", "roberta": "roberta", "mpnet": "roberta"}.get(family, "bert")
    tokenizer = Tokenizer(tiny.KINDS[kind]())
    section = ModelSection(family=family, size="3x24x2", embedding_size=10, max_position_embeddings=40, dropout=0.05)
    config = new_config(section, tokenizer, ("lm",) if family == "gpt2" else ("mlm",))
    body = config.body
    assert (body.num_hidden_layers, body.layer.hidden_size, body.layer.num_attention_heads) == (3, 24, 2)
    assert body.positions.max_position_embeddings == 40
    assert body.embeddings.vocab_size == tokenizer.vocab_size
    layer = body.layer
    assert layer.attention_dropout_prob == 0.05
    if family == "modernbert":  # its sites are others
        sites = (body.embeddings.dropout_prob, layer.attention_output_dropout_prob, layer.feed_forward_dropout_prob)
        assert (sites, layer.hidden_dropout_prob) == ((0.05, 0.05, 0.05), 0.0)
    else:
        assert (layer.hidden_dropout_prob, layer.feed_forward_dropout_prob) == (0.05, 0.0)
    assert body.embedding_size == (10 if family in ("albert", "electra") else 24)
    assert len(Model(config).body.blocks) == (1 if family == "albert" else 3)
    FAMILIES[family].write_config(config)  # an error where it could not be written


def test_a_new_modernbert_is_fine_tuned_on_the_mean_of_its_tokens() -> None:
    config = new_config(ModelSection(family="modernbert", size="3x24x2"), Tokenizer(tiny.bert()), ("mlm",))
    assert FAMILIES["modernbert"].write_config(config)["classifier_pooling"] == "mean"
    assert new_head(config, "classify", 2).reads == "mean"


def test_electras_generator() -> None:
    tokenizer = Tokenizer(tiny.bert())
    section = ModelSection(family="electra", size="3x64x4", embedding_size=20, generator_factor=0.5)
    whole, part = new_config(section, tokenizer, ("rtd",)), generator_config(section, tokenizer)
    assert (part.body.layer.hidden_size, part.body.layer.num_attention_heads) == (32, 2)
    assert part.body.layer.intermediate_size == 128
    assert part.body.num_hidden_layers == 3
    assert part.body.embedding_size == whole.body.embedding_size == 20
    # Where the embeddings are as wide as the model, the generator's are as wide as the model's.
    plain = ModelSection(family="electra", size="3x64x4", generator_factor=0.25)
    assert generator_config(plain, tokenizer).body.embedding_size == 64


def test_a_students_shape() -> None:
    tokenizer = Tokenizer(tiny.bert())
    teacher = new_config(ModelSection(family="bert", size="4x24x3", intermediate_size=48), tokenizer, ("mlm",))
    student = narrowed(teacher, Size(2, 16, 2))
    assert student.body.layer.intermediate_size == 32
    assert student.heads == ()
    FAMILIES["bert"].write_config(student)


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_operations_by_hand() -> None:
    """2 layers of width 4, inner width 16, sequences of 8 tokens, a vocabulary of V at a quarter of the places."""
    tokenizer = Tokenizer(tiny.bert())
    config = new_config(ModelSection(family="bert", size="2x4x2"), tokenizer, ("mlm",))
    layer = 6 * (4 * 4 * 4 + 2 * 4 * 16) + 12 * 8 * 4
    head = 6 * (4 * 4 + 4 * tokenizer.vocab_size) * 0.25
    assert flops_per_token(config, 8, predicted=0.25) == pytest.approx(2 * layer + head)


def test_layers_are_paid_for_however_they_are_shared() -> None:
    tokenizer = Tokenizer(tiny.bert())
    shared = new_config(ModelSection(family="albert", size="4x16x2", embedding_size=16), tokenizer, ())
    own = new_config(ModelSection(family="bert", size="4x16x2"), tokenizer, ())
    project = 6 * 16 * 16
    expected = flops_per_token(own, 32, predicted=0.1) + project
    assert flops_per_token(shared, 32, predicted=0.1) == pytest.approx(expected)


def test_steps_within_a_budget() -> None:
    assert steps_within(100.0, 2.0, per_evaluation=0.5) == (46, 5)  # (98 - 5) / 2, ten evaluations
    assert steps_within(100.0, 2.0, per_evaluation=3.0) == (44, 15)  # a tenth of the time is for three evaluations
    assert steps_within(0.1, 2.0, per_evaluation=1.0) == (1, 1)


def test_steps_within_a_budget_with_evaluations_as_asked_for() -> None:
    assert steps_within(100.0, 2.0, per_evaluation=3.0, every=0) == (49, 0)
    assert steps_within(100.0, 2.0, per_evaluation=3.0, every=1) == (19, 1)  # (98 - 3) / (2 + 3)
    assert steps_within(100.0, 2.0, per_evaluation=3.0, every=1_000_000) == (47, 1_000_000)  # the last one alone
