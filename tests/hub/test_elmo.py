"""ELMo as it is published: the vectors of AllenNLP's own test material, and files that are wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import bertworks
from bertworks import hub
from bertworks.errors import CheckpointError, ModelError
from bertworks.hub.elmo import find_elmo, load_elmo, save_elmo
from bertworks.infer.bilm import LoadedBiLM
from bertworks.models.elmo import BiLM, PackedSpelt, SpeltWords
from bertworks.models.model import Model
from bertworks.nn.mix import LayerMix
from bertworks.nn.packed import Layout
from bertworks.text.spelling import spell, spell_boundaries

LANES, BATCHES = 3, 10


@pytest.fixture(scope="module")
def sentences(weights_elmo: Path) -> list[list[list[str]]]:
    """Three lanes of ten sentences; the k-th of each were one batch when the vectors were made."""
    lanes = json.loads((weights_elmo / "sentences.json").read_text())
    return [[sentence.split() for sentence in lane] for lane in lanes]


@pytest.fixture(scope="module")
def expected(weights_elmo: Path) -> list[list[np.ndarray]]:
    """What the original program gives for them: the last layer, (words, 32)."""
    lanes = []
    for lane in range(LANES):
        with h5py.File(weights_elmo / f"lm_embeddings_{lane}.hdf5") as file:
            lanes.append([np.concatenate(list(file[str(number)][...]), axis=-1) for number in range(BATCHES)])
    return lanes


@pytest.fixture(scope="module")
def loaded(weights_elmo: Path) -> LoadedBiLM:
    model = bertworks.load(weights_elmo)
    assert isinstance(model, LoadedBiLM)
    return model


def framed(batch: list[list[str]]) -> PackedSpelt:
    words = sorted({word for sentence in batch for word in sentence})
    rows = [[0, *(2 + words.index(word) for word in sentence), 1] for sentence in batch]
    return PackedSpelt(
        input_ids=torch.tensor([number for row in rows for number in row]),
        layout=Layout([len(row) for row in rows]),
        characters=torch.from_numpy(np.concatenate([spell_boundaries(), spell(words)]).astype(np.int64)),
    )


def test_words_are_as_in_the_original(weights_elmo: Path, loaded: LoadedBiLM) -> None:
    """The layer below the LSTMs, for a list of words, the beginning and the end of a sentence among them."""
    words = (weights_elmo / "vocab_test.txt").read_text().split()
    with h5py.File(weights_elmo / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    characters = spell(words)
    characters[[words.index("<S>"), words.index("</S>")]] = spell_boundaries()
    layer = body(loaded.model).embeddings
    assert isinstance(layer, SpeltWords)
    with torch.inference_mode():
        found = layer.words(torch.from_numpy(characters.astype(np.int64))).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    plain = [place for place, word in enumerate(words) if word not in ("<S>", "</S>")]
    vectors = loaded.vectors([[words[place] for place in plain]])[0]
    np.testing.assert_allclose(vectors[0], np.tile(expected[plain], 2), atol=1e-5)


def test_parity_with_the_original(
    weights_elmo: Path, sentences: list[list[list[str]]], expected: list[list[np.ndarray]]
) -> None:
    """All thirty sentences, within 1e-5. The original goes on with the state of the batch before; so this must, too."""
    bilm = body(load_elmo(*(find_elmo(weights_elmo) or ())))
    state, worst = None, 0.0
    with torch.inference_mode():
        for number in range(BATCHES):
            batch = framed([lane[number] for lane in sentences])
            hidden = bilm.read(batch, state)
            state = hidden.state
            last = torch.cat(hidden.halves(2), dim=-1).numpy()
            for lane, (start, length) in enumerate(zip(batch.layout.starts, batch.layout.lengths, strict=True)):
                found, wanted = last[start + 1 : start + length - 1], expected[lane][number]
                assert found.shape == wanted.shape
                worst = max(worst, float(np.abs(found - wanted).max()))
    assert worst < 1e-5


def test_vectors_of_the_first_batch_are_those_of_the_original(
    loaded: LoadedBiLM, sentences: list[list[list[str]]], expected: list[list[np.ndarray]]
) -> None:
    """The first batch had no state to go on with: that is what every text has here."""
    found = loaded.vectors([lane[0] for lane in sentences])
    assert (loaded.num_layers, loaded.width) == (3, 32)
    for lane, vectors in enumerate(found):
        assert vectors.shape == (3, len(sentences[lane][0]), 32)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors[2], expected[lane][0], atol=1e-5)


def test_the_same_text_has_the_same_vectors_every_time(
    weights_elmo: Path, loaded: LoadedBiLM, sentences: list[list[list[str]]], expected: list[list[np.ndarray]]
) -> None:
    """Two runs, bit for bit, and whatever was read before; AllenNLP's second batch depends on its first."""
    flat = [sentence for lane in sentences for sentence in lane]
    first = loaded.vectors(flat)
    again = bertworks.load(weights_elmo)
    assert isinstance(again, LoadedBiLM)
    for one, two, three in zip(first, loaded.vectors(flat), again.vectors(flat), strict=True):
        assert np.array_equal(one, two)
        assert np.array_equal(one, three)
    alone = loaded.vectors([flat[7]])[0]
    np.testing.assert_allclose(alone, first[7], atol=1e-6)
    second = loaded.vectors([sentences[0][1]])[0][2]
    assert np.abs(second - expected[0][1]).max() > 1e-3  # theirs remembers the sentence before


