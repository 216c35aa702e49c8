"""Where words begin in a run of token ids, without the text they were made from.

Whole-word masking needs to know which tokens belong to one word. A corpus holds ids only, but vocabularies mark it:

- WordPiece writes `##` before a piece that continues a word;
- byte-level BPE writes `Ġ` (the space) before one that begins a word, Unigram and SentencePiece-like BPE write `▁`;
- the first GPT's BPE writes `</w>` after one that ends a word.

Where the space is marked, a comma after a word is not, so there a change between letters or digits and anything else
begins a word, too. A Chinese character is a word of its own, however it is marked: Chinese does not write word bounds
(a lexicon knows them, see `lexicon`). With byte-level BPE, a token may begin in the middle of a character; it never
begins a word.
"""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

from bertworks.data.pretraining.flat import Ints
from bertworks.errors import TokenizerError
from bertworks.text.tokenizer import Tokenizer

BYTE_SPACE, SPACE, WORD_END = "Ġ", "▁", "</w>"
# The kinds of characters that a token begins and ends with.
LETTER, OTHER, CHINESE = 0, 1, 2


class WordStarts:
    """Knows for a vocabulary which tokens begin a word, by themselves or after which others."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        size = tokenizer.vocab_size
        self._marked = np.zeros(size, np.bool_)  # begins a word wherever it stands
        self._never = np.zeros(size, np.bool_)  # continues whatever stands before it
        self._first = np.full(size, LETTER, np.int8)  # kind of the first and of the last character
        self._last = np.full(size, LETTER, np.int8)
        self._open = np.zeros(size, np.bool_)  # a bare space: the next token continues it, unless it begins a word
        self._ends: NDArray[np.bool_] | None = None  # what ends a word, where ends are marked
        vocabulary = tokenizer.backend.get_vocab()
        suffix = getattr(tokenizer.backend.model, "end_of_word_suffix", None)
        if tokenizer.kind == "WordPiece":
            self._read_prefixes(vocabulary, str(tokenizer.backend.model.continuing_subword_prefix))
        elif tokenizer.kind == "WordLevel":
            self._marked[:] = True
        elif suffix:
            self._ends = np.zeros(size, np.bool_)
            for token, number in vocabulary.items():
                self._ends[number] = token.endswith(suffix)
                self._read_marked(number, False, token.removesuffix(suffix))
        elif BYTE_SPACE in vocabulary:
            self._read_bytes(vocabulary)
        elif any(token.startswith(SPACE) for token in vocabulary):
            for token, number in vocabulary.items():
                self._read_marked(number, token.startswith(SPACE), token.lstrip(SPACE))
        else:
            raise TokenizerError(
                f"this {tokenizer.kind} tokenizer marks no word bounds ({BYTE_SPACE}, {SPACE} or {WORD_END}), so whole "
                "words cannot be masked; mask tokens instead (unit = 'token')"
            )

    def __call__(self, ids: Ints) -> NDArray[np.bool_]:
        """Whether each token begins a word, given the one before it; the first one does. (T,) to (T,)."""
        starts = np.ones(len(ids), np.bool_)
        before, after = ids[:-1], ids[1:]
        if self._ends is not None:
            starts[1:] = self._ends[before] | (self._first[after] == CHINESE)
            return starts
        changes = (self._last[before] != self._first[after]) | (self._first[after] == CHINESE)
        starts[1:] = (self._marked[after] | (changes & ~self._open[before])) & ~self._never[after]
        return starts

    @property
    def may_start(self) -> NDArray[np.bool_]:
        """Which tokens can begin a word at all, (V,)."""
        return ~self._never

    @property
    def textual(self) -> NDArray[np.bool_]:
        """Which tokens begin and end with a letter, a digit or a Chinese character, (V,)."""
        return (self._first != OTHER) & (self._last != OTHER) & ~self._open

    def _read_prefixes(self, vocabulary: dict[str, int], prefix: str) -> None:
        for token, number in vocabulary.items():
            continues = len(token) > len(prefix) and token.startswith(prefix)
            rest = token.removeprefix(prefix) if continues else token
            self._read_marked(number, not continues, rest)
            self._never[number] = continues and not is_chinese(rest[0])

    def _read_bytes(self, vocabulary: dict[str, int]) -> None:
        values = byte_values()
        for token, number in vocabulary.items():
            marked = token.startswith(BYTE_SPACE)
            raw = bytes(values.get(character, 0x3F) for character in token.lstrip(BYTE_SPACE))
            text = raw.decode("utf-8", "ignore")
            if not text and raw:  # a part of a character; three bytes from 0xE3 to 0xE9 are Chinese and Japanese
                text = "中" if 0xE3 <= raw[0] <= 0xE9 else "a"
            self._read_marked(number, marked, text)
            self._never[number] = not marked and len(raw) > 0 and 0x80 <= raw[0] < 0xC0

    def _read_marked(self, number: int, marked: bool, text: str) -> None:
        self._marked[number] = marked
        self._open[number] = len(text) == 0
        if text:
            self._first[number], self._last[number] = character_kind(text[0]), character_kind(text[-1])


def special_ids(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Which ids are special tokens, or no token at all (a gap in the vocabulary): (V,)."""
    special = np.ones(tokenizer.vocab_size, np.bool_)
    special[list(tokenizer.backend.get_vocab().values())] = False
    special[list(tokenizer.specials.ids.values())] = True
    added = tokenizer.backend.get_added_tokens_decoder()
    special[[number for number, token in added.items() if token.special]] = True
    return special


def character_kind(character: str) -> int:
    """LETTER (digits and combining marks included), CHINESE or OTHER."""
    if is_chinese(character):
        return CHINESE
    return LETTER if unicodedata.category(character)[0] in "LNM" else OTHER


def is_chinese(character: str) -> bool:
    """Whether BERT's tokenizer would set the character apart: the blocks of CJK ideographs."""
    code = ord(character)
    return (
        0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0xF900 <= code <= 0xFAFF or 0x20000 <= code <= 0x2FA1F
    )


def byte_values() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for.

    Printable bytes of Latin-1 stand for themselves; the others, in order, are written as the characters from U+0100.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {chr(256 + n): value for n, value in enumerate(others)}
