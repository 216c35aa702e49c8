"""A small model, a hand-written objective with two losses, and data that is a pure function of the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.models.config import (
    EmbeddingConfig,
    HeadConfig,
    LayerConfig,
    ModelConfig,
    PositionConfig,
    TransformerConfig,
)
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.objectives.base import Batch, Loss

VOCABULARY = 31


def make_model(*, dropout: float = 0.0, gated: bool = True, layers: int = 3) -> Model:
    """The pooler is there and used by one loss only; sizes all differ."""
    torch.manual_seed(5)
    return Model(
        ModelConfig(
            family="bertworks",
            body=TransformerConfig(
                embeddings=EmbeddingConfig(vocab_size=VOCABULARY, type_vocab_size=2),
                positions=PositionConfig(absolute="learned", max_position_embeddings=13),
                layer=LayerConfig(
                    hidden_size=24,
                    num_attention_heads=3,
                    intermediate_size=37,
                    gated=gated,
                    hidden_dropout_prob=dropout,
                    attention_dropout_prob=dropout,
                ),
                num_hidden_layers=layers,
                initializer_range=0.2,
            ),
            pooler_act="tanh",
            heads=(
                HeadConfig(task="mlm", reads="tokens", num_labels=VOCABULARY, transform_size=24, tied=True),
                HeadConfig(task="nsp", reads="pooled", num_labels=2),
            ),
        )
    )


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


class SmallObjective:
    """Guess each token's successor in a fixed cycle at some places, and whether a sequence begins with an even token."""

    weights: Mapping[str, float] = {"mlm": 1.0, "nsp": 0.5}

    def prepare(self, rows: Sequence[np.ndarray], progress: float) -> Batch:
        packed = Packed.from_sequences(rows)
        places = packed.layout.positions().remainder(3).eq(0).nonzero()[:, 0]
        # Fewer items in some batches: only sequences of at least four tokens have the second label.
        labels = torch.tensor([int(row[0]) % 2 if len(row) > 3 else -100 for row in rows], dtype=torch.long)
        return Batch(
            packed=packed,
            rows=packed.layout.rows(places),
            counts={"mlm": len(places), "nsp": int((labels >= 0).sum())},
            tensors={"targets": (packed.input_ids[places] * 2 + 1) % VOCABULARY, "labels": labels},
        )

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        assert batch.rows is not None
        words = module.logits(batch.packed, "mlm", rows=batch.rows)
        targets = batch.tensors["targets"]
        losses = {
            "mlm": Loss(
                sum=F.cross_entropy(_wide(words), targets, reduction="sum"),
                count=len(targets),
                correct=(words.argmax(-1) == targets).sum(),
            )
        }
        if "nsp" in self.weights:
            labels = batch.tensors["labels"]
            pairs = module.logits(batch.packed, "nsp")
            losses["nsp"] = Loss(
                sum=F.cross_entropy(_wide(pairs), labels, reduction="sum"), count=int((labels >= 0).sum())
            )
        return losses


@dataclass
class SmallData:
    """`sequences` per step, cut into `micro` micro-batches over all processes."""

    objective: SmallObjective
    sequences: int = 8
    micro: int = 1
    shortest: int = 2

    def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
        random = np.random.default_rng([7, step])
        rows = [random.integers(0, VOCABULARY, random.integers(self.shortest, 13)) for _ in range(self.sequences)]
        rows.sort(key=len)
        parts = [rows[index :: self.micro * world] for index in range(rank, self.micro * world, world)]
        return [self.objective.prepare(part, 0.0) for part in parts]
