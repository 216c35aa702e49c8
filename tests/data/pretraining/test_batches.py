"""Steps to sequences: every sequence once an epoch, the same batches for ever, and the same over any number of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bertworks.data.pretraining import Batches, Sequences, share, split_documents
from bertworks.errors import UsageError
from tests.data.corpus_helpers import many
from tests.data.pretraining.helpers import corpus_of
from tests.text import tiny

LENGTHS = st.lists(st.integers(2, 40), min_size=1, max_size=80)


@dataclass
class Lengths:
    """A source of which only the lengths are looked at."""

    lengths: NDArray[np.int64]

    @property
    def num_tokens(self) -> int:
        return int(self.lengths.sum())

    def take(self, numbers: NDArray[np.int64], epoch: int) -> Sequences:
        raise NotImplementedError


@given(LENGTHS, st.integers(40, 300), st.integers(0, 3))
def test_an_epoch_holds_each_sequence_once(lengths: list[int], batch_tokens: int, epoch: int) -> None:
    batches = Batches(Lengths(np.array(lengths)), batch_tokens, seed=1)
    steps = range(epoch * batches.num_batches, (epoch + 1) * batches.num_batches)
    taken = [batches.at(step) for step in steps]
    assert {number for number, _ in taken} == {epoch}
    assert sorted(np.concatenate([numbers for _, numbers in taken])) == list(range(len(lengths)))
    for _, numbers in taken:
        assert len(numbers) > 0
        assert sum(lengths[number] for number in numbers) < batch_tokens + 2 * max(lengths)
    assert batches.num_batches <= -(-sum(lengths) // batch_tokens)


def test_by_hand() -> None:
    """Ten sequences of 10 tokens in batches of 25: four batches, of 25 tokens in the mean."""
    batches = Batches(Lengths(np.full(10, 10)), 25, seed=0)
    assert batches.num_batches == 4
    assert [len(batches.at(step)[1]) for step in range(4)] == [3, 2, 3, 2]  # sequences that begin before 25, 50, 75
    assert Batches(Lengths(np.full(4, 60)), 100).num_batches == 3
    assert Batches(Lengths(np.array([90, 5, 5])), 95).num_batches == 1  # two would be smaller than the longest


def test_steps_can_be_asked_for_in_any_order() -> None:
    source = Lengths(np.random.default_rng(0).integers(2, 50, 200))
    forward, back = (Batches(source, 400, seed=4) for _ in range(2))
    count = 3 * forward.num_batches
    expected = [forward.at(step) for step in range(count)]
    for step in reversed(range(count)):
        epoch, numbers = back.at(step)
        assert epoch == expected[step][0]
        np.testing.assert_array_equal(numbers, expected[step][1])
    assert expected[0][1].tolist() != expected[forward.num_batches][1].tolist()
    assert expected[0][1].tolist() != Batches(source, 400, seed=5).at(0)[1].tolist()


@given(LENGTHS, st.integers(1, 5), st.integers(1, 200), st.data())
def test_the_shares_are_the_batch(lengths: list[int], world: int, micro_tokens: int, data: st.DataObject) -> None:
    numbers = np.array(data.draw(st.lists(st.sampled_from(range(len(lengths))), unique=True)), np.int64)
    source = np.array(lengths)
    shares = [share(source, numbers, rank=rank, world=world, micro_tokens=micro_tokens) for rank in range(world)]
    micro = [part for mine in shares for part in mine]
    assert len({len(mine) for mine in shares}) == 1
    assert len(shares[0]) >= 1
    assert sorted(np.concatenate(micro)) == sorted(numbers)
    empty = sum(len(part) == 0 for part in micro)
    assert empty == max(0, len(micro) - len(numbers))
    sizes = [int(source[part].sum()) for part in micro]
    longest = int(source[numbers].max(initial=0))
    assert max(sizes) <= micro_tokens + 2 * longest
    if not empty:
        assert max(sizes) - min(sizes) <= 2 * longest
    for part in micro:
        assert (np.diff(source[part]) >= 0).all()


def test_shares_by_hand() -> None:
    lengths = np.array([4, 8, 4, 8, 4, 4])
    assert [part.tolist() for part in share(lengths, np.arange(6), rank=0, world=1, micro_tokens=100)] == [
        [0, 2, 4, 5, 1, 3]
    ]
    shares = [share(lengths, np.arange(6), rank=rank, world=2, micro_tokens=8) for rank in range(2)]
    assert [[part.tolist() for part in mine] for mine in shares] == [[[0, 2], [1]], [[4, 5], [3]]]
    # 104 tokens asked for 100: one sequence too many is no reason for a second micro-batch
    assert len(share(np.full(13, 8), np.arange(13), rank=0, world=1, micro_tokens=100)) == 1


def test_errors() -> None:
    source = Lengths(np.array([10, 20]))
    with pytest.raises(UsageError, match="batch_tokens is 15, but one sequence has 20 tokens"):
        Batches(source, 15)
    with pytest.raises(UsageError, match="there is no step -1"):
        Batches(source, 20).at(-1)
    with pytest.raises(UsageError, match="rank must be from 0 to 1, not 2"):
        share(source.lengths, np.arange(2), rank=2, world=2, micro_tokens=8)
    with pytest.raises(UsageError, match="micro_tokens must be at least 1"):
        share(source.lengths, np.arange(2), rank=0, world=2, micro_tokens=0)


def test_held_out_documents(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, many(200), tiny.bert(), shard_tokens=1000)
    lengths = corpus.document_lengths()
    for wanted in (100, 10**9):
        training, held_out = split_documents(corpus, wanted)
        assert sorted([*training, *held_out]) == list(range(200))
        tokens = lengths[held_out].sum()
        limit = min(wanted, 0.05 * corpus.num_tokens)
        assert limit - lengths.max() <= tokens <= limit
    assert held_out.min() < 60
    assert held_out.max() > 140
    assert split_documents(corpus, 10**9)[1].tolist() == held_out.tolist()
    assert split_documents(corpus, 10**9, seed=1)[1].tolist() != held_out.tolist()
    assert split_documents(corpus, 0)[1].tolist() == []
    training, held_out = split_documents(corpus, 1)  # every document is longer: the nearest one
    assert lengths[held_out].tolist() == [lengths.min()]
    training, held_out = split_documents(corpus, 1, at_least=2)
    assert sorted(lengths[held_out]) == sorted(lengths)[:2]
    assert sorted([*training, *held_out]) == list(range(200))
    assert split_documents(corpus, 10**9, at_least=2)[1].tolist() == split_documents(corpus, 10**9)[1].tolist()


def test_one_document_is_not_held_out(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, many(1), tiny.bert())
    assert [part.tolist() for part in split_documents(corpus, 100)] == [[0], []]
