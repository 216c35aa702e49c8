"""What the tables of a family do with old, unusual and unsupported checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bertworks.errors import CheckpointError, ModelError
from bertworks.hub.families import FAMILIES
from bertworks.models.config import (
    EmbeddingConfig,
    HeadConfig,
    LayerConfig,
    ModelConfig,
    PositionConfig,
    TransformerConfig,
)
from bertworks.models.model import Model
from bertworks.nn.attention import make_plan
from bertworks.nn.blocks import Block
from bertworks.nn.packed import Layout
from tests.hub.reference import (
    SIZES,
    assert_close,
    config_of,
    convert,
    load,
    make_reference,
    make_texts,
    randomise,
    shapes_of,
    single_thread,
    unpad,
)


@pytest.fixture(autouse=True)
def _plain_numbers() -> Iterator[None]:
    with single_thread():
        yield


# -- old and unusual files ---------------------------------------------------------------------------------------------


def test_old_spellings_and_buffers() -> None:
    reference = make_reference("bert", "ForPreTraining")
    family = FAMILIES["bert"]
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in reference.state_dict().items()
    }
    tensors["bert.embeddings.position_ids"] = torch.arange(41)[None]
    config = family.read_config({"model_type": "bert"} | SIZES["bert"], shapes_of(tensors))  # not even `architectures`
    model = load(family, config, tensors)
    packed, padded = make_texts(config)
    theirs = reference(**padded)
    assert_close(model.logits(packed, "mlm"), unpad(theirs.prediction_logits, packed.layout))
    assert_close(model.logits(packed, "nsp"), theirs.seq_relationship_logits)


def test_gpt2_as_published_has_no_prefix_and_no_head_tensor() -> None:
    reference = make_reference("gpt2", "LMHeadModel")
    family = FAMILIES["gpt2"]
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in reference.state_dict().items()}
    del tensors["lm_head.weight"]
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 41, 41).tril()
    tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    config = family.read_config(config_of(reference), shapes_of(tensors))
    assert [head.task for head in config.heads] == ["lm"]
    packed, padded = make_texts(config)
    theirs = unpad(reference(**padded).logits, packed.layout)
    assert_close(load(family, config, tensors).logits(packed, "lm"), theirs)


@pytest.mark.parametrize(
    ("family", "architecture", "tied"),
    [("openai-gpt", "DoubleHeadsModel", True), ("bert", "ForMaskedLM", False), ("bert", "ForMaskedLM", True)],
)
def test_a_tensor_under_its_second_name_only(family: str, architecture: str, tied: bool) -> None:
    """Which of two names of one tensor a file keeps differs between versions of `transformers`."""
    reference = make_reference(family, architecture, tie_word_embeddings=tied)
    tables = FAMILIES[family]
    tensors = dict(reference.state_dict())
    config = tables.read_config(config_of(reference), shapes_of(tensors))
    twins = tables.twins(config, True)
    assert twins
    for second, first in twins.items():
        tensors[second] = tensors.pop(first)
    model = load(tables, config, tensors)
    state = {name: value for name, value in model.state_dict().items() if name.endswith(("tokens.weight", "bias"))}
    for rule in tables.rules(config, True, tensors.keys()):
        if rule.ours in state:
            assert torch.equal(rule.read(tensors), state[rule.ours])


def test_modernbert_reads_old_and_new_spellings() -> None:
    family = FAMILIES["modernbert"]
    sizes = {key: value for key, value in SIZES["modernbert"].items() if key != "global_attn_every_n_layers"}
    old = sizes | {"global_rope_theta": 500.0, "local_rope_theta": 70.0, "global_attn_every_n_layers": 2}
    new = sizes | {
        "layer_types": ["full_attention", "sliding_attention"] * 2 + ["full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
        },
    }
    first, second = family.read_config(old, {}), family.read_config(new, {})
    assert first == second
    assert (first.body.positions.theta, first.body.positions.local_theta) == (500.0, 70.0)
    assert (first.body.global_every, first.body.local_window) == (2, 3)
    packed, padded = make_texts(first)
    reference = make_reference("modernbert", "Model", **{key: value for key, value in new.items() if key not in sizes})
    assert_close(convert(reference).body(packed).last, unpad(reference(**padded).last_hidden_state, packed.layout))


def test_entries_that_mean_nothing_to_us_are_written_back() -> None:
    family = FAMILIES["bert"]
    config = family.read_config(SIZES["bert"] | {"use_cache": True, "language": ["de", "fr"], "pad_token_id": None}, {})
    assert config.pad_token_id == 0
    written = family.write_config(config)
    assert (written["use_cache"], written["language"], written["pad_token_id"]) == (True, ["de", "fr"], None)


# -- Shaw's relative positions, which `transformers` had until version 4 -----------------------------------------------


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query"])
@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "electra"])
def test_relative_keys_against_a_hand_written_attention(family: str, kind: str) -> None:
    """One attention layer of an old BERT checkpoint, spelled out with loops over query and key places."""
    tables = FAMILIES[family]
    config = tables.read_config(SIZES[family] | {"position_embedding_type": kind, "max_position_embeddings": 9}, {})
    assert config.body.positions.absolute == "none"
    assert config.body.positions.max_position_embeddings == 9
    assert tables.write_config(config)["position_embedding_type"] == kind
    model = Model(config).eval()
    randomise(model)
    rules = {rule.ours: rule for rule in tables.rules(config, True)}
    theirs: dict[str, Tensor] = {}
    for rule in rules.values():
        theirs.update(rule.write(model.state_dict()[rule.ours]))
    (distance_name,) = rules["body.blocks.0.attention.relative.weight"].theirs
    stem = distance_name.removesuffix("distance_embedding.weight")
    distances = theirs[distance_name]  # (2 * 9 - 1, 12)
    assert distances.shape == (17, 12)

    hidden = torch.randn(9, 36, generator=torch.Generator().manual_seed(3))
    queries, keys, values = (
        nn.functional.linear(hidden, theirs[f"{stem}{part}.weight"], theirs[f"{stem}{part}.bias"]).view(9, 3, 12)
        for part in ("query", "key", "value")
    )
    context = torch.zeros(9, 3, 12)
    for head in range(3):
        for i in range(9):
            scores = torch.zeros(9)
            for j in range(9):
                vector = distances[i - j + 8]
                scores[j] = queries[i, head] @ keys[j, head] + queries[i, head] @ vector
                if kind == "relative_key_query":
                    scores[j] += keys[j, head] @ vector
            context[i, head] = torch.softmax(scores / math.sqrt(12), dim=0) @ values[:, head]

    block = model.body.blocks[0]
    assert isinstance(block, Block)
    plan = make_plan(Layout([9]), Layout([9]), with_distances=True)
    assert_close(block.attention(hidden, plan), block.attention.out(context.reshape(9, 36)))


# -- what cannot be loaded or saved says so ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "entries", "message"),
    [
        ("bert", {"is_decoder": True}, "is_decoder"),
        ("roberta", {"add_cross_attention": True}, "add_cross_attention"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("bert", {"hidden_act": "swoosh"}, "swoosh"),
        ("openai-gpt", {"afn": "gelu_new"}, "afn = 'gelu_new'; allowed here: gelu, relu"),
        ("bert", {"hidden_size": "wide"}, "hidden_size = 'wide'"),
        ("bert", {"hidden_size": 35}, "not a multiple"),
        ("bert", {"position_embedding_type": "rotary"}, "position_embedding_type"),
        ("bert", {"quantization_config": {"bits": 8}}, "quantization_config"),
        ("mpnet", {"relative_attention_num_buckets": 16}, "relative_attention_num_buckets"),
        ("modernbert", {"mlp_bias": True}, "mlp_bias"),
        ("modernbert", {"layer_types": ["sliding_attention"] * 5}, "layer_types"),
        ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type"),
    ],
)
def test_unsupported_configs_are_refused(family: str, entries: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        FAMILIES[family].read_config(SIZES[family] | entries, {})


def test_an_ambiguous_head_is_refused() -> None:
    shapes = {"classifier.weight": (3, 36), "classifier.bias": (3,)}
    with pytest.raises(CheckpointError, match="which of classify, choice, tag"):
        FAMILIES["bert"].read_config(SIZES["bert"], shapes)


def test_label_names_must_fit_the_head() -> None:
    shapes = {"classifier.weight": (3, 36), "classifier.bias": (3,)}
    entries = SIZES["bert"] | {"architectures": ["BertForTokenClassification"], "id2label": {"0": "B", "1": "I"}}
    with pytest.raises(CheckpointError, match=r"2 labels .* 3 outputs"):
        FAMILIES["bert"].read_config(entries, shapes)


def test_an_unknown_head_activation_is_refused() -> None:
    shapes = {"head.dense.weight": (36, 36)}
    with pytest.raises(CheckpointError, match="swoosh"):
        FAMILIES["modernbert"].read_config(SIZES["modernbert"] | {"classifier_activation": "swoosh"}, shapes)


def test_a_model_that_the_family_cannot_express_is_refused() -> None:
    body = TransformerConfig(
        embeddings=EmbeddingConfig(vocab_size=99, type_vocab_size=2),
        positions=PositionConfig(absolute="sinusoidal", max_position_embeddings=41),
        layer=LayerConfig(hidden_size=36, num_attention_heads=3, intermediate_size=37),
        num_hidden_layers=5,
    )
    config = ModelConfig(family="bert", body=body)
    with pytest.raises(CheckpointError, match=r"positions.absolute = 'sinusoidal' \('learned' there\)"):
        FAMILIES["bert"].write_config(config)
    learned = replace(config, body=replace(body, positions=PositionConfig(max_position_embeddings=41)))
    odd_head = HeadConfig(task="classify", reads="mean", num_labels=2)
    with pytest.raises(CheckpointError, match=r"heads.classify.reads = 'mean'"):
        FAMILIES["bert"].write_config(replace(learned, heads=(odd_head,)))
    bert = FAMILIES["bert"]
    both = replace(learned, pooler_act="tanh", heads=(bert.head(learned, "classify", 2), bert.head(learned, "tag", 5)))
    with pytest.raises(CheckpointError, match=r"one place, 'classifier.weight'"):
        bert.rules(both, True)
    with pytest.raises(CheckpointError, match=r"has no place for 'body\.final_norm\.weight'"):
        bert.rules(replace(learned, body=replace(learned.body, final_norm=True)), True)
    with pytest.raises(ModelError, match="no head for 'rtd'"):
        bert.head(learned, "rtd")
