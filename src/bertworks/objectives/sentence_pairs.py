"""Masked LM together with a question about two texts: next sentence prediction, or sentence-order prediction.

    nsp   Devlin et al. 2019, section 3.1: does B follow A, or is it from another document?
    sop   Lan et al. 2020 (ALBERT), section 3.1: are A and B in their order, or swapped?

The pairs and their labels are made by `bertworks.data.pretraining.pairs`; 0 is the true order, as in Hugging Face. Both
losses come from one pass: the last layer is computed at the masked places and the first tokens together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.data.pretraining.masking import Masker
from bertworks.data.pretraining.pairs import KINDS
from bertworks.data.pretraining.sequences import Sequences
from bertworks.errors import DataError, ModelError, choice
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss, pack
from bertworks.objectives.vocabulary import output_of, vocabulary_loss


class MaskedLMWithPairs:
    """Two losses: `mlm` per masked token, and `nsp` or `sop` per pair."""

    def __init__(self, masker: Masker, kind: str = "nsp") -> None:
        self.masker = masker
        self.kind = choice(kind, KINDS, "kind of sentence pairs")
        self.weights: Mapping[str, float] = {"mlm": 1.0, self.kind: 1.0}

    def prepare(self, rows: Sequences, progress: float) -> Batch:
        if self.kind not in rows.labels:
            there = ", ".join(rows.labels) or "none"
            raise DataError(
                f"these sequences have no {self.kind!r} labels (there: {there}); they must be sentence pairs"
            )
        masked = self.masker.apply(rows, progress)
        packed = pack(rows, masked.input_ids)
        read = np.union1d(masked.places, rows.starts)  # (R,) ascending
        return Batch(
            packed=packed,
            counts={"mlm": len(masked.places), self.kind: len(rows.lengths)},
            rows=packed.layout.rows(torch.from_numpy(read)),
            tensors={
                "targets": torch.from_numpy(masked.targets),  # (M,)
                "masked": torch.from_numpy(np.searchsorted(read, masked.places)),  # (M,) among the rows read
                "first": torch.from_numpy(np.searchsorted(read, rows.starts)),  # (B,) among the rows read
                "labels": torch.from_numpy(rows.labels[self.kind]),  # (B,)
            },
        )

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        reads = module.head(self.kind).config.reads
        if reads not in ("first", "pooled"):
            raise ModelError(f"the {self.kind!r} head reads {reads!r}; it must read the first token (first, pooled)")
        tensors = batch.tensors
        hidden = module.body(batch.packed, rows=batch.rows).last  # (R, H)
        logits = module.apply_head(self.kind, hidden[tensors["first"]], batch.packed.layout)  # (B, 2)
        return {
            "mlm": vocabulary_loss(output_of(module, "mlm", hidden[tensors["masked"]]), tensors["targets"]),
            self.kind: label_loss(logits, tensors["labels"]),
        }


def label_loss(logits: Tensor, labels: Tensor) -> Loss:
    """Cross entropy of few classes: logits (B, C), labels (B,)."""
    return Loss(
        sum=F.cross_entropy(logits.float(), labels, reduction="sum"),
        count=len(labels),
        correct=(logits.argmax(dim=-1) == labels).sum(),
    )
