"""Numbers that are functions of their key: uniform, unrelated, and the same for ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.pretraining import draw
from bertworks.data.pretraining.draw import Stream

NUMBERS = st.integers(0, 2**62)


def test_splitmix64_by_its_published_values() -> None:
    """The output function on the first three states after seed 1234567, as its authors' program prints them."""
    states = [(1234567 + step * draw.GOLDEN) % 2**64 for step in (1, 2, 3)]
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [draw._mixed_int(state) for state in states] == expected


def test_arrays_and_single_numbers_agree() -> None:
    """The array code against plain Python integers."""
    key = 0
    for part in (Stream.SELECT, 7, 3, 11, 5):
        key = draw._mixed_int(key + draw.GOLDEN * (part + 1))
    assert int(draw.bits(Stream.SELECT, 7, 3, 11, 5)) == key
    assert int(draw.bits(Stream.SELECT, 7, 3, np.array([4, 11]), np.array([[0], [5]]))[1, 1]) == key


def test_the_values_never_change() -> None:
    """A run that goes on with another version of the program must see the same numbers."""
    assert draw.bits(1, 2, 3, np.arange(3), 4).tolist() == [
        10965521932791656841,
        10508117772927965625,
        4302213472809967303,
    ]
    assert [stream.value for stream in Stream] == list(range(1, len(Stream) + 1))
    assert [stream.name for stream in Stream][:4] == ["SHUFFLE", "SELECT", "CHANGE", "REPLACE"]


@given(NUMBERS, st.integers(-(2**62), 2**62), NUMBERS, NUMBERS, NUMBERS)
def test_every_part_of_the_key_counts(stream: int, seed: int, epoch: int, index: int, position: int) -> None:
    key = [stream, seed, epoch, index, position]
    drawn = int(draw.bits(*key))
    assert drawn == int(draw.bits(*key))
    for part in range(5):
        other = [*key]
        other[part] += 1
        assert int(draw.bits(*other)) != drawn
    assert 0 <= float(draw.uniform(*key)) < 1


@given(st.integers(1, 2**40), st.lists(NUMBERS, min_size=1, max_size=50))
def test_integers_stay_below(high: int, index: list[int]) -> None:
    drawn = draw.integers(high, Stream.PAIR, 1, 2, np.array(index))
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert drawn.max() < high


@pytest.mark.parametrize("vary", ["stream", "seed", "epoch", "index", "position"])
def test_uniform_along_every_part_of_the_key(vary: str) -> None:
    """Chi-squared over 64 cells (63 degrees of freedom: above 131 one time in a million), and no memory of the last."""
    count = 20_000
    if vary in ("index", "position"):
        along = np.arange(count)
        numbers = draw.uniform(1, 2, 3, along if vary == "index" else 4, along if vary == "position" else 5)
    else:
        count = 4000
        keys = {"stream": (1, 0, 0), "seed": (0, 1, 0), "epoch": (0, 0, 1)}[vary]
        step = np.array(keys)
        numbers = np.array([draw.uniform(*(np.array([1, 2, 3]) + n * step), 4, 5) for n in range(count)])
    cells = np.bincount((numbers * 64).astype(int), minlength=64)
    assert ((cells - count / 64) ** 2 / (count / 64)).sum() < 131
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 5 / np.sqrt(count)


def test_streams_and_neighbours_are_unrelated() -> None:
    grid = draw.uniform(1, 0, 0, np.arange(200)[:, None], np.arange(200))  # (200, 200)
    other = draw.uniform(2, 0, 0, np.arange(200)[:, None], np.arange(200))
    for one, two in ((grid, other), (grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1]), (grid, grid.T)):
        one, two = (part[np.triu_indices(min(part.shape), 1)] for part in (one, two))
        assert abs(np.corrcoef(one, two)[0, 1]) < 0.04  # 5 standard deviations


@given(st.integers(0, 300), st.integers(0, 5))
def test_a_permutation_is_one(count: int, epoch: int) -> None:
    assert sorted(draw.permutation(Stream.SHUFFLE, 9, epoch, count)) == list(range(count))


def test_permutations_are_even() -> None:
    """Each of the 6 orders of three things, about equally often over 6,000 epochs (5 degrees of freedom)."""
    orders = [tuple(draw.permutation(Stream.SHUFFLE, 0, epoch, 3)) for epoch in range(6000)]
    cells = np.array([orders.count(order) for order in set(orders)])
    assert len(cells) == 6
    assert ((cells - 1000) ** 2 / 1000).sum() < 36
