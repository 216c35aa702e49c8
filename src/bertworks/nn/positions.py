"""Positions: how a model that sees a set of tokens learns their order.

    learned      a vector per absolute place, added to the token           (BERT, GPT)
    sinusoidal   sin/cos of the place at geometric wavelengths, added      (Vaswani 2017, section 3.5)
    buckets      a number per head and (bucketed) distance, added to the scores   (T5, MPNet)
    keys         a vector per distance, scored against the query (and the key)    (Shaw 2018; old BERT configs)
    rotary       queries and keys turned by an angle that grows with the place    (Su 2021; ModernBERT)

Absolute kinds act on the embeddings, relative ones inside attention, so one of each may be combined (MPNet does).

Legend: T tokens in the packed batch, N heads, D head size, n sequences of a span, Lq/Lk its query/key lengths.
A *distance* is the key's place minus the query's, of shape (n or 1, Lq, Lk).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def sinusoids(num_positions: int, size: int, halves: bool = False) -> Tensor:
    """(num_positions, size): sine in the even columns, cosine in the odd ones, wavelengths 2π … 10000·2π.

    With `halves` the same columns in another order: all sines, then all cosines.
    """
    place = torch.arange(num_positions, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, size, 2, dtype=torch.float64) * (-math.log(10000.0) / size))  # (ceil(size/2),)
    table = torch.zeros(num_positions, size, dtype=torch.float64)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate[: size // 2])
    if halves:
        table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    return table.float()


class SinusoidalPositions(nn.Module):
    """A fixed table that grows when a longer text comes; nothing of it is stored in a checkpoint."""

    table: Tensor

    def __init__(self, *, num_positions: int, size: int, halves: bool = False) -> None:
        super().__init__()
        self.size = size
        self.halves = halves
        self.register_buffer("table", sinusoids(num_positions, size, halves), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """positions (T,) -> (T, size)"""
        if self.table.is_meta or (positions.numel() and int(positions.max()) >= len(self.table)):
            needed = max(int(positions.max()) + 1, 2 * len(self.table) if not self.table.is_meta else 0)
            dtype = torch.get_default_dtype() if self.table.is_meta else self.table.dtype
            self.table = sinusoids(needed, self.size, self.halves).to(positions.device, dtype)
        return self.table[positions]


class RelativeBuckets(nn.Module):
    """A learned number per head and bucket of distances, shared by all layers.

    Half of the buckets hold exact small distances, the other half grow logarithmically up to `max_distance`;
    the bidirectional form spends half of all buckets on keys that follow the query.
    """

    def __init__(self, *, num_buckets: int, max_distance: int, num_heads: int, bidirectional: bool) -> None:
        super().__init__()
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.weight = nn.Parameter(torch.zeros(num_buckets, num_heads))

    def bucket(self, distance: Tensor) -> Tensor:
        """Distances of any shape -> bucket numbers of the same shape."""
        num_buckets = self.num_buckets
        base = torch.zeros_like(distance)
        if self.bidirectional:
            num_buckets //= 2
            base = (distance > 0).long() * num_buckets
            away = distance.abs()
        else:
            away = (-distance).clamp(min=0)
        exact = num_buckets // 2
        grown = torch.log(away.float().clamp(min=1) / exact) / math.log(self.max_distance / exact)
        far = (exact + (grown * (num_buckets - exact)).long()).clamp(max=num_buckets - 1)
        return base + torch.where(away < exact, away, far)

    def forward(self, distance: Tensor) -> Tensor:
        """distance (n, Lq, Lk) -> scores to add (n, N, Lq, Lk)"""
        return self.weight[self.bucket(distance)].permute(0, 3, 1, 2)


class RelativeKeys(nn.Module):
    """A learned vector per distance, scored against the query and, with `with_keys`, against the key as well.

    In Hugging Face's old BERT configs these are the position embedding types `relative_key` and `relative_key_query`.
    """

    def __init__(self, *, max_positions: int, head_size: int, with_keys: bool) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.with_keys = with_keys
        self.weight = nn.Parameter(torch.zeros(2 * max_positions - 1, head_size))

    def forward(self, queries: Tensor, keys: Tensor, distance: Tensor) -> Tensor:
        """queries (n, N, Lq, D), keys (n, N, Lk, D), distance (n or 1, Lq, Lk) -> unscaled scores (n, N, Lq, Lk)"""
        limit = self.max_positions - 1
        vectors = self.weight[limit - distance.clamp(-limit, limit)]  # (n or 1, Lq, Lk, D); row 0 is the farthest key
        scores = torch.einsum("nhqd,nqkd->nhqk", queries, vectors.expand(len(queries), -1, -1, -1))
        if self.with_keys:
            scores = scores + torch.einsum("nhkd,nqkd->nhqk", keys, vectors.expand(len(keys), -1, -1, -1))
        return scores


def rotary_angles(positions: Tensor, *, head_size: int, theta: float) -> tuple[Tensor, Tensor]:
    """positions (T,) -> cosines and sines, each (T, 1, D/2), for `rotate`."""
    rate = 1.0 / theta ** (torch.arange(0, head_size, 2, device=positions.device, dtype=torch.float32) / head_size)
    angle = (positions.float()[:, None] * rate)[:, None]  # (T, 1, D/2)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair (x_i, x_{i+D/2}) of x (T, N, D) by its token's angle; narrow numbers by fp32 angles."""
    cos, sin = (angle.to(torch.promote_types(x.dtype, torch.float32)) for angle in angles)
    if torch.is_grad_enabled() and x.requires_grad:
        turned: Tensor = _Rotation.apply(x, cos, sin)
        return turned
    return _turn(x, cos, sin)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class _Rotation(torch.autograd.Function):
    """A rotation's gradient is the rotation back, which PyTorch cannot know: by itself it takes three times as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turn(gradient, cos, -sin), None, None
