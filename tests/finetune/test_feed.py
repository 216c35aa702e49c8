"""A step's batches: all units once an epoch, in batches of one size, whoever asks and in whatever order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.finetune.feed import Feed
from bertworks.tasks.base import Units
from bertworks.tasks.classification import Classification
from bertworks.tasks.similarity import Similarity
from tests.finetune.small import examples
from tests.tasks.small import make_tokenizer

TASK = Classification(labels=("quick", "still"))


@pytest.fixture(scope="module")
def units() -> Units:
    return TASK.encode(examples(45), make_tokenizer("bert"), window=32, training=True)


@settings(deadline=None, max_examples=50)
@given(count=st.integers(1, 60), batch_size=st.integers(1, 70), seed=st.integers(0, 5))
def test_every_unit_once_an_epoch(count: int, batch_size: int, seed: int) -> None:
    units = TASK.encode(examples(count), make_tokenizer("bert"), window=32, training=True)
    feed = Feed(TASK, units, batch_size=batch_size, epochs=2, seed=seed)
    assert feed.total_steps == 2 * feed.steps_per_epoch
    for epoch in range(2):
        steps = [feed.at(epoch * feed.steps_per_epoch + step) for step in range(feed.steps_per_epoch)]
        assert sorted(np.concatenate(steps)) == list(range(count))
        sizes = [len(numbers) for numbers in steps]
        assert max(sizes) <= batch_size
        assert max(sizes) - min(sizes) <= 1


def test_a_step_is_a_function_of_its_number(units: Units) -> None:
    first, second = (Feed(TASK, units, batch_size=8, epochs=3, seed=4) for _ in range(2))
    forward = [first.at(step).tolist() for step in range(first.total_steps)]
    assert [second.at(step).tolist() for step in reversed(range(second.total_steps))] == forward[::-1]
    assert forward[:6] != forward[6:12]  # another epoch, another order
    other = Feed(TASK, units, batch_size=8, epochs=3, seed=5)
    assert other.at(0).tolist() != forward[0]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_processes_share_a_step(world: int, units: Units) -> None:
    feed = Feed(TASK, units, batch_size=16, epochs=1, seed=0, micro_tokens=40)
    parts = [feed.micro_batches(1, rank=rank, world=world) for rank in range(world)]
    assert len({len(part) for part in parts}) == 1
    assert sum(batch.counts["classify"] for part in parts for batch in part) == len(feed.at(1))
    assert sum(batch.num_tokens for part in parts for batch in part) == feed.lengths[feed.at(1)].sum()


def test_what_is_compared_stays_together(units: Units) -> None:
    task = Similarity(kind="pairs")
    from tests.tasks.small import similar

    pairs = task.encode(similar("pairs"), make_tokenizer("bert"), window=32, training=True)
    feed = Feed(task, pairs, batch_size=7, epochs=1, seed=0, micro_tokens=10)
    assert len(feed.micro_batches(0, rank=0, world=1)) == 1
    assert (
        len(Feed(TASK, units, batch_size=16, epochs=1, seed=0, micro_tokens=40).micro_batches(0, rank=0, world=1)) > 1
    )


def test_part_of_an_epoch(units: Units) -> None:
    feed = Feed(TASK, units, batch_size=9, epochs=0.4, seed=0)
    assert (feed.steps_per_epoch, feed.total_steps) == (5, 2)
    tokens, epochs = feed.seen(2)
    assert epochs == pytest.approx(0.4)
    assert tokens == pytest.approx(0.4 * feed.lengths.sum())
    assert Feed(TASK, units, batch_size=99, epochs=0.01, seed=0).total_steps == 1
