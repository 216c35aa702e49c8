"""Text into words, without a model: a word is a run of letters, digits and their accents.

Everything that Unicode calls punctuation, symbol, separator or control is between words, except an apostrophe inside
one (don't). Chinese and Japanese ideographs stand alone, since nothing marks where their words end; text that was
segmented by a tool is cut at its spaces instead (`split="spaces"`). Nothing here knows a language.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Callable

from bertworks.vectors.options import TextOptions

ASCII_WORD = re.compile(r"[0-9A-Za-z]+(?:'[0-9A-Za-z]+)*")
IDEOGRAPH = "㐀-䶿一-鿿豈-﫿\U00020000-\U0003ffff"
IDEOGRAPHS = re.compile(f"([{IDEOGRAPH}])")
JOINERS = "\u200c\u200d"  # inside words of Persian and of Indian scripts


def splitter(options: TextOptions) -> Callable[[str], list[str]]:
    """The function that cuts a text as the options say."""
    cut: Callable[[str], list[str]] = str.split if options.split == "spaces" else words_of
    return (lambda text: cut(text.lower())) if options.lowercase else cut


def words_of(text: str) -> list[str]:
    """The words of a text, as they are written."""
    if text.isascii():
        return ASCII_WORD.findall(text)
    return _unicode_word().findall(IDEOGRAPHS.sub(r" \1 ", text))


@functools.cache
def _unicode_word() -> re.Pattern[str]:
    every = (chr(code) for code in range(sys.maxunicode + 1))
    outside_class = _ranges([c for c in every if unicodedata.category(c)[0] in "PSZC" and c not in JOINERS])
    return re.compile(f"[^{outside_class}]+(?:['’][^{outside_class}]+)*")


def _ranges(characters: list[str]) -> str:
    """The inside of a character class."""
    parts: list[list[str]] = []
    for character in characters:
        if parts and ord(character) == ord(parts[-1][1]) + 1:
            parts[-1][1] = character
        else:
            parts.append([character, character])
    return "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in parts)
