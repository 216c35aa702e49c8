"""Merges of BPE: worked examples, the brute-force reference, and `tokenizers`' own trainer."""

from __future__ import annotations

import json
import lzma
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bertworks.errors import DataError, TokenizerError, UsageError
from bertworks.text.train import TrainerOptions, count_words, learn, learn_bpe
from bertworks.text.train import pairs as pairs_module
from bertworks.text.train.pipeline import build_normalizer, build_pre_tokenizer
from tests.text.train.reference import brute_force

few_letters = st.dictionaries(st.text("ab", min_size=1, max_size=14), st.integers(1, 6), min_size=1, max_size=20)
more_letters = st.dictionaries(st.text("abcdé#", min_size=1, max_size=9), st.integers(1, 40), min_size=1, max_size=40)
corpora = few_letters | more_letters


def spell(word: str, merges: list[tuple[str, str]]) -> list[str]:
    symbols = list(word)
    for left, right in merges:
        i = 0
        while i + 1 < len(symbols):
            if (symbols[i], symbols[i + 1]) == (left, right):
                symbols[i : i + 2] = [left + right]
            i += 1
    return symbols


def test_gage_example() -> None:
    # aaabdaaabac: aa occurs 4 times (2 + 2, overlapping) -> Z = aa; ZabdZabac: ab 2, Za 2, the smaller ids first -> Y
    # = ab; ZYdZYac: ZY 2 -> X; XdXac.
    learnt = learn_bpe({"aaabdaaabac": 1}, vocab_size=4 + 3)
    assert learnt.merges == [("a", "a"), ("a", "b"), ("aa", "ab")]
    assert learnt.counts == [2, 2, 2]
    assert spell("aaabdaaabac", learnt.merges) == ["aaab", "d", "aaab", "a", "c"]


def test_common_stem() -> None:
    # te, ex and xt occur three times each: e has the smallest id. Then the stem grows; "t_" is in two words only.
    words = {"text_": 1, "texting_": 1, "context_": 1}
    learnt = learn_bpe(words, vocab_size=9 + 4)
    assert learnt.merges == [("e", "x"), ("t", "ex"), ("tex", "t"), ("text", "_")]
    assert spell("text_", learnt.merges) == ["text_"]
    assert spell("texting_", learnt.merges) == ["text", "i", "n", "g", "_"]
    assert spell("context_", learnt.merges) == ["c", "o", "n", "text_"]


def test_common_stem_with_end_of_word_suffix() -> None:
    learnt = learn_bpe({"text": 1, "texting": 1, "context": 1}, vocab_size=8 + 2 + 3, end_of_word_suffix="_")
    assert list(learnt.vocab)[:10] == ["c", "e", "g", "i", "n", "o", "t", "x", "g_", "t_"]
    assert learnt.merges == [("e", "x"), ("t", "ex"), ("tex", "t_")]


@settings(deadline=None, max_examples=150)
@given(words=corpora, min_count=st.integers(1, 5), max_length=st.integers(2, 12))
def test_agrees_with_brute_force(words: dict[str, int], min_count: int, max_length: int) -> None:
    learnt = learn_bpe(words, vocab_size=60, min_frequency=min_count, max_token_length=max_length)
    assert learnt.merges == brute_force(words, 60, min_count=min_count, max_length=max_length)
    assert list(learnt.vocab.values()) == list(range(len(learnt.vocab)))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=corpora)
def test_tables_grow(words: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "MIN_SLOTS", 2)
    assert learn_bpe(words, vocab_size=80).merges == brute_force(words, 80)


@settings(deadline=None, max_examples=100)
@given(words=corpora)
def test_agrees_with_tokenizers_trainer(words: dict[str, int]) -> None:
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=50, special_tokens=["[UNK]"], show_progress=False)
    theirs.train_from_iterator((word for word, count in words.items() for _ in range(count)), trainer)
    ours = learn_bpe(words, vocab_size=50, special_tokens=["[UNK]"])
    assert (ours.vocab, ours.merges) == vocabulary_and_merges(theirs)


@pytest.mark.parametrize("algorithm", ["bpe", "byte-bpe"])
def test_identical_to_tokenizers_on_real_text(algorithm: str, shared_data: Path) -> None:
    with lzma.open(shared_data / "corpus" / "wiki-en-00.txt.xz", "rt", encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in islice(file, 4000)]
    options = TrainerOptions.of(algorithm, vocab_size=6000, min_frequency=1)
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = build_pre_tokenizer(options)
    normalizer = build_normalizer(options)
    if normalizer is not None:
        theirs.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet() if algorithm == "byte-bpe" else []
    trainer = trainers.BpeTrainer(
        vocab_size=6000, special_tokens=options.special_tokens, initial_alphabet=alphabet, show_progress=False
    )
    theirs.train_from_iterator(texts, trainer)
    ours = learn(count_words(texts, options), options)
    assert (ours.vocab, ours.merges) == vocabulary_and_merges(theirs)


def vocabulary_and_merges(tokenizer: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def test_order_of_words_does_not_matter() -> None:
    words = {"abab": 3, "baba": 3, "aab": 2, "bba": 2, "abba": 1}
    backwards = dict(reversed(words.items()))
    assert learn_bpe(words, vocab_size=12) == learn_bpe(backwards, vocab_size=12)


def test_ids_and_limited_alphabet() -> None:
    words = {"aab": 5, "cd": 2, "ce": 2}  # a 10, b 5, c 4, d 2, e 2
    learnt = learn_bpe(words, vocab_size=6, special_tokens=["<s>"], limit_alphabet=4)
    assert learnt.vocab == {"<s>": 0, "a": 1, "b": 2, "c": 3, "d": 4, "aa": 5}
    learnt = learn_bpe(words, vocab_size=7, initial_alphabet="z")
    assert list(learnt.vocab) == ["a", "b", "c", "d", "e", "z", "aa"]


def test_special_tokens_are_never_spelt_by_merges() -> None:
    learnt = learn_bpe({"<s>": 9, "s>": 1}, vocab_size=20, special_tokens=["<s>"])
    assert learnt.merges == [("s", ">")]
    assert learnt.vocab == {"<s>": 0, "<": 1, ">": 2, "s": 3, "s>": 4}


def test_progress() -> None:
    calls: list[tuple[str, int, int | None]] = []
    learn_bpe({"abcabc": 1}, vocab_size=100, progress=lambda *call: calls.append(call))
    assert calls == [("learn merges", 3, 3)]


@pytest.mark.parametrize("words", [{}, {"": 3}])
def test_empty_corpus(words: dict[str, int]) -> None:
    with pytest.raises(DataError, match="no words"):
        learn_bpe(words, vocab_size=10)


def test_vocabulary_smaller_than_alphabet() -> None:
    with pytest.raises(TokenizerError, match=r"4 is too small: 2 special tokens and 3 .* need 5"):
        learn_bpe({"abc": 1}, vocab_size=4, special_tokens=["<s>", "</s>"])
    assert learn_bpe({"abc": 1}, vocab_size=5, special_tokens=["<s>", "</s>"]).merges == []


def test_special_token_twice() -> None:
    with pytest.raises(UsageError, match="twice"):
        learn_bpe({"abc": 1}, vocab_size=4, special_tokens=["<s>", "<s>"])
