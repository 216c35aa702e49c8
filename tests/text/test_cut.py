from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.errors import UsageError
from bertworks.text.cut import Cut, cut, summary
from tests.text.test_windows import BERT, text


def test_one_text_loses_its_end_and_keeps_its_special_tokens() -> None:
    result = cut(BERT.wrap_encoding(text(6)), 5)
    assert result.encoding.ids.tolist() == [2, 10, 11, 12, 3]
    assert result.dropped == 3


def test_what_fits_is_left_alone() -> None:
    encoding = BERT.wrap_encoding(text(6))
    assert cut(encoding, 8) == Cut(encoding, 0)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(3, 70))
def test_of_a_pair_the_longer_text_is_cut_first(first: int, second: int, size: int) -> None:
    whole = BERT.wrap_encoding(text(first, 100), text(second, 200))
    result, dropped = cut(whole, size)
    assert len(result) == min(size, len(whole))
    assert len(result) + dropped == len(whole)
    assert result.special.sum() == 3
    # the rule itself, one token at a time
    while first + second + 3 > size:
        if first > second:
            first -= 1
        else:
            second -= 1
    assert result.ids[result.positions(0)].tolist() == list(range(100, 100 + first))
    assert result.ids[result.positions(1)].tolist() == list(range(200, 200 + second))


def test_special_tokens_cannot_be_cut() -> None:
    with pytest.raises(UsageError, match="special tokens, which stay"):
        cut(BERT.wrap_encoding(text(6)), 1)


def test_summary() -> None:
    encoding = BERT.wrap_encoding(text(6))
    assert summary([cut(encoding, 8)]) is None
    assert summary([cut(encoding, 8), cut(encoding, 5)]) == (
        "1 text was cut, 3 tokens dropped (of 2 texts; at most 3 tokens in one)"
    )
    assert summary([cut(encoding, 4), cut(encoding, 5)]).startswith("2 texts were cut, 7 tokens")
