"""Every layer's vector of every word, computed once and kept on disk in half precision.

The taggers of a layer study read the same words many times, each time from other layers. The vectors of all layers are
larger than memory soon (CoNLL-2003 with a BERT-base: 5 GB), so they are a memory-mapped file, layer after layer; the
operating system keeps what is in use.

A word of several tokens has the vector of its first one, as in the BERT paper (Devlin et al. 2019, section 5.3), or
the mean of all its tokens'.

Legend: L + 1 layers (0 = the embeddings), W words of all sentences, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertworks.infer.embed import embed_tokens
from bertworks.infer.layers import LayerChoice
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.word_sources import per_word
from bertworks.text.encoding import Encoding

Words = Literal["first", "mean"]

CHUNK_BYTES = 2**26
"""How much of the vectors, in full precision, is in memory at once while they are computed."""


@dataclass(frozen=True)
class States:
    """The vectors of some sentences' words."""

    vectors: NDArray[np.float16]  # (L + 1, W, H), memory-mapped
    starts: NDArray[np.int64]  # (sentences + 1,): where each sentence's words begin, and W

    @property
    def num_sentences(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(sentences,): how many words each has."""
        return np.diff(self.starts)


def states_shape(model: LoadedModel, sentences: Sequence[Sequence[str]]) -> tuple[int, int, int]:
    """(L + 1, W, H)"""
    return model.model.num_layers + 1, sum(map(len, sentences)), model.model.hidden_size


def write_states(
    path: Path, model: LoadedModel, sentences: Sequence[Sequence[str]], *, words: Words = "first"
) -> Iterator[int]:
    """Compute the vectors and write them to `path`; yields the number of words done so far."""
    layers, total, width = states_shape(model, sentences)
    vectors = np.memmap(path, np.float16, "w+", shape=(layers, max(total, 1), width))
    every = LayerChoice(tuple(range(layers)), "concat")
    before = len(model.runner.prefix)
    done = 0
    for chunk in _chunks(model.tokenizer.encode_words_batch(sentences, special=False), layers * width * 4):
        arrays = embed_tokens(model.runner, chunk, layers=every)
        for encoding, rows in zip(chunk, arrays, strict=True):
            found = per_word(
                encoding, rows[before : before + len(encoding)], first=words == "first"
            )  # (words, (L + 1) * H)
            vectors[:, done : done + len(found)] = found.reshape(len(found), layers, width).swapaxes(0, 1)
            done += len(found)
        yield done
    vectors.flush()


def open_states(path: Path, model: LoadedModel, sentences: Sequence[Sequence[str]]) -> States:
    """What `write_states` wrote for the same model and sentences."""
    layers, total, width = states_shape(model, sentences)
    vectors = np.memmap(path, np.float16, "r", shape=(layers, max(total, 1), width))
    return States(vectors, np.cumsum([0, *map(len, sentences)]))


def _chunks(encodings: Sequence[Encoding], bytes_per_token: int) -> Iterator[list[Encoding]]:
    """Sentences in order, as many at once as `CHUNK_BYTES` allow."""
    chunk: list[Encoding] = []
    size = 0
    for encoding in encodings:
        if chunk and size + len(encoding) * bytes_per_token > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(encoding)
        size += len(encoding) * bytes_per_token
    if chunk:
        yield chunk
