"""Likelihood WordPiece: an example worked by hand, and the brute-force reference."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertworks.errors import TokenizerError
from bertworks.text.train import learn_bpe, learn_wordpiece
from bertworks.text.train import pairs as pairs_module
from tests.text.train.reference import brute_force
from tests.text.train.test_bpe import corpora

CATS = {"cat": 8, "cab": 4, "bat": 6, "cats": 4}


def test_worked_example() -> None:
    # Symbols: c 16, b 6, ##a 22, ##t 18, ##b 4, ##s 4. Every pair with ##a scores 1/22, as c, b, ##t, ##b never do
    # without it, but ##t ##s scores 4 / (18 · 4) = 1/18, although it is among the rarest. Then ##t is 14 and five
    # pairs share 1/22: the most frequent is c ##a with 16. That leaves ##a only 6 times, so b ##a rises from 1/22 to
    # 6 / (6 · 6) = 1/6. Then ba 6, ##t 14, ca 16: ca ##b and ca ##ts 4 / (16 · 4) = 1/16, ca ##t 1/28, ba ##t 6 / (6
    # · 14) = 1/14.
    learnt = learn_wordpiece(CATS, vocab_size=9 + 4, min_pair_count=4)
    assert list(learnt.vocab)[:9] == ["a", "b", "c", "s", "t", "##a", "##b", "##s", "##t"]
    assert learnt.merges == [("##t", "##s"), ("c", "##a"), ("b", "##a"), ("ba", "##t")]
    assert list(learnt.vocab)[9:] == ["##ts", "ca", "ba", "bat"]


def test_bpe_chooses_otherwise() -> None:
    # a t meets 18 times, c a 16.
    assert learn_bpe(CATS, vocab_size=6).merges == [("a", "t")]


def test_rare_pairs_do_not_win() -> None:
    # q ##i scores 2 / (2 · 2): the highest possible, for a word that hardly occurs.
    words = {**CATS, "qi": 2}
    assert learn_wordpiece(words, vocab_size=13, min_pair_count=1).merges[0] == ("q", "##i")
    assert learn_wordpiece(words, vocab_size=13, min_pair_count=3).merges[0] == ("##t", "##s")


def test_falling_threshold() -> None:
    # 18 at first: only ##a ##t. Then 9: cat 8 + 4, c ##at is 12 and bat 6 waits. Then 4: c ##a 4/(4·4)… all that is
    # left.
    learnt = learn_wordpiece(CATS, vocab_size=9 + 2)
    assert learnt.merges == [("##a", "##t"), ("c", "##at")]


@settings(deadline=None, max_examples=200)
@given(words=corpora, min_count=st.integers(1, 5), falling=st.booleans(), max_length=st.integers(2, 12))
def test_agrees_with_brute_force(words: dict[str, int], min_count: int, falling: bool, max_length: int) -> None:
    thresholds = {"min_frequency": min_count} if falling else {"min_pair_count": min_count}
    learnt = learn_wordpiece(words, vocab_size=60, max_token_length=max_length, **thresholds)
    expected = brute_force(
        words, 60, likelihood=True, min_count=min_count, falling_threshold=falling, max_length=max_length
    )
    assert learnt.merges == expected
    assert list(learnt.vocab.values()) == list(range(len(learnt.vocab)))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=corpora)
def test_tables_grow(words: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "MIN_SLOTS", 2)
    learnt = learn_wordpiece(words, vocab_size=80, min_frequency=1)
    assert learnt.merges == brute_force(words, 80, likelihood=True, falling_threshold=True)


def test_words_that_would_be_unknown_teach_nothing() -> None:
    words = {"aab": 5, "xaab": 1, "q" * 101: 50}
    learnt = learn_wordpiece(words, vocab_size=50, limit_alphabet=2, min_pair_count=1)
    assert learnt.vocab.keys() == {"a", "b", "##a", "##b", "aa", "aab"}
    assert learnt.counts == [5, 5]


def test_vocabulary_smaller_than_alphabet() -> None:
    with pytest.raises(TokenizerError, match="need 9"):
        learn_wordpiece(CATS, vocab_size=8)
