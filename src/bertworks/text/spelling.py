"""Words as rows of characters, the way ELMo reads them (Peters et al. 2018; the numbers are those of its published files).

A character is a byte of the word's UTF-8 form, so that there are no unknown words and no unknown characters. Beyond the
256 bytes there are five more: the beginning and the end of a sentence, the beginning and the end of a word, and padding.

    cat    <word> c a t </word> · · ·          at most 50 places; longer words are cut
    <S>    <word> <sentence> </word> · · ·     the beginning of a sentence is a word, too; so is its end
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
NUM_CHARACTERS = 261
MAX_CHARACTERS = 50

Characters = NDArray[np.uint16]


def spell(words: Sequence[str], max_characters: int = MAX_CHARACTERS) -> Characters:
    """One row per word: uint16 (words, max_characters). Halves of characters (unpaired surrogates) are left out."""
    return _rows([word.encode("utf-8", "ignore") for word in words], max_characters)


def spell_boundaries(max_characters: int = MAX_CHARACTERS) -> Characters:
    """The beginning and the end of a sentence: uint16 (2, max_characters)."""
    return _rows([[BEGIN_SENTENCE], [END_SENTENCE]], max_characters)


def _rows(spellings: Sequence[Sequence[int]], max_characters: int) -> Characters:
    rows = np.full((len(spellings), max_characters), PADDING, np.uint16)
    rows[:, 0] = BEGIN_WORD
    for row, spelling in zip(rows, spellings, strict=True):
        kept = spelling[: max_characters - 2]
        row[1 : len(kept) + 1] = list(kept)
        row[len(kept) + 1] = END_WORD
    return rows
