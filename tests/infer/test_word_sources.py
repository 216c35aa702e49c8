"""Sources of word vectors: what a name leads to, what its vectors are, and whether it is still the same."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bertworks
from bertworks.errors import BertworksError, DataError, ModelError
from bertworks.infer.word_sources import (
    EncoderSource,
    StaticSource,
    fingerprint,
    is_contextual,
    named_source,
    open_inputs,
    open_source,
    per_word,
)
from bertworks.tasks.word_inputs import WordInputs
from tests.finetune.small import write_model
from tests.tasks.small import make_tokenizer

SENTENCES = [["The", "miller's", "geese"], [], ["seventeen"]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2\nGeese 3 4\ngeese 5 6\n")
    return path


def test_static_vectors_are_looked_up_as_written_then_in_small_letters(table: Path) -> None:
    source = open_source(str(table))
    assert isinstance(source, StaticSource)
    assert not is_contextual(source)
    assert (source.num_layers, source.width) == (1, 2)
    first, second, third = source.vectors([["The", "GEESE", "Geese"], [], ["unheard-of"]])
    assert first.tolist() == [[[1, 2], [5, 6], [3, 4]]]
    assert second.shape == (1, 0, 2)
    assert third.tolist() == [[[0, 0]]]


def test_a_models_words_have_the_mean_of_their_tokens_in_every_layer(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "model")
    source = open_source(str(directory))
    assert isinstance(source, EncoderSource)
    assert is_contextual(source)
    loaded = bertworks.load(directory)
    assert (source.num_layers, source.width) == (loaded.model.num_layers + 1, loaded.model.hidden_size)
    found = source.vectors(SENTENCES)
    assert [array.shape for array in found] == [(3, len(words), source.width) for words in SENTENCES]
    for layer in range(source.num_layers):
        wanted = loaded.embed_words(SENTENCES[:1], layers=layer)[0]
        np.testing.assert_allclose(found[0][layer], [word.vector for word in wanted], atol=1e-5)
    again = source.vectors(SENTENCES[2:])[0]
    np.testing.assert_allclose(again, found[2], atol=1e-5)


def test_a_word_is_its_tokens_mean_or_the_first_of_them() -> None:
    encoding = make_tokenizer("bert").encode_words(["walkers", "a"], special=False)
    assert len(encoding) > 2
    vectors = np.arange(len(encoding), dtype=np.float32)[:, None]
    assert per_word(encoding, vectors, first=True)[:, 0].tolist() == [0.0, len(encoding) - 1.0]
    assert per_word(encoding, vectors)[:, 0].tolist() == [(len(encoding) - 2) / 2, len(encoding) - 1.0]


def test_a_source_is_known_by_its_content(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(str(table))
    monkeypatch.chdir(tmp_path)
    named = named_source("vectors.txt", last=True)
    assert named.name == str(table.resolve())
    assert (named.sha256, named.last) == (before, True)
    copy = tmp_path / "copy.txt"
    copy.write_bytes(table.read_bytes())
    assert fingerprint(str(copy)) == before
    inputs = WordInputs(named=(named,))
    assert open_inputs(inputs).sources[0].width == 2
    table.write_text("the 1 2\n")
    with pytest.raises(ModelError, match="trained with other word vectors"):
        open_inputs(inputs)
    gone = WordInputs(named=(replace(named, name=str(tmp_path / "gone.txt")),))
    with pytest.raises(ModelError, match=r"cannot be opened: .*gone.txt: no such file; if they have moved"):
        open_inputs(gone, directory=tmp_path)
    with pytest.raises(DataError, match=r"gone.txt: no such file$"):  # of a model that is only being made
        open_inputs(gone)


def test_a_source_that_moved_is_found(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = WordInputs(named=(named_source(str(table)),))
    model, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    for folder in (model, elsewhere):
        folder.mkdir()
    table.rename(elsewhere / table.name)
    with pytest.raises(ModelError, match="name their folder in the environment variable BERTWORKS_VECTORS"):
        open_inputs(inputs, directory=model)
    monkeypatch.setenv("BERTWORKS_VECTORS", f"{tmp_path / 'nowhere'}{os.pathsep}{elsewhere}")
    assert open_inputs(inputs).sources[0].width == 2
    monkeypatch.delenv("BERTWORKS_VECTORS")
    (elsewhere / table.name).rename(model / table.name)
    table.write_text("the 1 2\n")  # other vectors where they were
    assert open_inputs(inputs, directory=model).sources[0].vectors([["Geese"]])[0].tolist() == [[[3, 4]]]
    (model / table.name).write_text("the 1 2\n")
    with pytest.raises(ModelError, match="trained with other word vectors"):
        open_inputs(inputs, directory=model)


def test_figures_beside_a_model_do_not_make_it_another(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "model")
    before = fingerprint(str(directory))
    (directory / "metrics.json").write_text("{}")
    (directory / "README.md").write_text("hello")
    assert fingerprint(str(directory)) == before
    (directory / "config.json").write_text((directory / "config.json").read_text() + " ")
    assert fingerprint(str(directory)) != before


def test_a_name_that_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(BertworksError, match="nowhere"):
        open_source(str(tmp_path / "nowhere"))


def test_the_arrays_that_gensim_puts_beside_a_file_count(tmp_path: Path) -> None:
    path = tmp_path / "words.kv"
    path.write_bytes(b"the same words")
    np.save(tmp_path / "words.kv.vectors.npy", np.ones((2, 3), np.float32))
    before = fingerprint(str(path))
    np.save(tmp_path / "words.kv2.vectors.npy", np.ones((2, 3), np.float32))  # another file's
    assert fingerprint(str(path)) == before
    np.save(tmp_path / "words.kv.vectors.npy", np.full((2, 3), 5, np.float32))
    assert fingerprint(str(path)) != before
