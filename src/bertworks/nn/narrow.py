"""Training in bf16 on a processor: what lies between the matrix products, each in one pass over its rows.

Where a processor multiplies bf16 itself, products are so quick that most of a step's time goes to what stands between
them, which PyTorch does one small operation after the other, each with a tensor of its own in slow memory. Here each of
these places is one compiled loop that reads its rows once, computes them in fp32 in the cache and writes bf16:

    `gated_gelu`     gelu(a) * b of a feed-forward network, and its gradient, for which only its input is remembered
    `heads_apart`    a projection (T, 3, N, D) to queries, keys and values (n, N, L, D), turned by their rotary angles
    `softmax_error`  logits to the cross entropy's gradient, in their own memory

With two threads, `modern` in the size 6x384x6 reads 7,500 tokens a second with them and 6,500 without. The loops
(`narrow_loops`) serve bf16 tensors on a processor in gated GELU, self-attention of all tokens and the plain cross entropy,
and are imported with the first one. Everything else goes PyTorch's way; the tests hold both equal.

Legend: T tokens, I intermediate, N heads, D head size, n sequences of a span, L their length, C rows of logits, V vocabulary.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertworks.nn.packed import Span

log = logging.getLogger(__name__)

MOST_THREADS = 64
FEW_NUMBERS = 2**17
"""With fewer for each, a further thread costs more than it takes over."""


def suits(x: Tensor) -> bool:
    """Whether the loops here are for this tensor."""
    return x.dtype == torch.bfloat16 and x.device.type == "cpu" and _loops() is not None


@cache
def _loops() -> Any:
    """The compiled loops; None where there is no compiler. numba takes long to import, and most never want it."""
    try:
        from numba import config

        from bertworks.nn import narrow_loops

        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return None
        narrow_loops.compile_all()  # here, where it can still be done without
        return narrow_loops
    except Exception as error:  # whatever a compiler may raise: PyTorch can do it all
        log.warning("bf16 on this processor goes without compiled loops: %s", error)
        return None


# -- rows among threads ------------------------------------------------------------------------------------------------


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_THREADS - 1, thread_name_prefix="narrow")


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _over_rows(loop: Callable[..., None], rows: int, columns: int, *arguments: Any) -> None:
    """`loop(first, end, *arguments)` for all rows, cut up among as many threads as PyTorch has; no row knows of another."""
    threads = max(1, min(torch.get_num_threads(), rows * columns // FEW_NUMBERS, rows, MOST_THREADS))
    bounds = [rows * i // threads for i in range(threads + 1)]
    others = [_pool().submit(loop, bounds[i], bounds[i + 1], *arguments) for i in range(1, threads)]
    loop(bounds[0], bounds[1], *arguments)
    for other in others:
        other.result()


def _bits(x: Tensor) -> Any:
    """A bf16 tensor's memory as int16."""
    return x.view(torch.int16).numpy()


# -- gated GELU --------------------------------------------------------------------------------------------------------


def gated_gelu(x: Tensor) -> Tensor:
    """x (T, 2 I) bf16, a beside b -> gelu(a) * b (T, I)"""
    result: Tensor = _GatedGelu.apply(x)
    return result


class _GatedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        y = x.new_empty(len(x), x.shape[1] // 2)
        _over_rows(_loops().gated_gelu_rows, *x.shape, _bits(x), _bits(y))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        result = torch.empty_like(x)
        loop = _loops().gated_gelu_backward_rows
        _over_rows(loop, *x.shape, _bits(x), _bits(gradient.contiguous()), _bits(result))
        return result


# -- queries, keys and values ------------------------------------------------------------------------------------------


def heads_apart(
    qkv: Tensor, spans: Sequence[Span], angles: tuple[Tensor, Tensor] | None
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """qkv (T, 3, N, D) bf16 -> for each span of a packed batch queries, keys and values, each (n, N, L, D).

    angles: cosines and sines (T, 1, D / 2), by which queries and keys are turned (see `positions.rotate`)
    """
    if angles is None:
        cos = sin = torch.empty(0, qkv.shape[-1] // 2, dtype=torch.float32)
    else:
        cos, sin = (angle.float().flatten(1).contiguous() for angle in angles)
    flat = _HeadsApart.apply(qkv, tuple(spans), cos, sin)
    return [(flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)]


class _HeadsApart(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, spans: tuple[Span, ...], cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        qkv = qkv.contiguous()
        ctx.spans, ctx.shape = spans, qkv.shape
        ctx.save_for_backward(cos, sin)
        made: list[Tensor] = []
        for span in spans:
            shape = (span.count, qkv.shape[2], span.key_length, qkv.shape[3])
            three = [qkv.new_empty(shape) for _ in range(3)]
            made += three
            _over_span(_loops().apart_rows, span, qkv, three, cos, sin)
        return tuple(made)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        result = gradients[0].new_empty(ctx.shape)
        if sum(span.count * span.key_length for span in ctx.spans) < len(result):
            result.zero_()  # sequences that nothing looked at
        for i, span in enumerate(ctx.spans):
            three = [gradient.contiguous() for gradient in gradients[3 * i : 3 * i + 3]]
            _over_span(_loops().together_rows, span, result, three, cos, sin)
        return result, None, None, None


def _over_span(loop: Any, span: Span, qkv: Tensor, three: list[Tensor], cos: Tensor, sin: Tensor) -> None:
    here = slice(span.key_start, span.key_start + span.count * span.key_length)
    part = qkv[here]
    _over_rows(loop, len(part), part[0].numel(), _bits(part), *map(_bits, three), cos[here].numpy(), sin[here].numpy())


# -- cross entropy -----------------------------------------------------------------------------------------------------


def softmax_error(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Cross entropy of bf16 logits (C, V) against targets (C,) int64, in fp32 -> loss (C,) and whether the target is the
    first of the largest logits (C,) bool. `logits` become their own gradient: softmax minus one-hot."""
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < logits.shape[1]:
        lowest, highest = int(targets.min()), int(targets.max())
        raise IndexError(f"targets from {lowest} to {highest} are not all among {logits.shape[1]} logits")
    loss = torch.empty(len(logits), dtype=torch.float32)
    correct = torch.empty(len(logits), dtype=torch.bool)
    loop = _loops().softmax_error_rows
    _over_rows(loop, *logits.shape, _bits(logits), targets.numpy(), loss.numpy(), correct.numpy())
    return loss, correct
