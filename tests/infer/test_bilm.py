"""Word vectors from models that read from both ends: who is read where, whatever the length, the batch and the layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import bertworks
from bertworks import hub
from bertworks.errors import ModelError, TokenizerError, UsageError
from bertworks.hub.elmo import word_finder
from bertworks.infer.bilm import LoadedBiLM
from bertworks.infer.embed import EmbedReport
from bertworks.models.config import ModelConfig
from bertworks.models.elmo_config import BiLMConfig, CharacterCNNConfig
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.text.train import TrainerOptions, train_tokenizer
from bertworks.text.windows import windows

TEXTS = ["The old mill, by the river's bend.", "Rain fell.", "", "It did not stop for 3,000 days in the U.S. north."]


@pytest.fixture(scope="module")
def elmo() -> LoadedBiLM:
    torch.manual_seed(3)
    spelling = CharacterCNNConfig(character_size=3, filters=((1, 4), (3, 5)), num_highway_layers=1)
    body = BiLMConfig(vocab_size=7, spelling=spelling, embedding_size=6, cell_size=9, projection_size=6)
    return LoadedBiLM(Model(ModelConfig(family="bertworks", body=body)), word_finder(), name="small")


@pytest.fixture(scope="module")
def strings() -> LoadedBiLM:
    torch.manual_seed(4)
    tokenizer = train_tokenizer(TEXTS * 3, TrainerOptions.of("character", vocab_size=100))
    body = BiLMConfig(
        vocab_size=tokenizer.vocab_size, embedding_size=5, cell_size=8, num_hidden_layers=1, residual=False
    )
    return LoadedBiLM(Model(ModelConfig(family="bertworks", body=body)), tokenizer, name="strings")


def shortened(loaded: LoadedBiLM, window: int, **options: int) -> LoadedBiLM:
    """The same model with another window."""
    body = replace(loaded.bilm.config, max_length=window)
    model = Model(replace(loaded.model.config, body=body))
    model.load_state_dict(loaded.model.state_dict())
    return LoadedBiLM(model, loaded.tokenizer, **options)


def test_a_source_of_vectors(elmo: LoadedBiLM, strings: LoadedBiLM) -> None:
    sentences = [["The", "mill", "-wheel"], [], ["turns"], ["the", "", "river"]]
    for source, layers, width in ((elmo, 3, 12), (strings, 1, 16)):
        assert (source.num_layers, source.width) == (layers, width)
        vectors = source.vectors(sentences)
        assert [array.shape for array in vectors] == [(layers, len(words), width) for words in sentences]
        assert all(array.dtype == np.float32 for array in vectors)
        assert all(np.isfinite(array).all() for array in vectors)
    assert (elmo.name, strings.name) == ("small", "strings")


def test_words_are_asked_for_as_lists(elmo: LoadedBiLM) -> None:
    for wrong in ("a cat", ["a cat"]):
        with pytest.raises(TypeError, match="sentences as lists of words"):
            elmo.vectors(wrong)


def test_a_word_is_its_last_character_forwards_and_its_first_backwards(strings: LoadedBiLM) -> None:
    words = ["The", "old", "mill"]
    encoding = strings.tokenizer.encode(" ".join(words))
    assert len(encoding) == 2 + 12
    with torch.inference_mode():
        hidden = strings.bilm.read(Packed.from_sequences([encoding.ids]))
    found = strings.vectors([words])[0][0]
    for row, (first, last) in zip(found, [(1, 3), (5, 7), (9, 12)], strict=True):
        np.testing.assert_allclose(row[:8], hidden.forward[0, last], atol=1e-6)
        np.testing.assert_allclose(row[8:], hidden.backward[0, first], atol=1e-6)


def test_words_of_a_text(elmo: LoadedBiLM, strings: LoadedBiLM) -> None:
    for loaded in (elmo, strings):
        words = loaded.embed_words(TEXTS)
        assert [[word.text for word in text] for text in words] == [
            ["The", "old", "mill", ",", "by", "the", "river", "'s", "bend", "."],
            ["Rain", "fell", "."],
            [],
            ["It", "did", "not", "stop", "for", "3,000", "days", "in", "the", "U.S.", "north", "."],
        ]
        assert all(
            text[word.start : word.end] == word.text for text, row in zip(TEXTS, words, strict=True) for word in row
        )
    given = elmo.embed_words([["Rain", "fell", "."]])[0]
    for one, two in zip(given, elmo.embed_words(["Rain fell."])[0], strict=True):
        np.testing.assert_allclose(one.vector, two.vector, atol=1e-6)
    assert [(word.start, word.end) for word in given] == [(0, 4), (0, 4), (0, 1)]


def test_words_tell_how_far_they_are(elmo: LoadedBiLM, strings: LoadedBiLM) -> None:
    for loaded in (elmo, strings):
        for embed in (loaded.embed, loaded.embed_words, loaded.embed_tokens):
            told: list[tuple[int, int]] = []
            embed(TEXTS, progress=lambda done, total, told=told: told.append((done, total)))
            done, total = told[-1]
            assert done == total >= len(TEXTS) - 1  # an empty text may have no piece


def test_one_vector_per_text(elmo: LoadedBiLM, strings: LoadedBiLM) -> None:
    for loaded in (elmo, strings):
        words = [np.stack([word.vector for word in row]) for row in loaded.embed_words([TEXTS[0], TEXTS[3]])]
        report = EmbedReport()
        found = loaded.embed(TEXTS, report=report)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found[[0, 3]], [rows.mean(axis=0) for rows in words], atol=1e-6)
        assert not found[2].any()
        np.testing.assert_allclose(loaded.embed(TEXTS[0], pooling="max"), words[0].max(axis=0), atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(loaded.embed(TEXTS[:2], normalize=True), axis=1), 1, atol=1e-6)
        ragged = loaded.embed(TEXTS, pooling="none")
        assert [len(rows) for rows in ragged] == [10, 3, 0, 12]
        assert report.texts == 4
        with pytest.raises(UsageError, match="allowed: mean, max, none"):
            loaded.embed(TEXTS, pooling="cls")


def test_layers(elmo: LoadedBiLM, strings: LoadedBiLM) -> None:
    layers = elmo.vectors([["Rain", "fell"]])[0]
    for name, wanted in {
        "last": layers[2],
        "first": layers[0],
        "second-to-last": layers[1],
        "sum-all": layers[1] + layers[2],
        "0": layers[0],
    }.items():
        found = np.stack([word.vector for word in elmo.embed_words([["Rain", "fell"]], layers=name)[0]])
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    with pytest.raises(UsageError, match="single characters"):
        strings.embed(TEXTS, layers="first")
    with pytest.raises(UsageError, match="layer 5 does not exist"):
        elmo.embed(TEXTS, layers=5)


def test_what_shares_a_batch_changes_nothing(elmo: LoadedBiLM, strings: LoadedBiLM) -> None:
    sentences = [["a"] * length + ["word"] for length in (0, 3, 9, 1)]
    for loaded in (elmo, strings):
        together = loaded.vectors(sentences)
        small = shortened(loaded, loaded.model.num_positions, batch_tokens=4).vectors(sentences)
        for sentence, one, two in zip(sentences, together, small, strict=True):
            np.testing.assert_allclose(one, loaded.vectors([sentence])[0], atol=1e-6)
            np.testing.assert_allclose(one, two, atol=1e-6)


def test_a_long_text_comes_in_windows(elmo: LoadedBiLM, strings: LoadedBiLM) -> None:
    words = [f"{chr(97 + number % 26)}{number}" for number in range(300)]
    for loaded, window in ((elmo, 42), (strings, 162)):
        report = EmbedReport()
        narrow = shortened(loaded, window)
        found = narrow.embed_words([words], report=report)[0]
        assert len(found) == 300
        assert report.windowed == 1
        whole = loaded.vectors([words])[0][-1]
        near = np.stack([word.vector for word in found])
        assert np.abs(near).min(axis=1).max() > 0  # every word got its vector, both halves of it
        half = near.shape[1] // 2
        np.testing.assert_allclose(near[0, :half], whole[0, :half], atol=1e-6)  # the ends have all their context
        np.testing.assert_allclose(near[-1, half:], whole[-1, half:], atol=1e-6)
        assert np.corrcoef(near.ravel(), whole.ravel())[0, 1] > 0.99


def test_each_reader_is_taken_from_the_window_where_it_has_seen_most(elmo: LoadedBiLM) -> None:
    words = [f"{chr(97 + number % 26)}{number}" for number in range(100)]
    size = 40
    found = shortened(elmo, size + 2).vectors([words])[0]  # (layers, words, width)
    cut = windows(len(words), size, overlap=size // 4)
    assert len(cut) > 2
    read = [elmo.vectors([words[window.start : window.stop]])[0] for window in cut]
    half = found.shape[2] // 2
    for place in range(len(words)):
        holding = [number for number, window in enumerate(cut) if window.start <= place < window.stop]
        for number, columns in ((holding[0], slice(0, half)), (holding[-1], slice(half, None))):
            wanted = read[number][:, place - cut[number].start, columns]
            np.testing.assert_allclose(found[:, place, columns], wanted, atol=1e-5)


def test_a_lower_case_model_lowers_the_case_of_given_words(elmo: LoadedBiLM) -> None:
    tokenizer = train_tokenizer(TEXTS, TrainerOptions.of("word", vocab_size=50, lowercase=True, min_frequency=1))
    lowered = LoadedBiLM(elmo.model, tokenizer)
    np.testing.assert_allclose(lowered.vectors([["RAIN"]])[0], elmo.vectors([["rain"]])[0], atol=1e-6)


def test_what_it_is_not(elmo: LoadedBiLM, tmp_path: Path) -> None:
    with pytest.raises((ModelError, TokenizerError, UsageError)):
        elmo.fill("A [MASK].")
    with pytest.raises(ModelError, match="no attention"):
        elmo.attend("A text.")
    with pytest.raises(UsageError, match="not a string"):
        elmo.vectors([["a", 3]])
    elmo.save(tmp_path)
    with pytest.raises((ModelError, UsageError)):
        bertworks.load(tmp_path).predict("A text.")
    assert hub.load(tmp_path).model.config.describe() == "elmo 2x6"
