"""Masked language modelling (Devlin et al. 2019, section 3.1): guess the tokens that were hidden.

Which tokens, and what stands in their place, is `bertworks.data.pretraining.masking`: static, dynamic, whole words, spans
and entities are all one objective here. Only the masked places go through the last layer and the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from bertworks.data.pretraining.masking import Masker
from bertworks.data.pretraining.sequences import Sequences
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss, pack
from bertworks.objectives.vocabulary import output_of, vocabulary_loss


class MaskedLM:
    """One loss, `mlm`: cross entropy over the vocabulary at the masked places."""

    def __init__(self, masker: Masker) -> None:
        self.masker = masker
        self.weights: Mapping[str, float] = {"mlm": 1.0}

    def prepare(self, rows: Sequences, progress: float) -> Batch:
        masked = self.masker.apply(rows, progress)
        packed = pack(rows, masked.input_ids)
        return Batch(
            packed=packed,
            counts={"mlm": len(masked.places)},
            rows=packed.layout.rows(torch.from_numpy(masked.places)),
            tensors={"targets": torch.from_numpy(masked.targets)},  # (M,)
        )

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        hidden = module.body(batch.packed, rows=batch.rows).last  # (M, H)
        return {"mlm": vocabulary_loss(output_of(module, "mlm", hidden), batch.tensors["targets"])}
