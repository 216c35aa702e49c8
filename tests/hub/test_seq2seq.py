"""Encoder-decoders of other houses: the same numbers there and here, both ways, strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertworks.errors import CheckpointError
from bertworks.hub.checkpoint import load_module, load_report, save_model
from bertworks.models.seq2seq import EncoderDecoder
from bertworks.nn.packed import Packed
from tests.hub.reference import single_thread
from tests.infer.seq2seq_reference import CLASSES, make_translator, ours

SOURCES = [[7, 9, 11, 0], [20, 21, 22, 23, 24, 0], [50, 0]]
TARGETS = [[3, 4], [5, 6, 7, 8, 9], [10, 11, 12]]


@pytest.fixture(autouse=True)
def quick():
    with single_thread():
        yield


def logits(model: EncoderDecoder) -> torch.Tensor:
    return model(Packed.from_sequences(SOURCES), Packed.from_sequences(TARGETS))


def expected(reference: Any) -> torch.Tensor:
    rows = [
        reference(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0]
        for source, target in zip(SOURCES, TARGETS, strict=True)
    ]
    return torch.cat(rows)


@pytest.mark.parametrize("model_type", CLASSES)
def test_forward_and_both_conversions(model_type: str, tmp_path: Path) -> None:
    reference = make_translator(model_type)
    model = ours(reference, tmp_path / "theirs")
    assert isinstance(model, EncoderDecoder)
    torch.testing.assert_close(logits(model), expected(reference), atol=1e-5, rtol=0)
    report = load_report(tmp_path / "theirs")
    assert report.problem is None
    assert report.unexpected == ()
    save_model(model, tmp_path / "ours")
    again, info = getattr(transformers, CLASSES[model_type]).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    torch.testing.assert_close(expected(again.eval()), expected(reference), atol=0, rtol=0)
    for key in ("decoder_start_token_id", "eos_token_id", "pad_token_id", "forced_eos_token_id", "d_model"):
        assert getattr(again.config, key) == getattr(reference.config, key), key
    torch.testing.assert_close(logits(load_module(tmp_path / "ours")), logits(model), atol=0, rtol=0)


def test_two_vocabularies(tmp_path: Path) -> None:
    reference = make_translator("marian", share_encoder_decoder_embeddings=False, decoder_vocab_size=217)
    model = ours(reference, tmp_path / "theirs")
    assert not model.config.shared_embeddings
    torch.testing.assert_close(logits(model), expected(reference), atol=1e-5, rtol=0)
    save_model(model, tmp_path / "ours")
    again = transformers.MarianMTModel.from_pretrained(tmp_path / "ours").eval()
    torch.testing.assert_close(expected(again), expected(reference), atol=0, rtol=0)


def test_files_without_a_prefix_or_with_copies_are_read(tmp_path: Path) -> None:
    reference = make_translator("bart")
    model = ours(reference, tmp_path / "theirs")
    tensors = load_file(tmp_path / "theirs" / "model.safetensors")
    table = tensors.pop("model.shared.weight")
    stripped = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    stripped |= {"encoder.embed_tokens.weight": table, "decoder.embed_tokens.weight": table.clone()}
    save_file(stripped, tmp_path / "theirs" / "model.safetensors")
    torch.testing.assert_close(logits(load_module(tmp_path / "theirs")), logits(model), atol=0, rtol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False"),
        ({"normalize_before": True}, "normalize_before = True"),
        ({"decoder_start_token_id": None}, "decoder_start_token_id = None; it must be an id"),
        ({"encoder_layers": 4}, "lacks 16 of the tensors"),
        ({"d_model": 36}, "wrong shape"),
    ],
)
def test_what_cannot_be_run_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_translator("marian").save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(CheckpointError, match=message):
        load_module(tmp_path)


def test_what_a_family_cannot_express_is_not_written(tmp_path: Path) -> None:
    from dataclasses import replace

    model = ours(make_translator("bart"), tmp_path / "theirs")
    decoder = replace(model.config.decoder, final_norm=True)
    changed = EncoderDecoder(replace(model.config, decoder=decoder))
    with pytest.raises(CheckpointError, match=r"a bart checkpoint cannot express decoder\.final_norm = True"):
        save_model(changed, tmp_path / "ours")
    own = EncoderDecoder(replace(model.config, decoder=decoder, family="bertworks")).eval()
    save_model(own, tmp_path / "own")
    again = load_module(tmp_path / "own")
    assert again.config == own.config
    torch.testing.assert_close(logits(again), logits(own), atol=0, rtol=0)
