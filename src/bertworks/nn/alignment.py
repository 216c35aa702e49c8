"""Attention of a recurrent decoder to its source: which source tokens matter for the next target token.

    additive   v · tanh(W q + U h)      Bahdanau, Cho & Bengio 2014, section 3.1
    general    q · (W h)                Luong, Pham & Manning 2015, equation 8

with q the decoder's state and h one of the encoder's. The scores of all source tokens become weights by a softmax, and the
context is the weighted sum of the encoder's states. What depends on h alone (U h, W h: the *keys*) is made once a sentence.

A decoder takes one step after the other, and a step's scores are one small product for all sentences; so the sources lie in a
rectangle here, unlike in a packed batch. What lies after a shorter source's end has the weight 0.

Legend: M sources, W queries that look at the same source (the beams of one sentence; 1 in training), S longest source,
Q query width, V width of the encoder's states, A width of the keys.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

KINDS = ("additive", "general")


class Alignment(nn.Module):
    """Scores of one of the two kinds, and the context that follows from them."""

    def __init__(self, kind: str, *, query_size: int, value_size: int, key_size: int) -> None:
        """`key_size` is the width of the additive kind's hidden layer; general keys are as wide as the queries."""
        super().__init__()
        self.kind = kind
        self.query: nn.Linear | None = None
        self.score: nn.Parameter | None = None
        if kind == "additive":
            self.query = nn.Linear(query_size, key_size, bias=False)
            self.score = nn.Parameter(torch.empty(key_size))
            nn.init.uniform_(self.score, -1.0 / math.sqrt(key_size), 1.0 / math.sqrt(key_size))
        self.key = nn.Linear(value_size, key_size if kind == "additive" else query_size, bias=kind == "additive")

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """queries (M, W, Q), keys (M, S, A), values (M, S, V), mask (M, 1, S) to be added to the scores
        -> context (M, W, V) and weights (M, W, S), each row of which sums to 1."""
        if self.query is not None and self.score is not None:
            hidden = (self.query(queries)[:, :, None] + keys[:, None]).tanh_()  # (M, W, S, A)
            scores = hidden @ self.score  # (M, W, S)
        else:
            scores = queries @ keys.transpose(1, 2)  # (M, W, S)
        weights = torch.softmax(scores if mask is None else scores + mask, dim=-1)
        return weights @ values, weights
