"""Sentence pairs: what A and B are, and whether the label tells the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.corpus import Corpus
from bertworks.data.pretraining import SentencePairs, Sequences
from bertworks.data.pretraining.pairs import _chunks, _units
from bertworks.errors import DataError, UsageError
from bertworks.text.tokenizer import Tokenizer
from tests.data.pretraining.helpers import corpus_of, word_tokenizer
from tests.text import tiny

# Sentence s of document d is the words d<d> s<s> x… and a full stop; every token tells where it is from.
NUM_DOCUMENTS, NUM_SENTENCES = 12, 9
WORDS = [
    *[f"d{number}" for number in range(NUM_DOCUMENTS)],
    *[f"s{number}" for number in range(NUM_SENTENCES)],
    "x",
    ".",
]


def sentence(document: int, number: int) -> str:
    return f"d{document} s{number} {'x ' * ((document + number) % 4)}."


def documents() -> list[str]:
    counts = [1 + (3 * document) % NUM_SENTENCES for document in range(NUM_DOCUMENTS)]  # 1, 4, 7, 1, …
    return ["\n".join(sentence(d, s) for s in range(count)) for d, count in enumerate(counts)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus_of(tmp_path_factory.mktemp("pairs"), documents(), word_tokenizer(WORDS), shard_tokens=60)


def parts(rows: Sequences, place: int) -> tuple[list[int], list[int]]:
    """The two texts of a sequence, and a check of its frame."""
    start, end = rows.starts[place], rows.starts[place] + rows.lengths[place]
    ids, special = rows.ids[start:end], rows.special[start:end]
    assert rows.segments is not None
    segments = rows.segments[start:end]
    (first, middle, last) = np.flatnonzero(special).tolist()
    assert (first, last) == (0, len(ids) - 1)
    assert ids[special].tolist() == [2, 3, 3]
    assert segments.tolist() == [0] * (middle + 1) + [1] * (last - middle)
    return ids[1:middle].tolist(), ids[middle + 1 : -1].tolist()


def found_in(corpus: Corpus, ids: list[int]) -> tuple[int, int, int]:
    """(document, first sentence, sentence after the last) that a run of whole sentences is."""
    tokens = corpus.tokenizer().tokens(ids)
    document, first = int(tokens[0][1:]), int(tokens[1][1:])
    count = sum(token.startswith("s") for token in tokens)
    bounds = corpus.sentence_bounds(document)
    expected = corpus.document(document)[bounds[first] : bounds[first + count]]
    np.testing.assert_array_equal(ids, expected)
    return document, first, first + count


def test_chunks_by_hand() -> None:
    """Room 10. 3 3 3 | 4 4 | 5 with the 4 before it; a document of one sentence has none; 9 9 stay together."""
    lengths, first_unit = np.array([3, 3, 3, 4, 4, 5, 7, 5, 5, 1]), np.array([0, 6, 7, 10])
    document, first, count = _chunks(lengths, first_unit, np.array([10, 10, 10]))
    assert document.tolist() == [0, 0, 0, 2, 2]
    assert first.tolist() == [0, 3, 4, 7, 8]
    assert count.tolist() == [3, 2, 2, 2, 2]
    _, first, count = _chunks(lengths, first_unit, np.array([2, 2, 100]))  # too small for two, but two it is
    assert first.tolist() == [0, 2, 4, 7]
    assert count.tolist() == [2, 2, 2, 3]


def test_units_by_hand() -> None:
    counts, lengths = _units(np.array([2, 1]), np.array([3, 11, 4]), 4)
    assert counts.tolist() == [4, 1]
    assert lengths.tolist() == [3, 3, 4, 4, 4]
    counts, lengths = _units(np.array([2, 1]), np.array([3, 11, 4]), 20)
    assert counts.tolist() == [2, 1]
    assert lengths.tolist() == [3, 11, 4]


@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=1, max_size=8), st.integers(4, 25))
def test_chunks_hold_everything_and_fit(documents: list[list[int]], room: int) -> None:
    counts, lengths = _units(
        np.array([len(d) for d in documents]), np.array([n for d in documents for n in d]), room // 2
    )
    assert lengths.max() <= room // 2
    assert lengths.min() >= 1
    first_unit = np.concatenate([[0], np.cumsum(counts)])
    for number, document in enumerate(documents):
        assert lengths[first_unit[number] : first_unit[number + 1]].sum() == sum(document)
    document, first, count = _chunks(lengths, first_unit, np.full(len(documents), room))
    for number in range(len(documents)):
        here = document == number
        covered = {unit for f, c in zip(first[here], count[here], strict=True) for unit in range(f, f + c)}
        units = set(range(first_unit[number], first_unit[number + 1]))
        assert covered == (units if len(units) > 1 else set())
    assert count.min(initial=2) >= 2
    assert all(lengths[f : f + c].sum() <= room for f, c in zip(first, count, strict=True))


@pytest.mark.parametrize("kind", ["nsp", "sop"])
@pytest.mark.parametrize("short_prob", [0.0, 0.5])
def test_the_labels_tell_the_truth(corpus: Corpus, kind: str, short_prob: float) -> None:
    pairs = SentencePairs(corpus, corpus.tokenizer(), 24, kind, seed=5, short_prob=short_prob)
    labels = []
    for epoch in range(30):
        rows = pairs.take(np.arange(len(pairs)), epoch)
        assert rows.lengths.tolist() == sorted(rows.lengths)
        assert sorted(rows.index) == list(range(len(pairs)))
        assert (rows.lengths <= pairs.lengths[rows.index]).all()
        for place, label in enumerate(rows.labels[kind]):
            first, second = parts(rows, place)
            one, two = found_in(corpus, first), None
            labels.append(int(label))
            if kind == "nsp" and label == 1 and len(second) < 4:
                continue  # a random text cut off, since no sentence is that short
            two = found_in(corpus, second)
            assert corpus.document_length(one[0]) > len(corpus.sentences(one[0])[0])  # not a document of one sentence
            if kind == "nsp" and label == 1:
                assert one[0] != two[0]
                continue
            assert one[0] == two[0] == pairs.documents_of(rows.index[place : place + 1])[0]
            assert one[2] == two[1] if label == 0 else two[2] == one[1]
    assert 0.4 < np.mean(labels) < 0.6


def test_true_pairs_have_the_planned_length(corpus: Corpus) -> None:
    pairs = SentencePairs(corpus, corpus.tokenizer(), 24, "sop")
    rows = pairs.take(np.arange(len(pairs)), 0)
    np.testing.assert_array_equal(rows.lengths, pairs.lengths[rows.index])
    assert pairs.num_tokens == rows.num_tokens
    assert rows.lengths.max() <= 24


def test_splits_differ_between_epochs_unless_copies_are_counted(corpus: Corpus) -> None:
    numbers = np.arange(12)

    def taken(epoch: int, copies: int | None) -> list[int]:
        pairs = SentencePairs(corpus, corpus.tokenizer(), 24, copies=copies)
        return pairs.take(numbers, epoch).ids.tolist()

    assert taken(0, None) != taken(1, None)
    assert taken(0, 1) == taken(1, 1) == taken(0, None)
    assert taken(0, 2) == taken(2, 2) != taken(1, 2)


def test_a_pair_does_not_depend_on_its_company(corpus: Corpus) -> None:
    pairs = SentencePairs(corpus, corpus.tokenizer(), 20)
    rows = pairs.take(np.array([9, 3, 4, 1, 7]), 2)
    for place, number in enumerate(rows.index):
        alone = pairs.take(np.array([number]), 2)
        end = rows.starts[place] + rows.lengths[place]
        np.testing.assert_array_equal(alone.ids, rows.ids[rows.starts[place] : end])
        assert alone.labels["nsp"][0] == rows.labels["nsp"][place]
    assert pairs.take(np.array([], np.int64), 0).num_tokens == 0


def test_long_sentences_are_cut_into_parts(tmp_path: Path) -> None:
    backend = word_tokenizer(["x", *[f"y{n}" for n in range(40)]])
    corpus = corpus_of(tmp_path, [" ".join(f"y{n}" for n in range(40)), "x x x"], backend)
    pairs = SentencePairs(corpus, corpus.tokenizer(), 17, "sop")  # room for 14, so parts of at most 7
    rows = pairs.take(np.arange(len(pairs)), 0)
    assert (rows.lengths > 3).all()
    assert set(rows.ids[~rows.special]) == set(corpus.document(0).tolist())


def test_a_corpus_of_one_document_stays_with_the_truth(corpus: Corpus, tmp_path: Path) -> None:
    one = corpus_of(tmp_path, ["\n".join(sentence(1, s) for s in range(9)), "x"], word_tokenizer(WORDS))
    pairs = SentencePairs(one, one.tokenizer(), 20)
    for epoch in range(20):
        rows = pairs.take(np.arange(len(pairs)), epoch)
        for place, label in enumerate(rows.labels["nsp"]):
            _, second = parts(rows, place)
            assert (second == one.document(1).tolist()) == bool(label)


def test_errors(corpus: Corpus) -> None:
    tokenizer = corpus.tokenizer()
    with pytest.raises(DataError, match="no document has two sentences"):
        SentencePairs(corpus, tokenizer, 24, documents=np.array([0, 3]))
    with pytest.raises(DataError, match="at least two documents"):
        SentencePairs(corpus, tokenizer, 24, documents=np.array([1]))
    with pytest.raises(UsageError, match=r"unknown kind of sentence pairs 'spo'.*did you mean 'sop'"):
        SentencePairs(corpus, tokenizer, 24, "spo")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="sequence_length must be at least 7"):
        SentencePairs(corpus, tokenizer, 6)
    with pytest.raises(UsageError, match="copies must be at least 1"):
        SentencePairs(corpus, tokenizer, 24, copies=0)
    with pytest.raises(UsageError, match="short_prob"):
        SentencePairs(corpus, tokenizer, 24, short_prob=-1)
    with pytest.raises(UsageError, match="but this tokenizer has"):
        SentencePairs(corpus, Tokenizer(tiny.bert()), 24)


def test_a_tokenizer_without_pairs(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["the mill. the river.", "the old mill. the geese."], tiny.gpt2())
    with pytest.raises(UsageError, match="special tokens between two texts"):
        SentencePairs(corpus, corpus.tokenizer(), 24)
