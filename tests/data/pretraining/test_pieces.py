"""Documents as single sequences: the cut, the frame, the order, what is dropped."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.corpus import Corpus
from bertworks.data.pretraining import SinglePieces
from bertworks.data.pretraining.flat import FlatCorpus, ranges
from bertworks.data.pretraining.pieces import MIN_TOKENS, cut, cut_sentences
from bertworks.errors import DataError, UsageError
from bertworks.text.tokenizer import Tokenizer
from tests.data.corpus_helpers import many
from tests.data.pretraining.helpers import corpus_of, word_tokenizer
from tests.text import tiny

WORDS = [f"w{number}" for number in range(30)]


def text(*numbers: int) -> str:
    return " ".join(f"w{number}" for number in numbers)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Documents of 7, 1, 4 and 9 tokens (w0 is id 5), in two shards."""
    documents = [text(*range(7)), text(29), text(10, 11, 12, 13), text(*range(20, 29))]
    return corpus_of(tmp_path, documents, word_tokenizer(WORDS), shard_tokens=12)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Forty documents in several shards."""
    return corpus_of(tmp_path_factory.mktemp("mixed"), many(40), tiny.bert(), shard_tokens=300)


def test_ranges() -> None:
    np.testing.assert_array_equal(ranges(np.array([3, 8, 1]), np.array([2, 3, 0])), [3, 4, 8, 9, 10])
    assert len(ranges(np.array([], int), np.array([], int))) == 0


def test_by_hand(corpus: Corpus) -> None:
    """Six places, four of text: 7 = 4 + 3, the document of one token is dropped, 9 = 4 + 4 + 1 whose rest is, too."""
    assert len(corpus.manifest["shards"]) == 2
    pieces = SinglePieces(corpus, corpus.tokenizer(), 6)
    assert len(pieces) == 5
    assert pieces.lengths.tolist() == [6, 5, 6, 6, 6]
    assert pieces.num_tokens == 29
    rows = pieces.take(np.array([4, 0, 1]), epoch=3)
    assert rows.index.tolist() == [1, 4, 0]  # by length, and as given among equals
    assert rows.epoch == 3
    assert rows.ids.tolist() == [2, 9, 10, 11, 3, 2, 29, 30, 31, 32, 3, 2, 5, 6, 7, 8, 3]
    assert rows.lengths.tolist() == [5, 6, 6]
    assert rows.starts.tolist() == [0, 5, 11]
    assert rows.positions.tolist() == [*range(5), *range(6), *range(6)]
    assert rows.sequence_ids.tolist() == [0] * 5 + [1] * 6 + [2] * 6
    assert np.flatnonzero(rows.special).tolist() == [0, 4, 5, 10, 11, 16]
    assert rows.segments is not None
    assert rows.segments.tolist() == [0] * 17
    assert [part.tolist() for part in pieces.places(np.array([1, 3]))] == [[0, 3], [4, 0], [3, 4]]


def test_chosen_documents(corpus: Corpus) -> None:
    pieces = SinglePieces(corpus, corpus.tokenizer(), 16, documents=np.array([3, 0]))
    assert pieces.lengths.tolist() == [9, 11]
    assert pieces.places(np.array([0, 1]))[0].tolist() == [0, 3]
    assert pieces.take(np.array([1]), 0).ids.tolist() == [2, *range(25, 34), 3]


def test_nothing_taken(corpus: Corpus) -> None:
    rows = SinglePieces(corpus, corpus.tokenizer(), 6).take(np.array([], np.int64), 0)
    assert rows.num_tokens == len(rows.lengths) == len(rows.starts) == len(rows.positions) == 0


@pytest.mark.parametrize("kind", ["bert", "roberta", "unigram"])
def test_the_frame_is_the_tokenizer_s(tmp_path: Path, kind: str) -> None:
    corpus = corpus_of(tmp_path, many(4), tiny.KINDS[kind]())
    tokenizer = corpus.tokenizer()
    pieces = SinglePieces(corpus, tokenizer, 200)
    for number in range(4):
        expected = tokenizer.template.wrap(corpus.document(number))
        rows = pieces.take(np.array([number]), 0)
        np.testing.assert_array_equal(rows.ids, expected.ids)
        np.testing.assert_array_equal(rows.segments, expected.segments)
        assert rows.special.sum() == 2


def test_without_a_template_the_end_is_marked(tmp_path: Path) -> None:
    """GPT-2: nothing but the end token after a document's last token, where there is a place for it."""
    corpus = corpus_of(tmp_path, ["the river runs past the old mill", "the mill"], tiny.gpt2())
    tokenizer = corpus.tokenizer()
    first, second = corpus.document(0), corpus.document(1)
    end = tokenizer.eos_id
    room = len(first) - 2
    pieces = SinglePieces(corpus, tokenizer, room)
    got = [pieces.take(np.array([number]), 0) for number in range(len(pieces))]
    assert [rows.ids.tolist() for rows in got] == [first[:room].tolist(), [*first[room:], end], [*second, end]]
    assert [rows.special.tolist() for rows in got][1] == [False, False, True]
    exact = SinglePieces(corpus, tokenizer, len(first))
    assert exact.take(np.array([0]), 0).ids.tolist() == first.tolist()
    together = pieces.take(np.array([0, 1, 2]), 0)
    assert together.ids.tolist() == [
        token for number in np.argsort(pieces.lengths, kind="stable") for token in got[number].ids
    ]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(4, 20))
def test_a_cut_loses_only_rests_of_one_token(lengths: list[int], room: int) -> None:
    document, start, length = cut(np.array(lengths), room)
    assert length.max(initial=room) <= room
    for number, whole in enumerate(lengths):
        here = document == number
        covered = ranges(start[here], length[here]).tolist()
        assert covered == list(range(len(covered)))
        assert whole - len(covered) < MIN_TOKENS


