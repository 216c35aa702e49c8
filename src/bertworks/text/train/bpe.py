"""Byte pair encoding: merge the most frequent pair of neighbouring symbols, again and again.

The idea is Gage's (1994); Sennrich, Haddow and Birch (2016) brought it to words. `learn_bpe` serves the character and
the byte-level kind alike: in the latter (Radford et al. 2019) the words are already spelt in 256 characters that
stand for bytes, all of which are in the alphabet from the start.

Tie rule: the pair with the highest count; among equals the smaller left id, then the smaller right id. Ids are given
as `symbols` says. This is the rule of `tokenizers`' BpeTrainer, and so are pairs that overlap (`aaa` counts as two
pairs `aa`), so merges are identical where that trainer is deterministic (with an end-of-word suffix its first ids
depend on the order of a hash map). Two differences: a merge never spells a special token, and `max_token_length` is
a length that is still allowed (there: the first that is not).

Left out: dropout, cross-word merges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertworks.text.train.symbols import Start, start_symbols

if TYPE_CHECKING:
    from bertworks.text.train.pairs import PairTable

# stage, done, total (None where it cannot be known)
Progress = Callable[[str, int, int | None], None]
LEARN = "learn merges"
PROGRESS_STEPS = 100  # merges between two reports


@dataclass(frozen=True)
class Learnt:
    """A vocabulary and the merges that made it, in order, as strings with their markers."""

    vocab: dict[str, int]
    merges: list[tuple[str, str]]
    counts: list[int]  # how often each merge was applied in the text


def learn_bpe(
    word_counts: Mapping[str, int],
    *,
    vocab_size: int,
    special_tokens: Sequence[str] = (),
    initial_alphabet: Iterable[str] = (),
    limit_alphabet: int | None = None,
    min_frequency: int = 1,
    max_token_length: int | None = None,
    end_of_word_suffix: str = "",
    progress: Progress | None = None,
) -> Learnt:
    """Learn merges from counted words until the vocabulary is full or no pair occurs `min_frequency` times."""
    # Here, because numba takes a second to import, and the processes that count words do without it.
    from bertworks.text.train.pairs import PairTable

    start = start_symbols(
        word_counts,
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        initial_alphabet=initial_alphabet,
        limit_alphabet=limit_alphabet,
        end_of_word_suffix=end_of_word_suffix,
        drop_unknown=True,
    )
    table = PairTable(start.words, start.lengths, vocab_size, min_count=min_frequency, max_length=max_token_length)
    return learn_merges(table, start, vocab_size, prefix="", progress=progress)


def learn_merges(table: PairTable, start: Start, vocab_size: int, *, prefix: str, progress: Progress | None) -> Learnt:
    """Merge the best pair until the vocabulary is full or no pair is left; `prefix` marks continuing pieces."""
    vocab = dict(start.vocab)
    tokens = list(vocab)
    merges: list[tuple[str, str]] = []
    counts: list[int] = []
    while len(tokens) < vocab_size:
        pair = table.best()
        if pair is None:
            if not table.halve_threshold():
                break
            continue
        left, right = tokens[pair[0]], tokens[pair[1]]
        token = left + right.removeprefix(prefix)
        if token in vocab:  # it spells a special token, or a marker that the text itself contains
            table.drop(pair)
            continue
        counts.append(table.merge(pair, len(tokens)))
        vocab[token] = len(tokens)
        tokens.append(token)
        merges.append((left, right))
        if progress is not None and len(merges) % PROGRESS_STEPS == 0:
            progress(LEARN, len(merges), vocab_size - len(start.vocab))
    if progress is not None:
        progress(LEARN, len(merges), len(merges))
    return Learnt(vocab, merges, counts)
