"""Low-rank adapters (LoRA, Hu et al. 2021): the pretrained matrix W stays, and B A of low rank is learnt beside it.

    W' = W + (alpha / rank) B A        A (rank, in) random, B (out, rank) zero: the model begins as it was

Each adapter is a parametrisation of its linear layer, so that whatever reads the layer's weight (attention reads some
rows of it) sees W'. `merge` leaves W' in the layer's place: the finished model is an ordinary one, as fast as before.
Queries, keys and values are one stacked matrix here and share one A. Left out: dropout on the adapter's input.

What is saved are memory and optimiser state, not time: the gradient of W' is computed, and W' itself in each pass.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from bertworks.nn.attention import MultiHeadAttention
from bertworks.nn.blocks import Block, FeedForward

Targets = Literal["attention", "all"]


class LowRank(nn.Module):
    """W -> W + scale B A."""

    def __init__(self, weight: Tensor, *, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.scale = alpha / rank
        self.down = nn.Parameter(weight.new_empty(rank, columns))
        self.up = nn.Parameter(weight.new_zeros(rows, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        return torch.addmm(weight, self.up, self.down, alpha=self.scale)


def add_adapters(module: nn.Module, *, rank: int, alpha: float, targets: Targets) -> int:
    """Give the layers' matrices adapters and freeze everything else inside of the blocks; returns how many there are."""
    count = 0
    for block in [part for part in module.modules() if isinstance(part, Block)]:
        block.requires_grad_(False)
        for part in list(block.modules()):
            wanted = isinstance(part, MultiHeadAttention) or (isinstance(part, FeedForward) and targets == "all")
            for linear in [child for child in part.children() if isinstance(child, nn.Linear)] if wanted else ():
                adapter = LowRank(linear.weight, rank=rank, alpha=alpha)
                parametrize.register_parametrization(linear, "weight", adapter)
                count += 1
    return count


def merge(module: nn.Module) -> None:
    """Put W + scale B A in the place of each adapted matrix, and let every parameter learn again."""
    for part in [part for part in module.modules() if isinstance(part, nn.Linear)]:
        if parametrize.is_parametrized(part, "weight"):
            parametrize.remove_parametrizations(part, "weight", leave_parametrized=True)
    module.requires_grad_(True)
