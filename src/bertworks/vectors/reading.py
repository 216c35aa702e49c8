"""Texts into numbered words, on disk, in memory that grows with the distinct words and not with the text.

The text is read once. Every distinct word gets a number when it is first met, and the numbers go to a file that is
mapped into memory; counting, joining phrases, dropping rare words and renumbering by frequency then work on that file,
block by block. No text is ever cut: a novel on one line is one text.

Phrases are those of Mikolov et al. (2013, section 4): neighbours a b are joined where

    (count(ab) - discount) / (count(a) count(b)) × (number of words)  >  threshold

from left to right, in one or several rounds. The discount is the least count that a word needs to stay. Pairs are
counted in bounded memory (`PairTable`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertworks.data.pretraining.phrases import TABLE_SLOTS, PairTable
from bertworks.data.pretraining.trie import EMPTY, find
from bertworks.errors import DataError
from bertworks.text.train.kernels import compiled
from bertworks.vectors.kernels import Texts
from bertworks.vectors.options import TextOptions
from bertworks.vectors.splitting import splitter

BLOCK_WORDS = 2**18  # what is worked on at once; a pair table takes no more than twice as many
PHRASE_MARK = "_"
READ, JOIN = "read words", "join phrases"

Numbers = NDArray[np.int32]
Progress = Callable[[str, float | None, str], None]
"""Called with the stage, the share of it that is done (None where only the reader knows), and a detail."""


@dataclass(frozen=True)
class Encoded:
    """A text corpus in words: the words by falling frequency, and the texts as their numbers."""

    words: list[str]
    counts: NDArray[np.int64]  # (V,)
    texts: Texts
    read: int
    """Words of the text as it was, rare ones included."""


class _Numbering(dict[str, int]):
    """A number for each word, given when it is first asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def encode(texts: Iterable[str], options: TextOptions, folder: Path, progress: Progress | None = None) -> Encoded:
    """Read all texts; `folder` holds the file of numbers for as long as the result is used."""
    path = folder / "words.numbers"
    numbering, starts = _written(texts, options, path, progress)
    read = int(starts[-1])
    if read == 0:
        raise DataError("there are no words in the text; vectors are learnt from words")
    ids: Numbers = np.memmap(path, np.int32, "r+")
    words = list(numbering)
    del numbering
    for number in range(options.phrases):
        if progress is not None:
            progress(JOIN, number / options.phrases, f"round {number + 1} of {options.phrases}")
        ids, starts = _joined(ids, starts, words, options)
    return _cut(ids, starts, words, options, read)


def _written(
    texts: Iterable[str], options: TextOptions, path: Path, progress: Progress | None
) -> tuple[_Numbering, NDArray[np.int64]]:
    """Write the numbers of all words; their numbering, and where the texts begin."""
    split = splitter(options)
    numbering = _Numbering()
    starts = array("q", [0])
    waiting = array("i")
    total = 0
    if progress is not None:
        progress(READ, 0.0, "0 words")
    with path.open("wb") as file:
        for text in texts:
            waiting.extend(map(numbering.__getitem__, split(text)))
            if total + len(waiting) > starts[-1]:  # texts without words are none
                starts.append(total + len(waiting))
            if len(waiting) >= BLOCK_WORDS:
                total += len(waiting)
                waiting.tofile(file)
                waiting = array("i")
                if progress is not None:
                    progress(READ, None, f"{total:,} words, {len(numbering):,} distinct")
        waiting.tofile(file)
    return numbering, np.frombuffer(starts, np.int64)


def _blocks(ids: Numbers) -> Iterator[slice]:
    for start in range(0, len(ids), BLOCK_WORDS):
        yield slice(start, min(start + BLOCK_WORDS, len(ids)))


def _counted(ids: Numbers, words: int) -> NDArray[np.int64]:
    counts = np.zeros(words, np.int64)
    for block in _blocks(ids):
        counts += np.bincount(ids[block], minlength=words)
    return counts