@pytest.mark.parametrize("short_prob", [0.0, 0.5, 1.0])
def test_all_text_is_there_once(mixed: Corpus, short_prob: float) -> None:
    pieces = SinglePieces(mixed, mixed.tokenizer(), 11, seed=3, short_prob=short_prob)
    rows = pieces.take(np.arange(len(pieces)), 0)
    assert rows.num_tokens == pieces.num_tokens == pieces.lengths.sum()
    document, start, length = pieces.places(np.arange(len(pieces)))
    for number in range(len(mixed)):
        covered = ranges(start[document == number], length[document == number])
        np.testing.assert_array_equal(covered, np.arange(len(covered)))
        assert mixed.document_length(number) - len(covered) < MIN_TOKENS
    assert length.min() >= MIN_TOKENS
    for place, number in enumerate(rows.index[:50]):
        ids = rows.ids[rows.starts[place] : rows.starts[place] + rows.lengths[place]]
        expected = mixed.document(int(document[number]))[start[number] : start[number] + length[number]]
        np.testing.assert_array_equal(ids[1:-1], expected)
    full = (length == 9).mean()
    assert full == 0 if short_prob == 1 else full > (0.7 if short_prob == 0 else 0.2)


def test_sentences_by_hand() -> None:
    """Three texts of sentences 3 4 2 | 9 1 | 1, at most five tokens in a piece."""
    text, start, length = cut_sentences(np.array([3, 2, 1]), np.array([3, 4, 2, 9, 1, 1]), 5)
    assert list(zip(text.tolist(), start.tolist(), length.tolist(), strict=True)) == [
        (0, 0, 3),
        (0, 3, 4),
        (0, 7, 2),
        (1, 0, 5),
        (1, 5, 5),  # what is left of the long sentence, and the next one; the text of one token is dropped
    ]
    nothing = cut_sentences(np.zeros(2, np.int64), np.zeros(0, np.int64), 5)
    assert [len(part) for part in nothing] == [0, 0, 0]


@given(st.lists(st.lists(st.integers(1, 30), max_size=6), max_size=5), st.integers(4, 12))
def test_pieces_of_sentences_lose_only_rests_of_one_token(texts: list[list[int]], room: int) -> None:
    counts, lengths = (
        np.array([len(text) for text in texts], np.int64),
        np.array([length for text in texts for length in text], np.int64),
    )
    text, start, length = cut_sentences(counts, lengths, room)
    assert (length <= room).all()
    assert (length >= MIN_TOKENS).all()
    for number, sentences in enumerate(texts):
        own = text == number
        covered = {
            token for first, size in zip(start[own], length[own], strict=True) for token in range(first, first + size)
        }
        assert len(covered) == length[own].sum()  # none twice
        assert sum(sentences) - len(covered) <= len(sentences)
        begins = {0, *np.cumsum(sentences).tolist()}
        assert all(first in begins or first - room in start[own] for first in start[own].tolist())


def test_a_piece_may_begin_with_a_sentence(mixed: Corpus) -> None:
    tokenizer = mixed.tokenizer()
    whole = SinglePieces(mixed, tokenizer, 24, whole_sentences=True)
    plain = SinglePieces(mixed, tokenizer, 24)
    assert len(whole) >= len(plain)
    assert whole.num_tokens - 2 * len(whole) >= 0.95 * (plain.num_tokens - 2 * len(plain))


def test_a_piece_does_not_depend_on_its_company(mixed: Corpus) -> None:
    pieces = SinglePieces(mixed, mixed.tokenizer(), 16)
    numbers = np.array([30, 2, 17, 40, 41])
    rows = pieces.take(numbers, 0)
    for place, number in enumerate(rows.index):
        alone = pieces.take(np.array([number]), 0)
        end = rows.starts[place] + rows.lengths[place]
        np.testing.assert_array_equal(alone.ids, rows.ids[rows.starts[place] : end])


def test_a_source_can_be_sent_to_another_process(mixed: Corpus) -> None:
    pieces = SinglePieces(mixed, mixed.tokenizer(), 16)
    expected = pieces.take(np.arange(20), 0)  # files are mapped now, and stay out of the copy
    copied = pickle.loads(pickle.dumps(FlatCorpus(mixed)))
    assert copied._shards == {}
    again = pickle.loads(pickle.dumps(pieces)).take(np.arange(20), 0)
    np.testing.assert_array_equal(again.ids, expected.ids)


def test_errors(corpus: Corpus, tmp_path: Path) -> None:
    tokenizer = corpus.tokenizer()
    with pytest.raises(UsageError, match="sequence_length must be at least 6 with this tokenizer, not 5"):
        SinglePieces(corpus, tokenizer, 5)
    with pytest.raises(UsageError, match="short_prob must be from 0 to 1, not 2"):
        SinglePieces(corpus, tokenizer, 8, short_prob=2)
    with pytest.raises(DataError, match="no document has 2 tokens or more"):
        SinglePieces(corpus, tokenizer, 8, documents=np.array([1]))
    with pytest.raises(UsageError, match="list of documents is empty"):
        SinglePieces(corpus, tokenizer, 8, documents=np.array([], int))
    with pytest.raises(UsageError, match="there is no document 4; the corpus has documents 0 to 3"):
        SinglePieces(corpus, tokenizer, 8, documents=np.array([2, 4]))
    with pytest.raises(UsageError, match=r"vocabulary of 35 tokens, but this tokenizer has"):
        SinglePieces(corpus, Tokenizer(tiny.bert()), 8)
