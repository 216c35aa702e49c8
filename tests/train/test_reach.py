"""How far the gradient reaches back: against the product of derivatives worked out by hand, and between the cells."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch

from bertworks.errors import ModelError
from bertworks.models.config import EmbeddingConfig, HeadConfig, ModelConfig, RecurrentConfig
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.train.reach import figure, gradient_reach, texts_of, untrained

VOCABULARY = 13


def language_model(cell: Literal["rnn", "lstm", "gru"], size: int, layers: int = 1) -> Model:
    body = RecurrentConfig(
        embeddings=EmbeddingConfig(vocab_size=VOCABULARY, norm=False),
        cell=cell,
        hidden_size=size,
        num_hidden_layers=layers,
        initializer_range=0.5,
    )
    head = HeadConfig(task="lm", reads="tokens", num_labels=VOCABULARY, tied=True)
    torch.manual_seed(1)
    return Model(ModelConfig(family="bertworks", body=body, heads=(head,))).eval()


def test_a_simple_rnn_by_hand() -> None:
    """h_t = tanh(… + w h_{t-1}) with one number in the state: each step back is a factor w (1 - h_t²)."""
    model = language_model("rnn", 1)
    texts = np.array([[3, 5, 7, 2, 9, 4]])
    states = model.body(Packed.from_sequences([texts[0, :-1]])).last[:, 0].detach().numpy()  # h_1 … h_5
    weight = model.body.blocks[0].weight_hh_l0.item()
    factors = np.abs(weight * (1 - states[1:-1] ** 2))[::-1]
    np.testing.assert_allclose(gradient_reach(model, texts), np.cumprod([1.0, *factors]), rtol=1e-4)


def test_gates_keep_what_a_simple_rnn_forgets() -> None:
    texts = np.random.default_rng(0).integers(0, VOCABULARY, (4, 41))
    rnn, lstm, gru = (gradient_reach(language_model(cell, 16, 2), texts) for cell in ("rnn", "lstm", "gru"))
    assert len(rnn) == 39
    assert rnn[30] < 1e-3 * lstm[30]
    assert rnn[30] < 1e-3 * gru[30]
    page = figure({"rnn": rnn, "lstm": lstm})
    assert page.count("<polyline") == 2


def test_the_model_stays_as_it_is() -> None:
    model = language_model("gru", 5)
    model.train()
    gradient_reach(model, np.array([[1, 2, 3]]))
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())
    state = torch.get_rng_state()
    assert not torch.equal(untrained(model).body.embeddings.tokens.weight, model.body.embeddings.tokens.weight)
    assert torch.equal(torch.get_rng_state(), state)


def test_texts_are_long_enough() -> None:
    documents = [np.arange(length) for length in (3, 9, 12, 30, 2)]
    assert texts_of(iter(documents), steps=8, texts=2).shape == (2, 9)
    assert texts_of(iter(documents), steps=40).shape == (1, 30)  # none is long enough: the longest
    assert texts_of(iter(documents[:3]), steps=40).shape == (2, 9)  # about as long
    assert texts_of([np.arange(2)]).shape[0] == 0


def test_only_recurrent_language_models_have_it() -> None:
    body = RecurrentConfig(
        embeddings=EmbeddingConfig(vocab_size=VOCABULARY, norm=False),
        hidden_size=3,
        num_hidden_layers=1,
        bidirectional=True,
    )
    with pytest.raises(ModelError, match=r"recurrent language model .* bilstm 1x3"):
        gradient_reach(Model(ModelConfig(family="bertworks", body=body)), np.array([[1, 2, 3]]))
