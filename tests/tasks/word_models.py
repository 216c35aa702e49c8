"""Tiny models over words, and a source of vectors that says how often it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.labelled.examples import TaggedExample
from bertworks.finetune.words import make_vocabulary
from bertworks.models.config import ModelConfig
from bertworks.models.model import Model
from bertworks.models.word_config import VectorConfig, WordEmbeddingConfig, WordStackConfig
from bertworks.tasks.word_inputs import NamedSource, WordInputs
from bertworks.text.tokenizer import Tokenizer


@dataclass
class FakeSource:
    """Vectors that are a function of the word, its place and the layer."""

    name: str = "fake"
    num_layers: int = 2
    width: int = 3
    asked: list[int] = field(default_factory=list)

    def vectors(self, sentences: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        self.asked.append(len(sentences))
        return [
            np.array(
                [
                    [[len(word), place, layer][: self.width] for place, word in enumerate(words)]
                    for layer in range(self.num_layers)
                ],
                np.float32,
            ).reshape(self.num_layers, len(words), self.width)
            for words in sentences
        ]


def make_inputs(*sources: FakeSource, last: bool = False) -> WordInputs:
    named = tuple(NamedSource(name=source.name, sha256=f"{source.name}-hash", last=last) for source in sources)
    return WordInputs(named=named, sources=sources)


def make_model(
    sentences: Sequence[Sequence[str]],
    inputs: WordInputs | None = None,
    *,
    min_count: int = 1,
    embeddings: Mapping[str, Any] | None = None,
    **body: Any,
) -> tuple[Model, Tokenizer]:
    """A model without heads, without dropout, and its vocabulary."""
    tokenizer = make_vocabulary(sentences, min_count)
    sources = () if inputs is None else inputs.sources
    words = {"size": 7, "character_size": 5, "character_features": 6, **(embeddings or {})}
    config = WordStackConfig(
        embeddings=WordEmbeddingConfig(vocab_size=tokenizer.vocab_size, **words),
        vectors=tuple(VectorConfig(width=source.width, num_layers=source.num_layers) for source in sources),
        **{"direction_size": 11, "hidden_dropout_prob": 0.0, **body},
    )
    return Model(ModelConfig(family="bertworks", body=config)).eval(), tokenizer


def words_of(examples: Sequence[TaggedExample]) -> list[tuple[str, ...]]:
    return [example.words for example in examples]
