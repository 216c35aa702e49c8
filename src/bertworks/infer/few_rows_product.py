"""x Wᵀ + b for a few rows x, compiled: what a matrix product costs when reading the weights takes as long as the arithmetic.

The libraries behind PyTorch lay out the weights anew in every call; with twenty rows that is most of their time. Here they are
laid out once, in *panels* of R outputs, in the order in which the loop reads them:

    panel p     W[R p, 0] … W[R p + R - 1, 0]   W[R p, 1] … W[R p + R - 1, 1]   …        K times two vectors

A *tile* of a few rows times one panel is held in registers while it runs over the K inputs, and meanwhile memory is asked for
the next panel. AVX2 has 16 registers of 8 floats, enough for 6 rows (12 vectors of sums, 2 of weights, 1 of inputs), AVX-512
has 32 of 16, enough for 12 rows. numba compiles loops over numbers and leaves the registers to chance, so the tile is written
as LLVM instructions. Each output is one sum from the first input to the last, whatever the tile and however many threads: a
row's result never depends on its neighbours.

Legend: T rows, K inputs, O outputs, R outputs of a panel (16 or 32), P = O / R panels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic
from numpy.typing import NDArray

intrinsic: Callable[[Any], Any] = numba_intrinsic  # whose types do not know that the first argument is numba's own

WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"
VECTOR = 16 if WIDE else 8
PANEL = 2 * VECTOR
TILE_ROWS = 12 if WIDE else 6

_FLOAT, _INT, _BYTE, _I32 = ir.FloatType(), ir.IntType(64), ir.IntType(8), ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, VECTOR)


def pack(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """weight (O, K) -> panels (P, K, R); O must be a multiple of R."""
    outputs, inputs = weight.shape
    return np.ascontiguousarray(weight.reshape(outputs // PANEL, PANEL, inputs).transpose(0, 2, 1))


def by_height(builder: Any, rows: Any, build: Callable[[int], None]) -> Any:
    """A tile of so many rows, 1 to TILE_ROWS: `build` makes the instructions for each height."""
    end = builder.append_basic_block("end")
    switch = builder.switch(rows, end)
    for height in range(1, TILE_ROWS + 1):
        block = builder.append_basic_block(f"rows_{height}")
        switch.add_case(ir.Constant(_INT, height), block)
        builder.position_at_end(block)
        build(height)
        builder.branch(end)
    builder.position_at_end(end)
    return ir.Constant(_BYTE.as_pointer(), None)  # numba's "nothing"


@intrinsic
def _tile(
    _: Any,
    rows: Any,
    x: Any,
    panel: Any,
    bias: Any,
    y: Any,
    ahead: Any,
    inputs: Any,
    x_step: Any,
    y_step: Any,
    ahead_step: Any,
) -> Any:
    """The number of rows, five addresses, then numbers of floats and, last, of bytes (see `_build`)."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return by_height(builder, arguments[0], lambda height: _build(builder, height, *arguments[1:]))

    return types.void(*[types.int64] * 10), build