def _cut(ids: Numbers, starts: NDArray[np.int64], words: list[str], options: TextOptions, read: int) -> Encoded:
    """Drop rare words and number the others by falling frequency; equally frequent ones as they were first met."""
    counts = _counted(ids, len(words))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= options.min_count][: options.max_words]
    if not len(order):
        raise DataError(
            f"no word occurs {options.min_count} times in {read:,} words; read more text, or lower it with --min-count"
        )
    renumbered = np.full(len(words), EMPTY, np.int32)
    renumbered[order] = np.arange(len(order), dtype=np.int32)
    total, starts = _compact(ids, starts, renumbered)
    if len(starts) < 2:
        raise DataError("no line or row has two words that are frequent enough; a word is learnt from its neighbours")
    return Encoded([words[number] for number in order], counts[order], Texts(ids[:total], starts), read)


@compiled
def _compact(ids: Numbers, starts: NDArray[np.int64], renumbered: Numbers) -> tuple[int, NDArray[np.int64]]:
    """Renumber in place, without the words whose new number is EMPTY and without the texts that are then too short."""
    bounds = np.empty(starts.size, np.int64)
    bounds[0] = write = texts = 0
    for text in range(starts.size - 1):
        begin = write
        for read in range(starts[text], starts[text + 1]):
            number = renumbered[ids[read]]
            if number != EMPTY:
                ids[write] = number
                write += 1
        if write - begin < 2:
            write = begin  # a word without neighbours says nothing
        else:
            texts += 1
            bounds[texts] = write
    return write, bounds[: texts + 1].copy()


def _joined(
    ids: Numbers, starts: NDArray[np.int64], words: list[str], options: TextOptions
) -> tuple[Numbers, NDArray[np.int64]]:
    """One round of joining phrases in place; `words` grows by the phrases that were found."""
    counts = _counted(ids, len(words))
    first_of_text = np.zeros(len(ids) + 1, np.bool_)
    first_of_text[starts] = True
    table = PairTable(TABLE_SLOTS)
    for block in _blocks(ids):
        stop = min(block.stop + 1, len(ids))  # a pair may lie across the end of a block
        left, right = ids[block.start : stop - 1].astype(np.int64), ids[block.start + 1 : stop].astype(np.int64)
        inside = ~first_of_text[block.start + 1 : stop]
        often = (counts[left] >= options.min_count) & (counts[right] >= options.min_count)
        wanted = inside & often
        table.add((left[wanted] << 32) | right[wanted])
    pairs, met = table.items()
    expected = counts[pairs >> 32] * (counts[pairs & 0xFFFFFFFF] / len(ids))
    pairs = pairs[(met - options.min_count) > options.phrase_threshold * expected]
    slots = 1 << max(4, int(2 * len(pairs)).bit_length())  # at most half full
    keys = np.full(slots, EMPTY, np.int64)
    values = np.zeros(slots, np.int32)
    number_of = {word: number for number, word in enumerate(words)}
    numbers = np.empty(len(pairs), np.int32)
    for place, pair in enumerate(pairs.tolist()):
        phrase = words[pair >> 32] + PHRASE_MARK + words[pair & 0xFFFFFFFF]
        numbers[place] = number_of.setdefault(phrase, len(words))  # the text may have it joined already
        if numbers[place] == len(words):
            words.append(phrase)
    _enter(keys, values, pairs, numbers)
    total, starts = _join(ids, starts, keys, values)
    return ids[:total], starts


@compiled
def _enter(keys: NDArray[np.int64], values: Numbers, pairs: NDArray[np.int64], numbers: Numbers) -> None:
    for place in range(len(pairs)):
        slot = find(keys, pairs[place])
        keys[slot] = pairs[place]
        values[slot] = numbers[place]


@compiled
def _join(
    ids: Numbers, starts: NDArray[np.int64], keys: NDArray[np.int64], values: Numbers
) -> tuple[int, NDArray[np.int64]]:
    bounds = np.empty(starts.size, np.int64)
    bounds[0] = write = 0
    for text in range(starts.size - 1):
        read, stop = starts[text], starts[text + 1]
        while read < stop:
            number = ids[read]
            if read + 1 < stop:
                slot = find(keys, (np.int64(number) << 32) | np.int64(ids[read + 1]))
                if keys[slot] != EMPTY:
                    number = values[slot]
                    read += 1
            ids[write] = number
            write += 1
            read += 1
        bounds[text + 1] = write
    return write, bounds
