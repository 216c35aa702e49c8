"""Replaced-token detection (Clark et al. 2020, ELECTRA): a small generator fills the masks, and a discriminator tells for
every token whether it is the original.

The generator is trained as a masked LM, not against the discriminator: its choices are samples, through which no gradient
goes. A sample that happens to be the original token counts as original. Both share the vectors of tokens, positions and
segments, which is why the generator is a narrower stack on embeddings of the same width.

The samples are functions of (seed, epoch, sequence, position) and of the generator's weights: the cumulative probability
of each masked place is inverted at a number of `bertworks.data.pretraining.draw`, so that they are the same in whatever
batch or process a sequence is.

The discriminator is asked about all tokens that are not special, so the number of answers is known beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.data.pretraining import draw
from bertworks.data.pretraining.masking import Masker
from bertworks.data.pretraining.sequences import Sequences
from bertworks.errors import ConfigError
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.objectives.base import Batch, Loss, pack
from bertworks.objectives.vocabulary import output_of, vocabulary_loss_and_samples

BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))
SHARED = ("tokens", "positions", "segments", "tasks")


class GeneratorAndDiscriminator(nn.Module):
    """What is trained. The embedding tables belong to both; the discriminator is what is kept afterwards."""

    def __init__(self, generator: Model, discriminator: Model) -> None:
        super().__init__()
        generator.head("mlm")
        discriminator.head("rtd")
        ours, theirs = _tables(generator), _tables(discriminator)
        for name, value in ours.items():
            if value != theirs[name]:
                raise ConfigError(
                    f"generator and discriminator share their embeddings, but {name} is {value} in the generator and "
                    f"{theirs[name]} in the discriminator; give the generator the discriminator's"
                )
        for name in SHARED:
            setattr(generator.body.embeddings, name, getattr(discriminator.body.embeddings, name))
        self.generator = generator
        self.discriminator = discriminator


def _tables(model: Model) -> dict[str, object]:
    """What two models must agree in to share their embedding tables."""
    body = model.config.transformer
    return {
        "the width of the embeddings": body.embedding_size,
        "vocab_size": body.embeddings.vocab_size,
        "type_vocab_size": body.embeddings.type_vocab_size,
        "task_vocab_size": body.embeddings.task_vocab_size,
        "positions": body.positions,
    }


class ReplacedTokens:
    """Two losses: the generator's `mlm` per masked token, and `rtd` per token; the second is small, hence its weight."""

    def __init__(self, masker: Masker, *, seed: int = 0, rtd_weight: float = 50.0) -> None:
        self.masker = masker
        self.seed = seed
        self.weights: Mapping[str, float] = {"mlm": 1.0, "rtd": rtd_weight}

    def prepare(self, rows: Sequences, progress: float) -> Batch:
        masked = self.masker.apply(rows, progress)
        packed = pack(rows, masked.input_ids)
        sequence = rows.index[rows.sequence_ids[masked.places]]  # (M,)
        position = rows.positions[masked.places]  # (M,)
        uniform = draw.uniform(draw.Stream.SAMPLE, self.seed, rows.epoch, sequence, position)
        ordinary = np.flatnonzero(~rows.special)
        return Batch(
            packed=packed,
            counts={"mlm": len(masked.places), "rtd": len(ordinary)},
            rows=packed.layout.rows(torch.from_numpy(masked.places)),
            tensors={
                "original": torch.from_numpy(rows.ids),  # (T,)
                "targets": torch.from_numpy(masked.targets),  # (M,)
                "uniform": torch.from_numpy(np.minimum(uniform.astype(np.float32), BELOW_ONE)),  # (M,)
                "ordinary": torch.from_numpy(ordinary),  # (D,)
            },
        )

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, GeneratorAndDiscriminator)
        assert batch.rows is not None
        tensors, packed = batch.tensors, batch.packed
        hidden = module.generator.body(packed, rows=batch.rows).last  # (M, H of the generator)
        output = output_of(module.generator, "mlm", hidden)
        mlm, sampled = vocabulary_loss_and_samples(output, tensors["targets"], tensors["uniform"])
        corrupted = tensors["original"].index_copy(0, batch.rows.index, sampled)  # (T,)
        replaced = (corrupted != tensors["original"])[tensors["ordinary"]]  # (D,)
        seen = Packed(
            input_ids=corrupted,
            layout=packed.layout,
            segments=packed.segments,
            positions=packed.positions,
            tasks=packed.tasks,
        )
        logits = module.discriminator.logits(seen, "rtd").squeeze(1)[tensors["ordinary"]]  # (D,)
        return {"mlm": mlm, "rtd": detection_loss(logits, replaced)}


def detection_loss(logits: Tensor, replaced: Tensor) -> Loss:
    """Binary cross entropy of logits (D,) against whether each token was replaced (D,).

    Most tokens are original, so that being right on all tokens says little: `found` is the share of the replaced ones that
    were found.
    """
    said = logits > 0
    return Loss(
        sum=F.binary_cross_entropy_with_logits(logits.float(), replaced.float(), reduction="sum"),
        count=len(replaced),
        correct=(said == replaced).sum(),
        shares={"found": ((said & replaced).sum(), replaced.sum())},
    )