def _build(
    builder: Any,
    rows: int,
    x: Any,
    panel: Any,
    bias: Any,
    y: Any,
    ahead: Any,
    inputs: Any,
    x_step: Any,
    y_step: Any,
    ahead_step: Any,
) -> None:
    """y[r, :R] = bias[:R] + Σ_k x[r, k] panel[k, :R] for each of the rows, which lie `x_step` and `y_step` floats apart.

    Meanwhile memory is asked for what lies at `ahead`, `ahead_step` bytes further on with each input.
    """

    def integer(value: int) -> Any:
        return ir.Constant(_INT, value)

    def place(base: Any, *offsets: Any) -> Any:
        return place_in(builder, base, *offsets)

    def vector_at(pointer: Any) -> Any:
        return builder.bitcast(pointer, _VECTOR.as_pointer())

    def load_vector(pointer: Any) -> Any:
        return builder.load(vector_at(pointer), align=4)

    x, panel, bias, y = (builder.inttoptr(address, _FLOAT.as_pointer()) for address in (x, panel, bias, y))
    multiply_add = function_of(builder, f"llvm.fma.v{VECTOR}f32", _VECTOR, [_VECTOR] * 3)
    prefetch = function_of(builder, "llvm.prefetch.p0", ir.VoidType(), [_BYTE.as_pointer(), _I32, _I32, _I32])
    parts = [integer(first) for first in range(0, PANEL, VECTOR)]
    start = [load_vector(place(bias, part)) for part in parts]
    x_rows = [place(x, builder.mul(x_step, integer(row))) for row in range(rows)]
    before, loop, after = builder.block, builder.append_basic_block("inputs"), builder.append_basic_block("done")
    builder.branch(loop)

    builder.position_at_end(loop)
    k = builder.phi(_INT)
    sums = [[builder.phi(_VECTOR) for _ in parts] for _ in range(rows)]
    weights = [load_vector(place(panel, builder.mul(k, integer(PANEL)), part)) for part in parts]
    soon = builder.inttoptr(builder.add(ahead, builder.mul(k, ahead_step)), _BYTE.as_pointer())
    to_read, into_l2, data = ir.Constant(_I32, 0), ir.Constant(_I32, 2), ir.Constant(_I32, 1)
    builder.call(prefetch, [soon, to_read, into_l2, data])
    nothing, first = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.VectorType(_I32, VECTOR), [0] * VECTOR)
    added = []
    for row in range(rows):
        one = builder.insert_element(nothing, builder.load(place(x_rows[row], k)), ir.Constant(_I32, 0))
        everywhere = builder.shuffle_vector(one, nothing, first)
        added.append([builder.call(multiply_add, [everywhere, *pair]) for pair in zip(weights, sums[row], strict=True)])
    following = builder.add(k, integer(1))
    k.add_incoming(integer(0), before)
    k.add_incoming(following, loop)
    for row_sums, row_added in zip(sums, added, strict=True):
        for sum_, from_, to in zip(row_sums, start, row_added, strict=True):
            sum_.add_incoming(from_, before)
            sum_.add_incoming(to, loop)
    builder.cbranch(builder.icmp_signed("<", following, inputs), loop, after)

    builder.position_at_end(after)
    for row, row_added in enumerate(added):
        for part, value in zip(parts, row_added, strict=True):
            builder.store(value, vector_at(place(y, builder.mul(y_step, integer(row)), part)), align=4)


def place_in(builder: Any, base: Any, *offsets: Any) -> Any:
    """`base` plus the offsets, in elements."""
    for offset in offsets:
        base = builder.gep(base, [offset])
    return base


def function_of(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """A function of LLVM's."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def compiled(function: Any) -> Any:
    """Without Python's lock, since batches run side by side; sums in any order, but nothing is taken for finite.

    Not kept on disk by itself: what calls it is (`few_rows_block.callback`), and would go on with an old one.
    """
    return njit(nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")(function)


@compiled
def multiply(
    x: int, panels: int, bias: int, y: int, rows: int, inputs: int, x_step: int, y_step: int, count: int
) -> None:
    """x (T, K) times `count` panels (K, R), plus bias -> y (T, R count): addresses, and how many floats apart rows lie.

    Addresses, not arrays: whether those lie in one piece is part of their type, and each type would be compiled anew.
    """
    tiles = max(1, -(-rows // TILE_ROWS))
    least, more = rows // tiles, rows % tiles  # tiles of nearly equal height: a low one leaves registers empty
    ahead_step = PANEL * 4 // tiles  # each tile asks for its share of the next panel, so that memory is never idle
    for number in range(count):
        panel, own_bias = panels + number * inputs * PANEL * 4, bias + number * PANEL * 4
        own_x, to, ahead = x, y + number * PANEL * 4, panel + inputs * PANEL * 4
        for tile in range(tiles):
            height = least + 1 if tile < more else least
            _tile(height, own_x, panel, own_bias, to, ahead, inputs, x_step, y_step, ahead_step)
            own_x += height * x_step * 4
            to += height * y_step * 4
            ahead += inputs * ahead_step
