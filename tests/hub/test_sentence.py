"""Directories of `sentence-transformers`: read in all spellings, and written so that it gives the same vectors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from bertworks.errors import CheckpointError
from bertworks.hub.checkpoint import load_model, save_model
from bertworks.hub.sentence import SentenceSettings, read_settings, write_settings
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from tests.hub.test_checkpoint import HIDDEN, VOCABULARY, bare

TEXTS = ["a b c", "d", "e f g a b", "unknown words here"]


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def modules(directory: Path, *kinds: str, package: str = "sentence_transformers.models", body: str = "") -> None:
    folders = {"Transformer": body, "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    rows = [
        {"idx": number, "name": str(number), "path": folders.get(kind, f"{number}_{kind}"), "type": f"{package}.{kind}"}
        for number, kind in enumerate(kinds)
    ]
    write(directory / "modules.json", rows)


def tokenizer(directory: Path) -> Tokenizer:
    """One word, one token."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefg"]
    vocabulary = {word: number for number, word in enumerate(words)}
    assert len(words) < VOCABULARY
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.save(str(directory / "tokenizer.json"))
    special = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
    write(directory / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **special})
    return made


def test_the_offline_default(minilm_directory: Path) -> None:
    assert read_settings(minilm_directory) == SentenceSettings(pooling="mean", normalize=True, max_seq_length=256)


def test_other_directories_have_none(tmp_path: Path) -> None:
    assert read_settings(tmp_path) is None
    modules(tmp_path, "Transformer")  # a cross-encoder, say
    assert read_settings(tmp_path) is None


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("length", [None, 11])
def test_what_is_written_is_read(tmp_path: Path, pooling: Any, normalize: bool, length: int | None) -> None:
    settings = SentenceSettings(pooling=pooling, normalize=normalize, max_seq_length=length)
    write_settings(tmp_path, settings, HIDDEN)
    assert read_settings(tmp_path) == settings
    assert not list(tmp_path.rglob("*.tmp"))


def vectors(model: Model, settings: SentenceSettings, encode: Tokenizer) -> torch.Tensor:
    """Our vectors, spelled out."""
    rows = [encode.encode(text).ids[: settings.max_seq_length] for text in TEXTS]
    batch = Packed.from_sequences(rows)
    with torch.no_grad():
        hidden = model.body(batch).last
    pieces = hidden.split([len(row) for row in rows])
    if settings.pooling == "mean":
        pooled = torch.stack([piece.mean(dim=0) for piece in pieces])
    elif settings.pooling == "cls":
        pooled = torch.stack([piece[0] for piece in pieces])
    else:
        pooled = torch.stack([piece.max(dim=0).values for piece in pieces])
    return torch.nn.functional.normalize(pooled) if settings.normalize else pooled


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False), ("max", True)])
def test_sentence_transformers_opens_it_with_equal_vectors(tmp_path: Path, pooling: Any, normalize: bool) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    ours = tmp_path / "ours"
    model = Model(bare()).eval()
    settings = SentenceSettings(pooling=pooling, normalize=normalize, max_seq_length=13)
    save_model(model, ours)
    write_settings(ours, settings, HIDDEN)
    encode = tokenizer(ours)

    theirs = sentence_transformers.SentenceTransformer(str(ours), device="cpu")
    assert theirs.max_seq_length == 13
    assert len(theirs) == 2 + normalize
    expected = theirs.encode(TEXTS, convert_to_numpy=True)
    np.testing.assert_allclose(vectors(model, settings, encode).numpy(), expected, atol=1e-5, rtol=0)

    theirs.save(str(tmp_path / "theirs"))  # in the spelling of the installed version
    assert read_settings(tmp_path / "theirs") == settings
    again = load_model(tmp_path / "theirs")
    np.testing.assert_allclose(vectors(again, settings, encode).numpy(), expected, atol=1e-5, rtol=0)


def test_the_new_spelling(tmp_path: Path) -> None:
    modules(tmp_path, "Transformer", "Pooling", "Normalize", package="sentence_transformers.base.modules")
    write(tmp_path / "1_Pooling" / "config.json", {"embedding_dimension": HIDDEN, "pooling_mode": "cls"})
    write(tmp_path / "2_Normalize" / "config.json", {"module_input_name": "sentence_embedding"})
    write(tmp_path / "sentence_bert_config.json", {"transformer_task": "feature-extraction"})
    write(tmp_path / "tokenizer_config.json", {"model_max_length": 128})
    assert read_settings(tmp_path) == SentenceSettings(pooling="cls", normalize=True, max_seq_length=128)
    write(tmp_path / "tokenizer_config.json", {"model_max_length": 1e30})  # "no limit"
    assert read_settings(tmp_path) == SentenceSettings(pooling="cls", normalize=True, max_seq_length=None)
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": ["max"]})
    assert read_settings(tmp_path) == SentenceSettings(pooling="max", normalize=True)


def test_old_directories_keep_the_transformer_in_a_folder(tmp_path: Path) -> None:
    modules(tmp_path, "Transformer", "Pooling", body="0_Transformer")
    write(tmp_path / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN})  # nothing said: the mean
    write(tmp_path / "0_Transformer" / "sentence_roberta_config.json", {"max_seq_length": 75})
    assert read_settings(tmp_path) == SentenceSettings(pooling="mean", max_seq_length=75, folder="0_Transformer")


# -- what is not supported -------------------------------------------------------------------------------------------


def error_of(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_settings(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_other_modules(tmp_path: Path) -> None:
    modules(tmp_path, "Transformer", "Pooling", "Dense")
    assert "asks for Transformer, Pooling, Dense; supported here: Transformer, then Pooling" in error_of(tmp_path)


@pytest.mark.parametrize("content", [{}, [1], [{"path": ""}], "x"])
def test_a_list_of_modules_that_is_none(tmp_path: Path, content: Any) -> None:
    write(tmp_path / "modules.json", content)
    assert "must be a list of modules" in error_of(tmp_path)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({"pooling_mode": ["mean", "max"]}, "mean + max"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "mean + cls"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean_sqrt_len_tokens"),
    ],
)
def test_other_poolings(tmp_path: Path, config: Any, says: str) -> None:
    modules(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "1_Pooling" / "config.json", config)
    assert f"asks for the pooling {says}; supported here: mean, cls, max" in error_of(tmp_path)


def test_a_pooling_that_is_not_there(tmp_path: Path) -> None:
    modules(tmp_path, "Transformer", "Pooling")
    assert "cannot read" in error_of(tmp_path)


def test_normalising_something_else(tmp_path: Path) -> None:
    modules(tmp_path, "Transformer", "Pooling", "Normalize")
    write(tmp_path / "2_Normalize" / "config.json", {"module_input_name": "token_embeddings"})
    assert "normalises 'token_embeddings'" in error_of(tmp_path)


@pytest.mark.parametrize("length", [0, -1, "many", 1.5, True])
def test_a_length_that_is_none(tmp_path: Path, length: Any) -> None:
    write_settings(tmp_path, SentenceSettings(), HIDDEN)
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": length})
    assert f"max_seq_length {length!r}" in error_of(tmp_path)


def test_what_is_left_out_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = SentenceSettings(max_seq_length=9)
    write_settings(tmp_path, settings, HIDDEN)
    read_settings(tmp_path)
    assert not caplog.records
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": 9, "do_lower_case": True})
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    write(tmp_path / "config_sentence_transformers.json", prompts)
    assert read_settings(tmp_path) == replace(settings)
    first, second = (record.getMessage() for record in caplog.records)
    assert "lower-casing" in first
    assert "'query: '" in second
