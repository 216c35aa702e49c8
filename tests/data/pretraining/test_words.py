"""Word bounds told from ids, for every way in which vocabularies mark them."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from bertworks.data.pretraining.words import (
    CHINESE,
    LETTER,
    OTHER,
    WordStarts,
    byte_values,
    character_kind,
    special_ids,
)
from bertworks.errors import TokenizerError
from bertworks.text.tokenizer import Tokenizer
from tests.data.pretraining.helpers import word_tokenizer
from tests.text import tiny

TEXT = "The miller's daughter walked 3.5 miles; 河边 kvarnen. Älv, river!"


def words_of(tokenizer: Tokenizer, text: str) -> list[str]:
    """The text in the words that are found in its ids, spelled without spaces."""
    ids = tokenizer.ids([text])[0].astype(np.int64)
    starts = np.flatnonzero(WordStarts(tokenizer)(ids)).tolist()
    bounds = zip(starts, [*starts[1:], len(ids)], strict=True)
    return [tokenizer.decode(ids[start:end]).replace(" ", "") for start, end in bounds]


def test_wordpiece() -> None:
    tokenizer = Tokenizer(tiny.bert())
    expected = [
        "the",
        "miller",
        "'",
        "s",
        "daughter",
        "walked",
        "3",
        ".",
        "5",
        "miles",
        ";",
        "河",
        "边",
        "kvarnen",
        ".",
    ]
    assert words_of(tokenizer, TEXT)[:15] == expected


def test_byte_level() -> None:
    for kind in ("gpt2", "roberta"):
        found = words_of(Tokenizer(tiny.KINDS[kind]()), TEXT)
        expected = ["The", "miller", "'", "s", "daughter", "walked", "3", ".", "5", "miles", ";"]
        assert [word for word in found if word != "'s"][:2] == expected[:2]
        assert found[found.index("daughter") :][:8] == [*expected[4:], "河边"]  # which is one token here
        assert found[-6:] == ["kvarnen", ".", "Älv", ",", "river", "!"]


def test_a_character_of_several_tokens_is_one_word() -> None:
    """An unseen rune is three bytes, three tokens and one word."""
    tokenizer = Tokenizer(tiny.gpt2())
    ids = tokenizer.ids(["ᚠ mill"])[0].astype(np.int64)
    assert WordStarts(tokenizer)(ids).sum() == 2


def test_metaspace() -> None:
    found = words_of(Tokenizer(tiny.unigram()), TEXT)
    assert found[:5] == ["The", "miller", "'", "s", "daughter"]
    assert found[-5:] == [".", "Älv", ",", "river", "!"] or found[-2:] == ["river", "!"]


def test_ends_of_words() -> None:
    found = words_of(Tokenizer(tiny.openai_gpt()), "the miller walked, the river")
    assert found == ["the", "miller", "walked", ",", "the", "river"]


def test_chinese_characters_are_words_however_they_are_marked() -> None:
    tokenizer = Tokenizer(word_tokenizer(["mill", "##er", "##河"]))
    assert WordStarts(tokenizer)(np.array([5, 6, 7, 6, 5])).tolist() == [True, False, True, False, True]


def test_a_vocabulary_without_marks() -> None:
    backend = Backend(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(TokenizerError, match="marks no word bounds"):
        WordStarts(Tokenizer(backend))
    level = Tokenizer(Backend(models.WordLevel({"a": 0, "b": 1}, unk_token="a")))
    assert WordStarts(level)(np.array([0, 1, 1])).all()


def test_kinds_of_characters() -> None:
    assert [character_kind(c) for c in "aÄ7河.,-\u0301 "] == [
        LETTER, LETTER, LETTER, CHINESE, OTHER, OTHER, OTHER, LETTER, OTHER
    ]  # fmt: skip


def test_the_byte_alphabet_is_the_library_s() -> None:
    values = byte_values()
    assert set(values) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(values.values()) == list(range(256))
    assert values["Ġ"] == 0x20
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("Älv 河\t", "\u00ad\x7f\x00"):
        spelled = pre.pre_tokenize_str(text)[0][0]
        assert bytes(values[character] for character in spelled).decode() == text


def test_special_ids() -> None:
    assert np.flatnonzero(special_ids(Tokenizer(tiny.bert()))).tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(special_ids(Tokenizer(tiny.gpt2()))).tolist() == [0]
    backend = Backend(models.WordPiece({"[UNK]": 0, "a": 1, "c": 3}, unk_token="[UNK]"))
    assert special_ids(Tokenizer(backend)).tolist() == [True, False, True, False]  # 2 is a gap
