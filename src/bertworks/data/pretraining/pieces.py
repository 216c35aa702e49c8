"""Documents cut into pieces of at most one sequence, framed by the tokenizer's special tokens.

A piece is a run of one document. Long documents give full pieces and a shorter rest; a short document is one piece.
Nothing is padded and nothing is joined: a batch is counted in tokens and packed, so a short piece costs only itself.
That is also why RoBERTa's FULL-SENTENCES (Liu et al. 2019, section 4.2: fill each row with sentences, over the ends of
documents) has no switch here. Its purpose is that no row is half empty; a packed batch has no rows, and several
documents in it are several sequences that never attend to each other, which is their DOC-SENTENCES, the variant that
they found slightly better and left out only because its batches vary in size.

The frame is the tokenizer's own: `[CLS] x [SEP]` for BERT, `<s> x </s>` for RoBERTa. A tokenizer without one (GPT-2)
gets its end token after the last token of a document, unless that fills its sequence to the last place, and nothing
elsewhere: a model learns from it where texts end. It is marked `special`, so no masking touches it; a causal objective
takes its loss there as everywhere.

A piece of fewer than two tokens of text is dropped: there is nothing around a masked token to guess it from, and
nothing before a next one. It can only be a document of one token, or the last token of a long one.

The cut is the same in every epoch, so the number of batches is, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.corpus.reader import Corpus
from bertworks.data.pretraining import draw
from bertworks.data.pretraining.flat import FlatCorpus, Ints, check_vocabulary, ranges
from bertworks.data.pretraining.sequences import Sequences, frame
from bertworks.errors import DataError, UsageError
from bertworks.text.template import Layout
from bertworks.text.tokenizer import Tokenizer

MIN_TOKENS = 2  # of text in a piece


class SinglePieces:
    """Single sequences: `[CLS] piece [SEP]`, or whatever the tokenizer's template says."""

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        sequence_length: int,
        documents: NDArray[Any] | None = None,
        seed: int = 0,
        short_prob: float = 0.0,
        whole_sentences: bool = False,
    ) -> None:
        """Plan the pieces.

        sequence_length: the most tokens of a sequence, special tokens included
        documents:       the numbers of the documents to use; None means all
        short_prob:      this share of the full pieces is cut in two at a random place, so that a model whose texts are
                         all long sees short ones too (BERT makes a tenth of its sequences shorter); no text is lost
        whole_sentences: a piece is as many whole sentences as fit, so that its beginning is that of a sentence; a sentence
                         that is too long for one piece is cut as above
        """
        check_vocabulary(corpus, tokenizer)
        if not 0 <= short_prob <= 1:
            raise UsageError(f"short_prob must be from 0 to 1, not {short_prob}")
        self.layout: Layout = tokenizer.template.single
        # Without a template, the end token is cut like one more token of the document.
        self._end: int | None = tokenizer.eos_id if self.layout.num_special == 0 else None
        room = sequence_length - self.layout.num_special
        if room < 2 * MIN_TOKENS:
            needed = self.layout.num_special + 2 * MIN_TOKENS
            raise UsageError(f"sequence_length must be at least {needed} with this tokenizer, not {sequence_length}")
        self._flat = FlatCorpus(corpus, documents)
        if whole_sentences:
            document, offset, length = cut_sentences(*self._flat.sentences(), room)
        else:
            document, offset, length = cut(self._flat.lengths, room)
        if short_prob > 0:
            document, offset, length = _shortened(document, offset, length, room, short_prob, seed)
        self._document = document.astype(np.int32)  # (n,) place in the list of chosen documents
        self._offset: Ints = offset  # (n,)
        self._length = length.astype(np.int32)  # (n,) of text
        self.lengths: NDArray[np.int32] = self._length + self.layout.num_special  # (n,)
        if self._end is not None:
            is_last = offset + length == self._flat.lengths[document]
            self.lengths = self.lengths + (is_last & (length < room))
        self.num_tokens = int(self.lengths.sum(dtype=np.int64))
        if len(self.lengths) == 0:
            raise DataError(f"no document has {MIN_TOKENS} tokens or more; there is nothing to train on")

    def __len__(self) -> int:
        return len(self.lengths)

    def places(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """For each piece: the document's number in the corpus, where it starts in it, how many tokens of text."""
        document = self._flat.documents[self._document[numbers]]
        return document, self._offset[numbers], self._length[numbers].astype(np.int64)

    def take(self, numbers: Ints, epoch: int) -> Sequences:
        """These pieces, sorted by length (stable)."""
        numbers = np.asarray(numbers, np.int64)
        numbers = numbers[np.argsort(self.lengths[numbers], kind="stable")]
        text_lengths = self._length[numbers].astype(np.int64)
        ids = self._flat.gather(self._flat.starts[self._document[numbers]] + self._offset[numbers], text_lengths)
        if self._end is None:
            ids, lengths, special, segments = frame(self.layout, [(ids, text_lengths)])
            return Sequences(ids, lengths, numbers, epoch, special, segments)
        lengths = self.lengths[numbers].astype(np.int64)
        ended = np.full(int(lengths.sum()), self._end, np.int64)
        special = np.ones(len(ended), np.bool_)
        inside = ranges(np.cumsum(lengths) - lengths, text_lengths)
        ended[inside], special[inside] = ids, False
        return Sequences(ended, lengths, numbers, epoch, special, np.zeros_like(ended))


def cut(lengths: Ints, room: int) -> tuple[Ints, Ints, Ints]:
    """Cut texts into pieces of `room` tokens and a rest: (text, start in it, length), rests below MIN_TOKENS dropped."""
    counts = -(-lengths // room)
    text = np.repeat(np.arange(len(lengths)), counts)
    start = ranges(np.zeros_like(counts), counts) * room
    length = np.minimum(lengths[text] - start, room)
    kept = length >= MIN_TOKENS
    return text[kept], start[kept], length[kept]


def cut_sentences(counts: Ints, lengths: Ints, room: int) -> tuple[Ints, Ints, Ints]:
    """The same at the ends of sentences: `counts` of them in each text, `lengths` of all of them."""
    found: list[tuple[int, int, int]] = []
    ends = np.cumsum(counts)
    for text, (first, end) in enumerate(zip((ends - counts).tolist(), ends.tolist(), strict=True)):
        start = filled = 0
        for length in lengths[first:end].tolist():
            if filled and filled + length > room:
                found.append((text, start, filled))
                start, filled = start + filled, 0
            while length > room:
                found.append((text, start, room))
                start, length = start + room, length - room
            filled += length
        found.append((text, start, filled))
    pieces = np.array(found, np.int64).reshape(-1, 3)
    text, start, length = pieces[pieces[:, 2] >= MIN_TOKENS].T
    return text, start, length


def _shortened(
    text: Ints, start: Ints, length: Ints, room: int, short_prob: float, seed: int
) -> tuple[Ints, Ints, Ints]:
    """Cut a share of the full pieces in two, each part at least MIN_TOKENS long."""
    index = np.arange(len(length))
    chosen = (length == room) & (draw.uniform(draw.Stream.SHORT, seed, 0, index) < short_prob)
    first = MIN_TOKENS + draw.integers(room - 2 * MIN_TOKENS + 1, draw.Stream.SHORT, seed, 0, index, 1)
    parts = np.repeat(index, 1 + chosen)  # a cut piece twice
    is_second = np.zeros(len(parts), np.bool_)
    is_second[1:] = parts[1:] == parts[:-1]
    length = np.where(chosen[parts], np.where(is_second, length[parts] - first[parts], first[parts]), length[parts])
    return text[parts], start[parts] + np.where(is_second, first[parts], 0), length
