from __future__ import annotations

import numpy as np
import pytest

from bertworks.text.encoding import Word, make, trim_span
from tests.text.test_windows import BERT


@pytest.mark.parametrize(
    ("span", "trimmed"), [((0, 3), (1, 3)), ((3, 5), (5, 5)), ((5, 8), (5, 6)), ((2, 2), (2, 2)), ((1, 3), (1, 3))]
)
def test_spans_lose_the_white_space_around_them(span: tuple[int, int], trimmed: tuple[int, int]) -> None:
    assert trim_span(" ab  c  ", *span) == trimmed


def test_word_spans_by_hand() -> None:
    # "unhappy  cat" as un ##happy, a piece of white space, cat
    bare = make([7, 8, 9, 10], [(0, 2), (2, 7), (8, 8), (9, 12)], [0, 0, 1, 2])
    wrapped = BERT.wrap_encoding(bare)
    assert wrapped.word_spans() == [Word(0, 0, 7, 1, 3), Word(1, 8, 8, 3, 4), Word(2, 9, 12, 4, 5)]
    assert wrapped.word_spans(1) == []
    assert list(wrapped.word_spans()[0].tokens) == [1, 2]


def test_word_spans_of_the_second_text() -> None:
    bare = make([7, 8], [(0, 2), (2, 7)], [0, 0])
    assert BERT.wrap_encoding(bare, bare).word_spans(1) == [Word(0, 0, 7, 4, 6)]


def test_types_and_special_mask() -> None:
    encoding = BERT.wrap_encoding(make([], [], []))
    assert len(encoding) == 2
    assert encoding.special.all()
    assert encoding.offsets.shape == (2, 2)
    for array in (encoding.ids, encoding.segments, encoding.offsets, encoding.words):
        assert array.dtype == np.int32
    assert encoding.sequences.dtype == np.int8
