"""The layers of an encoder for a few rows, in one compiled call: seven steps each, shared among PyTorch's own threads.

    qkv = x Wqkvᵀ     context = softmax(q kᵀ / √D) v     y = context Woᵀ     a = norm(x + y)
    inner = gelu(a Wuᵀ)     y = inner Wdᵀ     result = norm(a + y)

As single operations of PyTorch the steps of one sentence take less time than starting them does. The threads are those of the
OpenMP library that PyTorch has brought, so no second set of threads fights with the first for the cores. They take the
pieces of a step (some panels, some rows, a head) by turns from a counter, so that one which was held up does less.

Legend: T rows, H hidden, I intermediate, N heads, D head size, B sequences, L tokens of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types

from bertworks.infer.few_rows_product import PANEL, VECTOR, compiled, intrinsic, multiply

F = np.float32
untyped: Any = numba
carray, cfunc, from_dtype = untyped.carray, untyped.cfunc, untyped.from_dtype

ROWS_AT_ONCE = 4
STEPS = 12
"""Counters of 8 bytes that a layer may need: 8 in fp32, 12 in int8; attention has two."""

# 2 Φ(z) - 1 = z P(z²) / Q(z²) for |z| <= 5.3, fitted to the least largest error of GELU, 1.2e-8 before rounding
LIMIT = F(5.3)
ABOVE = (F(0.79788423), F(0.06779408), F(0.009375484), F(3.4073976e-4), F(1.2936382e-5), F(4.677416e-8))
BELOW = (F(0.25163212), F(0.028691741), F(0.0018925029), F(7.47003e-5), F(1.22464e-6))

# exp(r) for |r| <= ln 2 / 2, and ln 2 in two parts whose first times a small integer is exact
LOG2E, LN2_HIGH, LN2_LOW = F(1.44269504), F(0.693359375), F(-2.12194440e-4)
LOWEST_EXPONENT = F(-87.0)
NOTHING = F(-1e30)


PRODUCT = np.dtype(
    [(name, np.int64) for name in ("turns", "threads", "x", "y", "rows", "panels", "bias", "inputs", "outputs")]
)
"""What one product needs: addresses and sizes."""

CALL = (
    *("layers", "turns", "threads", "barrier", "rows", "sequences", "starts", "lengths"),
    *("x", "qkv", "space", "space_size", "context", "y", "a", "inner", "result"),
    *("codes", "inner_codes", "row_scales", "row_lows"),  # int8 alone
)
LAYER = (
    *("hidden", "inner_size", "heads", "zeros"),
    *(f"{name}_{part}" for name in ("qkv", "out", "up", "down") for part in ("panels", "bias", "scales", "sums")),
    *(f"{name}_{part}" for name in ("attention", "feed_forward") for part in ("gain", "shift")),
)
NUMBERS = ("scale", "attention_eps", "feed_forward_eps")
BLOCK = np.dtype([*((name, np.int64) for name in CALL + LAYER), *((name, np.float32) for name in NUMBERS)], align=True)
"""What one layer needs: addresses and sizes that are different in each call, those that are the same, and three numbers.

`turns` are STEPS counters that start at 0; `barrier` is a function that waits for all threads; `zeros` are enough of them for
any bias; `space` is for attention's own (see `attention_space`). The records of a stack lie one after the other; `layers` says
how many."""


# -- what numba has no words for ---------------------------------------------------------------------------------------


def pointer_to(kind: Any) -> Any:
    """The instruction that takes an address for that of an array of `kind`."""

    @intrinsic
    def at(_: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), build

    return at


floats_at, integers_at = pointer_to(types.float32), pointer_to(types.int64)


@intrinsic
def take(_: Any, counter: Any, step: Any) -> Any:
    """The counter's value before `step` was added, which no other thread gets."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, arguments[1], "monotonic")

    return types.int64(types.int64, types.int64), build


@intrinsic
def _call(_: Any, address: Any) -> Any:
    """Call a function without arguments."""

    def build(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [])
        return context.get_dummy_value()

    return types.void(types.int64), build


@intrinsic
def _float_of_bits(_: Any, bits: Any) -> Any:
    return types.float32(types.int32), lambda _, builder, __, arguments: builder.bitcast(arguments[0], ir.FloatType())


# -- the steps ---------------------------------------------------------------------------------------------------------


@compiled
def matrix(address: int, rows: int, columns: int) -> Any:
    """The floats that lie there."""
    return carray(floats_at(address), (rows, columns))


@compiled
def vector(address: int, size: int) -> Any:
    """The floats that lie there."""
    return carray(floats_at(address), (size,))


