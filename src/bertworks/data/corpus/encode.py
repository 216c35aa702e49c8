"""Documents to token ids with sentence bounds: the one function that every way of building runs.

A document is split into sentences, and each sentence is encoded together with the white space before it, so that the
ids are those of the running text for tokenizers that mark spaces. A line end inside a document is kept where the
tokenizer has a token for it (or drops it), and is read as a space where it would become an unknown token. No special
tokens are added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.corpus.documents import Block, Place, read_blocks
from bertworks.data.corpus.layout import MAX_SENTENCE_TOKENS, token_type
from bertworks.data.corpus.options import CorpusOptions
from bertworks.data.sentences import sentence_spans
from bertworks.text.tokenizer import Tokenizer
from bertworks.workers import map_in_order

DIGEST_BYTES = 16


@dataclass(frozen=True)
class EncodedBlock:
    """A `Block`, encoded. D documents, S sentences, T tokens.

    A document without tokens is here too, with 0 sentences, so that it can be counted.
    """

    ids: NDArray[Any]  # (T,) uint16 or uint32
    sentence_lengths: NDArray[np.uint16]  # (S,)
    num_sentences: NDArray[np.int64]  # (D,)
    num_tokens: NDArray[np.int64]  # (D,)
    num_bytes: NDArray[np.int64]  # (D,), of the text as UTF-8
    digests: bytes  # D × 16, or nothing where they were not asked for
    files: NDArray[np.int64]  # (D,)
    units: NDArray[np.int64]  # (D,)
    cut: NDArray[np.bool_]  # (D,)
    bytes_read: int | None


class Encoder:
    """A tokenizer and the options of the build, ready for blocks."""

    def __init__(self, tokenizer: str | Path | Tokenizer, options: CorpusOptions) -> None:
        self.tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.from_directory(tokenizer)
        self.language = options.language
        self.with_digests = options.drop_duplicates
        self._dtype = token_type(self.tokenizer.vocab_size)
        line_end, _ = self.tokenizer.ids(["\n"])
        self._line_end_is_unknown = self.tokenizer.unk_id in line_end

    def encode(self, block: Block) -> EncodedBlock:
        """The ids and bounds of a block's documents."""
        pieces: list[str] = []
        counts: list[int] = []
        for text in block.texts:
            spans = sentence_spans(text, self.language)
            if self._line_end_is_unknown:
                text = text.replace("\n", " ")
            previous = 0
            for _, end in spans:
                pieces.append(text[previous:end])
                previous = end
            counts.append(len(spans))
        ids, lengths = self.tokenizer.ids(pieces)
        owners = np.repeat(np.arange(len(counts)), counts)  # (S,), the document of each sentence
        owners, lengths = _storable(owners, lengths)
        num_documents = len(block.texts)
        raw = [text.encode(errors="surrogatepass") for text in block.texts]
        digests = (hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest() for text in raw)
        return EncodedBlock(
            ids=ids.astype(self._dtype),
            sentence_lengths=lengths.astype(np.uint16),
            num_sentences=np.bincount(owners, minlength=num_documents).astype(np.int64),
            num_tokens=np.bincount(owners, weights=lengths, minlength=num_documents).astype(np.int64),
            num_bytes=np.fromiter(map(len, raw), np.int64, num_documents),
            digests=b"".join(digests) if self.with_digests else b"",
            files=np.array(block.files, np.int64),
            units=np.array(block.units, np.int64),
            cut=np.array(block.cut, np.bool_),
            bytes_read=block.bytes_read,
        )


def _storable(owners: NDArray[Any], lengths: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Without the sentences that have no tokens, and with those that are too long for two bytes cut."""
    owners, lengths = owners[lengths > 0], lengths[lengths > 0]
    for place in np.flatnonzero(lengths > MAX_SENTENCE_TOKENS)[::-1]:
        full, rest = divmod(int(lengths[place]), MAX_SENTENCE_TOKENS)
        pieces = [MAX_SENTENCE_TOKENS] * full + ([rest] if rest else [])
        lengths = np.concatenate([lengths[:place], pieces, lengths[place + 1 :]])
        owners = np.insert(owners, place, [owners[place]] * (len(pieces) - 1))
    return owners, lengths


def encode_files(
    paths: Sequence[str], tokenizer: str | Path, options: CorpusOptions, start: Place, workers: int
) -> Generator[EncodedBlock]:
    """Every block from `start` on, in order. This process reads the files; `workers` processes encode.

    At most `workers` + 2 blocks are on their way, so memory does not grow with the files.
    """
    make = partial(_block_encoder, str(tokenizer), options)
    return map_in_order(make, read_blocks(paths, options, start), workers, ahead=2)


def _block_encoder(tokenizer: str, options: CorpusOptions) -> Callable[[Block], EncodedBlock]:
    return Encoder(tokenizer, options).encode
