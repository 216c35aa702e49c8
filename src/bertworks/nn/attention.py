"""Multi-head attention over packed batches: softmax(Q Kᵀ / √D + bias) V   (Vaswani et al. 2017, section 3.2).

Two paths, proven equal by the tests:

    `attend_explicit`   the formula as it stands; returns the weights; also the faster one for short keys on CPU
    `attend_fused`      PyTorch's fused kernel; never forms the (Lq, Lk) matrix; for long keys and other devices

What may attend to what is a `Plan`, made once per forward pass and shared by all layers of the same kind: the dense spans
of the batch, and for each an additive bias (causal or local mask, bucketed relative positions) or None.

Legend: T tokens in the packed batch, H hidden, N heads, D head size, n sequences of a span, Lq/Lk its query/key lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.nn import narrow
from bertworks.nn.cache import LayerCache, MemoryLayer
from bertworks.nn.dropout import drop
from bertworks.nn.packed import Layout, Rows, Span, spans
from bertworks.nn.positions import RelativeBuckets, RelativeKeys, rotate

# Below this key length a batched matrix product beats PyTorch's fused CPU kernel (1.2 to 5 times at 8 to 64 tokens);
# from here on the fused one wins. Measured with 12 heads of 32 on two AVX2 cores.
EXPLICIT_BELOW = 96
# The same for narrow numbers (bf16), on a processor that multiplies them itself: there the products are so quick that
# with the backward pass the explicit way is 3.5 times as fast at 128 keys and 1.25 times at 512.
EXPLICIT_BELOW_NARROW = 768


@cache
def multiplies_bf16() -> bool:
    """Whether this processor has instructions for products in bf16."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def attend_explicit(
    queries: Tensor, keys: Tensor, values: Tensor, *, scale: float, bias: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """queries (n, N, Lq, D), keys and values (n, N, Lk, D), bias broadcastable to (n, N, Lq, Lk)
    -> context (n, N, Lq, D) and weights (n, N, Lq, Lk), each row of which sums to 1."""
    n, heads = queries.shape[:2]
    # One batch dimension and the scale inside the product: torch.matmul would do the same copies and one pass more.
    flat = [states.flatten(0, 1) for states in (queries, keys, values)]  # each (n N, L, D)
    nothing = queries.new_empty(1, 1, 1)
    scores = torch.baddbmm(nothing, flat[0], flat[1].transpose(1, 2), beta=0, alpha=scale)  # (n N, Lq, Lk)
    scores = scores.view(n, heads, *scores.shape[1:])
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    weights = torch.softmax(scores, dim=-1)  # (n, N, Lq, Lk)
    context = torch.bmm(drop(weights, dropout).flatten(0, 1), flat[2])
    return context.view(n, heads, *context.shape[1:]), weights


def attend_fused(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """The same context through `scaled_dot_product_attention`; `causal` is the plain triangle, without a bias tensor."""
    if bias is not None:  # the kernel wants a full last two dimensions and the queries' type
        bias = bias.to(queries.dtype).expand(-1, -1, queries.shape[2], keys.shape[2])
    return F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=bias, dropout_p=dropout, is_causal=causal and bias is None, scale=scale
    )


@dataclass(frozen=True)
class Plan:
    """The dense problems of one kind of attention: `spans[i]` with `biases[i]` and, where asked for, `distances[i]`."""

    spans: tuple[Span, ...]
    biases: tuple[Tensor | None, ...]  # each (n or 1, N or 1, Lq, Lk), to be added to the scaled scores
    distances: tuple[Tensor | None, ...]  # each (n or 1, Lq, Lk) int64: key place minus query place
    causal: tuple[bool, ...]  # whether the bias is nothing but the causal triangle


