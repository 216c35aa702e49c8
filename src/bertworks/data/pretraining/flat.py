"""A corpus as one long run of tokens, from which many short runs are read at once.

`Corpus` gives one document at a time, which is right for looking at it; a batch needs hundreds of runs from hundreds of
documents, and a Python call for each would take longer than the rest of the preparation. Here a token has a number in
the whole corpus, and `gather` reads all runs of a batch with one indexed read per shard that they touch. Shards stay
mapped files: only the pages that are read come into memory, and many processes share them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.corpus.layout import Shard, ShardSize
from bertworks.data.corpus.reader import Corpus
from bertworks.errors import UsageError
from bertworks.text.tokenizer import Tokenizer

Ints = NDArray[np.int64]


class FlatCorpus:
    """Tokens by their number in the whole corpus. `documents` chooses some documents; None means all."""

    def __init__(self, corpus: Corpus, documents: NDArray[Any] | None = None) -> None:
        self.corpus = corpus
        token_bytes = int(corpus.manifest["token_bytes"])
        self._entries = [
            (str(entry["file"]), ShardSize(entry["documents"], entry["sentences"], entry["tokens"], token_bytes))
            for entry in corpus.manifest["shards"]
        ]
        self._shards: dict[int, Shard] = {}
        self._token_ends = np.cumsum([size.tokens for _, size in self._entries])  # (shards,)
        self._document_ends = np.cumsum([size.documents for _, size in self._entries])  # (shards,)
        self.documents = _chosen(documents, corpus.num_documents)
        """The numbers of the chosen documents, ascending, (D,)."""
        lengths = corpus.document_lengths()
        self.lengths: Ints = lengths[self.documents]
        """The number of tokens of each, (D,)."""
        self.starts: Ints = (np.cumsum(lengths) - lengths)[self.documents]
        """Where each begins, (D,)."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shards": {}}  # a copy maps the files for itself

    def gather(self, starts: Ints, lengths: Ints) -> Ints:
        """The tokens of many runs, one after the other: int64 (sum of lengths,). No run may leave its document."""
        places = ranges(starts, lengths)  # (T,)
        shards = np.searchsorted(self._token_ends, starts, side="right")  # (runs,)
        touched = np.unique(shards[lengths > 0])
        ids = np.empty(len(places), np.int64)
        if len(touched) == 1:
            number = int(touched[0])
            ids[:] = self._shard(number).ids[places - self._first_token(number)]
            return ids
        of_token = np.repeat(shards, lengths)
        for number in touched.tolist():
            here = of_token == number
            ids[here] = self._shard(number).ids[places[here] - self._first_token(number)]
        return ids

    def sentences(self) -> tuple[Ints, Ints]:
        """The number of sentences of each chosen document (D,), and of tokens of all their sentences in order."""
        counts, lengths = [], []
        of_document = np.searchsorted(self._document_ends, self.documents, side="right")
        for number in np.unique(of_document).tolist():
            shard = self._shard(number)
            local = self.documents[of_document == number] - (int(self._document_ends[number - 1]) if number else 0)
            bounds = shard.bounds[:, 1].astype(np.int64)
            count = np.diff(bounds)[local]
            counts.append(count)
            lengths.append(shard.sentence_lengths[ranges(bounds[local], count)].astype(np.int64))
        return np.concatenate(counts), np.concatenate(lengths)

    def _first_token(self, shard: int) -> int:
        return int(self._token_ends[shard - 1]) if shard else 0

    def _shard(self, number: int) -> Shard:
        shard = self._shards.get(number)
        if shard is None:
            name, size = self._entries[number]
            shard = self._shards[number] = Shard(self.corpus.directory / name, size)
        return shard


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """start, start + 1, … for each run, one after the other: (3, 8), (2, 3) gives 3 4 8 9 10."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def check_vocabulary(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """A corpus can only be read with the vocabulary that it was made with."""
    if corpus.vocab_size != tokenizer.vocab_size:
        raise UsageError(
            f"the corpus {corpus.directory} was made with a vocabulary of {corpus.vocab_size:,} tokens, but this "
            f"tokenizer has {tokenizer.vocab_size:,}; use the corpus's own (Corpus.tokenizer()), or build it again"
        )


def _chosen(documents: NDArray[Any] | None, count: int) -> Ints:
    if documents is None:
        return np.arange(count)
    chosen = np.unique(np.asarray(documents, np.int64))
    if len(chosen) == 0:
        raise UsageError("the list of documents is empty; leave it out to use all of them")
    if chosen[0] < 0 or chosen[-1] >= count:
        wrong = int(chosen[0] if chosen[0] < 0 else chosen[-1])
        raise UsageError(f"there is no document {wrong}; the corpus has documents 0 to {count - 1}")
    return chosen
