"""Language modelling in both directions (Peters et al. 2018, section 3.1): every token predicts the next one and, read from
the other end, the one before it.

A sequence of n tokens has n - 1 predictions in each direction; its two losses count half each. What is predicted are the
`vocab_size` most frequent tokens: a model of words reads every word by its characters but predicts rare ones as one
unknown word. The perplexities are those of that vocabulary, the unknown word included.

In training the softmax may be over `softmax_words` of it (ELMo: 8,192 of 793,471): half of them the most frequent, always, and
about half drawn evenly from the rest, anew for each step, each of which stands for as many as it was drawn from. So the sum
in the softmax's denominator is right on average, at a fraction of the work. The draw is a function of the seed and the step,
the same for all parts of a batch. What is held out is judged by the whole softmax.

Left out: states carried from one batch to the next, since a step is to depend on nothing but its number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.data.pretraining import draw
from bertworks.data.pretraining.sequences import Sequences
from bertworks.errors import ModelError, UsageError
from bertworks.models.elmo import BiLM, PackedSpelt
from bertworks.models.model import Model
from bertworks.nn.packed import Layout, Packed
from bertworks.objectives.base import Batch, Loss, pack
from bertworks.objectives.vocabulary import Output, sampled_vocabulary_loss, vocabulary_loss
from bertworks.text.spelling import Characters


class BidirectionalLM:
    """Two losses, `forward` and `backward`: cross entropy over the vocabulary at every token that has a neighbour."""

    def __init__(
        self,
        *,
        vocab_size: int,
        unknown_id: int,
        characters: Characters | None = None,
        softmax_words: int | None = None,
        seed: int = 0,
        boundaries: Mapping[int, float] | None = None,
    ) -> None:
        """Say what is predicted.

        characters:    for a model of words, how each token of the whole vocabulary is spelt, (all tokens, M)
        softmax_words: how many tokens the softmax is over; None = all of `vocab_size`
        boundaries:    how often the ids that begin and end a sequence come, as a share of the text's own tokens
        """
        if softmax_words is not None and softmax_words < 2:
            raise UsageError(
                f"softmax_words is {softmax_words}; it must be at least 2, or none for the whole vocabulary"
            )
        self.weights: Mapping[str, float] = {"forward": 0.5, "backward": 0.5}
        self.vocab_size, self.unknown_id = vocab_size, unknown_id
        self.characters = characters
        self.softmax_words = softmax_words if softmax_words is not None and softmax_words < vocab_size else None
        self.seed = seed
        self.boundaries = dict(boundaries or {})

    def prepare(self, rows: Sequences, progress: float) -> Batch:
        following = np.flatnonzero(rows.positions > 0)  # (M,) tokens that have one before them in their sequence
        known = np.where(rows.ids < self.vocab_size, rows.ids, self.unknown_id)  # (T,)
        tensors = {}
        if self.softmax_words is not None:
            columns, offsets, known = self._sample(known, progress)
            tensors = {"columns": torch.from_numpy(columns), "offsets": torch.from_numpy(offsets)}
        return Batch(
            packed=self._packed(rows),
            counts={"forward": len(following), "backward": len(following)},
            tensors={
                **tensors,
                "places": torch.from_numpy(following),  # (M,)
                "targets": torch.from_numpy(known[following]),  # (M,)
                "targets_before": torch.from_numpy(known[following - 1]),  # (M,)
            },
        )

    def _sample(
        self, ids: NDArray[np.int64], progress: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """What the softmax is over: token ids (C,) and offsets (C,) of their logits; and `ids` (T,) as places among them."""
        assert self.softmax_words is not None
        always = self.softmax_words // 2
        rest = np.arange(always, self.vocab_size)
        probability = (self.softmax_words - always) / len(rest)
        step = int(progress * 2**40)
        drawn = rest[draw.uniform(draw.Stream.SOFTMAX, self.seed, 0, rest, step) < probability]
        shared = np.concatenate([np.arange(always), drawn])
        columns = np.concatenate([shared, np.setdiff1d(ids, shared)])  # and each row's own target
        offsets = np.full(len(columns), -np.inf, np.float32)
        offsets[:always], offsets[always : len(shared)] = 0.0, -math.log(probability)
        places = np.empty(self.vocab_size, np.int64)
        places[columns] = np.arange(len(columns))
        return columns, offsets, places[ids]

    def _packed(self, rows: Sequences) -> Packed:
        if self.characters is None:
            return pack(rows)
        distinct, numbers = np.unique(rows.ids, return_inverse=True)
        return PackedSpelt(
            input_ids=torch.from_numpy(numbers.astype(np.int64)),
            layout=Layout(rows.lengths.tolist()),
            characters=torch.from_numpy(self.characters[distinct].astype(np.int64)),
        )

    def target_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How frequent each target is, from how frequent each token of the text is: those that are not predicted are the
        unknown one, and the boundaries of sequences are predicted as well."""
        known = counts[: self.vocab_size].copy()
        known[self.unknown_id] += counts[self.vocab_size :].sum()
        for number, share in self.boundaries.items():
            known[number] += round(share * counts.sum())
        return known

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        body = module.body
        if not isinstance(body, BiLM) or body.output is None:
            raise ModelError("this objective is for two language models that read from both ends and predict words")
        output, dropout = body.output, body.dropout
        columns = batch.tensors.get("columns")
        weight: Tensor = output.weight if columns is None else output.weight.index_select(0, columns)
        bias: Tensor = output.bias if columns is None else output.bias.index_select(0, columns)
        hidden = body.read(batch.packed)
        places = batch.tensors["places"]

        def loss(states: Tensor, at: Tensor, targets: Tensor) -> Loss:
            predicted = Output(dropout(states.index_select(0, at)), weight, bias)
            if columns is None:
                return vocabulary_loss(predicted, targets)
            return sampled_vocabulary_loss(predicted, targets, batch.tensors["offsets"])

        return {
            "forward": loss(hidden.forward[-1], places - 1, batch.tensors["targets"]),
            "backward": loss(hidden.backward[-1], places, batch.tensors["targets_before"]),
        }