def make_plan(
    queries: Layout,
    keys: Layout,
    *,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    buckets: RelativeBuckets | None = None,
    with_distances: bool = False,
    device: torch.device | str = "cpu",
) -> Plan:
    """Decide once what each span's scores get added.

    Positions default to 0, 1, 2 … per sequence. `window` lets a query see keys at most that many places away.
    """
    problems = spans(queries, keys)
    biases: list[Tensor | None] = []
    distances: list[Tensor | None] = []
    triangles: list[bool] = []
    for span in problems:
        placed = query_positions is not None or key_positions is not None
        needs_mask = causal or (window is not None and (placed or span.key_length > window))
        if not (needs_mask or buckets is not None or with_distances):
            biases.append(None)
            distances.append(None)
            triangles.append(False)
            continue
        plain = not placed and span.query_length == span.key_length
        distance = _distance(span, query_positions, key_positions, device)  # (n or 1, Lq, Lk)
        bias = None
        if buckets is not None:
            bias = buckets(distance)
        triangle = causal and bias is None and plain and (window is None or span.key_length <= window + 1)
        if needs_mask:
            hidden = torch.zeros_like(distance, dtype=torch.bool)
            if causal:
                hidden |= distance > 0
            if window is not None:
                hidden |= distance.abs() > window
            mask = torch.zeros(hidden.shape, device=device).masked_fill_(hidden, -torch.inf)[:, None]  # (., 1, Lq, Lk)
            bias = mask if bias is None else bias + mask
        biases.append(bias)
        distances.append(distance if with_distances else None)
        triangles.append(triangle)
    return Plan(problems, tuple(biases), tuple(distances), tuple(triangles))


def _distance(
    span: Span, query_positions: Tensor | None, key_positions: Tensor | None, device: torch.device | str
) -> Tensor:
    """(n or 1, Lq, Lk): with default positions all sequences of a span agree, and one matrix serves them."""

    def places(positions: Tensor | None, start: int, length: int) -> Tensor:
        if positions is None:
            return torch.arange(length, device=device)[None]
        return positions[start : start + span.count * length].view(span.count, length)

    query_places = places(query_positions, span.query_start, span.query_length)
    key_places = places(key_positions, span.key_start, span.key_length)
    return key_places[:, None, :] - query_places[:, :, None]


