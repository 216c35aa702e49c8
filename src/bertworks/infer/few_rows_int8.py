"""`few_rows_block` in int8: the same layer, whose four products are of bytes (`quantize_layers` has the formula).

The panels hold four inputs of an output side by side, since the processor adds four products of bytes at once:

    panel p     W[R p, 0 … 3]   W[R p + 1, 0 … 3]   …   W[R p + R - 1, 0 … 3]   W[R p, 4 … 7]   …        K / 4 times two vectors

VPMADDUBSW adds two products in 16 bits, which weights up to 64 keep from overflowing; VPMADDWD adds two such sums in 32. With
VNNI both are one instruction. The sums are the same integers.

Legend: T rows, K inputs, O outputs, R outputs of a panel, P = O / R panels, H hidden, I intermediate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numpy.typing import NDArray

from bertworks.infer.few_rows_block import (
    BLOCK,
    ROWS_AT_ONCE,
    F,
    add_and_normalise,
    attend,
    callback,
    carray,
    integers_at,
    matrix,
    panels_at_once,
    pointer_to,
    take,
    vector,
    wait,
)
from bertworks.infer.few_rows_product import (
    PANEL,
    TILE_ROWS,
    VECTOR,
    WIDE,
    by_height,
    compiled,
    function_of,
    intrinsic,
    place_in,
)
from bertworks.infer.quantize_kernels import ERF, gelu_rows, quantize_rows

GROUP = 4
"""Inputs that are multiplied at once."""
PRODUCTS, ADD_PAIRS = (
    ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512")
    if WIDE
    else ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd")
)
VNNI = WIDE and bool(get_host_cpu_features().get("avx512vnni"))

_I8, _I16, _I32, _I64, _FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_BYTES, _PAIRS, _SUMS = (ir.VectorType(_I8, 4 * VECTOR), ir.VectorType(_I16, 2 * VECTOR), ir.VectorType(_I32, VECTOR))
_FLOATS = ir.VectorType(_FLOAT, VECTOR)


def pack_bytes(weight: NDArray[np.int8]) -> NDArray[np.int8]:
    """weight (O, K) -> panels (P, K / 4, R, 4); O must be a multiple of R and K of 4."""
    outputs, inputs = weight.shape
    grouped = weight.reshape(outputs // PANEL, PANEL, inputs // GROUP, GROUP)
    return np.ascontiguousarray(grouped.transpose(0, 2, 1, 3))


@intrinsic
def _tile(
    _: Any,
    rows: Any,
    codes: Any,
    panel: Any,
    scales: Any,
    sums: Any,
    bias: Any,
    row_scales: Any,
    row_lows: Any,
    y: Any,
    groups: Any,
    y_step: Any,
) -> Any:
    """The number of rows, eight addresses, and two numbers (see `_build`)."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return by_height(builder, arguments[0], lambda height: _build(builder, height, *arguments[1:]))

    return types.void(*[types.int64] * 11), build


