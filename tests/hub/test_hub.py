"""A directory opened as a whole, and written as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertworks import hub
from bertworks.errors import CheckpointError, OutputError, TokenizerError
from bertworks.hub.sentence import SentenceSettings, write_settings
from bertworks.models.model import Model
from tests.hub.test_checkpoint import HIDDEN, bare, hidden
from tests.hub.test_sentence import TEXTS, modules, tokenizer, write


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A small BERT with 17 positions and a tokenizer."""
    path = tmp_path / "source"
    hub.save_model(Model(bare()), path)
    tokenizer(path)
    return path


def test_the_offline_default(minilm_directory: Path) -> None:
    loaded = hub.load("minilm")
    assert loaded.directory == minilm_directory
    assert loaded.window == 256
    assert loaded.settings == SentenceSettings(pooling="mean", normalize=True, max_seq_length=256)
    assert loaded.model.num_layers == 6
    assert loaded.tokenizer.encode("hello").ids.tolist() == [101, 7592, 102]


@pytest.mark.parametrize("settings", [None, SentenceSettings(pooling="cls", normalize=True, max_seq_length=13)])
def test_what_is_saved_is_loaded(directory: Path, tmp_path: Path, settings: SentenceSettings | None) -> None:
    first = hub.load(directory)
    target = tmp_path / "deep" / "target"
    hub.save(first.model, first.tokenizer, target, settings=settings)
    again = hub.load(str(target))
    assert again.settings == settings
    assert again.window == (17 if settings is None else 13)
    assert again.tokenizer.model_max_length == again.window
    assert torch.equal(hidden(first.model), hidden(again.model))
    for text in TEXTS:
        assert first.tokenizer.encode(text).ids.tolist() == again.tokenizer.encode(text).ids.tolist()
    assert not [path for path in target.rglob("*") if path.name.startswith(".") or path.suffix == ".tmp"]


def test_the_window_never_exceeds_the_positions(directory: Path) -> None:
    assert hub.load(directory).window == 17
    write_settings(directory, SentenceSettings(max_seq_length=512), HIDDEN)
    assert hub.load(directory).window == 17


def test_a_transformer_in_a_folder_of_its_own(directory: Path, tmp_path: Path) -> None:
    modules(tmp_path, "Transformer", "Pooling", body=directory.name)
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})
    loaded = hub.load(tmp_path)
    assert loaded.directory == tmp_path
    assert loaded.settings == SentenceSettings(pooling="cls", folder=directory.name)


def test_a_directory_without_a_tokenizer(directory: Path) -> None:
    for path in directory.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(TokenizerError):
        hub.load(directory)


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is empty"):
        hub.load(tmp_path)


def test_a_place_that_cannot_be_written(directory: Path, tmp_path: Path) -> None:
    loaded = hub.load(directory)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        hub.save(loaded.model, loaded.tokenizer, tmp_path / "file" / "model")