class MultiHeadAttention(nn.Module):
    """Attention of a packed batch to itself, or to another one (`cross=True`), in N heads.

    Query, key and value projections are one matrix (`qkv`; `query` and `key_value` for cross-attention): one large matrix
    product is faster than three.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        cross: bool = False,
        relative_keys: RelativeKeys | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.scale = 1.0 / math.sqrt(self.head_size)
        self.dropout = dropout
        self.cross = cross
        if cross:
            self.query = nn.Linear(hidden_size, hidden_size, bias=bias)
            self.key_value = nn.Linear(hidden_size, 2 * hidden_size, bias=bias)
        else:
            self.qkv = nn.Linear(hidden_size, 3 * hidden_size, bias=bias)
        self.relative = relative_keys
        self.out = nn.Linear(hidden_size, hidden_size, bias=bias)

    def forward(
        self,
        x: Tensor,
        plan: Plan,
        *,
        rows: Rows | None = None,
        memory: Tensor | None = None,
        query_angles: tuple[Tensor, Tensor] | None = None,
        key_angles: tuple[Tensor, Tensor] | None = None,
        cache: LayerCache | MemoryLayer | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """x (Tq, H) -> (Tq, H), or (R, H) at `rows` only.

        `memory` (Tk, H) is what cross-attention looks at. The angles turn queries and keys for rotary positions. `cache`
        holds the keys and values of earlier steps, or of the memory. A list passed as `weights` receives one
        (n, N, Lq, Lk) tensor per span.
        """
        qkv: Tensor | None = None
        if not self.cross and rows is None:
            qkv = self.qkv(x).view(len(x), 3, self.num_heads, self.head_size)
        one_pass = cache is None and query_angles is key_angles and plan.spans and self.head_size % 2 == 0
        if qkv is not None and one_pass and narrow.suits(qkv):
            dense = narrow.heads_apart(qkv, plan.spans, key_angles)
            return self.out(self._attend_all(dense, plan, weights).flatten(1))
        # (Tq or R, N, D), (Tk, N, D), (Tk, N, D)
        queries, keys, values = self._project(x, rows, memory, cache) if qkv is None else qkv.unbind(1)
        if query_angles is not None:
            queries = rotate(queries, query_angles)
        if key_angles is not None:
            keys = rotate(keys, key_angles)
        if isinstance(cache, LayerCache):
            keys, values = cache.extend(keys, values)
        if keys.dim() == 4:  # out of a cache: one dense problem
            (span,) = plan.spans
            dense_queries = queries.view(span.count, span.query_length, self.num_heads, self.head_size).transpose(1, 2)
            return self.out(self._attend_all([(dense_queries, keys, values)], plan, weights).flatten(1))
        query_places = [(span.query_start, span.count, span.query_length) for span in plan.spans]
        key_places = [(span.key_start, span.count, span.key_length) for span in plan.spans]
        states = (_dense(queries, query_places), _dense(keys, key_places), _dense(values, key_places))
        context = self._attend_all(list(zip(*states, strict=True)), plan, weights) if plan.spans else queries
        return self.out(context.reshape(len(queries), self.num_heads * self.head_size))

    def _attend_all(
        self, dense: list[tuple[Tensor, Tensor, Tensor]], plan: Plan, weights: list[Tensor] | None
    ) -> Tensor:
        """Queries, keys and values of each span -> the flat context (Tq or R, N, D)"""
        extras = zip(plan.biases, plan.distances, plan.causal, strict=True)
        contexts = [
            self._attend(*states, bias, distance, causal, weights)
            for states, (bias, distance, causal) in zip(dense, extras, strict=True)
        ]
        return contexts[0] if len(contexts) == 1 else torch.cat(contexts)

    def _project(
        self, x: Tensor, rows: Rows | None, memory: Tensor | None, cache: LayerCache | MemoryLayer | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        heads = (self.num_heads, self.head_size)
        if self.cross:
            queries = self.query(x if rows is None else rows.take(x)).unflatten(-1, heads)
            if isinstance(cache, MemoryLayer) and cache.keys is not None and cache.values is not None:
                return queries, cache.keys, cache.values
            if memory is None:
                raise ValueError("cross-attention needs `memory`")
            both = self.key_value(memory).unflatten(-1, (2, *heads))  # (Tk, 2, N, D)
            if isinstance(cache, MemoryLayer):
                cache.keep(both)
            keys, values = both.unbind(1)
            return queries, keys, values
        assert rows is not None  # for all tokens it is one product
        size = self.num_heads * self.head_size  # the first third of the matrix makes queries, the rest keys and values
        queries = _columns(self.qkv, rows.take(x), 0, size)
        both = _columns(self.qkv, x, size, 3 * size)
        keys, values = both.unflatten(-1, (2, *heads)).unbind(1)
        return queries.unflatten(-1, heads), keys, values

    def _attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        distance: Tensor | None,
        causal: bool,
        weights: list[Tensor] | None,
    ) -> Tensor:
        """(n, N, Lq, D) and (n, N, Lk, D) twice -> the span's piece of the flat context, (n * Lq, N, D)."""
        if self.relative is not None and distance is not None:
            scores = self.relative(queries, keys, distance) * self.scale
            bias = scores if bias is None else bias + scores
            causal = False
        dropout = self.dropout if self.training else 0.0
        # With dropout there is no fused CPU kernel: PyTorch would do the same products with a slower dropout.
        quick = queries.dtype == torch.bfloat16 and multiplies_bf16()
        below = EXPLICIT_BELOW_NARROW if quick else EXPLICIT_BELOW
        explicit = queries.device.type == "cpu" and (keys.shape[2] < below or dropout > 0.0)
        if weights is not None or explicit:
            context, probabilities = attend_explicit(
                queries, keys, values, scale=self.scale, bias=bias, dropout=dropout
            )
            if weights is not None:
                weights.append(probabilities)
        else:
            context = attend_fused(
                queries,
                keys,
                values,
                scale=self.scale,
                bias=None if causal else bias,
                causal=causal,
                dropout=dropout,
            )
        return context.transpose(1, 2).reshape(-1, self.num_heads, self.head_size)


def _columns(linear: Any, x: Tensor, start: int, stop: int) -> Tensor:
    """Some outputs of a linear layer; one that is no matrix of floats (int8) has its own way."""
    if not isinstance(linear, nn.Linear):
        return linear.columns(x, start, stop)
    bias = linear.bias
    return F.linear(x, linear.weight[start:stop], None if bias is None else bias[start:stop])


def _dense(flat: Tensor, places: Sequence[tuple[int, int, int]]) -> list[Tensor]:
    """The pieces of a flat (T, N, D) tensor at (start, count, length), in ascending order, each as (n, N, L, D).

    Views, no copies. The tensor is split once, not sliced piece by piece: the gradient of a slice is as large as the
    whole, that of a split is its pieces joined.
    """
    sizes, wanted, end = [], [], 0
    for start, count, length in places:
        if start > end:  # sequences without queries
            sizes.append(start - end)
        wanted.append(len(sizes))
        sizes.append(count * length)
        end = start + count * length
    if end < len(flat):
        sizes.append(len(flat) - end)
    pieces = flat.split(sizes) if len(sizes) > 1 else [flat]
    return [
        pieces[number].view(count, length, *flat.shape[1:]).transpose(1, 2)
        for number, (_, count, length) in zip(wanted, places, strict=True)
    ]
