"""Where a model drops in training, and how much, against `transformers`: every site of a family, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bertworks.hub.families import FAMILIES
from bertworks.models.config import EmbeddingConfig, LayerConfig, TransformerConfig
from bertworks.nn import attention, blocks, dropout
from bertworks.nn.packed import Packed
from tests.hub.reference import assert_close, config_of, convert, make_reference, make_texts, single_thread, unpad

Site = tuple[int, float]
"""Width of what is dropped, and the probability."""
GPT = {"embd_pdrop": 0.25, "resid_pdrop": 0.5, "attn_pdrop": 0.75}
MODERN = {"embedding_dropout": 0.25, "attention_dropout": 0.5, "mlp_dropout": 0.75}
BERT = {"hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.5}
PROBABILITIES: dict[str, dict[str, float]] = {
    "bert": BERT,
    "roberta": BERT,
    "electra": BERT,
    "mpnet": BERT,
    "openai-gpt": GPT,
    "gpt2": GPT,
    "modernbert": MODERN,
}
LENGTH = 7


@pytest.fixture(autouse=True)
def _plain_numbers() -> Iterator[None]:
    with single_thread():
        yield


def their_sites(reference: Any, padded: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> list[Site]:
    found: list[Site] = []

    def record(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if training and p > 0.0:
            found.append((x.shape[-1], p))
        return x

    with monkeypatch.context() as patch:
        patch.setattr(F, "dropout", record)
        reference.train()(**padded)
    return found


def our_sites(body: Any, packed: Packed, monkeypatch: pytest.MonkeyPatch) -> list[Site]:
    found: list[Site] = []

    def record(x: Tensor, prob: float) -> Tensor:
        if prob > 0.0:
            found.append((x.shape[-1], prob))
        return x

    with monkeypatch.context() as patch:
        for module in (dropout, blocks, attention):
            patch.setattr(module, "drop", record)
        body.train()(packed)
    return found


@pytest.mark.parametrize("family", PROBABILITIES)
def test_sites_are_those_of_transformers(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = make_reference(family, "Model", **PROBABILITIES[family])
    model = convert(reference)
    packed, padded = make_texts(model.config, [LENGTH])
    ours = our_sites(model.body, packed, monkeypatch)
    assert ours == their_sites(reference, padded, monkeypatch)
    assert {prob for _, prob in ours} == set(PROBABILITIES[family].values())


@pytest.mark.parametrize("family", PROBABILITIES)
def test_each_probability_matters_in_training_and_never_in_use(family: str) -> None:
    probabilities = PROBABILITIES[family]
    for chosen in probabilities:
        reference = make_reference(family, "Model", **{name: 0.5 if name == chosen else 0.0 for name in probabilities})
        model = convert(reference)
        packed, padded = make_texts(model.config)
        used = model.eval().body(packed).last
        assert_close(used, unpad(reference.eval()(**padded).last_hidden_state, packed.layout))
        torch.manual_seed(0)
        trained = model.train().body(packed).last
        assert not torch.allclose(trained, used, atol=1e-3), chosen


@pytest.mark.parametrize("family", PROBABILITIES)
def test_probabilities_are_written_as_they_were_read(family: str) -> None:
    reference = make_reference(family, "Model", **PROBABILITIES[family])
    written = FAMILIES[family].write_config(convert(reference).config)
    theirs = config_of(reference)
    for name in PROBABILITIES[family]:
        assert written[name] == theirs[name] == PROBABILITIES[family][name]


def test_there_is_one_way_to_say_that_all_sites_drop_alike() -> None:
    layer = LayerConfig(hidden_size=12, num_attention_heads=3, intermediate_size=20, hidden_dropout_prob=0.25)
    said = LayerConfig(**{**vars(layer), "attention_output_dropout_prob": 0.25})
    assert said == layer
    assert said.attention_output_dropout_prob is None
    plain = TransformerConfig(embeddings=EmbeddingConfig(vocab_size=31), layer=layer, num_hidden_layers=2)
    for prob, kept in ((0.25, None), (0.5, 0.5), (0.0, 0.0)):
        embeddings = EmbeddingConfig(vocab_size=31, dropout_prob=prob)
        config = TransformerConfig(embeddings=embeddings, layer=layer, num_hidden_layers=2)
        assert config.embeddings.dropout_prob == kept
        assert (config == plain) is (kept is None)
