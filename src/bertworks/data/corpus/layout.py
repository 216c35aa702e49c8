"""How a corpus lies on the disk.

    manifest.json        what it is: format version, tokenizer, inputs, options, totals, and each shard's counts and
                         SHA-256; written last, so where it is, everything is
    tokenizer/           the files of the tokenizer that made the ids
    shard-00000.bin, …   the documents, in the order of the inputs

A shard is one file that can be mapped into memory as it is, all numbers little-endian:

    header      64 bytes: "bertcorp", format version, bytes a token, number of documents, of sentences, of tokens
    documents   (documents + 1) × 2 uint32: where each one's tokens and sentences begin in this shard
    sentences   uint16: the number of tokens of each sentence; a sentence has at most 65,535, longer ones are cut
    tokens      uint16 where the vocabulary has at most 65,536 ids, else uint32; without special tokens

With usual texts this takes 2.1 bytes a token. Documents never go over two shards.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import DataError

MANIFEST, TOKENIZER_FOLDER = "manifest.json", "tokenizer"
FORMAT, VERSION = "bertworks corpus", 1
HEADER = struct.Struct("<8sIIQQQ24x")
MAGIC = b"bertcorp"
MAX_SENTENCE_TOKENS = 2**16 - 1
MAX_TWO_BYTE_IDS = 2**16
MAX_TOKENS = 2**32 - 1  # of a shard


def token_type(vocab_size: int) -> np.dtype[Any]:
    """The type of the stored ids."""
    return np.dtype("<u2" if vocab_size <= MAX_TWO_BYTE_IDS else "<u4")


def shard_name(number: int) -> str:
    """The file name of a shard."""
    return f"shard-{number:05d}.bin"


@dataclass(frozen=True)
class ShardSize:
    """The counts that decide where everything lies in a shard."""

    documents: int
    sentences: int
    tokens: int
    token_bytes: int

    @property
    def sentences_at(self) -> int:
        """Where the sentence lengths begin."""
        return HEADER.size + 8 * (self.documents + 1)

    @property
    def tokens_at(self) -> int:
        """Where the tokens begin; a multiple of four."""
        return self.sentences_at + 2 * (self.sentences + self.sentences % 2)

    @property
    def file_bytes(self) -> int:
        """The size of the file."""
        return self.tokens_at + self.token_bytes * self.tokens


def write_shard(
    path: Path,
    ids: Sequence[NDArray[Any]],
    sentence_lengths: Sequence[NDArray[np.uint16]],
    num_sentences: NDArray[np.int64],
    num_tokens: NDArray[np.int64],
) -> tuple[ShardSize, str]:
    """Write a shard from parts (ids and sentences in pieces, counts per document); gives its size and SHA-256."""
    bounds = np.zeros((len(num_tokens) + 1, 2), np.int64)
    np.cumsum(num_tokens, out=bounds[1:, 0])
    np.cumsum(num_sentences, out=bounds[1:, 1])
    if bounds[-1, 0] > MAX_TOKENS:
        raise DataError(f"a shard has {bounds[-1, 0]:,} tokens, at most {MAX_TOKENS:,} are possible; split the input")
    size = ShardSize(len(num_tokens), int(bounds[-1, 1]), int(bounds[-1, 0]), ids[0].dtype.itemsize)
    header = HEADER.pack(MAGIC, VERSION, size.token_bytes, size.documents, size.sentences, size.tokens)
    padding = np.zeros(size.sentences % 2, np.uint16)
    parts: list[NDArray[Any]] = [
        np.frombuffer(header, np.uint8),
        bounds.astype(np.uint32),
        *sentence_lengths,
        padding,
        *ids,
    ]
    hasher = hashlib.sha256()
    with path.open("wb") as file:
        for part in parts:
            raw = np.ascontiguousarray(part, part.dtype.newbyteorder("<")).data
            hasher.update(raw)
            file.write(raw)
    return size, hasher.hexdigest()


class Shard:
    """One shard, mapped into memory; reading a document touches the pages it lies on and no others."""

    def __init__(self, path: Path, size: ShardSize) -> None:
        """Map the file at `path`, which should have this size; a `DataError` where it is another or damaged."""
        check_shard(path, size)
        raw = np.asarray(np.memmap(path, np.uint8, "r"))
        self.bounds: NDArray[np.uint32] = raw[HEADER.size : size.sentences_at].view("<u4").reshape(-1, 2)
        sentences = raw[size.sentences_at : size.sentences_at + 2 * size.sentences]
        self.sentence_lengths: NDArray[np.uint16] = sentences.view("<u2")
        self.ids: NDArray[Any] = raw[size.tokens_at :].view(f"<u{size.token_bytes}")
        if tuple(self.bounds[0]) != (0, 0) or tuple(self.bounds[-1]) != (size.tokens, size.sentences):
            raise DataError("is damaged: its document bounds do not fit its header", path=path)

    def document(self, index: int) -> NDArray[Any]:
        """The ids of a document, a read-only view."""
        start, end = int(self.bounds[index, 0]), int(self.bounds[index + 1, 0])
        return self.ids[start:end]

    def lengths(self, index: int) -> NDArray[np.uint16]:
        """The number of tokens of each sentence of a document, a read-only view."""
        start, end = int(self.bounds[index, 1]), int(self.bounds[index + 1, 1])
        return self.sentence_lengths[start:end]


def check_shard(path: Path, size: ShardSize) -> None:
    """Check that the file is there, has the right size, and says the same of itself; reads 64 bytes."""
    try:
        found = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(HEADER.size)
    except FileNotFoundError:
        raise DataError("is missing; the corpus is incomplete, build it again", path=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    if found != size.file_bytes:
        raise DataError(f"is damaged: it has {found:,} bytes instead of {size.file_bytes:,}; build it again", path=path)
    expected = (MAGIC, VERSION, size.token_bytes, size.documents, size.sentences, size.tokens)
    if HEADER.unpack(header) != expected:
        raise DataError("is damaged: its header does not fit the manifest; build it again", path=path)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
