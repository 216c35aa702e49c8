"""Marian's tokenizers: a sentencepiece model for each language and one vocabulary over both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from bertworks.errors import TokenizerError
from bertworks.text.sentencepiece import read_pieces
from bertworks.text.tokenizer import Tokenizer
from tests.text.spm import NORMAL, spm, train, write_sides

ENGLISH = ["The river runs past the old mill.", "Nobody stopped the seventeen geese.", "The miller runs home."] * 4
GERMAN = ["Der Fluss fließt an der alten Mühle vorbei.", "Niemand hielt die Gänse auf.", "Der Müller läuft heim."] * 4


def test_reading_what_was_written(tmp_path: Path) -> None:
    pieces = train(ENGLISH)
    (tmp_path / "a.spm").write_bytes(spm(pieces, replacements=b"\x04\x00\x00\x00abcd"))
    found = read_pieces(tmp_path / "a.spm")
    assert list(found.scores) == [piece for piece, _, sort in pieces if sort == NORMAL]
    assert found.scores == pytest.approx({piece: score for piece, score, sort in pieces if sort == NORMAL}, rel=1e-6)
    assert found.replacements == b"\x04\x00\x00\x00abcd"


def test_each_side_has_its_own_pieces_and_common_numbers(tmp_path: Path) -> None:
    vocabulary = write_sides(tmp_path, ENGLISH, GERMAN)
    source, target = Tokenizer.from_directory(tmp_path), Tokenizer.from_directory(tmp_path, "target")
    for tokenizer, sentences in ((source, ENGLISH), (target, GERMAN)):
        for text in sentences[:3]:
            encoding = tokenizer.encode(text)
            assert int(encoding.ids[-1]) == vocabulary["</s>"]
            assert vocabulary["<unk>"] not in encoding.ids
            assert tokenizer.decode(encoding.ids) == text
            assert source.decode(encoding.ids) == target.decode(encoding.ids) == text
    # The pieces are those of a plain unigram model over the side's own vocabulary.
    pieces = [(piece, score) for piece, score, sort in train(ENGLISH) if sort == NORMAL]
    plain = Backend(models.Unigram([("<unk>", 0.0), *pieces], unk_id=0))
    plain.pre_tokenizer = pre_tokenizers.Metaspace()
    for text in (*ENGLISH[:3], "old geese  run ", "the 7 geese"):
        tokens = plain.encode(" ".join(text.split())).tokens
        numbers = [vocabulary.get(token, vocabulary["<unk>"]) for token in tokens]
        assert source.encode(text, special=False).ids.tolist() == numbers
    # A character that only the other language's model has seen is still in the vocabulary.
    assert "ü" not in {piece for piece, _ in pieces}
    assert vocabulary["ü"] in source.encode("rün").ids
    assert (source.eos_id, source.pad_id, source.unk_id) == (0, len(vocabulary) - 1, 1)
    assert source.vocab_size == target.vocab_size == len(vocabulary)


def test_a_language_in_front(tmp_path: Path) -> None:
    vocabulary = write_sides(tmp_path, ENGLISH, GERMAN)
    vocabulary[">>deu<<"] = len(vocabulary)
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = Tokenizer.from_directory(tmp_path)
    ids = tokenizer.encode(">>deu<< The mill.").ids.tolist()
    assert ids[0] == vocabulary[">>deu<<"]
    assert ids[1:] == tokenizer.encode("The mill.").ids.tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("source.spm", b"", "has no pieces"),
        ("source.spm", b"\x0a\xff\x01abc", "not a sentencepiece model, or damaged"),
        ("source.spm", spm([("a", -1.0, 1)], kind=2), "merges pairs"),
        ("vocab.json", b"[1]", "must map pieces to the numbers"),
        ("vocab.json", b'{"a": 5}', "must map pieces to the numbers"),
        ("vocab.json", b'{"a": 0}', "has no <unk> or no </s>"),
        ("vocab.json", b"{", "cannot be read as JSON"),
    ],
)
def test_damage_is_told(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    write_sides(tmp_path, ENGLISH, GERMAN)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TokenizerError, match=message):
        Tokenizer.from_directory(tmp_path)
