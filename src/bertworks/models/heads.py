"""Heads: what stands on the stack for one task. All of them are one shape with different values (`HeadConfig`):

    [read hidden states] -> [dense -> activation -> norm] -> dropout -> linear output

    masked LM, LM        every token (or the masked ones)    the output matrix is the token table (tied)
    tag, qa, rtd         every token                         a few numbers per token
    classify, regress,   the first token, the last, the mean, or the pooler's output
    choice, nsp, sop

Heads return logits; no head computes a loss. A `crf` beside the output scores neighbouring tags; whoever has the logits of
whole sequences asks it.

Legend: T tokens in the packed batch, R rows read, B sequences, H hidden, V vocabulary, C labels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.models.config import HeadConfig
from bertworks.nn.activations import ACTIVATIONS
from bertworks.nn.crf import LinearChainCRF
from bertworks.nn.dropout import Dropout


class Transform(nn.Module):
    """dense -> activation -> norm, the part of a head that has its own weights in every family."""

    def __init__(
        self,
        *,
        input_size: int,
        size: int,
        activation: str,
        norm: bool = False,
        bias: bool = True,
        eps: float = 1e-12,
        norm_bias: bool = True,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(input_size, size, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(size, eps=eps, bias=norm_bias) if norm else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(self.dense(x))
        return x if self.norm is None else self.norm(x)


class Head(nn.Module):
    """One task's output layer. A tied head owns only its bias; the matrix is passed in."""

    def __init__(self, config: HeadConfig, *, hidden_size: int) -> None:
        super().__init__()
        self.config = config
        self.transform: Transform | None = None
        size = hidden_size
        if config.transform_size is not None:
            size = config.transform_size
            self.transform = Transform(
                input_size=hidden_size,
                size=size,
                activation=config.transform_act,
                norm=config.transform_norm,
                bias=config.transform_bias,
                eps=config.norm_eps,
                norm_bias=config.norm_bias,
            )
        self.dropout = Dropout(config.dropout_prob)
        self.crf = LinearChainCRF(config.num_labels) if config.crf else None
        self.output: nn.Linear | None = None
        self.output_bias: nn.Parameter | None = None
        if not config.tied:
            self.output = nn.Linear(size, config.num_labels, bias=config.bias)
        elif config.bias:
            self.output_bias = nn.Parameter(torch.zeros(config.num_labels))

    def forward(self, hidden: Tensor, tied_weight: Tensor | None = None) -> Tensor:
        """hidden (R or B, H) -> logits (R or B, C or V)"""
        x = hidden if self.transform is None else self.transform(hidden)
        x = self.dropout(x)
        if self.output is not None:
            return self.output(x)
        if tied_weight is None:
            raise ValueError(f"the head {self.config.task!r} is tied to the token embeddings: pass their matrix")
        return F.linear(x, tied_weight, self.output_bias)
