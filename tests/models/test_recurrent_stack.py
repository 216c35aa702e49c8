"""The recurrent stack: parity with torch's own modules, batch invariance, states, pooling, AWD-LSTM's dropouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bertworks import hub
from bertworks.errors import ConfigError, ModelError
from bertworks.models.config import EmbeddingConfig, HeadConfig, ModelConfig, RecurrentConfig
from bertworks.models.model import Model
from bertworks.models.recurrent import RecurrentStack
from bertworks.nn.packed import Layout, Packed
from bertworks.nn.recurrent import Recurrent
from bertworks.text.tokenizer import Tokenizer
from tests.text import tiny

VOCABULARY, EMBEDDING, HIDDEN, LAYERS = 31, 7, 11, 3
CELLS = ("rnn", "lstm", "gru")
TORCH = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
SEQUENCES = [[3, 4, 5, 6, 7], [8, 9], [10, 11, 12, 13, 14, 15, 16], [17]]
DROPOUTS = ("embedding", "input", "hidden", "output", "weight")


def config(cell: str = "lstm", **options: Any) -> RecurrentConfig:
    given = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "initializer_range": 0.5, **options}
    return RecurrentConfig(
        embeddings=EmbeddingConfig(vocab_size=VOCABULARY, size=EMBEDDING, norm=False), cell=cell, **given
    )


def stack(cell: str = "lstm", **options: Any) -> RecurrentStack:
    torch.manual_seed(0)
    return RecurrentStack(config(cell, **options)).eval()


def model(*heads: HeadConfig, cell: str = "lstm", **options: Any) -> Model:
    torch.manual_seed(0)
    return Model(ModelConfig(family="bertworks", body=config(cell, **options), heads=heads)).eval()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_it_is_torchs_own_module(cell: str, bidirectional: bool) -> None:
    body = stack(cell, bidirectional=bidirectional)
    theirs = TORCH[cell](EMBEDDING, HIDDEN, LAYERS, bidirectional=bidirectional)
    weights = {}
    for name, weight in body.recurrent.named_parameters():
        _, layer, kind = name.split(".")
        weights[kind.replace("_l0", f"_l{layer}")] = weight
    theirs.load_state_dict(weights)
    for ids in SEQUENCES:
        given = body(Packed.from_sequences([ids])).last
        expected, _ = theirs(body.embeddings.tokens(torch.tensor(ids)))
        torch.testing.assert_close(given, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_batch_mates_rows_and_layers_change_nothing(cell: str, bidirectional: bool) -> None:
    body = stack(cell, bidirectional=bidirectional)
    batch = Packed.from_sequences(SEQUENCES)
    whole = body(batch, layers=[1, 2, 3]).layers
    assert sorted(whole) == [1, 2, 3]
    torch.testing.assert_close(body(batch).last, whole[3])
    rows = batch.layout.rows(torch.tensor([1, 6, 7, 14]))
    some = body(batch, layers=[2, 3], rows=rows).layers
    for layer, hidden in some.items():
        torch.testing.assert_close(hidden, whole[layer][rows.index])
    for index, ids in enumerate(SEQUENCES):
        start, length = batch.layout.starts[index], len(ids)
        alone = body(Packed.from_sequences([ids]), layers=[1, 2, 3]).layers
        for layer in (1, 2, 3):
            torch.testing.assert_close(alone[layer], whole[layer][start : start + length], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
def test_a_text_may_be_read_in_parts(cell: str) -> None:
    body = stack(cell)
    whole, after = body.read(Packed.from_sequences([SEQUENCES[0], SEQUENCES[2]]))
    _, state = body.read(Packed.from_sequences([SEQUENCES[0][:2], SEQUENCES[2][:6]]))
    rest, end = body.read(Packed.from_sequences([SEQUENCES[0][2:], SEQUENCES[2][6:]]), state)
    torch.testing.assert_close(rest[LAYERS][:3], whole[LAYERS][2:5])
    torch.testing.assert_close(rest[LAYERS][3:], whole[LAYERS][11:])
    torch.testing.assert_close(end.hidden, after.hidden)
    torch.testing.assert_close(end.summary()[0], whole[LAYERS][4])


def test_layer_0_is_the_token_vectors() -> None:
    body = stack(hidden_size=EMBEDDING)
    batch = Packed.from_sequences(SEQUENCES)
    torch.testing.assert_close(body(batch, layers=[0]).last, body.embeddings.tokens(batch.input_ids))
    with pytest.raises(ModelError, match=r"layer 0 of this model .* is 7 wide and the others 11"):
        stack()(batch, layers=[0])


def test_concat_pooling_by_hand() -> None:
    for bidirectional in (False, True):
        whole = model(
            HeadConfig(task="classify", reads="concat", num_labels=4, transform_size=5, transform_norm=True),
            bidirectional=bidirectional,
        )
        batch = Packed.from_sequences(SEQUENCES)
        hidden = whole.body(batch).last
        expected = []
        for start, length in zip(batch.layout.starts, batch.layout.lengths, strict=True):
            own = hidden[start : start + length]
            last = torch.cat([own[-1, :HIDDEN], own[0, HIDDEN:]])
            expected.append(torch.cat([last, own.amax(dim=0), own.mean(dim=0)]))
        pooled = whole.concat(hidden, batch.layout)
        assert pooled.shape == (len(SEQUENCES), 3 * whole.hidden_size)
        torch.testing.assert_close(pooled, torch.stack(expected))
        assert whole.logits(batch, "classify").shape == (len(SEQUENCES), 4)


def test_a_tied_head_is_the_token_table() -> None:
    head = HeadConfig(
        task="lm", reads="tokens", num_labels=VOCABULARY, transform_size=EMBEDDING, transform_act="linear", tied=True
    )
    whole = model(head)
    batch = Packed.from_sequences(SEQUENCES)
    transform = whole.head("lm").transform
    assert transform is not None
    expected = transform.dense(whole.body(batch).last) @ whole.body.embeddings.tokens.weight.t()
    torch.testing.assert_close(whole.logits(batch, "lm"), expected)


# -- dropout -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", DROPOUTS)
def test_each_dropout_acts_in_training_only(place: str) -> None:
    plain, dropping = stack(), stack(**{f"{place}_dropout_prob": 0.5})
    batch = Packed.from_sequences(SEQUENCES)
    torch.testing.assert_close(plain(batch).last, dropping(batch).last)
    torch.manual_seed(1)
    first = dropping.train()(batch).last
    torch.manual_seed(1)
    assert torch.equal(dropping(batch).last, first)
    assert not torch.allclose(dropping(batch).last, first)
    assert not torch.allclose(plain.train()(batch).last, first)


def test_what_is_dropped_alike() -> None:
    ids = [5, 6, 7, 5, 6, 8]
    batch = Packed.from_sequences([ids, ids[::-1]])

    def dropped(**options: float) -> Tensor:
        torch.manual_seed(3)
        return stack(**options).train().embeddings(batch)

    whole_tokens = (dropped(embedding_dropout_prob=0.5) == 0).all(dim=1)
    for token in set(ids):  # everywhere or nowhere
        assert len(set(whole_tokens[batch.input_ids == token].tolist())) == 1
    assert 0 < int(whole_tokens.sum()) < 12
    columns = dropped(input_dropout_prob=0.5) == 0
    for part in (columns[:6], columns[6:]):
        assert bool((part == part[0]).all())
    assert not torch.equal(columns[0], columns[6])
    kept = columns.logical_not()
    torch.testing.assert_close(dropped(input_dropout_prob=0.5)[kept], 2 * dropped()[kept])


@pytest.mark.parametrize("options", [{}, {"cell_clip": 3.0}], ids=["kernel", "loop"])
def test_weight_dropout_drops_recurrent_weights(options: dict[str, Any]) -> None:
    """Where a weight is dropped it has no gradient; all others are doubled. The kernel's own weights stay as they are."""
    torch.manual_seed(0)
    layer = Recurrent(input_size=3, hidden_size=5, weight_dropout_prob=0.5, **options)
    x, layout = torch.randn(6, 3), Layout([4, 2])
    before = {name: weight.detach().clone() for name, weight in layer.named_parameters()}
    torch.manual_seed(7)
    output, _ = layer(x, layout)
    output.sum().backward()
    kernel = layer.layers[0]
    gone = kernel.weight_hh_l0.grad == 0
    assert 0.2 < float(gone.float().mean()) < 0.8
    assert bool((kernel.weight_ih_l0.grad != 0).all())
    plain = Recurrent(input_size=3, hidden_size=5, **options).eval()
    plain.load_state_dict(layer.state_dict())
    with torch.no_grad():
        plain.layers[0].weight_hh_l0.mul_(gone.logical_not() * 2.0)
    torch.testing.assert_close(plain(x, layout)[0], output)
    for name, weight in layer.named_parameters():
        assert torch.equal(weight, before[name])
    undropped = Recurrent(input_size=3, hidden_size=5, **options)
    undropped.load_state_dict(before)
    torch.testing.assert_close(layer.eval()(x, layout)[0], undropped(x, layout)[0])