def _build(
    builder: Any,
    rows: int,
    codes: Any,
    panel: Any,
    scales: Any,
    sums: Any,
    bias: Any,
    row_scales: Any,
    row_lows: Any,
    y: Any,
    groups: Any,
    y_step: Any,
) -> None:
    """y[r, :R] = scale_r scales (codes_r panel) + low_r sums + bias for each of the rows."""

    def integer(value: int) -> Any:
        return ir.Constant(_I64, value)

    def place(base: Any, *offsets: Any) -> Any:
        return place_in(builder, base, *offsets)

    def load(pointer: Any, kind: Any) -> Any:
        return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1)

    def everywhere(value: Any, kind: Any) -> Any:
        nothing = ir.Constant(kind, ir.Undefined)
        one = builder.insert_element(nothing, value, ir.Constant(_I32, 0))
        return builder.shuffle_vector(one, nothing, ir.Constant(_SUMS, [0] * VECTOR))

    codes, panel = (builder.inttoptr(address, _I8.as_pointer()) for address in (codes, panel))
    addresses = (scales, sums, bias, row_scales, row_lows, y)
    scales, sums, bias, row_scales, row_lows, y = (builder.inttoptr(each, _FLOAT.as_pointer()) for each in addresses)

    def add_products(total: Any, inputs: Any, weights: Any) -> Any:
        if VNNI:
            four_products = function_of(builder, "llvm.x86.avx512.vpdpbusd.512", _SUMS, [_SUMS] * 3)
            return builder.call(four_products, [total, inputs, weights])
        products = function_of(builder, PRODUCTS, _PAIRS, [_BYTES, _BYTES])
        add_pairs = function_of(builder, ADD_PAIRS, _SUMS, [_PAIRS, _PAIRS])
        pairs = builder.call(products, [builder.bitcast(each, _BYTES) for each in (inputs, weights)])
        return builder.add(total, builder.call(add_pairs, [pairs, ir.Constant(_PAIRS, [1] * 2 * VECTOR)]))

    parts = range(0, PANEL, VECTOR)
    before, loop, after = builder.block, builder.append_basic_block("groups"), builder.append_basic_block("done")
    inputs = builder.mul(groups, integer(GROUP))
    rows_at = [place(codes, builder.mul(inputs, integer(row))) for row in range(rows)]
    builder.branch(loop)

    builder.position_at_end(loop)
    group = builder.phi(_I64)
    totals = [[builder.phi(_SUMS) for _ in parts] for _ in range(rows)]
    line = place(panel, builder.mul(group, integer(PANEL * GROUP)))
    weights = [load(place(line, integer(GROUP * part)), _SUMS) for part in parts]
    added = []
    for row in range(rows):
        four = load(place(rows_at[row], builder.mul(group, integer(GROUP))), _I32)
        inputs_of_row = everywhere(four, _SUMS)
        added.append(
            [add_products(total, inputs_of_row, each) for total, each in zip(totals[row], weights, strict=True)]
        )
    following = builder.add(group, integer(1))
    group.add_incoming(integer(0), before)
    group.add_incoming(following, loop)
    for row_totals, row_added in zip(totals, added, strict=True):
        for total, to in zip(row_totals, row_added, strict=True):
            total.add_incoming(ir.Constant(_SUMS, [0] * VECTOR), before)
            total.add_incoming(to, loop)
    builder.cbranch(builder.icmp_signed("<", following, groups), loop, after)

    builder.position_at_end(after)
    constants = [[load(place(base, integer(part)), _FLOATS) for base in (scales, sums, bias)] for part in parts]
    for row, row_added in enumerate(added):
        scale, low = (everywhere(builder.load(place(each, integer(row))), _FLOATS) for each in (row_scales, row_lows))
        for part, total, (by, sum_, shift) in zip(parts, row_added, constants, strict=True):
            scaled = builder.fmul(builder.fmul(builder.sitofp(total, _FLOATS), by), scale)
            value = builder.fadd(scaled, builder.fadd(builder.fmul(low, sum_), shift))
            to = builder.bitcast(place(y, builder.mul(y_step, integer(row)), integer(part)), _FLOATS.as_pointer())
            builder.store(value, to, align=4)


