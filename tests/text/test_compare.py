"""Comparing tokenizers: every number by hand."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from bertworks.text import Tokenizer
from bertworks.text.compare import Split, compare

VOCABULARY = ["[UNK]", "the", "mill", "##er", "##s", "run", "河", "."]


@pytest.fixture
def tokenizer() -> Tokenizer:
    backend = Backend(models.WordPiece({token: i for i, token in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Tokenizer(backend)


def test_by_hand(tokenizer: Tokenizer) -> None:
    # the | mill ##er ##s | run . | [UNK] | 河 | [UNK] for the second ideograph
    (found,) = compare([("mine", tokenizer)], [["The millers run.", ""], ["geese 河马"]])
    assert (found.name, found.kind, found.vocab_size) == ("mine", "WordPiece", 8)
    assert (found.words, found.tokens, found.unknown_tokens) == (6, 9, 2)
    assert found.bytes == len("The millers run.") + len("geese ") + 6
    assert found.fertility == 9 / 6
    assert found.unknown_share == 2 / 9
    assert found.whole_share == 2 / 6, "an unknown word is one token, but not a whole word"
    assert found.longest == [Split("millers", ("mill", "##er", "##s")), Split("run.", ("run", "."))]


def test_the_longest_splits_are_kept_each_once(tokenizer: Tokenizer) -> None:
    texts = ["mills " * 50, "run. millers", "millers. mills millers miller"]
    (found,) = compare([("mine", tokenizer)], [[text] for text in texts], num_longest=3)
    assert [(split.word, len(split.pieces)) for split in found.longest] == [
        ("millers.", 4),
        ("millers", 3),
        ("mills", 2),
    ]


def test_no_words(tokenizer: Tokenizer) -> None:
    (found,) = compare([("mine", tokenizer)], [["", " \n"]])
    assert (found.words, found.tokens, found.fertility, found.bytes_per_token) == (0, 0, 0.0, 2.0)
