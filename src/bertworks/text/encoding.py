"""What a text becomes: token ids, with the way back to the characters and words that they came from.

Every number that a model computes per token is later asked for per character span (answers, entities) or per word (word
vectors, tags), so an `Encoding` carries the offsets and word numbers of each token along with its id.

Offsets count Python characters of the *original* text, never of the normalised one, and never include the white space
around a token: byte-level and metaspace tokenizers keep the space before a word inside its first token, but a span
shown to a user must not begin with it. A token that stands for white space alone has an empty span where that white
space ends.

Shapes: T tokens of one sequence, special tokens included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

NO_WORD = -1
NO_SEQUENCE = -1


@dataclass(frozen=True, slots=True)
class Word:
    """One word: characters `start` to `end` of its text, tokens `first_token` up to but not including `stop_token`."""

    index: int
    start: int
    end: int
    first_token: int
    stop_token: int

    @property
    def tokens(self) -> range:
        """The positions of the word's tokens in the encoding."""
        return range(self.first_token, self.stop_token)


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """One text, or a pair of texts, as tokens.

    ids:       int32 (T,)   token ids
    segments:  int32 (T,)   segment ("token type") ids
    offsets:   int32 (T, 2) start and end in the text that `sequences` names; in the word's own text if words were given
    words:     int32 (T,)   word number within its text (its own words, or those given); -1 for special tokens
    sequences: int8 (T,)    0 for the first text, 1 for the second, -1 for special tokens
    """

    ids: Ints
    segments: Ints
    offsets: Ints
    words: Ints
    sequences: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def special(self) -> NDArray[np.bool_]:
        """bool (T,): True for the tokens that the template added; a special token that stands in the text is text."""
        return self.sequences == NO_SEQUENCE

    def positions(self, sequence: int = 0) -> NDArray[np.int64]:
        """int64: the positions of the tokens of text `sequence` (0 or 1)."""
        return np.flatnonzero(self.sequences == sequence)

    def take(self, selection: slice | NDArray[Any]) -> Encoding:
        """The encoding of the selected tokens only (a slice, positions or a mask)."""
        return Encoding(
            self.ids[selection],
            self.segments[selection],
            self.offsets[selection],
            self.words[selection],
            self.sequences[selection],
        )

    def word_spans(self, sequence: int = 0) -> list[Word]:
        """The words of text `sequence` in order.

        A word's span runs from its first to its last visible character; a word of spaces alone (byte-level tokenizers
        have such) has an empty span. In a window that begins or ends inside a word, the span covers the
        tokens present.
        """
        positions = self.positions(sequence)
        if len(positions) == 0:
            return []
        words = self.words[positions]
        bounds = np.flatnonzero(np.diff(words)) + 1
        firsts = np.concatenate(([0], bounds))
        stops = np.concatenate((bounds, [len(words)]))
        spans = []
        for first, stop in zip(firsts.tolist(), stops.tolist(), strict=True):
            tokens = positions[first:stop]
            start, end = visible_span(self.offsets[tokens])
            spans.append(Word(int(words[first]), start, end, int(tokens[0]), int(tokens[-1]) + 1))
        return spans


def visible_span(offsets: Ints) -> tuple[int, int]:
    """The span that covers all non-empty spans of `offsets` (n, 2); where all are empty, the first one."""
    visible = offsets[offsets[:, 0] < offsets[:, 1]]
    if len(visible) == 0:
        return int(offsets[0, 0]), int(offsets[0, 1])
    return int(visible[:, 0].min()), int(visible[:, 1].max())


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """`start, end` without the white space at either side.

    A piece of nothing but spaces has an empty span at `end`; one that stands for another kind of white space (a line
    end, an ideographic space) keeps its span, as in `tokenizers`.
    """
    piece = text[start:end]
    stripped = piece.lstrip()
    if not stripped:
        return (start, end) if piece.strip(" ") else (end, end)
    return end - len(stripped), end - len(stripped) + len(stripped.rstrip())


def make(
    ids: Iterable[int],
    offsets: Iterable[tuple[int, int]],
    words: Iterable[int],
    *,
    sequence: int = 0,
) -> Encoding:
    """An encoding of one text without special tokens, all in segment 0, from plain Python numbers."""
    array = np.fromiter(ids, np.int32)
    return Encoding(
        ids=array,
        segments=np.zeros_like(array),
        offsets=np.array(list(offsets), np.int32).reshape(len(array), 2),
        words=np.fromiter(words, np.int32),
        sequences=np.full(len(array), sequence, np.int8),
    )


def special_run(ids: tuple[int, ...], segments: tuple[int, ...]) -> Encoding:
    """An encoding of special tokens only."""
    return Encoding(
        ids=np.array(ids, np.int32),
        segments=np.array(segments, np.int32),
        offsets=np.zeros((len(ids), 2), np.int32),
        words=np.full(len(ids), NO_WORD, np.int32),
        sequences=np.full(len(ids), NO_SEQUENCE, np.int8),
    )


def in_place(encoding: Encoding, *, segment: int, sequence: int) -> Encoding:
    """The same text tokens, as text number `sequence` in segment `segment`."""
    return Encoding(
        encoding.ids,
        np.full(len(encoding), segment, np.int32),
        encoding.offsets,
        encoding.words,
        np.full(len(encoding), sequence, np.int8),
    )


def concatenate(parts: list[Encoding]) -> Encoding:
    """The parts one after the other."""
    return Encoding(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.segments for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.words for part in parts]),
        np.concatenate([part.sequences for part in parts]),
    )
