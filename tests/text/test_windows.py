from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.errors import UsageError
from bertworks.text.encoding import make
from bertworks.text.template import Layout, Special, Template
from bertworks.text.windows import Window, split, split_pair, windows

BERT = Template(
    single=Layout(prefix=Special((2,), (0,)), suffix=Special((3,), (0,)), segments=(0,)),
    pair=Layout(prefix=Special((2,), (0,)), middle=Special((3,), (0,)), suffix=Special((3,), (1,)), segments=(0, 1)),
)


def text(length: int, first: int = 10):
    return make(range(first, first + length), [(i, i + 1) for i in range(length)], range(length))


def test_by_hand() -> None:
    # 10 tokens, windows of 6 sharing 2: two windows; 8 fresh tokens, 4 each; they change hands in the middle of 4:6
    assert windows(10, 6, 2) == [Window(0, 6, 0, 5), Window(4, 10, 5, 10)]
    # 11 tokens need three: 9 fresh ones, 3 each, so that no window is a short rest
    assert windows(11, 6, 2) == [Window(0, 5, 0, 4), Window(3, 8, 4, 7), Window(6, 11, 7, 11)]


def test_short_and_empty_texts_have_one_window() -> None:
    assert windows(6, 6, 2) == [Window(0, 6, 0, 6)]
    assert windows(0, 6, 2) == [Window(0, 0, 0, 0)]


@given(st.integers(0, 400), st.integers(1, 60), st.data())
def test_each_token_is_kept_once_with_the_most_context(length: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    found = windows(length, size, overlap)
    kept = [token for window in found for token in range(window.keep_start, window.keep_stop)]
    assert kept == list(range(length))
    for window in found:
        assert 0 <= window.start <= window.keep_start <= window.keep_stop <= window.stop <= length
        assert len(window) <= size
    lengths = [len(window) for window in found]
    assert max(lengths) - min(lengths) <= 1
    for before, after in pairwise(found):
        assert before.stop - after.start == overlap

    def context(window: Window, token: int) -> int:
        left = token - window.start if window.start else length  # the text's own edge costs nothing
        right = window.stop - 1 - token if window.stop < length else length
        return min(left, right)

    for window in found:
        for token in range(window.keep_start, window.keep_stop):
            best = max(context(other, token) for other in found if other.start <= token < other.stop)
            assert context(window, token) == best


@given(st.integers(1, 400), st.integers(1, 60), st.data())
def test_no_more_windows_than_needed(length: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    plain, start = 1, 0
    while start + size < length:
        start += size - overlap
        plain += 1
    assert len(windows(length, size, overlap)) == plain


@pytest.mark.parametrize(("length", "size", "overlap"), [(5, 4, 4), (5, 4, 9), (5, 0, 0), (5, 4, -1), (-1, 4, 0)])
def test_impossible_sizes_are_explained(length: int, size: int, overlap: int) -> None:
    with pytest.raises(UsageError):
        windows(length, size, overlap)
    if overlap >= size > 0:
        with pytest.raises(UsageError, match="must be smaller than the window"):
            windows(length, size, overlap)


@given(st.integers(0, 70), st.integers(3, 20), st.data())
def test_pieces_of_one_text(length: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 3))
    encoding = text(length)
    pieces = split(encoding, BERT, size, overlap)
    assert all(len(piece.encoding) <= size for piece in pieces)
    assert all(piece.encoding.ids[0] == 2 and piece.encoding.ids[-1] == 3 for piece in pieces)
    assert np.concatenate([piece.encoding.ids[piece.keep] for piece in pieces]).tolist() == encoding.ids.tolist()
    assert not any(piece.encoding.special[piece.keep].any() for piece in pieces)


@given(st.integers(0, 6), st.integers(0, 70), st.integers(10, 24), st.data())
def test_pieces_of_a_pair(first: int, second: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - first - 4))
    question, context = text(first, 100), text(second, 200)
    pieces = split_pair(question, context, BERT, size, overlap)
    for piece in pieces:
        assert len(piece.encoding) <= size
        assert piece.encoding.ids[piece.encoding.positions(0)].tolist() == question.ids.tolist()
        assert (piece.encoding.sequences[piece.keep] == 1).all()
        assert (piece.encoding.segments[piece.encoding.positions(1)] == 1).all()
    assert np.concatenate([piece.encoding.ids[piece.keep] for piece in pieces]).tolist() == context.ids.tolist()
    offsets = np.concatenate([piece.encoding.offsets[piece.keep] for piece in pieces])
    assert np.array_equal(offsets, context.offsets)  # offsets still speak of the whole text


def test_a_window_needs_room_for_text() -> None:
    with pytest.raises(UsageError, match="use at least 3"):
        split(text(5), BERT, 2, 0)
    with pytest.raises(UsageError, match="use at least 9"):
        split_pair(text(5), text(5), BERT, 8, 0)
