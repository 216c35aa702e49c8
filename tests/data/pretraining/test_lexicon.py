"""Lexicons: matching, files, mining."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.data.pretraining import Lexicon, MiningOptions
from bertworks.data.pretraining.phrases import PairTable
from bertworks.errors import DataError, UsageError
from bertworks.text.tokenizer import Tokenizer
from tests.data.pretraining.helpers import corpus_of, word_tokenizer
from tests.text import tiny

NAMES = ["new", "york", "times", "san", "jose", "river", "##side", "the", "a", "of", "mill", "old", ".", ",", "sang"]
WORDS = Tokenizer(word_tokenizer(NAMES))


def test_match_by_hand() -> None:
    """The longest from the left; no entry over the end of a sequence; each single token is a unit of its own."""
    lexicon = Lexicon([(1, 2), (1, 2, 3), (2, 4), (9,), (1, 2)], 10)
    assert lexicon.entries == [(1, 2), (1, 2, 3), (2, 4)]
    assert len(lexicon) == 3
    unit = lexicon.match(np.array([1, 2, 3, 1, 2, 4, 2, 4, 5, 5, 1, 2]), np.array([8, 3, 1]))
    assert unit.tolist() == [0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 6, 7]


def test_match_at_word_bounds() -> None:
    lexicon = Lexicon([(1, 2), (1, 2, 3)], 10)
    ids, lengths = np.array([1, 2, 3, 4, 1, 2, 5, 0, 1, 2]), np.array([10])
    starts = np.array([1, 1, 1, 0, 1, 1, 0, 1, 0, 1], bool)
    # 1 2 3 would end inside a word, so 1 2 it is; the second 1 2 would; the third begins inside one
    assert lexicon.match(ids, lengths, starts).tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=8),
    st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=4),
)
def test_match_is_longest_match(entries: list[list[int]], texts: list[list[int]]) -> None:
    lexicon = Lexicon(entries, 4)
    known = {tuple(entry) for entry in entries if len(entry) > 1}
    expected, number = [], 0
    for text in texts:
        place = 0
        while place < len(text):
            fitting = [entry for entry in known if tuple(text[place : place + len(entry)]) == entry]
            size = max(map(len, fitting), default=1)
            expected += [number] * size
            place, number = place + size, number + 1
    ids = np.array([token for text in texts for token in text], np.int64)
    assert lexicon.match(ids, np.array([len(text) for text in texts])).tolist() == expected


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".txt.xz"])
def test_from_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"names{ending}"
    text = "New York\n\n New York Times \nSan Jose\nriverside\nRiver\nthe unheard of\nnew york\n"
    opened = {".txt": open, ".txt.gz": gzip.open, ".txt.xz": lzma.open}[ending]
    with opened(path, "wt", encoding="utf-8") as file:  # type: ignore[operator]
        file.write(text)
    lexicon = Lexicon.from_file(path, WORDS)
    # "river" is one token, and "the unheard of" has an unknown word
    spelled = [WORDS.decode(entry) for entry in lexicon.entries]
    assert spelled == ["new york", "new york times", "san jose", "riverside"]
    assert lexicon.vocab_size == WORDS.vocab_size


def test_entries_with_and_without_the_space_before(tmp_path: Path) -> None:
    tokenizer = Tokenizer(tiny.gpt2())
    (tmp_path / "names.txt").write_text("old mill\n")
    lexicon = Lexicon.from_file(tmp_path / "names.txt", tokenizer)
    for text in ("old mill", "the old mill"):
        ids = tokenizer.ids([text])[0].astype(np.int64)
        unit = lexicon.match(ids, np.array([len(ids)]))
        size = len(tokenizer.ids([" old mill" if text.startswith("the") else "old mill"])[0])
        assert (unit[-size:] == unit[-1]).all()


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    with pytest.raises(DataError, match=r"names\.txt: no such file"):
        Lexicon.from_file(path, WORDS)
    path.write_bytes(b"new york\n\xff\n")
    with pytest.raises(DataError, match=r"names\.txt:2: is not valid utf-8"):
        Lexicon.from_file(path, WORDS)
    path.write_text("new york\n" + "old mill " * 500)
    with pytest.raises(DataError, match=r"names\.txt:2: has 4,499 characters; a lexicon has one entry"):
        Lexicon.from_file(path, WORDS)
    path.write_text("river\nпривет мир\n")
    with pytest.raises(DataError, match=r"names\.txt: has no entry of two tokens or more that this vocabulary knows"):
        Lexicon.from_file(path, WORDS)
    (tmp_path / "names.txt.xz").write_bytes(b"no xz")
    with pytest.raises(DataError, match=r"names\.txt\.xz: is not xz-compressed at all"):
        Lexicon.from_file(tmp_path / "names.txt.xz", WORDS)


def test_save_and_load(tmp_path: Path) -> None:
    lexicon = Lexicon([(5, 6), (5, 6, 7)], WORDS.vocab_size)
    text = lexicon.to_text(WORDS)
    assert text == "# bertworks lexicon 1, vocabulary of 20\n5 6\tnew york\n5 6 7\tnew york times\n"
    (tmp_path / "lexicon.txt").write_text(text)
    again = Lexicon.load(tmp_path / "lexicon.txt")
    assert again.entries == lexicon.entries
    assert again.vocab_size == 20
    (tmp_path / "empty.txt").write_text(Lexicon([], 20).to_text())
    assert len(Lexicon.load(tmp_path / "empty.txt")) == 0


def test_damaged_saved_files(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.txt"
    for text, message in (
        ("", r"lexicon\.txt:1: is no saved lexicon"),
        ("New York\n", r"lexicon\.txt:1: is no saved lexicon"),
        (
            "# bertworks lexicon 1, vocabulary of 20\n5 6\nfive 6\n",
            r"lexicon\.txt:3: expected token ids, found 'five 6'",
        ),
        (
            "# bertworks lexicon 1, vocabulary of 20\n5 20\n",
            r"lexicon\.txt:2: there is no token 20 in a vocabulary of 20",
        ),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            Lexicon.load(path)


def test_phrases_are_found_in_a_text_that_has_them(tmp_path: Path) -> None:
    """Words in random order, among which "new york times", "san jose" and "riverside" hold together."""
    generator = np.random.default_rng(0)
    things = ["new york times", "new york", "san jose", "riverside", "the", "a", "of", "mill", "old", ".", ",", "sang"]
    documents = [" ".join(generator.choice(things, 60)) for _ in range(40)]
    corpus = corpus_of(tmp_path, documents, word_tokenizer(NAMES), shard_tokens=1000)
    options = MiningOptions(min_cohesion=0.4)
    lexicon = Lexicon.mine(corpus, options=options)
    found = {WORDS.decode(entry) for entry in lexicon.entries}
    assert found == {"new york", "new york times", "san jose"}  # riverside is one word, york times no whole
    assert Lexicon.mine(corpus, np.arange(40), options, tokenizer=corpus.tokenizer()).entries == lexicon.entries
    assert len(Lexicon.mine(corpus, options=MiningOptions(min_count=10**6))) == 0
    some = Lexicon.mine(corpus, options=MiningOptions(min_cohesion=0.4, sample_tokens=600, min_count=5))
    assert {WORDS.decode(entry) for entry in some.entries} >= {"new york", "san jose"}
    short = Lexicon.mine(corpus, options=MiningOptions(min_cohesion=0.4, max_tokens=2))
    assert max(map(len, short.entries)) == 2


def test_the_pair_table_is_bounded_and_right_for_frequent_pairs() -> None:
    generator = np.random.default_rng(0)
    table = PairTable(1024)
    rare, frequent = 10**6, np.arange(50)
    for _ in range(100):
        table.add(generator.permutation(np.concatenate([frequent, frequent, generator.integers(1000, rare, 20)])))
    keys, counts = table.items()
    assert len(keys) <= 1024
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)).items() >= dict.fromkeys(range(50), 200).items()


def test_bad_options() -> None:
    for wrong, message in (
        ({"max_tokens": 1}, "max_tokens must be at least 2"),
        ({"min_count": 1}, "min_count must be at least 2"),
        ({"min_cohesion": 2.0}, "min_cohesion must be from -1 to 1"),
    ):
        with pytest.raises(UsageError, match=message):
            MiningOptions(**wrong)  # type: ignore[arg-type]
