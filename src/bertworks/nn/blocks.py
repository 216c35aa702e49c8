"""The Transformer block: attention, then a feed-forward network, each wrapped in "add & normalise".

    post-norm (2017, BERT, GPT)        x = norm(x + f(x))
    pre-norm  (GPT-2, ModernBERT)      x = x + f(norm(x))

A decoder's block has cross-attention to the encoder's output in between.

Legend: T tokens in the packed batch, R rows asked for, H hidden, I intermediate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.nn import narrow
from bertworks.nn.activations import ACTIVATIONS, apply_in_place
from bertworks.nn.attention import MultiHeadAttention, Plan
from bertworks.nn.cache import LayerCache, MemoryLayer
from bertworks.nn.dropout import drop
from bertworks.nn.packed import Rows
from bertworks.nn.positions import RelativeKeys


class FeedForward(nn.Module):
    """down(g(up(x))), applied to each token alone; gated: down(g(a) * b) with a, b = up(x)   (Shazeer 2020)."""

    def __init__(
        self,
        *,
        hidden_size: int,
        intermediate_size: int,
        activation: str,
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.gated = gated
        self.dropout = dropout
        self.activation = ACTIVATIONS[activation]
        self.up = nn.Linear(hidden_size, intermediate_size * (2 if gated else 1), bias=bias)
        self.down = nn.Linear(intermediate_size, hidden_size, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(T, H) -> (T, H)"""
        x = self.up(x)  # (T, I), gated: (T, 2 I)
        if self.gated and self.activation is F.gelu and narrow.suits(x):
            x = narrow.gated_gelu(x)  # (T, I)
        elif self.gated:
            x, gate = x.chunk(2, dim=-1)
            x = self.activation(x) * gate  # (T, I)
        else:
            x = apply_in_place(self.activation, x)
        if self.training and self.dropout > 0.0:
            x = drop(x, self.dropout)
        return self.down(x)


@dataclass(frozen=True)
class Sight:
    """What a block's self-attention may see: the plan, and the rotary angles of queries and keys where there are any."""

    plan: Plan
    query_angles: tuple[Tensor, Tensor] | None = None
    key_angles: tuple[Tensor, Tensor] | None = None


class Block(nn.Module):
    """One layer of an encoder (no cross-attention) or of a decoder."""

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        activation: str,
        gated: bool = False,
        pre_norm: bool = False,
        skip_first_norm: bool = False,
        eps: float = 1e-12,
        bias: bool = True,
        norm_bias: bool = True,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        attention_output_dropout: float | None = None,
        feed_forward_dropout: float = 0.0,
        cross: bool = False,
        relative_keys: Callable[[], RelativeKeys | None] = lambda: None,
    ) -> None:
        super().__init__()

        def norm() -> nn.LayerNorm:
            return nn.LayerNorm(hidden_size, eps=eps, bias=norm_bias)

        self.pre_norm = pre_norm
        self.dropout = dropout
        self.attention_output_dropout = dropout if attention_output_dropout is None else attention_output_dropout
        self.attention = MultiHeadAttention(
            hidden_size=hidden_size,
            num_heads=num_heads,
            bias=bias,
            dropout=attention_dropout,
            relative_keys=relative_keys(),
        )
        # ModernBERT normalises its embeddings and therefore not again before the first attention.
        self.attention_norm = nn.Identity() if skip_first_norm else norm()
        if cross:
            self.cross_attention = MultiHeadAttention(
                hidden_size=hidden_size, num_heads=num_heads, bias=bias, dropout=attention_dropout, cross=True
            )
            self.cross_norm = norm()
        self.feed_forward = FeedForward(
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            activation=activation,
            gated=gated,
            bias=bias,
            dropout=feed_forward_dropout,
        )
        self.feed_forward_norm = norm()
        self.cross = cross

    def forward(
        self,
        x: Tensor,
        sight: Sight,
        *,
        rows: Rows | None = None,
        memory: Tensor | None = None,
        memory_plan: Plan | None = None,
        cache: LayerCache | None = None,
        cross_cache: MemoryLayer | None = None,
        weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """x (T, H) -> (T, H), or (R, H) at `rows`: all tokens are still attended to, the rest is not computed."""

        def attend(inputs: Tensor) -> Tensor:
            return self.attention(
                inputs,
                sight.plan,
                rows=rows,
                query_angles=sight.query_angles,
                key_angles=sight.key_angles,
                cache=cache,
                weights=weights,
            )

        residual = x if rows is None else rows.take(x)
        if self.pre_norm:
            x = self._add(residual, attend(self.attention_norm(x)), self.attention_output_dropout)
            if self.cross and memory_plan is not None:
                looked = self.cross_attention(
                    self.cross_norm(x), memory_plan, memory=memory, cache=cross_cache, weights=cross_weights
                )
                x = self._add(x, looked, self.attention_output_dropout)
            return self._add(x, self.feed_forward(self.feed_forward_norm(x)), self.dropout)
        x = self.attention_norm(self._add(residual, attend(x), self.attention_output_dropout))
        if self.cross and memory_plan is not None:
            looked = self.cross_attention(x, memory_plan, memory=memory, cache=cross_cache, weights=cross_weights)
            x = self.cross_norm(self._add(x, looked, self.attention_output_dropout))
        return self.feed_forward_norm(self._add(x, self.feed_forward(x), self.dropout))

    def _add(self, x: Tensor, change: Tensor, dropout: float) -> Tensor:
        """x + change; `change` is this block's own, so without gradients its memory is used again."""
        if self.training and dropout > 0.0:
            change = drop(change, dropout)
        reuse = (
            not torch.is_grad_enabled() and change.dtype == x.dtype
        )  # autocast makes changes narrower than the stream
        return change.add_(x) if reuse else x + change
