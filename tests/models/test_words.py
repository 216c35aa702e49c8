"""The stack over words: what goes in where, which side a view sees, and that the batch does not matter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bertworks import hub
from bertworks.config import from_dict, to_dict
from bertworks.errors import ConfigError, ModelError
from bertworks.models.config import HeadConfig, ModelConfig
from bertworks.models.model import Model
from bertworks.models.word_config import VectorConfig, WordEmbeddingConfig, WordStackConfig
from bertworks.models.words import PackedWords, WordStack, one_sided
from bertworks.nn.packed import Layout, Packed

EMBEDDINGS = WordEmbeddingConfig(vocab_size=13, size=5, num_characters=9, character_size=3, character_features=4)
MIXED = VectorConfig(width=6, num_layers=3, scale=0.5)
BETWEEN = VectorConfig(width=7, between=True)
CONFIG = WordStackConfig(embeddings=EMBEDDINGS, vectors=(MIXED, BETWEEN), direction_size=8)


def stack(config: WordStackConfig = CONFIG) -> WordStack:
    torch.manual_seed(2)
    return WordStack(config).eval()


def batch(lengths: list[int], *, seed: int = 0, config: WordStackConfig = CONFIG) -> PackedWords:
    random = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    sizes = [1 + number % 3 for number in range(4)]
    return PackedWords(
        input_ids=torch.randint(0, 13, (total,), generator=random),
        layout=Layout(lengths),
        letters=torch.randint(0, 9, (sum(sizes),), generator=random),
        letters_layout=Layout(sizes),
        spellings=torch.randint(0, 4, (total,), generator=random),
        vectors=tuple(
            torch.randn(total, vectors.num_layers, vectors.width, generator=random).half() for vectors in config.vectors
        ),
    )


def part(whole: PackedWords, number: int) -> PackedWords:
    start, length = whole.layout.starts[number], whole.layout.lengths[number]
    rows = slice(start, start + length)
    return replace(
        whole,
        input_ids=whole.input_ids[rows],
        layout=Layout([length]),
        spellings=whole.spellings[rows],
        vectors=tuple(vectors[rows] for vectors in whole.vectors),
    )


@torch.no_grad()
def hidden(words: PackedWords, layer: int = 2, config: WordStackConfig = CONFIG) -> Tensor:
    found: Tensor = stack(config)(words, layers=(layer,)).layers[layer]
    return found


def test_a_sentence_does_not_depend_on_the_batch() -> None:
    whole = batch([3, 0, 5, 1])
    together = hidden(whole)
    assert together.shape == (9, 16)
    for number, start in enumerate(whole.layout.starts):
        alone = hidden(part(whole, number))
        torch.testing.assert_close(alone, together[start : start + whole.layout.lengths[number]])


def test_the_input_is_table_letters_and_mixed_vectors() -> None:
    words = batch([4])
    module = stack()
    x = hidden(words, 0)
    assert x.shape == (4, 5 + 4 + 6)
    torch.testing.assert_close(x[:, :5], module.embeddings.tokens(words.input_ids).detach())
    # At the start every layer counts the same, and gamma is 1.
    torch.testing.assert_close(x[:, 9:], words.vectors[0].float().mean(dim=1) * 0.5)


def test_vectors_between_reach_the_second_layer_only() -> None:
    words = batch([4])
    other = replace(words, vectors=(words.vectors[0], words.vectors[1] + 1))
    assert torch.equal(hidden(words, 1), hidden(other, 1))
    assert not torch.allclose(hidden(words, 2), hidden(other, 2))


def test_views_see_one_side() -> None:
    """Another word at place 2 changes what the views see of it, and nothing else."""
    words = batch([5])
    ids = words.input_ids.clone()
    ids[2] = (ids[2] + 1) % 13
    views, others = (one_sided(hidden(each, 1), each.layout) for each in (words, replace(words, input_ids=ids)))
    changed = {
        name: [place for place in range(5) if not torch.equal(views[name][place], others[name][place])]
        for name in views
    }
    assert changed == {"forward": [2, 3, 4], "backward": [0, 1, 2], "future": [3, 4], "past": [0, 1]}


def test_dropout_is_of_training_only_and_every_part_learns() -> None:
    words = batch([3, 2])
    model = stack().train()
    assert not torch.equal(model(words).last, model(words).last)
    model.eval()
    model(words).last.sum().backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


def test_no_words_are_a_batch_too() -> None:
    assert hidden(batch([0, 0])).shape == (0, 16)
    assert hidden(batch([])).shape == (0, 16)


def test_tokens_are_not_words() -> None:
    with pytest.raises(ModelError, match="words with their letters"):
        stack()(Packed.from_sequences([[1, 2]]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_hidden_layers": 1}, "need two of them"),
        ({"direction_size": 0}, "direction_size is 0"),
        ({"hidden_dropout_prob": 1.0}, "below 1"),
    ],
)
def test_impossible_shapes_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("characters", ["none", "lstm"])
def test_a_model_is_saved_in_our_own_format(tmp_path: Path, cell: str, characters: str) -> None:
    body = replace(CONFIG, cell=cell, embeddings=replace(EMBEDDINGS, characters=characters))  # type: ignore[arg-type]
    head = HeadConfig(task="tag", reads="tokens", num_labels=3, crf=True)
    config = ModelConfig(family="bertworks", body=body, heads=(head,), labels=("O", "B-X", "I-X"))
    assert from_dict(ModelConfig, to_dict(config)) == config
    model = Model(config).eval()
    hub.save_model(model, tmp_path)
    loaded = hub.load_model(tmp_path)
    assert loaded.config == config
    words = batch([3, 2])
    rows = words.layout.rows(torch.arange(5))
    torch.testing.assert_close(loaded.logits(words, "tag", rows=rows), model.logits(words, "tag", rows=rows))
    assert config.describe() == f"bi{cell} 2x8 over words"