@compiled
def _gelu(y: Any, first: int, stop: int) -> None:
    """Panels `first` to `stop` of y (T, O), in place; one panel at a time, so that it is always the same instructions."""
    for t in range(y.shape[0]):
        for panel in range(first, stop):
            row = y[t, panel * PANEL : panel * PANEL + PANEL]
            for i in range(PANEL):
                z = row[i]
                inside = min(max(z, -LIMIT), LIMIT)
                u = inside * inside
                above = ((((ABOVE[5] * u + ABOVE[4]) * u + ABOVE[3]) * u + ABOVE[2]) * u + ABOVE[1]) * u + ABOVE[0]
                below = ((((BELOW[4] * u + BELOW[3]) * u + BELOW[2]) * u + BELOW[1]) * u + BELOW[0]) * u + F(1.0)
                row[i] = F(0.5) * z * (F(1.0) + inside * above / below)


@compiled
def panels_at_once(count: int, threads: int) -> int:
    """Long runs, since each begins with panels that nothing has asked memory for; two a thread, since one may be held up."""
    return max(1, count // (2 * threads))


@compiled
def _product(turn: int, threads: int, x: Any, panels: int, bias: int, y: Any, gelu: bool) -> None:
    """y = x Wᵀ + b, and GELU of it where that is asked for; `panels` and `bias` are addresses."""
    inputs, outputs = x.shape[1], y.shape[1]
    count = outputs // PANEL
    at_once = panels_at_once(count, threads)
    while True:
        first = take(turn, at_once)
        if first >= count:
            return
        stop = min(first + at_once, count)
        weights, shifts, to = (
            panels + first * inputs * PANEL * 4,
            bias + first * PANEL * 4,
            y.ctypes.data + first * PANEL * 4,
        )
        multiply(x.ctypes.data, weights, shifts, to, len(x), inputs, inputs, outputs, stop - first)
        if gelu:
            _gelu(y, first, stop)


@compiled
def _exponential(x: Any) -> Any:
    """exp(x) for x <= 0, a few units in the last place from the truth."""
    x = max(x, LOWEST_EXPONENT)
    n = np.int32(x * LOG2E - F(0.5))  # towards zero, and so to the nearest
    whole = F(n)
    r = x - whole * LN2_HIGH - whole * LN2_LOW
    p = F(1.3888889e-3)
    p = p * r + F(8.3333333e-3)
    p = p * r + F(4.1666667e-2)
    p = p * r + F(0.16666667)
    p = p * r + F(0.5)
    p = p * r + F(1.0)
    p = p * r + F(1.0)
    return p * _float_of_bits(np.int32((n + np.int32(127)) << np.int32(23)))


@compiled
def _softmax(scores: Any, length: int) -> None:
    """Each row of scores (L, columns), in place: the columns from `length` on are filling and become nothing."""
    for i in range(scores.shape[0]):
        row = scores[i]
        highest = row[0]
        for j in range(length):
            highest = max(highest, row[j])
        for j in range(length, len(row)):
            row[j] = NOTHING
        total = F(0.0)
        for j in range(len(row)):
            row[j] = _exponential(row[j] - highest)
            total += row[j]
        for j in range(len(row)):
            row[j] /= total


def attention_space(longest: int, size: int) -> int:
    """How many floats each thread needs in `attend`: keys and values in panels, and the scores, of one head of the longest."""
    padded = -(-longest // PANEL) * PANEL
    return padded * size + longest * size + longest * padded


@compiled
def attend(
    turn: int,
    qkv: Any,
    starts: Any,
    lengths: Any,
    heads: int,
    scale: Any,
    space: int,
    space_size: int,
    zeros: int,
    context: Any,
) -> None:
    """Every head of every sequence by itself: qkv (T, 3 H) -> context (T, H). Both products are by panels, made here.

    Compiled code keeps no memory of its own: numba would free an array of which only the address is used.
    """
    hidden = context.shape[1]
    size = hidden // heads
    keys_at = space + take(turn - 8, 1) * space_size * 4  # each thread has a part of the space
    while True:
        item = take(turn, 1)
        if item >= len(starts) * heads:
            return
        start, length = starts[item // heads], lengths[item // heads]
        key_panels, value_panels = -(-length // PANEL), size // PANEL
        columns, column = key_panels * PANEL, item % heads * size
        values_at = keys_at + 4 * columns * size
        scores_at = values_at + 4 * length * size
        keys = carray(floats_at(keys_at), (key_panels, size, PANEL))
        values = carray(floats_at(values_at), (value_panels, length, PANEL))
        for j in range(length):
            row, panel = qkv[start + j, column:], keys[j // PANEL]
            key, value = row[hidden : hidden + size], row[2 * hidden : 2 * hidden + size]
            for d in range(size):
                panel[d, j % PANEL] = key[d] * scale
            for number in range(value_panels):
                for d in range(PANEL):
                    values[number, j, d] = value[number * PANEL + d]
        for j in range(length, columns):
            for d in range(size):
                keys[j // PANEL, d, j % PANEL] = F(0.0)
        queries = qkv.ctypes.data + (start * 3 * hidden + column) * 4
        multiply(queries, keys_at, zeros, scores_at, length, size, 3 * hidden, columns, key_panels)
        _softmax(matrix(scores_at, length, columns), length)
        to = context.ctypes.data + (start * hidden + column) * 4
        multiply(scores_at, values_at, zeros, to, length, length, columns, hidden, value_panels)


@compiled
def add_and_normalise(turn: int, x: Any, change: Any, gain: Any, shift: Any, eps: Any, result: Any) -> None:
    """result = norm(x + change), row by row; `change` is used up."""
    hidden = x.shape[1]
    while True:
        first = take(turn, ROWS_AT_ONCE)
        if first >= len(x):
            return
        for t in range(first, min(first + ROWS_AT_ONCE, len(x))):
            total = F(0.0)
            for i in range(hidden):
                change[t, i] += x[t, i]
                total += change[t, i]
            mean = total / F(hidden)
            squares = F(0.0)
            for i in range(hidden):
                difference = change[t, i] - mean
                squares += difference * difference
            factor = F(1.0) / np.sqrt(squares / F(hidden) + eps)
            for i in range(hidden):
                result[t, i] = (change[t, i] - mean) * factor * gain[i] + shift[i]


@compiled
def wait(barrier: int) -> None:
    """Until all threads are here; a lone thread has no barrier."""
    if barrier != 0:
        _call(barrier)


# -- what a thread does ------------------------------------------------------------------------------------------------


SOURCES = ("few_rows_product.py", "few_rows_block.py", "few_rows_int8.py", "quantize_kernels.py")


def callback(record: np.dtype[Any]) -> Callable[[Any], Any]:
    """A compiled function that C code can call with the address of one `record`; kept on disk where that is possible.

    numba looks at a function's own file to see whether what is on disk is old. Ours call functions of several, so their
    text is part of the key, with the width of the vectors: each gets its `version` from around it.
    """
    kind = types.void(types.CPointer(from_dtype(record)))
    texts = [(Path(__file__).parent / name).read_bytes() for name in SOURCES]
    version = f"{hashlib.sha256(b''.join(texts)).hexdigest()} {VECTOR}"

    def make(function_for: Any) -> Any:
        function = function_for(version)
        try:
            return cfunc(kind, cache=True)(function)
        except RuntimeError:  # numba found no directory that it can write to
            return cfunc(kind)(function)

    return make


@callback(PRODUCT)
def product_work(version: str) -> Any:
    """What each thread does for one product."""

    def product_work(plan_at: Any) -> None:
        version  # noqa: B018
        plan = carray(plan_at, (1,))[0]
        x, y = matrix(plan.x, plan.rows, plan.inputs), matrix(plan.y, plan.rows, plan.outputs)
        _product(plan.turns, plan.threads, x, plan.panels, plan.bias, y, False)

    return product_work


@compiled
def _layer(plan: Any) -> None:
    """The seven steps, with a barrier after each but the last."""
    rows, hidden, turn = plan.rows, plan.hidden, plan.turns
    x, y = matrix(plan.x, rows, hidden), matrix(plan.y, rows, hidden)
    qkv, context = matrix(plan.qkv, rows, 3 * hidden), matrix(plan.context, rows, hidden)
    a, inner, result = (
        matrix(plan.a, rows, hidden),
        matrix(plan.inner, rows, plan.inner_size),
        matrix(plan.result, rows, hidden),
    )
    starts = carray(integers_at(plan.starts), (plan.sequences,))
    lengths = carray(integers_at(plan.lengths), (plan.sequences,))

    _product(turn, plan.threads, x, plan.qkv_panels, plan.qkv_bias, qkv, False)
    wait(plan.barrier)
    attend(turn + 8 * 2, qkv, starts, lengths, plan.heads, plan.scale, plan.space, plan.space_size, plan.zeros, context)
    wait(plan.barrier)
    _product(turn + 8 * 3, plan.threads, context, plan.out_panels, plan.out_bias, y, False)
    wait(plan.barrier)
    gain, shift = vector(plan.attention_gain, hidden), vector(plan.attention_shift, hidden)
    add_and_normalise(turn + 8 * 4, x, y, gain, shift, plan.attention_eps, a)
    wait(plan.barrier)
    _product(turn + 8 * 5, plan.threads, a, plan.up_panels, plan.up_bias, inner, True)
    wait(plan.barrier)
    _product(turn + 8 * 6, plan.threads, inner, plan.down_panels, plan.down_bias, y, False)
    wait(plan.barrier)
    gain, shift = vector(plan.feed_forward_gain, hidden), vector(plan.feed_forward_shift, hidden)
    add_and_normalise(turn + 8 * 7, a, y, gain, shift, plan.feed_forward_eps, result)


@callback(BLOCK)
def stack_work(version: str) -> Any:
    """What each thread does for the layers of a stack."""

    def stack_work(plan_at: Any) -> None:
        version  # noqa: B018
        layers = carray(plan_at, (1,))[0].layers
        plans = carray(plan_at, (layers,))
        for number in range(layers):
            _layer(plans[number])
            wait(plans[number].barrier)

    return stack_work
