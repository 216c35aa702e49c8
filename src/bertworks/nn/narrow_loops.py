"""The compiled loops of `narrow`: bf16 rows in, fp32 in the cache, bf16 rows out. Each takes the rows from `first` to `end`.

A bf16 is the upper half of an fp32, so widening is a shift, and narrowing is a shift after rounding half to even. The loops
are written such that LLVM makes vector instructions of them: simple loops over a row that stays in the cache, and
no exponential of the C library. bf16 numbers come as their bits, int16. What is not a number must stay so: the comparisons
are written for it, and the compiler may reorder sums but not assume that all is finite.

Legend: as in `narrow`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bertworks.compiled import compile_loop

F = np.float32
FAST = {"reassoc", "contract", "nsz", "arcp"}

# gelu(z) = z (1/2 + z P(z²) / Q(z²)), of which the bracket is the normal distribution's Φ(z): the least largest error of
# gelu itself is 6e-6 for |z| <= 4.8. Its derivative, 1/2 + z R(z²) / S(z²), is off by 7e-7 for |z| <= 5.
GELU_LIMIT = F(4.8)
GELU = tuple(F(c) for c in (0.39890552, 0.028416157, 0.00378648075, 3.1478535e-05))
GELU_BELOW = tuple(F(c) for c in (0.23772079, 0.024211353, 0.0011264711))
SLOPE_LIMIT = F(5.0)
SLOPE = tuple(F(c) for c in (0.79788023, -0.026310489, 0.013194656, 0.00014535991, 2.2138776e-05))
SLOPE_BELOW = tuple(F(c) for c in (0.30031955, 0.041720998, 0.0033990222, 0.00019666858, 2.9225321e-06))

# 2**f for f from -1/2 to 1/2: its Taylor series, off by 3e-7
POWER = tuple(F(c) for c in (0.69314718, 0.24022651, 0.05550411, 0.00961813, 0.00133336, 0.00015403))
LOG2_E = F(1.44269504)
LOWEST_POWER = F(-126.0)

ROUND = np.int32(0x7FFF)
ONE = np.int32(1)
SHIFT = np.int32(16)
ALL_BUT_SIGN = np.int32(0x7FFFFFFF)


def _compiled(function: Any) -> Any:
    return compile_loop(function, nogil=True, fastmath=FAST, error_model="numpy")


# -- small parts, which LLVM puts where they are called ----------------------------------------------------------------


@_compiled
def rounded(b: Any) -> Any:
    """The bits of an fp32 as those of the nearest bf16."""
    return np.int16((b + ROUND + ((b >> SHIFT) & ONE)) >> SHIFT)


@_compiled
def normal(z: Any) -> Any:
    """Φ(z)"""
    p0, p1, p2, p3 = GELU
    q1, q2, q3 = GELU_BELOW
    inside = min(max(z, -GELU_LIMIT), GELU_LIMIT)
    s = inside * inside
    above = inside * (((p3 * s + p2) * s + p1) * s + p0)
    return F(0.5) + above / (((q3 * s + q2) * s + q1) * s + F(1.0))


@_compiled
def slope(z: Any) -> Any:
    """The derivative of gelu at z."""
    r0, r1, r2, r3, r4 = SLOPE
    s1, s2, s3, s4, s5 = SLOPE_BELOW
    inside = min(max(z, -SLOPE_LIMIT), SLOPE_LIMIT)
    s = inside * inside
    above = inside * ((((r4 * s + r3) * s + r2) * s + r1) * s + r0)
    return F(0.5) + above / (((((s5 * s + s4) * s + s3) * s + s2) * s + s1) * s + F(1.0))


# -- gated GELU --------------------------------------------------------------------------------------------------------


@_compiled
def gated_gelu_rows(first: int, end: int, x: Any, y: Any) -> None:
    """x (T, 2 I) -> y (T, I): gelu of the first half times the second."""
    size = y.shape[1]
    wide = np.empty(2 * size, np.float32)
    wide_bits = wide.view(np.int32)
    for t in range(first, end):
        for i in range(2 * size):
            wide_bits[i] = np.int32(x[t, i]) << SHIFT
        for i in range(size):
            wide[i] = wide[i] * normal(wide[i]) * wide[size + i]
        for i in range(size):
            y[t, i] = rounded(wide_bits[i])


@_compiled
def gated_gelu_backward_rows(first: int, end: int, x: Any, dy: Any, dx: Any) -> None:
    """x (T, 2 I) and the gradient dy (T, I) of what came out -> dx (T, 2 I)."""
    size = dy.shape[1]
    wide, change = np.empty(2 * size, np.float32), np.empty(size, np.float32)
    wide_bits, change_bits = wide.view(np.int32), change.view(np.int32)
    for t in range(first, end):
        for i in range(2 * size):
            wide_bits[i] = np.int32(x[t, i]) << SHIFT
        for i in range(size):
            change_bits[i] = np.int32(dy[t, i]) << SHIFT
        for i in range(size):
            z, gate = wide[i], wide[size + i]
            wide[i] = change[i] * gate * slope(z)
            wide[size + i] = change[i] * z * normal(z)
        for i in range(2 * size):
            dx[t, i] = rounded(wide_bits[i])


# -- queries, keys and values ------------------------------------------------------------------------------------------


@_compiled
def apart_rows(first: int, end: int, qkv: Any, queries: Any, keys: Any, values: Any, cos: Any, sin: Any) -> None:
    """qkv (T, 3, N, D) -> queries, keys and values, each (n, N, L, D); cos and sin (T, D / 2), or without rows."""
    heads, length, size = queries.shape[1:]
    half = size // 2
    old, new = np.empty(size, np.float32), np.empty(size, np.float32)
    old_bits, new_bits = old.view(np.int32), new.view(np.int32)
    for t in range(first, end):
        s, place = t // length, t % length
        for part in range(3):
            target = queries if part == 0 else keys if part == 1 else values
            if part == 2 or len(cos) == 0:
                for n in range(heads):
                    for i in range(size):
                        target[s, n, place, i] = qkv[t, part, n, i]
                continue
            for n in range(heads):
                for i in range(size):
                    old_bits[i] = np.int32(qkv[t, part, n, i]) << SHIFT
                for i in range(half):
                    new[i] = old[i] * cos[t, i] - old[half + i] * sin[t, i]
                    new[half + i] = old[half + i] * cos[t, i] + old[i] * sin[t, i]
                for i in range(size):
                    target[s, n, place, i] = rounded(new_bits[i])


@_compiled
def together_rows(first: int, end: int, qkv: Any, queries: Any, keys: Any, values: Any, cos: Any, sin: Any) -> None:
    """The gradients of queries, keys and values, each (n, N, L, D), turned back -> that of qkv (T, 3, N, D)."""
    heads, length, size = queries.shape[1:]
    half = size // 2
    old, new = np.empty(size, np.float32), np.empty(size, np.float32)
    old_bits, new_bits = old.view(np.int32), new.view(np.int32)
    for t in range(first, end):
        s, place = t // length, t % length
        for part in range(3):
            source = queries if part == 0 else keys if part == 1 else values
            if part == 2 or len(cos) == 0:
                for n in range(heads):
                    for i in range(size):
                        qkv[t, part, n, i] = source[s, n, place, i]
                continue
            for n in range(heads):
                for i in range(size):
                    old_bits[i] = np.int32(source[s, n, place, i]) << SHIFT
                for i in range(half):
                    new[i] = old[i] * cos[t, i] + old[half + i] * sin[t, i]
                    new[half + i] = old[half + i] * cos[t, i] - old[i] * sin[t, i]
                for i in range(size):
                    qkv[t, part, n, i] = rounded(new_bits[i])


# -- cross entropy -----------------------------------------------------------------------------------------------------


@_compiled
def softmax_error_rows(first: int, end: int, logits: Any, targets: Any, loss: Any, correct: Any) -> None:
    """Logits (C, V) -> softmax minus one-hot in their place, loss (C,), and whether the target was the first of the largest."""
    size = logits.shape[1]
    wide, powers = np.empty(size, np.float32), np.empty(size, np.float32)
    wide_bits, power_bits = wide.view(np.int32), powers.view(np.int32)
    c1, c2, c3, c4, c5, c6 = POWER
    one = np.empty(1, np.int32)
    one_float = one.view(np.float32)
    for t in range(first, end):
        target = targets[t]
        # As integers the bits have the order of the numbers, once those below zero are turned around.
        highest = np.int32(-(2**31))
        for i in range(size):
            b = np.int32(logits[t, i]) << SHIFT
            wide_bits[i] = b
            value = b ^ ((b >> 31) & ALL_BUT_SIGN)
            highest = value if value > highest else highest
        one[0] = highest ^ ((highest >> 31) & ALL_BUT_SIGN)
        top = one_float[0]
        wanted = wide[target]
        earlier = 0
        for i in range(target):
            earlier += wide[i] == top
        correct[t] = wanted == top and earlier == 0
        for i in range(size):  # exp(x - top) = 2**(whole + rest)
            x = (wide[i] - top) * LOG2_E
            x = LOWEST_POWER if x < LOWEST_POWER else x
            whole = np.int32(x - F(0.5))
            rest = x - F(whole)
            wide[i] = (((((c6 * rest + c5) * rest + c4) * rest + c3) * rest + c2) * rest + c1) * rest + F(1.0)
            power_bits[i] = (whole + np.int32(127)) << np.int32(23)
        total = F(0.0)
        for i in range(size):
            wide[i] *= powers[i]
            total += wide[i]
        loss[t] = np.log(total) + top - wanted
        inverse = F(1.0) / total
        for i in range(size):
            wide[i] *= inverse
        wide[target] -= F(1.0)
        for i in range(size):
            logits[t, i] = rounded(wide_bits[i])


# -- all of them -------------------------------------------------------------------------------------------------------


def compile_all() -> None:
    """Compile every loop for the arrays that it is called with, by a call without rows."""
    narrow, four = np.empty((0, 2), np.int16), np.empty((0, 1, 1, 2), np.int16)
    wide, truth = np.empty((0, 1), np.float32), np.empty(0, np.bool_)
    gated_gelu_rows(0, 0, narrow, narrow)
    gated_gelu_backward_rows(0, 0, narrow, narrow, narrow)
    apart_rows(0, 0, four, four, four, four, wide, wide)
    together_rows(0, 0, four, four, four, four, wide, wide)
    softmax_error_rows(0, 0, narrow, np.empty(0, np.int64), np.empty(0, np.float32), truth)
