"""The recurrent translator: its equations, its batches, its files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertworks.errors import ConfigError
from bertworks.hub.checkpoint import load_module, save_model
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder, RnnSeq2SeqConfig
from bertworks.models.seq2seq import TargetIds
from bertworks.nn.alignment import Alignment
from bertworks.nn.packed import Packed

KINDS = [("gru", "bahdanau", 1), ("lstm", "luong", 2), ("rnn", "bahdanau", 2), ("gru", "luong", 1)]


def make(cell: str = "gru", attention: str = "bahdanau", layers: int = 1, dropout: float = 0.0) -> RnnEncoderDecoder:
    torch.manual_seed(3)
    config = RnnSeq2SeqConfig(
        vocab_size=23,
        embedding_size=6,
        hidden_size=5,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        cell=cell,  # type: ignore[arg-type]
        attention=attention,  # type: ignore[arg-type]
        dropout_prob=dropout,
        target=TargetIds(start=1, end=(2,)),
    )
    return RnnEncoderDecoder(config).eval()


def test_attention_by_hand() -> None:
    additive = Alignment("additive", query_size=2, value_size=3, key_size=4)
    queries, values = torch.randn(2, 1, 2), torch.randn(2, 5, 3)
    keys = additive.key(values)
    mask = torch.zeros(2, 1, 5)
    mask[1, 0, 3:] = -torch.inf
    context, weights = additive(queries, keys, values, mask)
    assert additive.query is not None
    for source, length in ((0, 5), (1, 3)):
        scores = torch.stack(
            [additive.score @ torch.tanh(additive.query(queries[source, 0]) + keys[source, i]) for i in range(length)]
        )
        expected = torch.softmax(scores, dim=0)
        torch.testing.assert_close(weights[source, 0, :length], expected)
        assert not weights[source, 0, length:].any()
        torch.testing.assert_close(context[source, 0], expected @ values[source, :length])
    general = Alignment("general", query_size=2, value_size=3, key_size=4)
    _, weights = general(queries, general.key(values), values, None)
    torch.testing.assert_close(weights[0, 0], torch.softmax(values[0] @ general.key.weight.T @ queries[0, 0], dim=0))


def test_bahdanau_step_by_hand() -> None:
    model = make()
    memory = model.encode(Packed.from_sequences([[4, 5, 6, 2]]))
    state = model.start(memory)
    torch.testing.assert_close(state.hidden[0], torch.tanh(model.bridge(memory.summary)))
    y = model.embeddings(torch.tensor([1]))
    context, _ = model.alignment(state.hidden[0][:, None], memory.keys, memory.values, None)
    hidden = model.cells[0](torch.cat([y, context[:, 0]], dim=1), state.hidden[0])
    expected = torch.tanh(model.readout(torch.cat([hidden, context[:, 0], y], dim=1)))
    new, output, weights = model.step(y, state, memory)
    torch.testing.assert_close(new.hidden[0], hidden)
    torch.testing.assert_close(output, expected)
    assert weights.shape == (1, 4)


def test_luong_step_by_hand() -> None:
    model = make(attention="luong")
    memory = model.encode(Packed.from_sequences([[4, 5, 6, 2]]))
    state = model.start(memory)
    fed = torch.zeros(1, 6)
    for token in (1, 9):
        y = model.embeddings(torch.tensor([token]))
        hidden = model.cells[0](torch.cat([y, fed], dim=1), state.hidden[0])
        context, _ = model.alignment(hidden[:, None], memory.keys, memory.values, None)
        fed = torch.tanh(model.readout(torch.cat([hidden, context[:, 0]], dim=1)))
        state, output, _ = model.step(y, state, memory)
        torch.testing.assert_close(output, fed)


@pytest.mark.parametrize(("cell", "attention", "layers"), KINDS)
def test_a_batch_is_its_sentences(cell: str, attention: str, layers: int) -> None:
    model = make(cell, attention, layers)
    sources = [[4, 5, 6, 2], [7, 2], [8, 9, 10, 11, 2], [7, 3]]
    targets = [[1, 4], [1, 5, 6, 7], [1], [1, 9, 9]]
    together = model.decode(
        Packed.from_sequences(targets), model.encode(Packed.from_sequences(sources)), attentions=True
    )
    pieces = together.last.split([len(target) for target in targets])
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        memory = model.encode(Packed.from_sequences([source]))
        alone = model.decode(Packed.from_sequences([target]), memory, attentions=True)
        torch.testing.assert_close(pieces[number], alone.last, rtol=1e-5, atol=1e-6)
        looked = together.cross_attentions[0][number]
        assert looked.shape[2] == len(target)
        torch.testing.assert_close(looked[..., : len(source)], alone.cross_attentions[0][0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(looked.sum(dim=-1), torch.ones(1, 1, len(target)))
        state = model.start(memory)  # and step by step
        for place, token in enumerate(target):
            state, output, _ = model.step(model.embeddings(torch.tensor([token])), state, memory)
            torch.testing.assert_close(output[0], alone.last[place], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attention", ["bahdanau", "luong"])
def test_several_rows_share_a_source(attention: str) -> None:
    model = make(attention=attention)
    memory = model.encode(Packed.from_sequences([[4, 5, 6, 2], [7, 2]]))
    state = model.start(memory).select(torch.tensor([0, 0, 0, 1, 1, 1]))
    tokens = torch.tensor([3, 4, 5, 6, 7, 8])
    shared = model.step(model.embeddings(tokens), state, memory)[1]
    copied = model.step(model.embeddings(tokens), state, memory.select(torch.tensor([0, 0, 0, 1, 1, 1])))[1]
    torch.testing.assert_close(shared, copied)


def test_dropout_is_for_training() -> None:
    model = make(layers=2, dropout=0.5)
    source, target = Packed.from_sequences([[4, 5, 2]]), Packed.from_sequences([[1, 6]])

    def output() -> torch.Tensor:
        return model.decode(target, model.encode(source)).last

    torch.testing.assert_close(output(), output())
    model.train()
    assert not torch.allclose(output(), output())


@pytest.mark.parametrize(("cell", "attention", "layers"), KINDS)
def test_saved_and_loaded(tmp_path: Path, cell: str, attention: str, layers: int) -> None:
    model = make(cell, attention, layers)
    save_model(model, tmp_path)
    loaded = load_module(tmp_path)
    assert isinstance(loaded, RnnEncoderDecoder)
    assert loaded.config == model.config
    source, target = Packed.from_sequences([[4, 5, 2], [6, 2]]), Packed.from_sequences([[1, 6], [1]])
    with torch.no_grad():
        torch.testing.assert_close(
            loaded.decode(target, loaded.encode(source)).last, model.decode(target, model.encode(source)).last
        )


def test_sizes_are_checked() -> None:
    with pytest.raises(ConfigError, match="hidden_size is 0"):
        RnnSeq2SeqConfig(vocab_size=5, embedding_size=3, hidden_size=0)
    with pytest.raises(ConfigError, match=r"dropout_prob is 1\.0"):
        RnnSeq2SeqConfig(vocab_size=5, embedding_size=3, hidden_size=2, dropout_prob=1.0)
