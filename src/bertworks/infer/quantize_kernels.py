"""Compiled loops around an int8 product: rows of numbers to 8-bit codes and back, and GELU in between.

Each row x (one token) has a scale and a lowest value of its own, so that what else is in a batch never matters:

    x = low + scale * code,  code = 0 … 255,  low = min x,  scale = (max x - min x) / 255

Not codes around zero: the activations of a trained encoder have a few large outliers, mostly on one side, and half of the
codes would be lost. After GELU, `low` is -0.1701 for every row, just below the smallest value of that function.

Each loop is written such that LLVM makes vector instructions of it: one simple loop per step over a row, which stays in the
cache, and extremes taken over the bits of the numbers (as integers they have the order of the floats, once those below
zero are turned around), since a maximum of floats is not vectorised.

Legend: T rows, K and I columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bertworks.compiled import compile_loop

F = np.float32
CODES = F(255.0)
ROUND = F(0.5)
TINY = F(1e-30)
ALL_BUT_SIGN = np.int32(0x7FFFFFFF)
LOWEST, HIGHEST = np.int32(-(2**31)), np.int32(2**31 - 1)
SHIFT = F(0.1701)
"""What is added to GELU's output, whose smallest value is -0.16997 (-0.17004 with the tanh), so that it is never negative."""

# 2 Φ(z) - 1 = z P(z²) / Q(z²) for |z| <= 4.8, fitted to the least largest error of GELU itself: 6e-6 with the error function
# and 1e-5 with the tanh, a thousandth of one code.
LIMIT = F(4.8)
ERF = np.array([0.79781103, 0.056832314, 0.0075729615, 6.295707e-05, 0.23772079, 0.024211353, 0.0011264711], F)
TANH = np.array([0.79796374, 0.051821213, 0.006748613, 5.42161e-05, 0.2327295, 0.021578792, 0.0009911931], F)


def compiled(function: Any) -> Any:
    """Without Python's lock, since batches run side by side; sums in any order."""
    return compile_loop(function, nogil=True, fastmath=True, error_model="numpy")


@compiled
def quantize_rows(x: Any, codes: Any, scales: Any, lows: Any) -> None:
    """x (T, K) float32 -> codes (T, K) uint8, scales (T,) and lows (T,) float32"""
    bits = x.view(np.int32)
    high_bits, low_bits = scales.view(np.int32), lows.view(np.int32)
    for t in range(x.shape[0]):
        highest, lowest = LOWEST, HIGHEST
        for i in range(x.shape[1]):
            value = np.int32(bits[t, i] ^ ((bits[t, i] >> 31) & ALL_BUT_SIGN))
            highest = value if value > highest else highest
            lowest = value if value < lowest else lowest
        high_bits[t] = highest ^ ((highest >> 31) & ALL_BUT_SIGN)  # the same turn takes the bits back
        low_bits[t] = lowest ^ ((lowest >> 31) & ALL_BUT_SIGN)
        low, extent = lows[t], scales[t] - lows[t]
        inverse = CODES / max(extent, TINY)
        scales[t] = extent / CODES
        for i in range(x.shape[1]):
            codes[t, i] = np.uint8(np.int32((x[t, i] - low) * inverse + ROUND))


@compiled
def scale_rows(y: Any, scales: Any, lows: Any, sums: Any, bias: Any) -> None:
    """y (T, O) -> y * scales + lows * sums + bias, in place; `sums` (O,) are those of the rows of the matrix."""
    for t in range(y.shape[0]):
        scale, low = scales[t], lows[t]
        for i in range(y.shape[1]):
            y[t, i] = y[t, i] * scale + (low * sums[i] + bias[i])


@compiled
def gelu_rows(y: Any, scales: Any, lows: Any, sums: Any, bias: Any, curve: Any, codes: Any) -> None:
    """`scale_rows`, GELU and `quantize_rows` in one: y is used up, `scales` and `lows` become those of the codes (T, I).

    `curve` is ERF or TANH.
    """
    p0, p1, p2, p3, q1, q2, q3 = curve[0], curve[1], curve[2], curve[3], curve[4], curve[5], curve[6]
    bits = y.view(np.int32)
    scale_bits = scales.view(np.int32)
    for t in range(y.shape[0]):
        scale, low = scales[t], lows[t]
        for i in range(y.shape[1]):
            z = y[t, i] * scale + (low * sums[i] + bias[i])
            inside = min(max(z, -LIMIT), LIMIT)
            square = inside * inside
            above = inside * (((p3 * square + p2) * square + p1) * square + p0)
            below = ((q3 * square + q2) * square + q1) * square + F(1.0)
            y[t, i] = F(0.5) * z * (F(1.0) + above / below) + SHIFT
        highest = np.int32(0)
        for i in range(y.shape[1]):
            value = bits[t, i]
            highest = value if value > highest else highest
        scale_bits[t] = highest
        inverse = CODES / max(scales[t], TINY)
        scales[t] = scales[t] / CODES
        lows[t] = -SHIFT
        for i in range(y.shape[1]):
            codes[t, i] = np.uint8(np.int32(y[t, i] * inverse + ROUND))
