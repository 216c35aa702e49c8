"""Cutting on purpose: what does not fit is dropped, counted and reported, so that a caller can say so.

Nothing else in this package shortens a text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bertworks.errors import UsageError
from bertworks.text.encoding import Encoding


class Cut(NamedTuple):
    """The encoding that fits, and how many text tokens it lost."""

    encoding: Encoding
    dropped: int


def cut(encoding: Encoding, size: int) -> Cut:
    """Drop text tokens from the end until at most `size` tokens remain. Special tokens stay.

    Of a pair, the longer text loses tokens first, the second one where both are equally long.
    """
    excess = len(encoding) - size
    if excess <= 0:
        return Cut(encoding, 0)
    num_special = int(encoding.special.sum())
    if size < num_special:
        raise UsageError(f"cannot cut to {size} tokens: {num_special} of them are special tokens, which stay")
    first, second = len(encoding.positions(0)), len(encoding.positions(1))
    room = size - num_special
    # The longer text shrinks to the length of the other, then both shrink together.
    keep_second = min(second, max(room - first, room // 2))
    keep_first = room - keep_second
    keep = encoding.special.copy()
    keep[encoding.positions(0)[:keep_first]] = True
    keep[encoding.positions(1)[:keep_second]] = True
    return Cut(encoding.take(np.flatnonzero(keep)), excess)


def summary(cuts: list[Cut]) -> str | None:
    """One sentence on what was dropped from a list of texts, or None where nothing was."""
    lost = [result.dropped for result in cuts if result.dropped]
    if not lost:
        return None
    texts = "1 text was" if len(lost) == 1 else f"{len(lost)} texts were"
    return f"{texts} cut, {sum(lost)} tokens dropped (of {len(cuts)} texts; at most {max(lost)} tokens in one)"