def test_a_mix_begins_as_the_mean(loaded: LoadedBiLM, sentences: list[list[list[str]]]) -> None:
    vectors = loaded.vectors([sentences[0][0]])[0]
    mixed = LayerMix(loaded.num_layers)(torch.from_numpy(vectors))
    np.testing.assert_allclose(mixed.detach().numpy(), vectors.mean(axis=0), atol=1e-6)


def test_it_is_saved_in_our_own_format(loaded: LoadedBiLM, sentences: list[list[list[str]]], tmp_path: Path) -> None:
    loaded.save(tmp_path / "ours")
    ours = bertworks.load(tmp_path / "ours")
    assert isinstance(ours, LoadedBiLM)
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["model_type"] == "bertworks"
    assert ours.model.config == loaded.model.config
    for one, two in zip(loaded.vectors(sentences[0]), ours.vectors(sentences[0]), strict=True):
        assert np.array_equal(one, two)


def test_it_is_written_back(weights_elmo: Path, loaded: LoadedBiLM, tmp_path: Path) -> None:
    save_elmo(loaded.model, tmp_path)
    original = json.loads((weights_elmo / "options.json").read_text())
    assert json.loads((tmp_path / "options.json").read_text()) == original
    names = []
    with h5py.File(tmp_path / "weights.hdf5") as ours, h5py.File(weights_elmo / "lm_weights.hdf5") as theirs:

        def compare(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                names.append(name)
                np.testing.assert_allclose(item[...], theirs[name][...], atol=1e-6)

        ours.visititems(compare)
    assert len(names) == 1 + 2 * 5 + 4 * 2 + 2 + 3 * 4
    with pytest.raises(ModelError, match="only ELMo"):
        save_elmo(hub.load("minilm").model, tmp_path)


def body(model: Model) -> BiLM:
    assert isinstance(model.body, BiLM)
    return model.body


# -- files that are wrong ----------------------------------------------------------------------------------------------


@pytest.fixture
def copied(weights_elmo: Path, tmp_path: Path) -> Path:
    shutil.copy(weights_elmo / "options.json", tmp_path / "options.json")
    shutil.copy(weights_elmo / "lm_weights.hdf5", tmp_path / "lm_weights.hdf5")
    return tmp_path


def change_options(directory: Path, section: str, **changes: Any) -> None:
    options = json.loads((directory / "options.json").read_text())
    options[section].update(changes)
    (directory / "options.json").write_text(json.dumps(options))


def test_a_copy_opens(copied: Path) -> None:
    assert bertworks.load(copied).embed("Some words.").shape == (32,)


def test_options_of_another_model(copied: Path) -> None:
    change_options(copied, "lstm", dim=65)
    with pytest.raises(
        CheckpointError, match=r"does not go with options.json: .*W_0 is \[32, 256\], must be \[32, 260\]"
    ):
        bertworks.load(copied)


def test_more_layers_than_there_are(copied: Path) -> None:
    change_options(copied, "lstm", n_layers=3)
    with pytest.raises(CheckpointError, match="lacks 6 of 39 arrays"):
        bertworks.load(copied)


def test_options_without_characters(copied: Path) -> None:
    options = json.loads((copied / "options.json").read_text())
    del options["char_cnn"]
    (copied / "options.json").write_text(json.dumps(options))
    with pytest.raises(CheckpointError, match="'char_cnn' is missing"):
        bertworks.load(copied)


def test_a_value_that_cannot_be(copied: Path) -> None:
    change_options(copied, "char_cnn", activation="swish")
    with pytest.raises(CheckpointError, match=r"options\.json: spelling\.activation"):
        bertworks.load(copied)


def test_damaged_weights(copied: Path) -> None:
    (copied / "lm_weights.hdf5").write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError, match="no HDF5 file"):
        bertworks.load(copied)


def test_two_models_in_one_directory(copied: Path) -> None:
    shutil.copy(copied / "lm_weights.hdf5", copied / "other_weights.hdf5")
    with pytest.raises(CheckpointError, match="several models"):
        bertworks.load(copied)
