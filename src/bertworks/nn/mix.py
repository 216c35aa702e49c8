"""A learned mixture of layers (Peters et al. 2018, "Deep contextualized word representations", equation 1):

    gamma * sum over l of s_l h_l          s = softmax of one number per layer, gamma a scale

The task decides how much of each layer it wants. At the start every layer counts the same. Left out: ELMo's optional
layer normalisation before the sum.

Legend: T tokens, H hidden, L layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertworks.errors import UsageError


class LayerMix(nn.Module):
    """One weight per layer, and a scale."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        if num_layers < 1:
            raise UsageError(f"num_layers is {num_layers}; it must be at least 1")
        self.scores = nn.Parameter(torch.zeros(num_layers))
        self.gamma = nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Tensor:
        """(L,): the layers' shares; they add up to 1."""
        return self.scores.softmax(dim=0)

    def forward(self, layers: Tensor) -> Tensor:
        """(L, T, H) -> (T, H)"""
        return self.gamma * torch.einsum("l,lth->th", self.weights.to(layers.dtype), layers)
