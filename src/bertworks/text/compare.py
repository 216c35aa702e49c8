"""How tokenizers differ on the same text: how finely they cut it, and what they do not know.

    fertility         tokens per word: 1 is a whole word each, more is finer cutting and longer sequences
    text bytes/token  how much text fits in a window; comparable between languages and kinds of tokenizers
    unknown           share of tokens that are the unknown token: text that a model cannot see
    whole words       share of words that are one known token
    longest splits    the words that fall into the most pieces

A *word* here is a run of characters between white space, and each Chinese, Japanese or Korean ideograph by itself, so
that all tokenizers are measured against the same count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bertworks.text.tokenizer import Tokenizer

IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(f"[{IDEOGRAPH}]|[^\\s{IDEOGRAPH}]+")


@dataclass(frozen=True)
class Split:
    """A word and the pieces that it falls into."""

    word: str
    pieces: tuple[str, ...]


@dataclass
class Measure:
    """What was counted for one tokenizer; counts grow with each text."""

    name: str
    kind: str
    vocab_size: int
    words: int = 0
    bytes: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    whole_words: int = 0
    longest: list[Split] = field(default_factory=list)

    @property
    def fertility(self) -> float:
        return self.tokens / max(self.words, 1)

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / max(self.tokens, 1)

    @property
    def unknown_share(self) -> float:
        return self.unknown_tokens / max(self.tokens, 1)

    @property
    def whole_share(self) -> float:
        return self.whole_words / max(self.words, 1)


def compare(
    tokenizers: Sequence[tuple[str, Tokenizer]], chunks: Iterable[Sequence[str]], *, num_longest: int = 5
) -> list[Measure]:
    """Run every tokenizer over the same chunks of texts, in constant memory."""
    measures = [Measure(name, _kind(tokenizer), tokenizer.vocab_size) for name, tokenizer in tokenizers]
    for chunk in chunks:
        words = [list(WORD.finditer(text)) for text in chunk]
        num_bytes = sum(len(text.encode("utf-8", "replace")) for text in chunk)
        for (_, tokenizer), measure in zip(tokenizers, measures, strict=True):
            measure.words += sum(map(len, words))
            measure.bytes += num_bytes
            _count(measure, tokenizer, chunk, words, num_longest)
    return measures


def _kind(tokenizer: Tokenizer) -> str:
    """The algorithm, and whether it starts from bytes."""
    return f"byte-level {tokenizer.kind}" if "ByteLevel" in repr(tokenizer.backend.pre_tokenizer) else tokenizer.kind


def _count(
    measure: Measure, tokenizer: Tokenizer, texts: Sequence[str], words: list[list[re.Match[str]]], num_longest: int
) -> None:
    unknown = -1 if tokenizer.unk_id is None else tokenizer.unk_id
    for own, encoding in zip(words, tokenizer.encode_batch(texts, special=False), strict=True):
        measure.tokens += len(encoding)
        measure.unknown_tokens += int((encoding.ids == unknown).sum())
        if not own:
            continue
        starts = np.array([word.start() for word in own])
        visible = encoding.offsets[:, 0] < encoding.offsets[:, 1]
        ids = encoding.ids[visible]
        holder = np.searchsorted(starts, encoding.offsets[visible, 0], side="right") - 1  # the word of each token
        counts = np.bincount(holder[holder >= 0], minlength=len(own))
        unknown_words = np.bincount(holder[(holder >= 0) & (ids == unknown)], minlength=len(own)) > 0
        measure.whole_words += int(((counts == 1) & ~unknown_words).sum())
        longest = measure.longest
        for index in np.argsort(-counts, kind="stable"):  # most pieces first, so that few are looked at
            if counts[index] <= (len(longest[-1].pieces) if len(longest) == num_longest else 1):
                break
            word = own[index].group()
            if all(word != kept.word for kept in longest):
                longest.append(Split(word, tuple(tokenizer.tokens(ids[holder == index]))))
                longest.sort(key=lambda kept: (-len(kept.pieces), kept.word))
                del longest[num_longest:]
