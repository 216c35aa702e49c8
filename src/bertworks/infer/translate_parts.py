"""A text that is longer than a model reads at once, cut into parts that fit: whole sentences where that is possible.

    sentences  ->  one that is too long: its words  ->  one that is too long: runs of its tokens

Neighbours are then joined again as far as there is room. Chinese, which has no spaces, and a long address are a single word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from bertworks.data.sentences import sentence_spans
from bertworks.text.tokenizer import Tokenizer

WORD = re.compile(r"\S+")


class Part(NamedTuple):
    """The characters from `start` to `end` of a text."""

    start: int
    end: int
    inside: bool = False
    """Whether it goes on inside of a word, so that nothing stands between it and the part before."""


def cut(texts: Sequence[str], tokenizer: Tokenizer, room: int) -> list[list[Part]]:
    """Each text as parts of at most `room` tokens, a short one as one; nothing for a text without words or tokens.

    A single character that has more tokens than that is left as it is.
    """
    lengths = tokenizer.ids(texts)[1]
    return [
        _cut(text, tokenizer, room) if length > room else [Part(0, len(text))] if length and text.strip() else []
        for text, length in zip(texts, lengths, strict=True)
    ]


def _cut(text: str, tokenizer: Tokenizer, room: int) -> list[Part]:
    runs: list[Part] = []
    for start, end in sentence_spans(text):
        words = [Part(*word.span()) for word in WORD.finditer(text, start, end)]
        pieces = [piece for word in words for piece in _pieces(text, word, tokenizer, room)]
        runs += _joined(text, pieces, tokenizer, room)
    return _joined(text, runs, tokenizer, room)


def _pieces(text: str, part: Part, tokenizer: Tokenizer, room: int) -> list[Part]:
    """A part as it is, or cut between tokens into pieces of like length; nothing where it has no tokens."""
    offsets = tokenizer.encode(text[part.start : part.end], special=False).offsets
    count = len(offsets)
    if count <= room:
        return [part] if count else []
    number = -(-count // room)
    between = {part.start + int(offsets[count * piece // number][0]) for piece in range(1, number)}
    places = sorted({part.start, *between, part.end})
    if len(places) == 2:  # all its tokens are of one character
        return [part]
    parts = [Part(start, end, part.inside or start > part.start) for start, end in pairwise(places)]
    # Alone, a piece may have a token more than it had in its word.
    return [piece for each in parts for piece in _pieces(text, each, tokenizer, room)]


def _joined(text: str, parts: Sequence[Part], tokenizer: Tokenizer, room: int) -> list[Part]:
    """Neighbours joined to as long parts as there is room for."""
    joined: list[Part] = []
    for part in parts:
        if joined and len(tokenizer.encode(text[joined[-1].start : part.end], special=False)) <= room:
            joined[-1] = joined[-1]._replace(end=part.end)
        else:
            joined.append(part)
    return joined
