"""From encoded documents to shards, in order: counting, dropping duplicates, and cutting where a shard is full.

A shard ends with the document that brings it to `shard_tokens`. So what it holds depends on the documents alone, not on
the blocks they came in or on how many processes made them. The texts of duplicates are never kept: a document is known
again by a 128-bit hash of its text. The hashes of all documents are held in memory (about 110 bytes each, so 1.1 GB for
ten million documents), and beside each shard on the disk until the build is finished, so that it can be continued.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.atomic import write_bytes
from bertworks.data.corpus.documents import BEGINNING, Place
from bertworks.data.corpus.encode import DIGEST_BYTES, EncodedBlock
from bertworks.data.corpus.layout import shard_name, write_shard
from bertworks.data.unfinished import Json, Unfinished

DIGESTS_SUFFIX = ".digests"


@dataclass
class Totals:
    """What a build has seen and kept so far."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    text_bytes: int = 0  # of everything read, as UTF-8
    longest_document: int = 0  # in tokens
    empty_documents: int = 0  # left out, since they have no tokens
    duplicates: int = 0  # left out
    cut_documents: int = 0  # too long for one document, and continued in the next


class ShardWriter:
    """Takes encoded blocks in order; continues where the unfinished build has stopped."""

    def __init__(self, unfinished: Unfinished, *, shard_tokens: int, drop_duplicates: bool) -> None:
        self.totals = Totals()
        # Behind the last document of the last whole shard; None at the end of all.
        self.place: Place | None = BEGINNING
        self._unfinished = unfinished
        self._shard_tokens = shard_tokens
        self._seen: set[bytes] | None = set() if drop_duplicates else None
        self._clear()
        for entry in unfinished.entries:
            self.totals = Totals(**entry["totals"])
            self.place = None if entry["place"] is None else Place(**entry["place"])
            if self._seen is not None:
                with unfinished.explained():
                    raw = (unfinished.path / (entry["file"] + DIGESTS_SUFFIX)).read_bytes()
                self._seen.update(raw[at : at + DIGEST_BYTES] for at in range(0, len(raw), DIGEST_BYTES))

    def add(self, block: EncodedBlock) -> None:
        """Add all documents of a block, and write the shards that become full by it."""
        keep = block.num_tokens > 0  # (D,)
        duplicate = np.zeros_like(keep)
        if self._seen is not None:
            duplicate = self._duplicates(block.digests, keep)
            keep &= ~duplicate
        kept_tokens = np.cumsum(np.where(keep, block.num_tokens, 0))  # (D,)
        start, before = 0, 0
        while start < len(keep):
            missing = self._shard_tokens - self._tokens  # until the shard is full
            last = int(np.searchsorted(kept_tokens, before + missing))  # the first document that fills it
            stop = min(last + 1, len(keep))
            self._take(block, keep, duplicate, start, stop)
            if last < len(keep):
                self._write(Place(int(block.files[last]), int(block.units[last])))
            start, before = stop, int(kept_tokens[stop - 1])

    def finish(self) -> None:
        """Write what is left as the last shard."""
        if self._tokens:
            self._write(None)

    def _duplicates(self, digests: bytes, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which documents have been there before, bool (D,)."""
        assert self._seen is not None
        found = np.zeros_like(keep)
        for index in np.flatnonzero(keep).tolist():
            digest = digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
            if digest in self._seen:
                found[index] = True
            else:
                self._seen.add(digest)
        return found

    def _take(
        self, block: EncodedBlock, keep: NDArray[np.bool_], duplicate: NDArray[np.bool_], start: int, stop: int
    ) -> None:
        """Add the documents from `start` to before `stop` to the current shard."""
        part = slice(start, stop)
        kept, num_tokens, num_sentences = keep[part], block.num_tokens[part], block.num_sentences[part]
        first_token, first_sentence = int(block.num_tokens[:start].sum()), int(block.num_sentences[:start].sum())
        ids = block.ids[first_token : first_token + int(num_tokens.sum())]
        lengths = block.sentence_lengths[first_sentence : first_sentence + int(num_sentences.sum())]
        if duplicate[part].any():
            ids, lengths = ids[np.repeat(kept, num_tokens)], lengths[np.repeat(kept, num_sentences)]
        if self._seen is not None:
            places = (start + np.flatnonzero(kept)).tolist()
            self._digests += [block.digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES] for at in places]
        self._ids.append(ids)
        self._sentence_lengths.append(lengths)
        self._num_tokens.append(num_tokens[kept])
        self._num_sentences.append(num_sentences[kept])
        self._tokens += len(ids)
        totals = self.totals
        totals.documents += int(kept.sum())
        totals.sentences += len(lengths)
        totals.tokens += len(ids)
        totals.text_bytes += int(block.num_bytes[part].sum())
        totals.longest_document = max(totals.longest_document, int(num_tokens[kept].max(initial=0)))
        totals.empty_documents += int((num_tokens == 0).sum())
        totals.duplicates += int(duplicate[part].sum())
        totals.cut_documents += int(block.cut[part].sum())

    def _write(self, place: Place | None) -> None:
        """Write the current shard, which ends at `place`, and begin the next."""
        name = shard_name(len(self._unfinished.entries))
        if self._seen is not None:
            with self._unfinished.explained():
                write_bytes(self._unfinished.path / (name + DIGESTS_SUFFIX), b"".join(self._digests))

        def write(path: Path) -> Json:
            size, sha256 = write_shard(
                path,
                self._ids,
                self._sentence_lengths,
                np.concatenate(self._num_sentences),
                np.concatenate(self._num_tokens),
            )
            return {
                "documents": size.documents,
                "sentences": size.sentences,
                "tokens": size.tokens,
                "sha256": sha256,
                "totals": dataclasses.asdict(self.totals),
                "place": None if place is None else dataclasses.asdict(place),
            }

        self._unfinished.add(name, write)
        self.place = place
        self._clear()

    def _clear(self) -> None:
        self._tokens = 0
        self._ids: list[NDArray[Any]] = []
        self._sentence_lengths: list[NDArray[np.uint16]] = []
        self._num_tokens: list[NDArray[np.int64]] = []
        self._num_sentences: list[NDArray[np.int64]] = []
        self._digests: list[bytes] = []
