"""Pairs of neighbouring runs of sentences, true or not: next sentence prediction and sentence-order prediction.

*nsp* (Devlin et al. 2019, section 3.1): `[CLS] A [SEP] B [SEP]`, where B follows A (label 0, as in Hugging Face) or, half
of the time, comes from another document (label 1). *sop* (Lan et al. 2020, section 3.1): the same two runs in order
(0) or swapped (1), which topic alone cannot tell.

How the pairs are made:

- A document is cut into *chunks* of as many whole sentences as fit, at least two. A sentence longer than half the room
  is cut into even parts first, which count as sentences; so any two neighbours fit, and *no pair is ever truncated*.
  One sentence left over at the end of a document takes the one before it along, for the second time.
- A document of one (short) sentence has no pair in it and is skipped. BERT pairs it with a random text every time,
  which teaches that short first texts mean "random".
- In each epoch a chunk is split into A and B between two sentences drawn anew (`copies`: from that many versions).
- The random B of *nsp* begins at a sentence of another document and has as many whole sentences as fit in place of the
  true B: the best fitting of `TRIES` candidates, so that neither a cut-off sentence nor the length gives it away. Where
  none fits, the first is cut at the length of B; where all lie in the same document (one document that is most of the
  corpus), the pair stays a true one, and its label says so.

The length of a sequence is that of its chunk; with a random B it may be a few tokens less.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertworks.data.corpus.reader import Corpus
from bertworks.data.pretraining import draw
from bertworks.data.pretraining.draw import Stream
from bertworks.data.pretraining.flat import FlatCorpus, Ints, check_vocabulary, ranges
from bertworks.data.pretraining.sequences import Sequences, frame
from bertworks.errors import DataError, UsageError, choice
from bertworks.text.template import Layout
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.train.kernels import compiled

KINDS = ("nsp", "sop")
TRIES = 8
INSTEAD = "give more documents, or train without pairs: --set objective.pairs=none"


class SentencePairs:
    """Pairs: `[CLS] A [SEP] B [SEP]` in segments 0 and 1, or whatever the tokenizer's template for a pair says."""

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        sequence_length: int,
        kind: Literal["nsp", "sop"] = "nsp",
        documents: NDArray[Any] | None = None,
        seed: int = 0,
        short_prob: float = 0.0,
        copies: int | None = None,
    ) -> None:
        """Plan the chunks.

        sequence_length: the most tokens of a sequence, special tokens included
        kind:            "nsp" or "sop"; also the name of the labels
        documents:       the numbers of the documents to use; None means all
        short_prob:      this share of the documents is cut into shorter chunks, of a length drawn evenly (BERT: 0.1)
        copies:          how many versions of a pair there are (1: the same in every epoch); None means no end
        """
        check_vocabulary(corpus, tokenizer)
        self.kind = choice(kind, KINDS, "kind of sentence pairs")
        self.seed, self.copies = seed, copies
        self.layout: Layout = tokenizer.template.pair
        if len(self.layout.middle) == 0:
            raise UsageError(
                "sentence pairs need a tokenizer that puts special tokens between two texts, and this one puts none; "
                "use one of the BERT or RoBERTa family, or an objective without pairs"
            )
        if not 0 <= short_prob <= 1:
            raise UsageError(f"short_prob must be from 0 to 1, not {short_prob}")
        if copies is not None and copies < 1:
            raise UsageError(f"copies must be at least 1, not {copies}; None draws anew in every epoch")
        room = sequence_length - self.layout.num_special
        if room < 4:
            needed = self.layout.num_special + 4
            raise UsageError(f"sequence_length must be at least {needed} for pairs, not {sequence_length}")
        self._flat = FlatCorpus(corpus, documents)
        counts, lengths = _units(*self._flat.sentences(), room // 2)
        # Units (sentences, or parts of long ones) of the chosen documents, U of them, are numbered on.
        self._unit_ends = np.concatenate([[0], np.cumsum(lengths)])  # (U + 1,) tokens before each unit
        self._first_unit = np.concatenate([[0], np.cumsum(counts)])  # (D + 1,)
        # A token's number in the corpus is its number among the chosen documents' tokens plus its document's shift.
        self._shift = self._flat.starts - self._unit_ends[self._first_unit[:-1]]  # (D,)
        wanted = _wanted(len(counts), room, short_prob, seed)
        document, first, count = _chunks(lengths, self._first_unit, wanted)
        self._document, self._first, self._count = document, first, count  # (n,) each
        if len(first) == 0:
            raise DataError(f"no document has two sentences, of which sentence pairs are made; {INSTEAD}")
        if kind == "nsp" and len(self._flat.documents) < 2:
            raise DataError(
                f"next sentence prediction needs texts from at least two documents, and there is one; {INSTEAD}"
            )
        tokens = self._unit_ends[first + count] - self._unit_ends[first]
        self.lengths: NDArray[np.int32] = (tokens + self.layout.num_special).astype(np.int32)  # (n,)
        self.num_tokens = int(self.lengths.sum(dtype=np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    def documents_of(self, numbers: Ints) -> Ints:
        """The document in the corpus that each pair's first text comes from."""
        return self._flat.documents[self._document[numbers]]

    def take(self, numbers: Ints, epoch: int) -> Sequences:
        """These pairs, as they are in this epoch, sorted by length (stable)."""
        numbers = np.asarray(numbers, np.int64)
        version = epoch if self.copies is None else epoch % self.copies
        document, first = self._document[numbers].astype(np.int64), self._first[numbers]
        count = self._count[numbers].astype(np.int64)
        split = first + 1 + draw.integers(count - 1, Stream.SPLIT, self.seed, version, numbers)  # first unit of B
        ends = self._unit_ends
        starts = [ends[first] + self._shift[document], ends[split] + self._shift[document]]
        lengths = [ends[split] - ends[first], ends[first + count] - ends[split]]
        label = (draw.uniform(Stream.PAIR, self.seed, version, numbers) < 0.5).astype(np.int64)
        if self.kind == "sop":
            swap = label.astype(np.bool_)
            starts = [np.where(swap, starts[1], starts[0]), np.where(swap, starts[0], starts[1])]
            lengths = [np.where(swap, lengths[1], lengths[0]), np.where(swap, lengths[0], lengths[1])]
        else:
            partner, partner_length = self._partners(numbers, version, document, lengths[1])
            label &= partner >= 0
            random = label.astype(np.bool_)
            starts[1] = np.where(random, partner, starts[1])
            lengths[1] = np.where(random, partner_length, lengths[1])
        order = np.argsort(lengths[0] + lengths[1], kind="stable")
        starts, lengths = [part[order] for part in starts], [part[order] for part in lengths]
        texts = [(self._flat.gather(start, length), length) for start, length in zip(starts, lengths, strict=True)]
        ids, framed, special, segments = frame(self.layout, texts)
        return Sequences(ids, framed, numbers[order], epoch, special, segments, {self.kind: label[order]})

    def _partners(self, numbers: Ints, version: int, document: Ints, room: Ints) -> tuple[Ints, Ints]:
        """A random text for each pair: its first token in the corpus (-1: none was found), and its length."""
        ends = self._unit_ends
        tries = np.arange(1, TRIES + 1)
        unit = draw.integers(len(ends) - 1, Stream.PAIR, self.seed, version, numbers[:, None], tries)  # (B, tries)
        other = np.searchsorted(self._first_unit, unit, side="right") - 1
        last = np.searchsorted(ends, ends[unit] + room[:, None], side="right") - 1  # the unit after the last that fits
        last = np.minimum(last, self._first_unit[other + 1])
        allowed = other != document[:, None]
        length = np.where(allowed, ends[last] - ends[unit], -1)  # 0: not even one unit fits
        row = np.arange(len(numbers))
        best = length.argmax(axis=1)
        found = length[row, best]
        unit, other = unit[row, best], other[row, best]
        found = np.where(found == 0, np.minimum(ends[unit + 1] - ends[unit], room), found)
        start = np.where(found > 0, ends[unit] + self._shift[other], -1)
        return start, found


def _units(counts: Ints, lengths: Ints, most: int) -> tuple[Ints, Ints]:
    """Cut sentences longer than `most` into even parts: units per document (D,), and the length of every unit."""
    parts = -(-lengths // most)
    if parts.max(initial=1) == 1:
        return counts, lengths
    before = np.cumsum(np.concatenate([[0], parts]))
    sentence_ends = np.cumsum(counts)
    counts = before[sentence_ends] - before[sentence_ends - counts]
    sentence = np.repeat(np.arange(len(lengths)), parts)
    part = ranges(np.zeros_like(parts), parts)
    whole, of = lengths[sentence], parts[sentence]
    return counts, whole * (part + 1) // of - whole * part // of


def _wanted(count: int, room: int, short_prob: float, seed: int) -> Ints:
    """How long the chunks of each document should be, (D,)."""
    index = np.arange(count)
    short = draw.uniform(Stream.SHORT, seed, 0, index) < short_prob
    return np.where(short, 2 + draw.integers(room - 1, Stream.SHORT, seed, 0, index, 1), room)


@compiled
def _chunk_loop(
    lengths: Ints, first_unit: Ints, wanted: Ints, document: NDArray[np.int32], first: Ints, count: NDArray[np.int32]
) -> int:
    found = 0
    for number in range(len(wanted)):
        unit, end = first_unit[number], first_unit[number + 1]
        if end - unit < 2:
            continue
        while unit < end:
            begin, total = unit, 0
            while unit < end and (total + lengths[unit] <= wanted[number] or unit - begin < 2):
                total += lengths[unit]
                unit += 1
            if unit - begin == 1:  # only at the end of the document
                begin -= 1
            document[found], first[found], count[found] = number, begin, unit - begin
            found += 1
    return found


def _chunks(lengths: Ints, first_unit: Ints, wanted: Ints) -> tuple[NDArray[np.int32], Ints, NDArray[np.int32]]:
    """Runs of at least two units of one document: (document, first unit, number of units)."""
    most = int(((np.diff(first_unit) + 1) // 2).sum())
    document, first = np.empty(most, np.int32), np.empty(most, np.int64)
    count = np.empty(most, np.int32)
    found = _chunk_loop(lengths, first_unit, wanted, document, first, count)
    return document[:found].copy(), first[:found].copy(), count[:found].copy()