@compiled
def multiply_bytes(
    codes: int,
    row_scales: int,
    row_lows: int,
    panels: int,
    scales: int,
    sums: int,
    bias: int,
    y: int,
    rows: int,
    inputs: int,
    y_step: int,
    count: int,
) -> None:
    """codes (T, K) times `count` panels (K / 4, R, 4) -> y (T, R count), as addresses (see `few_rows_product.multiply`)."""
    groups = inputs // GROUP
    tiles = max(1, -(-rows // TILE_ROWS))
    least, more = rows // tiles, rows % tiles
    for number in range(count):
        panel, column = panels + number * inputs * PANEL, number * PANEL * 4
        s, w, b = scales + column, sums + column, bias + column
        x, to, rs, rl = codes, y + column, row_scales, row_lows
        for tile in range(tiles):
            height = least + 1 if tile < more else least
            _tile(height, x, panel, s, w, b, rs, rl, to, groups, y_step)
            x += height * inputs
            to += height * y_step * 4
            rs += height * 4
            rl += height * 4


# -- the steps ---------------------------------------------------------------------------------------------------------


_bytes_at = pointer_to(types.uint8)


@compiled
def _product(
    turn: int,
    threads: int,
    codes: Any,
    row_scales: Any,
    row_lows: Any,
    panels: int,
    bias: int,
    scales: int,
    sums: int,
    y: Any,
) -> None:
    """y = x Wᵀ + b of a layer in int8, whose parts are given by their addresses."""
    rows, inputs = codes.shape
    outputs = y.shape[1]
    x, by, low = codes.ctypes.data, row_scales.ctypes.data, row_lows.ctypes.data
    at_once = panels_at_once(outputs // PANEL, threads)
    while True:
        first = take(turn, at_once)
        if first >= outputs // PANEL:
            return
        count = min(at_once, outputs // PANEL - first)
        weights, column = panels + first * inputs * PANEL, first * PANEL * 4
        to = y.ctypes.data + column
        multiply_bytes(
            x, by, low, weights, scales + column, sums + column, bias + column, to, rows, inputs, outputs, count
        )


@compiled
def _quantize(turn: int, x: Any, codes: Any, row_scales: Any, row_lows: Any) -> None:
    """x (T, K) -> codes (T, K) and the scale and the lowest value of each row"""
    while True:
        first = take(turn, ROWS_AT_ONCE)
        if first >= len(x):
            return
        stop = min(first + ROWS_AT_ONCE, len(x))
        quantize_rows(x[first:stop], codes[first:stop], row_scales[first:stop], row_lows[first:stop])


@compiled
def _gelu_and_quantize(turn: int, y: Any, zeros: Any, codes: Any, row_scales: Any, row_lows: Any) -> None:
    """gelu(y) of y (T, I), which is used up -> codes (T, I) and the scale and the lowest value of each row"""
    while True:
        first = take(turn, ROWS_AT_ONCE)
        if first >= len(y):
            return
        stop = min(first + ROWS_AT_ONCE, len(y))
        for t in range(first, stop):
            row_scales[t], row_lows[t] = F(1.0), F(0.0)  # y has its scales already
        own = codes[first:stop]
        gelu_rows(y[first:stop], row_scales[first:stop], row_lows[first:stop], zeros, zeros, ERF, own)


@compiled
def _layer(plan: Any) -> None:
    """The eleven steps, with a barrier after each but the last."""
    rows, hidden, turn, barrier = plan.rows, plan.hidden, plan.turns, plan.barrier
    x, y, a = matrix(plan.x, rows, hidden), matrix(plan.y, rows, hidden), matrix(plan.a, rows, hidden)
    qkv, context = matrix(plan.qkv, rows, 3 * hidden), matrix(plan.context, rows, hidden)
    inner, result = matrix(plan.inner, rows, plan.inner_size), matrix(plan.result, rows, hidden)
    codes = carray(_bytes_at(plan.codes), (rows, hidden))
    inner_codes = carray(_bytes_at(plan.inner_codes), (rows, plan.inner_size))
    scales, lows = vector(plan.row_scales, rows), vector(plan.row_lows, rows)
    starts = carray(integers_at(plan.starts), (plan.sequences,))
    lengths = carray(integers_at(plan.lengths), (plan.sequences,))

    _quantize(turn, x, codes, scales, lows)
    wait(barrier)
    _product(
        turn + 8 * 1,
        plan.threads,
        codes,
        scales,
        lows,
        plan.qkv_panels,
        plan.qkv_bias,
        plan.qkv_scales,
        plan.qkv_sums,
        qkv,
    )
    wait(barrier)
    attend(turn + 8 * 3, qkv, starts, lengths, plan.heads, plan.scale, plan.space, plan.space_size, plan.zeros, context)
    wait(barrier)
    _quantize(turn + 8 * 4, context, codes, scales, lows)
    wait(barrier)
    _product(
        turn + 8 * 5,
        plan.threads,
        codes,
        scales,
        lows,
        plan.out_panels,
        plan.out_bias,
        plan.out_scales,
        plan.out_sums,
        y,
    )
    wait(barrier)
    gain, shift = vector(plan.attention_gain, hidden), vector(plan.attention_shift, hidden)
    add_and_normalise(turn + 8 * 6, x, y, gain, shift, plan.attention_eps, a)
    wait(barrier)
    _quantize(turn + 8 * 7, a, codes, scales, lows)
    wait(barrier)
    _product(
        turn + 8 * 8,
        plan.threads,
        codes,
        scales,
        lows,
        plan.up_panels,
        plan.up_bias,
        plan.up_scales,
        plan.up_sums,
        inner,
    )
    wait(barrier)
    _gelu_and_quantize(turn + 8 * 9, inner, vector(plan.zeros, plan.inner_size), inner_codes, scales, lows)
    wait(barrier)
    _product(
        turn + 8 * 10,
        plan.threads,
        inner_codes,
        scales,
        lows,
        plan.down_panels,
        plan.down_bias,
        plan.down_scales,
        plan.down_sums,
        y,
    )
    wait(barrier)
    gain, shift = vector(plan.feed_forward_gain, hidden), vector(plan.feed_forward_shift, hidden)
    add_and_normalise(turn + 8 * 11, a, y, gain, shift, plan.feed_forward_eps, result)


@callback(BLOCK)
def int8_stack_work(version: str) -> Any:
    """What each thread does for the layers of a stack."""

    def int8_stack_work(plan_at: Any) -> None:
        version  # noqa: B018
        layers = carray(plan_at, (1,))[0].layers
        plans = carray(plan_at, (layers,))
        for number in range(layers):
            _layer(plans[number])
            wait(plans[number].barrier)

    return int8_stack_work
