"""Vectors of words from a source that does not learn: computed once per data set, in half precision, and kept in a file.

A frozen model says the same of a sentence in every epoch, so it is asked once. The vectors of all layers of all words are
larger than memory soon (CoNLL-2003 with MiniLM's seven layers: 1.1 GB), so they are a memory-mapped file, word after
word; the operating system keeps what is in use. The file's name is a hash of the source and the sentences: a training
that is continued finds it again, and another data set never does.

Half precision always, with a file or without, so that a tagger is given the same numbers in training and later.

Legend: W words of all sentences, L layers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertworks.atomic import replacing
from bertworks.errors import OutputError

Sentences = Sequence[Sequence[str]]
CHUNK_WORDS = 4096
"""So many words' vectors are in memory at once while they are computed."""


class WordSource(Protocol):
    """Where vectors come from: a table of words, or a model that reads whole sentences."""

    @property
    def name(self) -> str: ...

    @property
    def num_layers(self) -> int: ...

    @property
    def width(self) -> int: ...

    def vectors(self, sentences: Sentences) -> list[NDArray[np.float32]]:
        """One array per sentence: (num_layers, words, width)."""
        ...


def vectors_of(
    source: WordSource, sentences: Sentences, *, last: bool = False, key: str = "", cache: Path | None = None
) -> NDArray[np.float16]:
    """(W, L, width): every word's vectors, of the last layer alone where `last`.

    With a `cache` directory they are read from a file there, which is written first where it is missing; `key` tells
    sources apart.
    """
    shape = (sum(map(len, sentences)), 1 if last else source.num_layers, source.width)
    if cache is None or shape[0] == 0:
        found = np.zeros(shape, np.float16)
        _fill(found, source, sentences, last)
        return found
    path = cache / f"{_digest(key, shape, sentences)}.f16"
    if not path.exists():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                mapped = np.memmap(temporary, np.float16, "w+", shape=shape)
                _fill(mapped, source, sentences, last)
                mapped.flush()
                del mapped
        except OSError as error:
            raise OutputError(f"cannot write the words' vectors to {path}: {error.strerror or error}") from error
    return np.memmap(path, np.float16, "r", shape=shape)


def _fill(into: NDArray[np.float16], source: WordSource, sentences: Sentences, last: bool) -> None:
    done = 0
    for chunk in _chunks(sentences):
        for found in source.vectors(chunk):
            layers = found[-1:] if last else found  # (L, words, width)
            into[done : done + layers.shape[1]] = layers.swapaxes(0, 1)
            done += layers.shape[1]


def _chunks(sentences: Sentences) -> Iterator[list[Sequence[str]]]:
    """Sentences in order, as many at once as have about `CHUNK_WORDS` words."""
    chunk: list[Sequence[str]] = []
    size = 0
    for sentence in sentences:
        if chunk and size + len(sentence) > CHUNK_WORDS:
            yield chunk
            chunk, size = [], 0
        chunk.append(sentence)
        size += len(sentence)
    if chunk:
        yield chunk


def _digest(key: str, shape: tuple[int, ...], sentences: Sentences) -> str:
    digest = hashlib.sha256(repr((key, shape)).encode())
    for sentence in sentences:
        digest.update(repr(tuple(sentence)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
