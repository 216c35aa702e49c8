"""Bertworks on a Ray cluster: the same work as on one machine, spread over many.

    build_corpus              a corpus of token ids, the same bytes as those of a local build      (`corpus`)
    embed, predict, tokenize  steps of a Ray Data pipeline: a dataset in, a dataset out            (`operators`)
    embed_file                what `bertworks embed --engine ray` does                             (`chunks`)

Every machine must have Bertworks installed and see the inputs and the model under the same paths (a network file system,
or one machine). Ray itself is not installed with Bertworks: `pip install 'bertworks[ray]'`.
"""

from __future__ import annotations

from bertworks.ray.chunks import EmbeddedChunk, embed_file
from bertworks.ray.corpus import RayEngine, build_corpus
from bertworks.ray.operators import embed, predict, tokenize

__all__ = ["EmbeddedChunk", "RayEngine", "build_corpus", "embed", "embed_file", "predict", "tokenize"]
