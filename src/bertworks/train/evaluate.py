"""How well a model does on documents that were held out: loss, perplexity and accuracy of each of its losses.

The same sequences with the same masks every time: 15 % of the tokens, drawn once, whatever share the training masks and
whatever its seed. Figures of runs on one corpus with one sequence length, pairs or none, can then be compared.
Processes share the work and add up their sums, so that the number of processes changes nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.data.corpus import Corpus
from bertworks.data.pretraining.sequences import RowSource
from bertworks.objectives.base import Objective
from bertworks.objectives.bilm import BidirectionalLM
from bertworks.train.feed import evaluation_batches
from bertworks.train.parallel import Parallel

PERPLEXITY = ("mlm", "lm", "token", "forward", "backward")
"""Losses that are means of negative log probabilities of tokens."""
COUNTED_TOKENS = 5_000_000
"""So many tokens say well enough how frequent each one is."""


class Evaluation:
    """The held-out sequences, prepared once. False where there are none."""

    def __init__(self, objective: Objective, source: RowSource | None, parallel: Parallel) -> None:
        self.objective = objective
        self.parallel = parallel
        self.batches = evaluation_batches(source, objective, rank=parallel.rank, world=parallel.world) if source else []
        self._any = source is not None

    def __bool__(self) -> bool:
        return self._any

    @torch.no_grad()
    def run(self, module: nn.Module) -> dict[str, float]:
        """The figures of `module` as it is."""
        if not self:
            return {}
        names = list(self.objective.weights)
        found: dict[str, list[float]] = {}  # sums that add up over batches and processes: (part, whole)
        was_training = module.training
        module.eval()
        for batch in self.batches:
            losses = self.objective.losses(module, batch.to(self.parallel.device))
            for name in names:
                _add(found, f"{name}_loss", losses[name].sum, losses[name].count)
                if (correct := losses[name].correct) is not None:
                    _add(found, f"{name}_accuracy", correct, losses[name].count)
                for share, (part, whole) in losses[name].shares.items():
                    _add(found, f"{name}_{share}", part, float(whole))
        module.train(was_training)
        return self._figures(names, self._added_up(found))

    def by_frequency(self, counts: NDArray[np.int64]) -> dict[str, float]:
        """Loss and accuracy of always answering with how frequent each token is, (V,): what reading the text must beat.

        Nothing where no tokens are guessed.
        """
        if not any(name in PERPLEXITY for name in self.objective.weights):
            return {}
        if isinstance(self.objective, BidirectionalLM):
            counts = self.objective.target_counts(counts)
        costs = np.log(counts.sum() + len(counts)) - np.log(counts + 1)  # (V,); one more each, so that none is 0
        answer = counts.argmax()
        found: dict[str, list[float]] = {}
        for batch in self.batches:
            targets = batch.tensors["targets"].numpy()  # (M,)
            _add(found, "loss", costs[targets].sum(), len(targets))
            _add(found, "accuracy", (targets == answer).sum(), len(targets))
        return self._added_up(found)

    def _added_up(self, found: dict[str, list[float]]) -> dict[str, float]:
        """Means over all processes, each of which has had at least one batch."""
        if self.parallel.world > 1:
            keys = list(found)
            sums = self.parallel.sum(torch.tensor([found[key] for key in keys], dtype=torch.float64)).tolist()
            found = dict(zip(keys, sums, strict=True))
        return {key: part / whole for key, (part, whole) in found.items() if whole}

    def _figures(self, names: list[str], means: dict[str, float]) -> dict[str, float]:
        """The total first; then, per loss, its mean (where there are several), perplexity, accuracy and the like."""
        figures = {"loss": sum(self.objective.weights[name] * means.get(f"{name}_loss", 0.0) for name in names)}
        for key, value in sorted(means.items(), key=lambda item: names.index(item[0].rsplit("_", 1)[0])):
            name, _, what = key.rpartition("_")
            if what == "loss" and name in PERPLEXITY:
                if len(names) > 1:
                    figures[key] = value
                figures[f"{name}_perplexity"] = math.exp(min(value, 700.0))
            elif what != "loss" or len(names) > 1:
                figures[key] = value
        return figures


def token_counts(corpus: Corpus, documents: NDArray[Any]) -> NDArray[np.int64]:
    """How often each token is in these documents (V,); in some of them, evenly spread, where they are very many."""
    lengths = corpus.document_lengths()[documents]
    every = max(1, int(lengths.sum()) // COUNTED_TOKENS)
    counts = np.zeros(corpus.vocab_size, np.int64)
    for index in documents[::every]:
        np.add.at(counts, corpus.document(int(index)), 1)
    return counts


def _add(found: dict[str, list[float]], name: str, part: Tensor | float, whole: float) -> None:
    sums = found.setdefault(name, [0.0, 0.0])
    sums[0] += float(part)
    sums[1] += whole
