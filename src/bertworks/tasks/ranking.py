"""What an anchor's positive is ranked among: every text once, and nothing that is right for the anchor as well.

Texts are numbers here, equal ones the same. Legend: U anchors, N candidates, A pairs of a text and one that is right for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from bertworks.data.labelled.examples import SimilarityExample
from bertworks.data.pretraining.flat import ranges

Ints = NDArray[np.int64]


def text_numbers(texts: Sequence[str]) -> Ints:
    """(texts,): equal texts have equal numbers."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(text, len(known)) for text in texts], np.int64)


def right_answers(anchors: Ints, positives: Ints) -> Ints:
    """(A, 2), in order: each anchor with each of its positives, and with itself."""
    pairs = np.stack([np.concatenate([anchors, anchors]), np.concatenate([positives, anchors])], axis=1)
    return cast(Ints, np.unique(pairs, axis=0))


class Ranking:
    """The candidates of some anchors."""

    def __init__(self, answers: Ints, anchors: Ints, positives: Ints, offered: Ints) -> None:
        """answers: (A, 2), as `right_answers` gives them; anchors, positives: (U,); offered: positives and negatives."""
        self.answers, self.anchors = answers, anchors
        self.candidates, self.kept = np.unique(offered, return_index=True)
        """(N,) each: the different texts; the first place of each among those that are offered."""
        self.own = np.searchsorted(self.candidates, positives)
        """(U,): which candidate is an anchor's positive."""

    @classmethod
    def of_examples(cls, examples: Sequence[SimilarityExample]) -> Self:
        """Every anchor among the positives and negatives of all examples."""
        counts = np.array([len(example.texts) for example in examples], np.int64)
        numbers = text_numbers([text for example in examples for text in example.texts])
        first = np.cumsum(counts) - counts
        anchors, positives = numbers[first], numbers[first + 1]
        return cls(right_answers(anchors, positives), anchors, positives, np.delete(numbers, first))

    def other_answers(self, rows: slice = slice(None)) -> Ints:
        """(2, …): rows, from the first of `rows`, and columns of candidates that are right beside an anchor's own positive."""
        anchors, own = self.anchors[rows], self.own[rows]
        different, which = np.unique(anchors, return_inverse=True)  # an anchor may stand in most of the rows
        begins, ends = (np.searchsorted(self.answers[:, 0], different, side) for side in ("left", "right"))
        texts = self.answers[ranges(begins, ends - begins), 1]
        column = np.minimum(np.searchsorted(self.candidates, texts), len(self.candidates) - 1)
        there = self.candidates[column] == texts
        counts = np.bincount(np.repeat(np.arange(len(different)), ends - begins)[there], minlength=len(different))
        row = np.repeat(np.arange(len(anchors)), counts[which])
        right = column[there][ranges((np.cumsum(counts) - counts)[which], counts[which])]
        other = right != own[row]
        return np.stack([row[other], right[other]])
