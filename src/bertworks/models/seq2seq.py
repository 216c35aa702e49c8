"""The Transformer of 2017: an encoder stack, a causal decoder stack that looks at it, and an output tied to the target table.

Both stacks are `Transformer`s; what makes this a translator is only how they are joined   (Vaswani et al. 2017, figure 1).

Legend: Ts/Tt tokens in the packed source/target batch, H hidden, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.errors import ConfigError
from bertworks.models.config import TransformerConfig
from bertworks.models.transformer import Hidden, Memory, Transformer
from bertworks.nn.cache import KeyValueCache
from bertworks.nn.packed import Packed, Rows


@dataclass(frozen=True, kw_only=True)
class TargetIds:
    """The ids that begin, end and bound what a model writes."""

    start: int = 0
    """What a translator's target starts from; it is not part of the target. A language model starts from its prompt."""
    end: tuple[int, ...] = ()
    """What ends a target; none = it ends at its longest length alone."""
    first: int | None = None
    """What the first token of every target is, where that is settled."""
    last: int | None = None
    """What a target that reaches its longest length ends with, where that is settled."""
    forbidden: tuple[int, ...] = ()
    """What is never written."""


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig:
    """Two stacks of the same width; one vocabulary for both sides shares one table."""

    family: str = "bertworks"
    """Whose spelling the checkpoint has: `marian`, `bart`, or `bertworks` for our own."""
    encoder: TransformerConfig
    decoder: TransformerConfig
    shared_embeddings: bool = True
    output_bias: bool = True
    target: TargetIds = field(default_factory=TargetIds)
    pad_token_id: int = 0
    source: tuple[tuple[str, object], ...] = ()
    """Entries of the source's `config.json` that mean nothing to us and are written back as they were."""

    def __post_init__(self) -> None:
        if self.encoder.layer.hidden_size != self.decoder.layer.hidden_size:
            raise ConfigError(
                f"encoder and decoder must have the same hidden_size, got {self.encoder.layer.hidden_size} "
                f"and {self.decoder.layer.hidden_size}"
            )
        if not (self.decoder.causal and self.decoder.cross_attention):
            raise ConfigError("the decoder of an encoder-decoder must be causal and have cross_attention")
        if self.shared_embeddings and self.encoder.embeddings != self.decoder.embeddings:
            raise ConfigError("shared_embeddings needs the same embeddings configuration on both sides")


class EncoderDecoder(nn.Module):
    """Source batch -> memory -> logits over the target vocabulary."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Transformer(config.encoder)
        self.decoder = Transformer(config.decoder)
        if config.shared_embeddings:
            self.decoder.embeddings.tokens = self.encoder.embeddings.tokens
        self.output_bias = (
            nn.Parameter(torch.zeros(config.decoder.embeddings.vocab_size)) if config.output_bias else None
        )

    def encode(self, source: Packed) -> Memory:
        """The source read once; every decoding step looks at it."""
        return Memory(self.encoder(source).last, source.layout)

    def decode(
        self,
        target: Packed,
        memory: Memory | None,
        *,
        rows: Rows | None = None,
        cache: KeyValueCache | None = None,
        attentions: bool = False,
    ) -> Hidden:
        """The decoder's states for a target that is known so far; sequence i of `target` belongs to sequence i of `memory`.

        A `cache` has kept the memory of the first step; later ones need none.
        """
        return self.decoder(target, memory=memory, rows=rows, cache=cache, attentions=attentions)

    @property
    def output_weight(self) -> Tensor:
        """(V, H): the table of the target's token vectors."""
        return self.decoder.embeddings.tokens.weight

    def project(self, hidden: Tensor) -> Tensor:
        """(Tt, H) -> logits (Tt, V)"""
        return F.linear(hidden, self.output_weight, self.output_bias)

    def forward(self, source: Packed, target: Packed) -> Tensor:
        """Logits (Tt, V) for the token that follows each target position."""
        return self.project(self.decode(target, self.encode(source)).last)
