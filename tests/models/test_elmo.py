"""Two language models that read from both ends: what each layer is made of, and who sees what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertworks.errors import ConfigError, ModelError
from bertworks.models.elmo import BiLM, Highway, PackedSpelt, SpeltWords
from bertworks.models.elmo_config import BiLMConfig, CharacterCNNConfig
from bertworks.nn.packed import Layout, Packed
from bertworks.text.spelling import PADDING, spell

SPELLING = CharacterCNNConfig(character_size=3, filters=((1, 4), (3, 5), (6, 2)), num_highway_layers=2)
WORDS = BiLMConfig(
    vocab_size=11,
    spelling=SPELLING,
    embedding_size=6,
    cell_size=9,
    projection_size=6,
    cell_clip=3.0,
    projection_clip=3.0,
)
CHARACTERS = BiLMConfig(vocab_size=13, embedding_size=5, cell_size=8, num_hidden_layers=1, residual=False)


def spelt(*sentences: list[str]) -> PackedSpelt:
    words = sorted({word for sentence in sentences for word in sentence})
    return PackedSpelt(
        input_ids=torch.tensor([words.index(word) for sentence in sentences for word in sentence]),
        layout=Layout([len(sentence) for sentence in sentences]),
        characters=torch.from_numpy(spell(words).astype(np.int64)),
    )


def test_a_highway_lets_through_what_its_gate_does_not_take() -> None:
    highway = Highway(2)
    with torch.no_grad():
        highway.transform.weight.copy_(torch.eye(2))
        highway.transform.bias.zero_()
        highway.carry.weight.zero_()
        highway.carry.bias.zero_()  # the gate is 1/2
    torch.testing.assert_close(highway(torch.tensor([[2.0, -4.0]])), torch.tensor([[2.0, -2.0]]))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_words_are_convolved_over_all_their_places(activation: str) -> None:
    """The plain way: fifty places for every word, however short."""
    words = SpeltWords(replace(SPELLING, activation=activation), 6)
    texts = [
        "a",
        "of",
        "",
        "incomprehensibilities",
        "x" * 47,
        "x" * 48,
        "x" * 60,
        "å" * 30,
        *(f"w{n}" for n in range(600)),
    ]
    characters = torch.from_numpy(spell(texts).astype(np.int64))
    embedded = words.tokens(characters).transpose(1, 2)  # (W, C, 50)
    parts = [convolution(embedded).amax(dim=-1) for convolution in words.convolutions]
    x = getattr(torch, activation)(torch.cat(parts, dim=1))
    for highway in words.highways:
        x = highway(x)
    torch.testing.assert_close(words.words(characters), words.projection(x), rtol=1e-5, atol=1e-6)


def test_no_words_are_words_too() -> None:
    assert SpeltWords(SPELLING, 6).words(torch.zeros(0, 50, dtype=torch.long)).shape == (0, 6)


@pytest.mark.parametrize("clipped", [True, False])
def test_layers_are_both_directions_side_by_side(clipped: bool) -> None:
    model = BiLM(WORDS if clipped else replace(WORDS, cell_clip=None, projection_clip=None)).eval()
    batch = spelt(["the", "cat", "sat"], ["on", "the"])
    layers = model(batch, layers=[0, 1, 2]).layers
    assert {layer: tuple(states.shape) for layer, states in layers.items()} == dict.fromkeys((0, 1, 2), (5, 12))
    torch.testing.assert_close(layers[0][:, :6], layers[0][:, 6:])
    # By hand: the second sequence's backward half is its words read from the last one.
    hidden = model.read(batch)
    turned = model.embeddings(batch)[[4, 3]]
    forward, _ = model.backwards(turned, Layout([2]), all_layers=True)
    torch.testing.assert_close(hidden.backward[:, 3:], forward.flip(1))
    torch.testing.assert_close(layers[2][3:, 6:], forward[1].flip(0))


def test_a_later_layer_adds_its_input() -> None:
    model = BiLM(WORDS).eval()
    with torch.no_grad():
        for stack in (model.forwards, model.backwards):
            stack.layers[1].get_parameter("weight_hr_l0").zero_()
    layers = model(spelt(["one", "two"]), layers=[1, 2]).layers
    torch.testing.assert_close(layers[1], layers[2])


@pytest.mark.parametrize("config", [WORDS, CHARACTERS], ids=["words", "characters"])
def test_neither_reader_sees_ahead_nor_another_sequence(config: BiLMConfig) -> None:
    model = BiLM(config).eval()

    def batch(*sentences: list[str]) -> Packed:
        if config.spelling is not None:
            return spelt(*sentences)
        return Packed.from_sequences([[len(word) for word in sentence] for sentence in sentences])

    before = model.read(batch(["a", "bb", "ccc", "dddd"], ["a", "bb"]))
    after = model.read(batch(["a", "bb", "eeeee", "dddd"], ["a", "bb"]))
    torch.testing.assert_close(before.forward[:, [0, 1, 4, 5]], after.forward[:, [0, 1, 4, 5]])
    torch.testing.assert_close(before.backward[:, [3, 4, 5]], after.backward[:, [3, 4, 5]])
    assert not torch.allclose(before.forward[-1, 3], after.forward[-1, 3])
    assert not torch.allclose(before.backward[-1, 0], after.backward[-1, 0])


def test_a_state_goes_on_where_the_last_stretch_ended() -> None:
    """Forwards the second stretch follows the first; backwards the first follows the second."""
    model = BiLM(WORDS).eval()
    whole = model.read(spelt(["w", "x", "y", "z"]))
    first = model.read(spelt(["w", "x"]))
    second = model.read(spelt(["y", "z"]), first.state)
    torch.testing.assert_close(second.forward, whole.forward[:, 2:])
    later = model.read(spelt(["y", "z"]))
    earlier = model.read(spelt(["w", "x"]), later.state)
    torch.testing.assert_close(earlier.backward, whole.backward[:, :2])
    torch.testing.assert_close(model.read(spelt(["y", "z"])).forward, later.forward)  # nothing was remembered


def test_what_it_cannot_read() -> None:
    with pytest.raises(ModelError, match="by their characters"):
        BiLM(WORDS)(Packed.from_sequences([[1, 2]]))
    with pytest.raises(ModelError, match="no attention"):
        BiLM(CHARACTERS)(Packed.from_sequences([[1, 2]]), attentions=True)
    with pytest.raises(ModelError, match="layer 0"):
        BiLM(CHARACTERS)(Packed.from_sequences([[1, 2]]), layers=[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding_size": 7}, "as wide as one direction"),
        ({"dropout_prob": 1.0}, "below 1"),
        ({"num_hidden_layers": 0}, "at least 1"),
        ({"spelling": None, "vocab_size": None}, "table of characters"),
    ],
)
def test_what_it_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(WORDS, **changes)
    with pytest.raises(ConfigError, match="filters"):
        replace(SPELLING, filters=((0, 4),))


def test_dropout_is_for_training() -> None:
    model = BiLM(replace(WORDS, dropout_prob=0.5))
    batch = spelt(["some", "words"])
    torch.testing.assert_close(model.eval().read(batch).forward, model.eval().read(batch).forward)
    assert not torch.allclose(model.train().read(batch).forward, model.train().read(batch).forward)


def test_words_are_spelt_in_bytes() -> None:
    rows = spell(["cat", "", "é", "y" * 99])
    assert rows[0].tolist() == [258, 99, 97, 116, 259, *[PADDING] * 45]
    assert rows[1].tolist() == [258, 259, *[PADDING] * 48]
    assert rows[2].tolist() == [258, 0xC3, 0xA9, 259, *[PADDING] * 46]
    assert rows[3].tolist() == [258, *[121] * 48, 259]
