"""The best answers of all windows of all questions, from the logits of where an answer starts and ends.

An answer is a run of at most M context tokens. Its score is log p(start) + log p(end) within its window, where both
softmaxes run over the class token and the context, as in training; so a window that points at its class token has no say.
A run counts once: in the window that keeps its first token, or, where that ends too soon, in the next one that shows it
whole. "No answer" has the score of the class token, the
lowest over a question's windows: it must be absent from all.

Every run is looked at, but the n x M table of one window is never made: the best end for each start is a maximum over a
sliding view, for all windows at once, and only the rows of the best starts are written out.

Legend: U units (windows), P places: the context tokens of all units one after the other, M empty ones after each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bertworks.data.pretraining.flat import ranges
from bertworks.tasks.base import Units
from bertworks.tasks.units import of_examples

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BestAnswers:
    """What all windows of one question say together. Scores are logarithms of probabilities."""

    spans: list[tuple[float, int, int]]
    """(score, start, end), best first, in characters of the context; different ones."""
    no_answer: float
    """The score of there being none."""
    total: float
    """Of all runs together."""

    @property
    def lead(self) -> float:
        """How far "no answer" is before the best answer; far, where there is none."""
        return self.no_answer - self.spans[0][0] if self.spans else 1e9


def best_answers(
    units: Units,
    outputs: Sequence[NDArray[np.float32]],
    num_examples: int,
    *,
    max_tokens: int,
    wanted: int,
) -> list[BestAnswers]:
    """Per example, its `wanted` best answers of at most `max_tokens` tokens.

    Units and outputs are those of `bertworks.tasks.answers.Answering`.
    """
    if len(units) == 0:
        return []
    context, kept, shared = (units.arrays[name] for name in ("context", "kept", "shared"))
    counts = context[:, 1] - context[:, 0]  # (U,)
    null_first = units.arrays["null"] <= context[:, 0]
    likely = log_softmax(np.concatenate(outputs), counts + 1)
    rows = np.cumsum(counts + 1) - (counts + 1)  # (U,): each unit's first row in `likely`
    no_answer = likely[np.where(null_first, rows, rows + counts)].sum(axis=1)  # (U,)

    firsts = np.cumsum(counts + max_tokens) - (counts + max_tokens)  # (U,): each unit's first place
    places = ranges(firsts, counts)
    size = int(counts.sum()) + max_tokens * len(counts)
    offsets = np.zeros((size, 2), np.int32)  # (P, 2)
    offsets[places] = units.arrays["offsets"]
    scores = np.full((2, size), -np.inf)  # (2, P): start, end
    scores[:, places] = likely[ranges(rows + null_first, counts)].T
    scores[:, offsets[:, 0] >= offsets[:, 1]] = -np.inf  # an answer has a visible first and last token
    # A window's tokens before its own begin runs too: those that the window before, in which they are kept, cuts off.
    before = kept[:, 0] - context[:, 0]  # (U,)
    early = ranges(firsts, before)
    missing = np.repeat(firsts + shared, before) - early  # tokens that are too few for such a run
    early, missing = early[missing < max_tokens], missing[missing < max_tokens]
    shortest = np.zeros(size, np.int64)
    shortest[early] = missing
    starts = np.full(size, -np.inf)
    begins = np.concatenate((ranges(firsts + before, kept[:, 1] - kept[:, 0]), early))
    starts[begins] = scores[0, begins]
    ends = sliding_window_view(np.concatenate((scores[1], np.full(max_tokens - 1, -np.inf))), max_tokens)  # (P, M)

    def runs_from(chosen: Ints) -> Floats:
        """(chosen, M): the scores of all runs from these places, by their length."""
        return starts[chosen, None] + np.where(np.arange(max_tokens) < shortest[chosen, None], -np.inf, ends[chosen])

    best = starts + ends.max(axis=1)  # (P,): of the runs that begin at each place
    chances = np.exp(np.concatenate((scores[1], np.full(max_tokens - 1, -np.inf))))
    mass = np.exp(starts) * sliding_window_view(chances, max_tokens).sum(axis=1)  # (P,)
    best[early], mass[early] = runs_from(early).max(axis=1), np.exp(runs_from(early)).sum(axis=1)

    found = []
    for numbers in of_examples(units, num_examples):
        low, high = int(firsts[numbers.start]), int(firsts[numbers.stop - 1] + counts[numbers.stop - 1])
        # Two runs may cover the same characters, so more are taken than are wanted.
        top = low + largest(best[low:high], 4 * wanted)
        runs = runs_from(top).ravel()
        chosen = largest(runs, 4 * wanted)
        row, more = np.divmod(chosen, max_tokens)
        spans = _different(runs[chosen], offsets[top[row], 0], offsets[top[row] + more, 1], wanted)
        with np.errstate(divide="ignore"):
            total = float(np.log(mass[low:high].sum()))
        if spans:
            total = max(total, spans[0][0])  # chances too small for a number, all of them, add up to nothing
        found.append(BestAnswers(spans, float(no_answer[numbers.start : numbers.stop].min()), total))
    return found


def log_softmax(logits: NDArray[np.float32], lengths: Ints) -> Floats:
    """Over each run of `lengths` rows, none of them empty: (rows, 2) to (rows, 2)."""
    starts = np.cumsum(lengths) - lengths
    wide = logits.astype(np.float64)
    wide -= np.repeat(np.maximum.reduceat(wide, starts), lengths, axis=0)
    wide -= np.repeat(np.log(np.add.reduceat(np.exp(wide), starts)), lengths, axis=0)
    return wide


def largest(values: Floats, wanted: int) -> Ints:
    """The places of the `wanted` largest values, largest first; those that are minus infinity are left out."""
    places = np.arange(len(values))
    if len(values) > wanted:
        places = np.argpartition(values, len(values) - wanted)[len(values) - wanted :]
    places = places[values[places] > -np.inf]
    return places[np.argsort(-values[places], kind="stable")]


def _different(
    scores: Floats, starts: NDArray[np.int32], ends: NDArray[np.int32], wanted: int
) -> list[tuple[float, int, int]]:
    """The first `wanted` spans that are not empty and not there already."""
    spans: dict[tuple[int, int], float] = {}
    for score, start, end in zip(scores.tolist(), starts.tolist(), ends.tolist(), strict=True):
        if start < end and (start, end) not in spans:
            spans[start, end] = score
            if len(spans) == wanted:
                break
    return [(score, start, end) for (start, end), score in spans.items()]
