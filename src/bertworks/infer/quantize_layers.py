"""Linear layers in int8: one byte per weight, one byte per activation, the sums in 32 bits.

    x = low + s codes                              codes from 0 to 255; `low` and s for each token (`quantize_kernels`)
    y = s s_w (codes Wᵀ) + low s_w ΣW + b          W integers from -64 to 64, s_w for each row of the matrix

Why 7 bits for the weights: processors with AVX2 but without VNNI add two products codes * W in 16 bits and *saturate*
(255 * 127 * 2 does not fit, 255 * 64 * 2 = 32,640 does). Activations have outliers and need their 8 bits more than the
weights do. Results are therefore the same on all processors. Scales for each token rather than for a batch: a text's
result does not depend on its neighbours, and one token's outlier does not coarsen the others (Dettmers et al. 2022).

The product itself is oneDNN's, through PyTorch; where a build of PyTorch lacks it, the same numbers come from a product of
floats, which is right but no faster than fp32. Norms, attention's own products, embeddings and heads stay in fp32: together
they are a small part of the time.

Legend: T tokens, K inputs, O outputs, I intermediate.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.errors import ModelError
from bertworks.infer.quantize_kernels import ERF, TANH, gelu_rows, quantize_rows, scale_rows
from bertworks.nn.activations import ACTIVATIONS
from bertworks.nn.blocks import FeedForward

Array = NDArray[np.float32]

WEIGHT_LIMIT = 64
"""The largest integer of a weight: with codes up to 255, two products still fit in 16 bits."""

CURVES = {ACTIVATIONS["gelu"]: ERF, ACTIVATIONS["gelu_new"]: TANH}
"""The activations that have a fused loop."""


def integer_weight(weight: Tensor, limit: int = WEIGHT_LIMIT) -> tuple[Tensor, Tensor]:
    """weight (O, K) float32 -> integers (O, K) int8 from -limit to limit, and the scale (O,) float32 of each row."""
    weight = weight.detach().float()
    scales = weight.abs().amax(dim=1).clamp_(min=1e-30) / limit
    return (weight / scales[:, None]).round_().to(torch.int8), scales


@cache
def has_fast_product() -> bool:
    """Whether this PyTorch multiplies bytes, and rightly: tried with the largest numbers that may occur."""
    codes = torch.full((3, 64), 255, dtype=torch.uint8)
    integers = torch.full((32, 64), WEIGHT_LIMIT, dtype=torch.int8)
    try:
        packed = torch.ops.onednn.qlinear_prepack(integers, None)
        found = _fast_product(codes, packed, torch.ones(32), torch.zeros(32, dtype=torch.int32))
    except (AttributeError, RuntimeError):  # this build has no such operator, or one of another form
        return False
    return bool((found == 255.0 * WEIGHT_LIMIT * 64).all())


def _fast_product(codes: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """codes (T, K) uint8 times integers, packed, times the scales (O,) of their rows, whose zeros are 0: (T, O) float32"""
    return torch.ops.onednn.qlinear_pointwise(
        codes, 1.0, 0, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


class Int8Linear(nn.Module):
    """`nn.Linear` in int8, for inference on a CPU. It has no parameters: there is nothing to train or to convert."""

    def __init__(self, integers: Tensor, scales: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.out_features, self.in_features = integers.shape
        self.integers = integers  # (O, K) int8
        self.scales = scales  # (O,)
        self.bias = bias  # (O,)
        # As arrays: the compiled loops take no tensors, and for a single sentence each conversion counts.
        self.arrays = ((integers.sum(dim=1, dtype=torch.int32) * scales).numpy(), bias.numpy())  # ΣW and b, each (O,)
        self.zeros = torch.zeros(len(scales), dtype=torch.int32)
        self.fast = has_fast_product()
        self.packed = torch.ops.onednn.qlinear_prepack(integers, None) if self.fast else integers.float().t()
        self._parts: dict[tuple[int, int], Int8Linear] = {}

    @classmethod
    def of(cls, linear: nn.Linear) -> Int8Linear:
        bias = torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach().float()
        return cls(*integer_weight(linear.weight), bias)

    def forward(self, x: Tensor) -> Tensor:
        """(T, K) -> (T, O)"""
        return self.from_codes(*to_codes(x))

    def from_codes(self, codes: Tensor, scales: Array, lows: Array) -> Tensor:
        """(T, K) uint8, (T,), (T,) -> (T, O)"""
        y = self.product(codes)
        scale_rows(y.numpy(), scales, lows, *self.arrays)
        return y

    def product(self, codes: Tensor) -> Tensor:
        """s_w (codes Wᵀ), before the scales of the tokens: (T, K) uint8 -> (T, O)"""
        if self.fast:
            return _fast_product(codes, self.packed, self.scales, self.zeros)
        return (codes.float() @ self.packed).mul_(self.scales)

    def columns(self, x: Tensor, start: int, stop: int) -> Tensor:
        """Outputs `start` to `stop` alone: (T, K) -> (T, stop - start)"""
        if (start, stop) not in self._parts:
            chosen = slice(start, stop)
            self._parts[start, stop] = Int8Linear(self.integers[chosen], self.scales[chosen], self.bias[chosen])
        return self._parts[start, stop](x)


def to_codes(x: Tensor) -> tuple[Tensor, Array, Array]:
    """x (T, K) -> codes (T, K) uint8, and the scale (T,) and the lowest value (T,) of each row"""
    if x.requires_grad and torch.is_grad_enabled():  # through the residual alone they would be wrong without a word
        raise ModelError("layers in int8 have no gradients; load the model with precision fp32")
    rows = x.detach().contiguous().numpy()
    codes = np.empty(rows.shape, np.uint8)
    scales, lows = np.empty((2, len(rows)), np.float32)
    quantize_rows(rows, codes, scales, lows)
    return torch.from_numpy(codes), scales, lows


class Int8FeedForward(nn.Module):
    """down(GELU(up(x))) with both products in int8: the wide intermediate is read and written as floats only once."""

    def __init__(self, up: Int8Linear, down: Int8Linear, curve: Any) -> None:
        super().__init__()
        self.up, self.down = up, down
        self.curve = curve

    def forward(self, x: Tensor) -> Tensor:
        """(T, K) -> (T, K)"""
        codes, scales, lows = to_codes(x)
        y = self.up.product(codes).numpy()  # (T, I)
        inner = np.empty(y.shape, np.uint8)
        gelu_rows(y, scales, lows, *self.up.arrays, self.curve, inner)
        return self.down.from_codes(torch.from_numpy(inner), scales, lows)


def fused(feed_forward: FeedForward) -> Int8FeedForward | None:
    """Both products and the activation in one, where both are int8 and the activation is GELU."""
    up, down = feed_forward.up, feed_forward.down
    curve = CURVES.get(feed_forward.activation)
    if feed_forward.gated or curve is None or not isinstance(up, Int8Linear) or not isinstance(down, Int8Linear):
        return None
    return Int8FeedForward(up, down, curve)
