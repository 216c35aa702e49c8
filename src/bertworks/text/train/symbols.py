"""From counted words to the start of merge learning: the alphabet, the first ids, the words as arrays of symbols.

Ids are given in this order, so that they are the same on every machine: special tokens as listed; the alphabet by
code point; the marked forms of its characters (`##x` of WordPiece, `x</w>` of BPE with an end-of-word suffix) that
occur, by code point. Merges follow in the order in which they are learnt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertworks.errors import DataError, TokenizerError, UsageError
from bertworks.text.train.arrays import Words

NO_SYMBOL = -1
NUM_CODE_POINTS = 0x110000


@dataclass(frozen=True)
class Start:
    """Where merge learning begins."""

    vocab: dict[str, int]  # special tokens and single characters
    lengths: list[int]  # per id, in characters without markers; 0 for special tokens
    words: Words


def start_symbols(
    word_counts: Mapping[str, int],
    *,
    vocab_size: int,
    special_tokens: Sequence[str] = (),
    initial_alphabet: Iterable[str] = (),
    limit_alphabet: int | None = None,
    continuing_prefix: str = "",
    end_of_word_suffix: str = "",
    drop_unknown: bool,
) -> Start:
    """Choose the alphabet and spell every word in it.

    With `limit_alphabet`, the most frequent characters stay (the smaller code point first among equals); those of
    `initial_alphabet` always do. A character outside the alphabet is left out of its word (`drop_unknown`, as
    `tokenizers`' BpeTrainer does), or the whole word is left out (WordPiece, which encodes such a word as one unknown
    token anyway).
    """
    if continuing_prefix and end_of_word_suffix:
        raise UsageError("a continuing prefix and an end-of-word suffix cannot be used together; choose one")
    if len(set(special_tokens)) != len(special_tokens):
        raise UsageError(f"the special tokens {list(special_tokens)} name one token twice; list each once")
    words = [word for word in word_counts if word]
    if not words:
        raise DataError(
            "the text holds no words to learn from; check that the files are not empty "
            "and that the right column is read"
        )
    points, lengths = _code_points(words)
    counts = np.fromiter((word_counts[word] for word in words), dtype=np.int64, count=len(words))  # (W,)
    alphabet = _alphabet(points, np.repeat(counts, lengths), [ord(c) for c in initial_alphabet], limit_alphabet)

    vocab = {token: i for i, token in enumerate(special_tokens)}
    plain = _add(vocab, alphabet, "", "")
    ends = np.cumsum(lengths)  # (W,)
    word_of = np.repeat(np.arange(len(words), dtype=np.int32), lengths)  # (T,)
    symbols = plain[points]  # (T,)
    known = symbols != NO_SYMBOL  # (T,)
    if not drop_unknown and not known.all():
        known = np.repeat(np.logical_and.reduceat(known, ends - lengths), lengths)
    if continuing_prefix or end_of_word_suffix:
        marked = np.full(points.size, bool(continuing_prefix))
        marked[ends - lengths if continuing_prefix else ends - 1] = not continuing_prefix
        marked &= known
        symbols[marked] = _add(vocab, np.unique(points[marked]), continuing_prefix, end_of_word_suffix)[points[marked]]
    if not known.all():
        symbols, word_of = symbols[known], word_of[known]
    if len(vocab) > vocab_size:
        raise TokenizerError(
            f"a vocabulary of {vocab_size:,} is too small: {len(special_tokens)} special tokens and "
            f"{len(vocab) - len(special_tokens):,} characters (with their marked forms) need {len(vocab):,}; "
            "ask for more with --vocab-size, or keep fewer characters with --limit-alphabet"
        )
    token_lengths = [0] * len(special_tokens) + [1] * (len(vocab) - len(special_tokens))
    kept = np.bincount(word_of, minlength=len(words)).astype(np.int32)  # (W,)
    return Start(vocab, token_lengths, Words(symbols, np.cumsum(kept, dtype=np.int64) - kept, kept, counts))


def _code_points(words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """All characters of the words, one word after the other (T,), and the length of each word (W,)."""
    points = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32).astype(np.int32)
    return points, np.fromiter(map(len, words), dtype=np.int64, count=len(words))


def _alphabet(points: np.ndarray, weights: np.ndarray, initial: list[int], limit: int | None) -> np.ndarray:
    """The code points to keep, ascending."""
    found = np.bincount(points, weights=weights, minlength=NUM_CODE_POINTS)  # exact below 2^53
    found[initial] = np.inf
    seen = np.flatnonzero(found)
    if limit is not None and seen.size > limit:
        by_count = seen[np.argsort(-found[seen], kind="stable")]  # stable: smaller code points first among equals
        seen = np.sort(by_count[: max(limit, len(initial))])
    return seen


def rare_characters(word_counts: Mapping[str, int], share: float) -> tuple[int, int]:
    """How many characters, the rarest, make up `share` of the text together, and how many the rest."""
    points, lengths = _code_points(list(word_counts))
    counts = np.fromiter(word_counts.values(), dtype=np.int64, count=len(word_counts))  # (W,)
    found = np.sort(np.bincount(points, weights=np.repeat(counts, lengths)))
    found = found[found > 0]
    rare = int(np.searchsorted(np.cumsum(found), share * found.sum(), side="right"))
    return rare, len(found) - rare


def _add(vocab: dict[str, int], code_points: np.ndarray, prefix: str, suffix: str) -> np.ndarray:
    """Add the (marked) characters to the vocabulary; returns the ids by code point."""
    ids = np.full(NUM_CODE_POINTS, NO_SYMBOL, dtype=np.int32)
    for point in code_points.tolist():
        ids[point] = vocab.setdefault(prefix + chr(point) + suffix, len(vocab))
    return ids
