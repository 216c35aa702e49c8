"""Sentencepiece models (Kudo & Richardson 2018) without the library: vocabulary, scores and normalisation of a `.spm` file.

The file is a protocol buffer, of which a few fields matter: the pieces with their scores, the kind of model, and a table of
character replacements. From these a `tokenizers` engine of the same kind is built.

A translation model of Marian's has two such files, one per language, and a `vocab.json` that numbers the pieces of both. Each
side's engine has all numbers, but finds only its own language's pieces in a text: the others stand in its vocabulary behind a
mark that no text holds, and that is taken off when ids become text again. Single characters are found in any case: one that is
unknown to a language's model is looked up in the common vocabulary.

Left out: models that merge pairs (BPE) instead of choosing the most probable pieces (Unigram).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bertworks.errors import TokenizerError

ELSEWHERE = "\ufdd0"
"""Before a piece of the other language; a code point that is never assigned to a character."""
NORMAL, UNIGRAM = 1, 1
UNSEEN = 10.0
"""How much less probable than the rarest piece a character is that the model has not seen."""
LANGUAGE = re.compile(r">>[^<>]+<<")
"""How models with several target languages are told which: a token at the beginning of the text."""


@dataclass(frozen=True)
class SentencePieces:
    """What a `.spm` file says."""

    scores: dict[str, float]
    """The log probability of each piece that can stand in a text."""
    replacements: bytes
    """A compiled table of character replacements, as `tokenizers` takes it; empty = none."""


def read_pieces(path: Path) -> SentencePieces:
    """Read a `.spm` file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error})") from error
    scores: dict[str, float] = {}
    kind, replacements = UNIGRAM, b""
    try:
        for number, value in _fields(data):
            if number == 1 and isinstance(value, bytes):
                piece = dict(_fields(value))
                text, score = piece[1], piece.get(2, 0.0)
                assert isinstance(text, bytes)
                if piece.get(3, NORMAL) == NORMAL:
                    scores[text.decode("utf-8")] = float(score)
            elif number == 2 and isinstance(value, bytes):
                kind = int(dict(_fields(value)).get(3, UNIGRAM))
            elif number == 3 and isinstance(value, bytes):
                found = dict(_fields(value)).get(2, b"")
                assert isinstance(found, bytes)
                replacements = found
    except (AssertionError, IndexError, KeyError, UnicodeDecodeError, ValueError, struct.error) as error:
        raise TokenizerError(f"{path}: not a sentencepiece model, or damaged") from error
    if kind != UNIGRAM:
        raise TokenizerError(
            f"{path}: this sentencepiece model merges pairs; only those that choose the most probable pieces (unigram) "
            "can be read without a tokenizer.json"
        )
    if not scores:
        raise TokenizerError(f"{path}: not a sentencepiece model: it has no pieces")
    return SentencePieces(scores, replacements)


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a protocol buffer message: number and value."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | float | bytes
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif wire == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        elif wire == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
            if len(value) != length:
                raise ValueError("cut off")
        else:
            raise ValueError(f"wire type {wire}")
        yield number, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def marian_tokenizer(folder: Path, side: str) -> Tokenizer:
    """The engine for one side, `source` or `target`, of a translation model's directory."""
    pieces = read_pieces(folder / f"{side}.spm")
    vocabulary = _vocabulary(folder, side)
    unk, eos = vocabulary.get("<unk>"), vocabulary.get("</s>")
    if unk is None or eos is None:
        raise TokenizerError(f"{folder / 'vocab.json'}: has no <unk> or no </s>, which a translation model needs")
    special = {"<unk>", "</s>", "<pad>"} | {token for token in vocabulary if LANGUAGE.fullmatch(token)}
    entries = [("", 0.0)] * len(vocabulary)
    unseen = min(pieces.scores.values()) - UNSEEN
    for token, number in vocabulary.items():
        if token in pieces.scores or token in special:
            entries[number] = (token, pieces.scores.get(token, 0.0))
        elif len(token) == 1:  # unknown to the model, but not to the vocabulary, which is asked for it all the same
            entries[number] = (token, unseen)
        else:
            entries[number] = (ELSEWHERE + token, 0.0)
    backend = Tokenizer(models.Unigram(entries, unk_id=unk))
    steps = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if pieces.replacements:
        steps.insert(0, normalizers.Precompiled(pieces.replacements))
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.decoder = decoders.Sequence([decoders.Replace(ELSEWHERE, ""), decoders.Metaspace(replacement="▁")])
    backend.add_special_tokens(
        [AddedToken(token, normalized=False) for token in sorted(special) if token in vocabulary]
    )
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", eos)]
    )
    return backend


def _vocabulary(folder: Path, side: str) -> dict[str, int]:
    """The numbers of the pieces: `vocab.json`, or the target's own where each side has one."""
    path = folder / "vocab.json"
    if side == "target" and (folder / "target_vocab.json").is_file():
        path = folder / "target_vocab.json"
    try:
        vocabulary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TokenizerError(
            f"{path}: cannot be read as JSON ({error}); {side}.spm needs it for its numbers"
        ) from error
    if not isinstance(vocabulary, dict) or sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise TokenizerError(f"{path}: must map pieces to the numbers 0 to its size, each once")
    return vocabulary
