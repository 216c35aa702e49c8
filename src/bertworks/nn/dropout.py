"""Dropout (Srivastava et al. 2014): in training each number is set to 0 with a probability, the others are scaled up.

On a CPU most of PyTorch's time for it goes into drawing one random float per number. Here 16 random bits decide, four
numbers per 64-bit draw, which takes less than half of the time; the probability is rounded to a multiple of 1/65,536, and
the scale with it, so that the mean stays what it is. Other devices have fast kernels of their own.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16


def drop(x: Tensor, prob: float) -> Tensor:
    """`x` with each number dropped with probability `prob`; the same seed drops the same numbers."""
    dropped = round(prob * LEVELS)
    if dropped == 0:
        return x
    if x.device.type != "cpu" or dropped == LEVELS:
        return F.dropout(x, prob)
    count = x.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[:count]
    kept = (bits >= dropped - LEVELS // 2).to(x.dtype)
    return x * kept.mul_(LEVELS / (LEVELS - dropped)).view(x.shape)


class Dropout(nn.Module):
    """The same as a module: it drops in training mode only."""

    def __init__(self, prob: float) -> None:
        super().__init__()
        self.prob = prob

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.prob) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.prob:g}"
