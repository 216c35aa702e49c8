"""Causal language modelling (Radford et al. 2018): every token predicts the next one of its own sequence.

A sequence of n tokens has n - 1 predictions; its last token predicts nothing, so no prediction crosses into the next
sequence of the batch. The end-of-text token, where the data has one, is predicted like any other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from bertworks.data.pretraining.sequences import Sequences
from bertworks.errors import ModelError
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss, pack
from bertworks.objectives.vocabulary import output_of, vocabulary_loss


class CausalLM:
    """One loss, `lm`: cross entropy over the vocabulary at every token that has a next one."""

    def __init__(self) -> None:
        self.weights: Mapping[str, float] = {"lm": 1.0}

    def prepare(self, rows: Sequences, progress: float) -> Batch:
        following = np.flatnonzero(rows.positions > 0)  # (M,) tokens that have one before them in their sequence
        return Batch(
            packed=pack(rows),
            counts={"lm": len(following)},
            # Not the batch's `rows`: nearly all tokens are read, and the plain causal pass is the quicker one.
            tensors={
                "places": torch.from_numpy(following - 1),  # (M,)
                "targets": torch.from_numpy(rows.ids[following]),  # (M,)
            },
        )

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        if not module.config.body.causal:
            raise ModelError("this model sees the next token, so predicting it teaches nothing; causal must be true")
        hidden = module.body(batch.packed).last[batch.tensors["places"]]  # (M, H)
        return {"lm": vocabulary_loss(output_of(module, "lm", hidden), batch.tensors["targets"])}
