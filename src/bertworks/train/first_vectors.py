"""The token vectors that a new model starts with: skip-gram over the corpus's own tokens.

A model with random vectors spends the beginning of its training on finding out which tokens can stand for each other, and
meets a rare one too seldom to find out at all. Skip-gram (Mikolov et al. 2013, `bertworks.vectors`) finds out the same
from plain neighbourhoods, and reads a hundred times as many tokens a second as a small Transformer. So a small share of
the time goes to it, and its vectors, which are as wide as the model's, become the token table.

How many tokens it reads is settled once, when a run begins, and kept in its `config.toml`. One thread does it: the same
text gives the same vectors, and a run that begins again is the same run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bertworks.data.corpus import Corpus
from bertworks.data.pretraining import draw
from bertworks.data.pretraining.draw import Stream
from bertworks.errors import UsageError
from bertworks.models.config import RecurrentConfig, TransformerConfig
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer
from bertworks.vectors import negative
from bertworks.vectors.kernels import Texts
from bertworks.vectors.options import TrainingOptions
from bertworks.vectors.reading import Encoded

BUDGET_SHARE = 0.08
"""The most that they may cost of a budget."""
TOKENS_PER_TOKEN = 10
"""Without a budget: at most so many tokens for each that the training reads."""
SAMPLE_TOKENS = 400_000
"""Read to measure how fast it goes."""
MIN_COUNT = 5
"""A token that was seen less often keeps its random vector."""
SPREAD = 0.1
"""The standard deviation of the vectors' numbers. Random ones have 0.02, but Adam moves every number by the same amount:
what is larger is kept for longer."""


@dataclass(frozen=True)
class FirstVectors:
    """A vector for each token, and how often it was seen."""

    matrix: NDArray[np.float32]  # (V, H)
    counts: NDArray[np.int64]  # (V,)

    def put_into(self, model: Model) -> None:
        """Write them into the token table, around 0 and as large as `SPREAD`."""
        seen = self.counts >= MIN_COUNT
        if not seen.any():
            return
        found = self.matrix[seen]
        found = found - found.mean(axis=0)
        found *= SPREAD / found.std()
        table = token_table(model)
        with torch.no_grad():
            table[torch.from_numpy(seen).to(table.device)] = torch.from_numpy(found).to(table)


def token_table(model: Model) -> torch.Tensor:
    """(V, E); an error for a model that has none."""
    if not isinstance(model.config.body, (TransformerConfig, RecurrentConfig)):
        raise UsageError(
            "model.first_vectors = skipgram is for models with a table of token vectors, and the model is "
            f"{model.config.describe()}; leave it out"
        )
    table: torch.Tensor = model.body.embeddings.tokens.weight
    return table


@dataclass(frozen=True)
class Source:
    """The text that they are learnt from: documents of a corpus, in an order that the seed settles."""

    corpus: Corpus
    tokenizer: Tokenizer
    documents: NDArray[np.int64]
    seed: int

    @property
    def num_tokens(self) -> int:
        return int(self.corpus.document_lengths()[self.documents].sum())

    def beginning(self, num_tokens: int) -> Encoded:
        """Whole documents, the last one cut."""
        order = self.documents[draw.permutation(Stream.WORD_VECTORS, self.seed, 0, len(self.documents))]
        ends = np.cumsum(self.corpus.document_lengths()[order])
        order = order[: int(np.searchsorted(ends, num_tokens)) + 1]
        ids = np.concatenate([np.asarray(self.corpus.document(int(number)), np.int32) for number in order])[:num_tokens]
        starts = np.minimum(np.concatenate([[0], ends[: len(order)]]), num_tokens)
        words = self.tokenizer.tokens(np.arange(self.tokenizer.vocab_size))
        return Encoded(words, np.bincount(ids, minlength=len(words)), Texts(ids, starts), len(ids))


def learn(text: Source, num_tokens: int, size: int) -> FirstVectors:
    """Skip-gram over so many tokens, or all, with vectors of `size` numbers."""
    encoded = text.beginning(num_tokens)
    options = TrainingOptions(dim=size, epochs=1, window=5, learning_rate=0.05, subsample=1e-4, seed=text.seed)
    steps = negative.learn(encoded, options)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return FirstVectors(end.value[0], encoded.counts)


def tokens_within(seconds: float, text: Source, size: int) -> int:
    """How many tokens can be read in the time, at most all."""
    learn(text, 1, size)  # compiled, if it was not
    started = time.perf_counter()
    sample = learn(text, SAMPLE_TOKENS, size)
    rate = sample.counts.sum() / (time.perf_counter() - started)
    return max(1, min(int(seconds * rate), text.num_tokens))
