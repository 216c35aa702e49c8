"""Long texts in windows: each token is computed with context on both sides, and its result is taken once.

A model sees at most `size` tokens. A longer text is cut into windows that overlap; in an overlap each token is *kept*
by the window in which the nearer window edge is farther away (the "maximum context" rule of Devlin et al.'s SQuAD
code), which is the window on its side of the overlap's middle. The edges of the text itself cost no context.

The windows are of (nearly) equal length instead of full ones and a short rest: the number of windows and of computed
tokens is the same, but no token is left in a window of three tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from bertworks.errors import UsageError
from bertworks.text.encoding import Encoding
from bertworks.text.template import Template


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens `start:stop` are computed, and `keep_start:keep_stop` of them are taken; all counted in the whole text."""

    start: int
    stop: int
    keep_start: int
    keep_stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Piece:
    """One window, wrapped in special tokens. Tokens `keep` (positions in `encoding`) are the ones to take from it."""

    encoding: Encoding
    window: Window
    keep: slice


def windows(length: int, size: int, overlap: int) -> list[Window]:
    """Windows of at most `size` tokens over `length` tokens, neighbours sharing `overlap` tokens.

    Each token is kept by exactly one window. A text of no tokens has one empty window, so that it still gets a result.
    """
    if length < 0:
        raise UsageError(f"the number of tokens must not be negative, got {length}")
    if size < 1:
        raise UsageError(f"a window must hold at least 1 token, got a size of {size}")
    if overlap < 0:
        raise UsageError(f"the overlap of windows must not be negative, got {overlap}")
    if overlap >= size:
        raise UsageError(
            f"the overlap of windows ({overlap} tokens) must be smaller than the window ({size} tokens); "
            f"choose an overlap of at most {size - 1}"
        )
    if length <= size:
        return [Window(0, length, 0, length)]
    count = -(-(length - overlap) // (size - overlap))  # fewest windows that cover the text, rounded up
    fresh = length - overlap  # each window covers `overlap` tokens and a share of these
    starts = [fresh * number // count for number in range(count)]
    stops = [fresh * (number + 1) // count + overlap for number in range(count)]
    # Between neighbours the tokens change hands in the middle of the overlap; the earlier window keeps an odd one.
    changes = [start + (overlap + 1) // 2 for start in starts[1:]]
    return [
        Window(start, stop, keep_start, keep_stop)
        for start, stop, keep_start, keep_stop in zip(starts, stops, [0, *changes], [*changes, length], strict=True)
    ]


def split(encoding: Encoding, template: Template, size: int, overlap: int) -> list[Piece]:
    """Windows over one text: `encoding` has no special tokens, each piece has them and at most `size` tokens in all."""
    room = size - template.num_special()
    if room < 1:
        raise UsageError(
            f"a window of {size} tokens has no room for text beside {template.num_special()} special tokens; "
            f"use at least {template.num_special() + 1}"
        )
    first = len(template.single.prefix)
    return [
        _piece(template.wrap_encoding(encoding.take(slice(window.start, window.stop))), window, first)
        for window in windows(len(encoding), room, overlap)
    ]


def split_pair(first: Encoding, second: Encoding, template: Template, size: int, overlap: int) -> list[Piece]:
    """Windows over the second text of a pair, each with the whole first text before it (a question and a long context).

    Neither encoding has special tokens; each piece has them and at most `size` tokens in all. `window` and `keep`
    speak of the second text.
    """
    fixed = len(first) + template.num_special(pair=True)
    room = size - fixed
    if room < 1:
        raise UsageError(
            f"a window of {size} tokens has no room for the second text beside {len(first)} tokens of the first "
            f"and {template.num_special(pair=True)} special tokens; shorten the first text or use at least {fixed + 1}"
        )
    before = len(template.pair.prefix) + len(first) + len(template.pair.middle)
    return [
        _piece(template.wrap_encoding(first, second.take(slice(window.start, window.stop))), window, before)
        for window in windows(len(second), room, overlap)
    ]


def _piece(encoding: Encoding, window: Window, before: int) -> Piece:
    shift = before - window.start
    return Piece(encoding, window, slice(window.keep_start + shift, window.keep_stop + shift))
