"""Sentencepiece files made on the spot: a protocol buffer written by hand, pieces trained by `tokenizers`."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

UNKNOWN, CONTROL, NORMAL = 2, 3, 1


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def spm(pieces: Sequence[tuple[str, float, int]], *, kind: int = 1, replacements: bytes = b"") -> bytes:
    """The bytes of a `.spm` file: pieces with scores and kinds; `kind` 1 is unigram, 2 merges pairs."""
    out = b""
    for text, score, sort in pieces:
        entry = _message(1, text.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", score)
        out += _message(1, entry + (_varint(3 << 3) + _varint(sort) if sort != NORMAL else b""))
    out += _message(2, _varint(3 << 3) + _varint(kind) + _varint(10 << 3 | 5) + struct.pack("<f", 0.9995))
    return out + _message(3, _message(1, b"identity") + (_message(2, replacements) if replacements else b""))


def train(sentences: Sequence[str], size: int = 120) -> list[tuple[str, float, int]]:
    """Pieces as sentencepiece would have them: <unk>, <s>, </s>, and what a unigram trainer finds."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"])
    tokenizer.train_from_iterator(sentences, trainer)
    found = json.loads(tokenizer.to_str())["model"]["vocab"]
    head = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    return head + [(piece, score, NORMAL) for piece, score in found if piece != "<unk>"]


def write_sides(directory: Path, source: Sequence[str], target: Sequence[str]) -> dict[str, int]:
    """`source.spm`, `target.spm` and the `vocab.json` over both, as Marian's models have them; returns the last."""
    directory.mkdir(parents=True, exist_ok=True)
    sides = {"source": train(source), "target": train(target)}
    for name, pieces in sides.items():
        (directory / f"{name}.spm").write_bytes(spm(pieces))
    both = sorted({piece for pieces in sides.values() for piece, _, sort in pieces if sort == NORMAL})
    vocabulary = {piece: number for number, piece in enumerate(["</s>", "<unk>", *both, "<pad>"])}
    (directory / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    return vocabulary
