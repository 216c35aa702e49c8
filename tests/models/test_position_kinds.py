"""Every kind of position trains, is saved and comes back the same: in an encoder, a decoder and an encoder–decoder."""

from dataclasses import replace

import pytest
import torch

from bertworks.hub.checkpoint import load_module, save_model
from bertworks.models.config import HeadConfig, ModelConfig
from bertworks.models.model import Model
from bertworks.models.seq2seq import EncoderDecoder, EncoderDecoderConfig
from bertworks.nn.packed import Packed
from tests.models.test_transformer import POSITIONS, config

SOURCES = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5]]
TARGETS = [[1, 7, 3, 8], [1, 2, 2], [1, 3, 9, 4, 6]]


def encoder(kind: str, causal: bool = False) -> Model:
    head = HeadConfig(task="lm" if causal else "mlm", reads="tokens", num_labels=31, tied=True)
    return Model(ModelConfig(family="bertworks", body=config(POSITIONS[kind], causal=causal), heads=(head,)))


def encoder_decoder(kind: str) -> EncoderDecoder:
    body = config(POSITIONS[kind])
    decoder = replace(body, causal=True, cross_attention=True, num_hidden_layers=2)
    return EncoderDecoder(EncoderDecoderConfig(encoder=body, decoder=decoder))


def outputs(model: torch.nn.Module) -> torch.Tensor:
    if isinstance(model, EncoderDecoder):
        return model(Packed.from_sequences(SOURCES), Packed.from_sequences(TARGETS))
    assert isinstance(model, Model)
    return model.logits(Packed.from_sequences(SOURCES), "lm" if model.config.body.causal else "mlm")


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("shape", ["encoder", "decoder", "encoder-decoder"])
def test_trains_saves_and_reloads(kind, shape, tmp_path):
    torch.manual_seed(0)
    model = encoder_decoder(kind) if shape == "encoder-decoder" else encoder(kind, causal=shape == "decoder")
    model.eval()  # no dropout, so that the loss must fall
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    labels = torch.randint(0, 31, (len(outputs(model)),))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(outputs(model), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    still = [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])]
    assert still == [], "every parameter, those of the positions too, takes part in training"
    save_model(model, tmp_path / "model")
    again = load_module(tmp_path / "model")
    torch.testing.assert_close(outputs(again), outputs(model), atol=0, rtol=0)
