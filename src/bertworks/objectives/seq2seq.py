"""Translation as it is trained (Sutskever et al. 2014; Vaswani et al. 2017): each target token from the source and the tokens
before it, which are the reference's own ("teacher forcing").

    source           <s> A man sleeps . </s>
    decoder input    <s> Ein Mann schläft .
    targets          Ein Mann schläft . </s>

With label smoothing (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4) a little of the probability is wanted for every
other token: perplexity gets worse, translations get better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from bertworks.data.pairs import Pairs
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder
from bertworks.models.seq2seq import EncoderDecoder
from bertworks.nn.packed import Layout, Packed
from bertworks.objectives.base import Batch, Loss
from bertworks.objectives.vocabulary import Output, vocabulary_loss

NAME = "token"
"""The loss."""


@dataclass(frozen=True, kw_only=True)
class PairBatch(Batch):
    """`packed` is the decoder's input; `source` belongs to it sequence by sequence."""

    source: Packed

    @property
    def num_tokens(self) -> int:
        """Of both sides."""
        return self.packed.layout.total + self.source.layout.total

    def to(self, device: torch.device | str) -> PairBatch:
        moved = super().to(device)
        assert isinstance(moved, PairBatch)
        return replace(moved, source=self.source.to(device))


class Seq2Seq:
    """One loss, `token`: cross entropy over the vocabulary at every target token, the end included."""

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing
        self.weights: Mapping[str, float] = {NAME: 1.0}

    def prepare(self, rows: Pairs, progress: float) -> PairBatch:
        ends = np.cumsum(rows.target_lengths)
        is_last = np.zeros(len(rows.target_ids), np.bool_)
        is_last[ends - 1] = True
        is_first = np.zeros_like(is_last)
        is_first[ends - rows.target_lengths] = True
        inputs = Packed(
            input_ids=torch.from_numpy(rows.target_ids[~is_last]), layout=Layout((rows.target_lengths - 1).tolist())
        )
        return PairBatch(
            packed=inputs,
            source=Packed(input_ids=torch.from_numpy(rows.source_ids), layout=Layout(rows.source_lengths.tolist())),
            counts={NAME: inputs.layout.total},
            tensors={"targets": torch.from_numpy(rows.target_ids[~is_first])},  # (Tt,)
        )

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(batch, PairBatch)
        assert isinstance(module, EncoderDecoder | RnnEncoderDecoder)
        memory: Any = module.encode(batch.source)  # of the model's own kind
        features = module.decode(batch.packed, memory).last  # (Tt, H)
        output = Output(features, module.output_weight, module.output_bias)
        return {NAME: vocabulary_loss(output, batch.tensors["targets"], label_smoothing=self.label_smoothing)}