# -- values, files -----------------------------------------------------------------------------------------------------


def test_a_new_lstm_remembers() -> None:
    for name, bias in stack("lstm", bidirectional=True).recurrent.named_parameters():
        if "bias_ih" in name:
            assert bool((bias[HIDDEN : 2 * HIDDEN] == 1).all())
            assert bool((bias[:HIDDEN].abs() < 1).all())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"weight_dropout_prob": 1.0}, "weight_dropout_prob is 1.0"),
        ({"activation": "relu"}, "only cell 'rnn' has the choice"),
    ],
)
def test_values_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config(**options)
    with pytest.raises(ConfigError, match="no segments"):
        RecurrentConfig(embeddings=EmbeddingConfig(vocab_size=5, type_vocab_size=2), hidden_size=4, num_hidden_layers=1)


def test_what_only_transformers_have() -> None:
    whole = model()
    with pytest.raises(ModelError, match="has no attention"):
        whole.body(Packed.from_sequences(SEQUENCES), attentions=True)
    with pytest.raises(ModelError, match=r"for Transformers; the model is a recurrent one \(lstm 3x11\)"):
        _ = whole.config.transformer
    assert model(cell="gru", bidirectional=True).config.describe() == "bigru 3x11"


@pytest.mark.parametrize("cell", CELLS)
def test_it_is_saved_and_opened(cell: str, tmp_path: Any) -> None:
    tokenizer = Tokenizer(tiny.bert())
    body = RecurrentConfig(
        embeddings=EmbeddingConfig(vocab_size=tokenizer.vocab_size, size=6, norm=False),
        cell=cell,  # type: ignore[arg-type]
        hidden_size=9,
        num_hidden_layers=2,
        bidirectional=cell != "rnn",
        activation="relu" if cell == "rnn" else "tanh",
        hidden_dropout_prob=0.25,
        max_length=40,
    )
    head = HeadConfig(task="tag", reads="tokens", num_labels=3)
    whole = Model(ModelConfig(family="bertworks", body=body, heads=(head,), labels=("O", "B-X", "I-X"))).eval()
    hub.save(whole, tokenizer, tmp_path / "saved")
    loaded = hub.load(tmp_path / "saved")
    assert loaded.model.config == whole.config
    assert loaded.window == 40
    batch = Packed.from_sequences([tokenizer.encode("The river runs past the old mill.").ids])
    torch.testing.assert_close(loaded.model.logits(batch, "tag"), whole.logits(batch, "tag"))
    weights = dict(whole.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in loaded.model.named_parameters())
