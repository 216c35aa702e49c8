"""Whole words and single characters as tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertworks.errors import UsageError
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.train import TrainerOptions, learn_whole, train_tokenizer

TEXTS = ["The cat's mat, the cat.", "Tab\there — é naïve", "the end"]


def test_the_most_frequent_come_first() -> None:
    learnt = learn_whole({"b": 2, "a": 2, "c": 9, "<S>": 50, "d": 1}, vocab_size=4, special_tokens=["<S>"])
    assert learnt.vocab == {"<S>": 0, "c": 1, "a": 2, "b": 3}
    assert learn_whole({"a": 1, "b": 2}, vocab_size=9, min_frequency=2).vocab == {"b": 0}


def test_words() -> None:
    tokenizer = train_tokenizer(TEXTS, TrainerOptions.of("word", vocab_size=8, min_frequency=1))
    assert tokenizer.kind == "WordLevel"
    assert tokenizer.tokens(range(5)) == ["<S>", "</S>", "<UNK>", "cat", "the"]
    encoding = tokenizer.encode("the cat's dog")
    assert tokenizer.tokens(encoding.ids) == ["<S>", "the", "cat", "'s", "<UNK>", "</S>"]
    assert [(word.start, word.end) for word in encoding.word_spans()] == [(0, 3), (4, 7), (7, 9), (10, 13)]
    assert tokenizer.decode(tokenizer.encode("the cat, the cat").ids) == "the cat, the cat"


def test_characters() -> None:
    tokenizer = train_tokenizer(TEXTS * 2, TrainerOptions.of("character", vocab_size=99))
    for text in TEXTS:
        ids = tokenizer.encode(text, special=False)
        assert tokenizer.tokens(ids.ids) == list(text)
        assert ids.offsets[:, 1].tolist() == list(range(1, len(text) + 1))
        assert tokenizer.decode(ids.ids) == text
    assert tokenizer.tokens(tokenizer.encode("tZt").ids) == ["<S>", "t", "<UNK>", "t", "</S>"]
    assert len(tokenizer.ids(["ZZ"])[0]) == 2  # two unknown characters are two tokens


@pytest.mark.parametrize("algorithm", ["word", "character"])
def test_they_are_saved_and_counted_alike(algorithm: str, tmp_path: Path) -> None:
    options = TrainerOptions.of(algorithm, vocab_size=30)
    first = train_tokenizer(TEXTS * 3, options)
    second = train_tokenizer(TEXTS * 3, options, workers=2)
    assert first.backend.get_vocab() == second.backend.get_vocab()
    first.save(tmp_path)
    again = Tokenizer.from_directory(tmp_path)
    for text in TEXTS:
        assert again.encode(text).ids.tolist() == first.encode(text).ids.tolist()
    assert again.specials == first.specials
    assert again.ids(TEXTS, special=True)[0].tolist() == [
        number for text in TEXTS for number in first.encode(text).ids.tolist()
    ]


def test_an_unknown_algorithm_is_named() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'word'.*character"):
        TrainerOptions.of("words")
