"""Phrases that hold together, found in the corpus itself: the lexicon for those who have none.

Two neighbours are a phrase if they meet far more often than by chance. The measure is normalised pointwise mutual
information (Bouma 2009), ln(p(ab) / (p(a) p(b))) / -ln p(ab): 0 for independent tokens, 1 for two that only occur
together. Pairs that score enough are joined, and the joined text is read again, so that two rounds find phrases of up
to four tokens ("new york" + "times"), as Mikolov et al. (2013, section 4) do with another measure.

Only letters, digits and Chinese characters take part: punctuation coheres well and means little. Pieces of one word are
joined on the way, but a phrase has at least two words in the end, since words are units already.

Memory is bounded: pairs are counted in a table of fixed size; when it is full, the rarest are forgotten (lossy
counting), so that only the counts of rare pairs can be too low. At most `sample_tokens` tokens are read, from documents
spread over the corpus by hash.

Left out: statistics of what stands around a phrase (branching entropy), part-of-speech patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertworks.data.corpus.reader import Corpus
from bertworks.data.pretraining import draw
from bertworks.data.pretraining.draw import Stream
from bertworks.data.pretraining.flat import FlatCorpus, Ints
from bertworks.data.pretraining.trie import EMPTY, Trie, find
from bertworks.data.pretraining.words import WordStarts, special_ids
from bertworks.errors import UsageError
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.train.kernels import compiled

BLOCK_TOKENS = 2**19
TABLE_SLOTS = 2**22  # 12 bytes each; a block adds fewer pairs than an eighth of them


@dataclass(frozen=True, kw_only=True)
class MiningOptions:
    """What counts as a phrase."""

    max_tokens: int = 4
    """The longest phrase."""
    min_count: int = 20
    min_cohesion: float = 0.5
    """Normalised pointwise mutual information, at most 1."""
    max_entries: int = 50_000
    """The most frequent stay, in each round."""
    sample_tokens: int = 20_000_000

    def __post_init__(self) -> None:
        if self.max_tokens < 2:
            raise UsageError(f"max_tokens must be at least 2, not {self.max_tokens}: a phrase has two tokens")
        if self.min_count < 2:
            raise UsageError(f"min_count must be at least 2, not {self.min_count}")
        if not -1 <= self.min_cohesion <= 1:
            raise UsageError(f"min_cohesion must be from -1 to 1, not {self.min_cohesion}")


def mine_phrases(
    corpus: Corpus, tokenizer: Tokenizer, documents: NDArray[Any] | None, options: MiningOptions
) -> list[tuple[int, ...]]:
    """The phrases of a corpus as runs of token ids, without order."""
    words = WordStarts(tokenizer)
    usable = words.textual & ~special_ids(tokenizer)  # (V,)
    flat = _sampled(corpus, documents, options.sample_tokens)
    phrases: list[tuple[int, ...]] = []
    longest = 1
    while longest < options.max_tokens:
        pairs = _coherent_pairs(_counted(flat, usable, phrases, options.max_tokens), phrases, options)
        phrases = list(dict.fromkeys([*phrases, *pairs]))  # "a b" + "c" and "a" + "b c" are one
        longest *= 2
    # "york times" is a part of "new york times" that never stands alone, and "uma thur" is followed by "##man": what is
    # seldom found between word bounds by now is dropped.
    counts = _counted(flat, usable, phrases, 0, words).symbols[len(usable) :]
    kept = [phrase for phrase, count in zip(phrases, counts, strict=True) if count >= options.min_count]
    return [phrase for phrase in kept if _several_words(phrase, words)]


def _several_words(phrase: tuple[int, ...], words: WordStarts) -> bool:
    """Whether a phrase may begin a word and has another in it."""
    return bool(words.may_start[phrase[0]]) and int(words(np.array(phrase)).sum()) > 1


def _sampled(corpus: Corpus, documents: NDArray[Any] | None, most: int) -> FlatCorpus:
    flat = FlatCorpus(corpus, documents)
    if int(flat.lengths.sum()) <= most:
        return flat
    order = draw.permutation(Stream.MINE, 0, 0, len(flat.lengths))
    count = max(1, int(np.searchsorted(np.cumsum(flat.lengths[order]), most, side="right")))
    return FlatCorpus(corpus, flat.documents[order[:count]])


def _blocks(flat: FlatCorpus) -> Iterator[tuple[Ints, Ints]]:
    """The text in blocks of at most BLOCK_TOKENS: ids, and the lengths of the runs of one document."""
    starts, lengths = _cut(flat.starts, flat.lengths, BLOCK_TOKENS // 2)
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        done = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, done + BLOCK_TOKENS, side="right"))
        yield flat.gather(starts[first:last], lengths[first:last]), lengths[first:last]
        first = last


def _cut(starts: Ints, lengths: Ints, most: int) -> tuple[Ints, Ints]:
    """Runs longer than `most` (whole novels) in parts; a pair that is cut apart is not missed."""
    parts = np.maximum(-(-lengths // most), 1)
    run = np.repeat(np.arange(len(lengths)), parts)
    part = np.arange(len(run)) - np.repeat(np.cumsum(parts) - parts, parts)
    return starts[run] + part * most, np.minimum(lengths[run] - part * most, most)


class Counts(NamedTuple):
    """How often each symbol was met (tokens first, then phrases), and each pair of neighbours."""

    symbols: Ints  # (V + phrases,)
    pairs: Ints  # (pairs,) left symbol × 2³² + right symbol
    met: NDArray[np.int32]  # (pairs,)


def _counted(
    flat: FlatCorpus,
    usable: NDArray[np.bool_],
    phrases: list[tuple[int, ...]],
    max_tokens: int,
    words: WordStarts | None = None,
) -> Counts:
    """Read the text with the phrases joined, and count symbols and pairs of together at most `max_tokens` tokens.

    words: a phrase has to begin and end with a word
    """
    vocab_size = len(usable)
    trie = Trie(phrases)
    sizes = np.concatenate([np.ones(vocab_size, np.int64), np.array([len(p) for p in phrases], np.int64)])
    usable = np.concatenate([usable, np.ones(len(phrases), np.bool_)])
    counts = np.zeros(len(sizes), np.int64)
    table = PairTable(TABLE_SLOTS)
    for ids, lengths in _blocks(flat):
        starts = np.ones(len(ids), np.bool_) if words is None else words(ids)
        unit, entry = trie.match(ids, lengths, starts)
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = unit[1:] != unit[:-1]
        symbols = np.where(entry[begins] >= 0, vocab_size + entry[begins], ids[begins])
        run = np.repeat(np.arange(len(lengths)), lengths)[begins]
        counts += np.bincount(symbols, minlength=len(counts))
        left, right = symbols[:-1], symbols[1:]
        wanted = usable[left] & usable[right] & (run[:-1] == run[1:]) & (sizes[left] + sizes[right] <= max_tokens)
        table.add((left[wanted] << 32) | right[wanted])
    return Counts(counts, *table.items())


def _coherent_pairs(counts: Counts, phrases: list[tuple[int, ...]], options: MiningOptions) -> list[tuple[int, ...]]:
    """The pairs that are met often and hold together, spelled in tokens."""
    left, right = counts.pairs >> 32, counts.pairs & 0xFFFFFFFF
    total = max(int(counts.symbols.sum()), 2)
    log_pair = np.log(counts.met / total)
    chance = np.log(counts.symbols[left] / total) + np.log(counts.symbols[right] / total)
    cohesion = (log_pair - chance) / -np.minimum(log_pair, -1e-12)
    good = np.flatnonzero((counts.met >= options.min_count) & (cohesion >= options.min_cohesion))
    good = good[np.lexsort((counts.pairs[good], -counts.met[good]))]  # equal counts: the smaller ids first
    vocab_size = len(counts.symbols) - len(phrases)

    def spelled(symbol: int) -> tuple[int, ...]:
        return (symbol,) if symbol < vocab_size else phrases[symbol - vocab_size]

    return [spelled(int(left[place])) + spelled(int(right[place])) for place in good[: options.max_entries]]


class PairTable:
    """Counts of 64-bit keys in bounded memory."""

    def __init__(self, slots: int) -> None:
        self._keys = np.full(slots, EMPTY, np.int64)
        self._counts = np.zeros(slots, np.int32)
        self._used = 0

    def add(self, keys: Ints) -> None:
        """Count keys (≥ 0), fewer than an eighth of the slots at a time."""
        self._used += _count(self._keys, self._counts, keys, np.ones(len(keys), np.int32))
        if self._used > self._keys.size // 2:
            self._forget()

    def items(self) -> tuple[Ints, NDArray[np.int32]]:
        """All keys, ascending, and their counts."""
        found = np.flatnonzero(self._keys != EMPTY)
        found = found[np.argsort(self._keys[found])]
        return self._keys[found], self._counts[found]

    def _forget(self) -> None:
        """Drop the rarest keys until at most a quarter of the slots is used."""
        keys, counts = self.items()
        least = 2
        while int((counts >= least).sum()) > self._keys.size // 4:
            least += 1
        keys, counts = keys[counts >= least], counts[counts >= least]
        self._keys[:] = EMPTY
        self._counts[:] = 0
        self._used = _count(self._keys, self._counts, keys, counts)


@compiled
def _count(table: Ints, counts: NDArray[np.int32], keys: Ints, by: NDArray[np.int32]) -> int:
    """Add to the counts; returns how many keys are new."""
    new = 0
    for number in range(len(keys)):
        slot = find(table, keys[number])
        if table[slot] == EMPTY:
            table[slot] = keys[number]
            new += 1
        counts[slot] += by[number]
    return new
