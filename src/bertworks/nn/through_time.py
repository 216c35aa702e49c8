"""Backpropagation through time, written out: one direction of a recurrent layer over time-major rows.

PyTorch's own kernels are quick without gradients. With them, and on a CPU, every step is a dozen small operations of its own
for the backward pass, each of which may write the whole batch. Here the two passes are written by hand: a step is one
matrix product and a few elementwise operations in buffers that are there already; what does not depend on the step before is
computed for all steps at once; the gradient of the weights is one product at the end.

    forward     gates of step t  =  input's part, all steps at once  +  h_{t-1} W^T
    backward    d state_t        =  d output_t + what step t + 1 sent back
                d gates_t        =  d state_t * the derivatives, all steps at once before the loop
                sent back        =  d gates_t W
                d W              =  (d gates)^T (h before), all steps in one product

The equations are in `bertworks.nn.recurrent`, which calls these for what is trained on a CPU, and for what no kernel can
(clipping). Gradients of gradients are left out.

Legend: T rows of all steps, S steps, B sequences, n sequences running at a step (the first n, since the longest come first),
H hidden width, P width of the output (the projection's where there is one, else H).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Steps:
    """The order in which steps are taken: their sizes, from the first to the last, or backwards where `reverse`."""

    sizes: tuple[int, ...]  # S numbers, never growing
    reverse: bool = False

    def forward(self, *buffers: Tensor) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
        """The size of each step, and its rows of every buffer (T, …), as the layer reads them."""
        return self._over(buffers, backwards=self.reverse)

    def backward(self, *buffers: Tensor) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
        """The same, the other way round."""
        return self._over(buffers, backwards=not self.reverse)

    def masks(self, mask: Tensor | None, *, back: bool = False) -> Iterator[Tensor | None]:
        """The rows of a mask (T, …) step by step, as `forward` or, with `back`, `backward` goes; Nones for none."""
        if mask is None:
            return iter([None] * len(self.sizes))
        return (rows for _, (rows,) in (self.backward(mask) if back else self.forward(mask)))

    def _over(self, buffers: Sequence[Tensor], *, backwards: bool) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
        rows = list(zip(self.sizes, zip(*(buffer.split(self.sizes) for buffer in buffers), strict=True), strict=True))
        return iter(reversed(rows) if backwards else rows)


def rnn(from_input: Tensor, weight: Tensor, hidden: Tensor, steps: Steps, *, relu: bool) -> tuple[Tensor, Tensor]:
    """A simple RNN.

    from_input: (T, H), what the input and the biases add to each step; weight: (H, H); hidden: (B, H), before the first step
    Returns the outputs (T, H) and the last hidden states (B, H).
    """
    from_input, hidden = (tensor.to(weight.dtype) for tensor in (from_input, hidden))  # narrow ones come from autocast
    result: tuple[Tensor, Tensor] = _RNN.apply(from_input, weight, hidden, steps, relu)
    return result


def gru(from_input: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, steps: Steps) -> tuple[Tensor, Tensor]:
    """A GRU: as `rnn`, with `from_input` (T, 3 H), `weight` (3 H, H) and the state's own `bias` (3 H,)."""
    from_input, hidden = (tensor.to(weight.dtype) for tensor in (from_input, hidden))
    result: tuple[Tensor, Tensor] = _GRU.apply(from_input, weight, bias, hidden, steps)
    return result


def lstm(
    from_input: Tensor,
    weight: Tensor,
    projection: Tensor | None,
    hidden: Tensor,
    cell: Tensor,
    steps: Steps,
    *,
    cell_clip: float | None = None,
    projection_clip: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """An LSTM: as `rnn`, with `from_input` (T, 4 H), `weight` (4 H, P), a `projection` (P, H) or none, `hidden` (B, P) and
    `cell` (B, H); the last cells (B, H) are returned, too."""
    from_input, hidden, cell = (tensor.to(weight.dtype) for tensor in (from_input, hidden, cell))
    result: tuple[Tensor, Tensor, Tensor] = _LSTM.apply(
        from_input, weight, projection, hidden, cell, steps, cell_clip, projection_clip
    )
    return result


class _RNN(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, from_input: Tensor, weight: Tensor, hidden: Tensor, steps: Steps, relu: bool
    ) -> tuple[Tensor, Tensor]:
        outputs, hidden = from_input.clone(), hidden.clone()
        before = torch.empty_like(outputs)
        matrix = weight.t()
        for count, (output, start) in steps.forward(outputs, before):
            state = hidden[:count]
            start.copy_(state)
            output.addmm_(start, matrix)
            if relu:
                output.relu_()
            else:
                output.tanh_()
            state.copy_(output)
        ctx.save_for_backward(outputs, before, weight)
        ctx.steps, ctx.relu = steps, relu
        return outputs, hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        outputs, before, weight = ctx.saved_tensors
        d_hidden = d_hidden.clone()
        d_gates = (outputs > 0).to(outputs.dtype) if ctx.relu else 1 - outputs * outputs  # the slopes, at first
        for count, (d_output, d_gate) in ctx.steps.backward(d_outputs, d_gates):
            d_state = d_hidden[:count]
            d_gate.mul_(d_state.add_(d_output))
            torch.mm(d_gate, weight, out=d_state)
        d_weight = d_gates.t() @ before if ctx.needs_input_grad[1] else None
        return d_gates, d_weight, d_hidden, None, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, from_input: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, steps: Steps
    ) -> tuple[Tensor, Tensor]:
        size = hidden.shape[1]
        hidden = hidden.clone()
        outputs, before, new = (from_input.new_empty(len(from_input), size) for _ in range(3))
        gates = from_input[:, : 2 * size].clone(memory_format=torch.contiguous_format)  # reset and update, (T, 2 H)
        from_state = torch.empty_like(from_input)  # (T, 3 H)
        matrix = weight.t()
        buffers = (outputs, before, new, gates, from_state, from_input[:, 2 * size :])
        for count, (output, start, candidate, gate, state_part, input_part) in steps.forward(*buffers):
            state = hidden[:count]
            start.copy_(state)
            torch.addmm(bias, start, matrix, out=state_part)
            gate.add_(state_part[:, : 2 * size]).sigmoid_()
            torch.addcmul(input_part, gate[:, :size], state_part[:, 2 * size :], out=candidate).tanh_()
            torch.lerp(candidate, start, gate[:, size:], out=output)
            state.copy_(output)
        ctx.save_for_backward(before, new, gates, from_state[:, 2 * size :].clone(), weight)
        ctx.steps = steps
        return outputs, hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        before, new, gates, state_new, weight = ctx.saved_tensors
        size = new.shape[1]
        reset, update = gates[:, :size], gates[:, size:].contiguous()
        # What each gate's sum changes of the new state, as far as the step before does not matter.
        candidate = (1 - update) * (1 - new * new)
        slopes = [
            candidate * state_new * reset * (1 - reset),
            (before - new) * update * (1 - update),
            candidate * reset,
        ]
        d_gates = torch.stack(slopes, dim=1)  # (T, 3, H): the slopes, at first
        d_hidden = d_hidden.clone()
        d_states = torch.empty_like(new)
        for count, (d_output, d_gate, kept, keep) in ctx.steps.backward(d_outputs, d_gates, d_states, update):
            d_state = d_hidden[:count]
            kept.copy_(d_state.add_(d_output))
            d_gate.mul_(d_state[:, None])
            d_state.mul_(keep).addmm_(d_gate.flatten(1), weight)
        d_weight = d_gates.flatten(1).t() @ before if ctx.needs_input_grad[1] else None
        d_bias = d_gates.sum(dim=0).flatten() if ctx.needs_input_grad[2] else None
        d_gates[:, 2] = d_states * candidate  # the input's part of the candidate is not scaled by the reset gate
        return d_gates.flatten(1), d_weight, d_bias, d_hidden, None


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        from_input: Tensor,
        weight: Tensor,
        projection: Tensor | None,
        hidden: Tensor,
        cell: Tensor,
        steps: Steps,
        cell_clip: float | None,
        projection_clip: float | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, size = len(from_input), cell.shape[1]
        hidden, cell = hidden.clone(), cell.clone()
        gates = from_input.clone()  # input, forget, candidate, output: (T, 4 H)
        cells_before, shown, raw = (from_input.new_empty(rows, size) for _ in range(3))
        before = from_input.new_empty(rows, hidden.shape[1])
        outputs = raw if projection is None else torch.empty_like(before)
        # Which numbers were inside the bounds: the others have no gradient.
        cell_inside = None if cell_clip is None else torch.empty_like(shown, dtype=torch.bool)
        output_inside = None if projection_clip is None else torch.empty_like(outputs, dtype=torch.bool)
        matrix = weight.t()
        buffers = (gates, cells_before, shown, raw, before, outputs)
        inside = zip(steps.masks(cell_inside), steps.masks(output_inside), strict=True)
        for (count, (gate, remembered, squashed, own, start, output)), (cell_mask, output_mask) in zip(
            steps.forward(*buffers), inside, strict=True
        ):
            state, memory = hidden[:count], cell[:count]
            start.copy_(state)
            remembered.copy_(memory)
            gate.addmm_(start, matrix)
            write, keep, candidate, show = gate.split(size, dim=1)
            gate[:, : 2 * size].sigmoid_()
            candidate.tanh_()
            show.sigmoid_()
            memory.mul_(keep).addcmul_(write, candidate)
            _clip(memory, cell_clip, cell_mask)
            torch.tanh(memory, out=squashed)
            torch.mul(show, squashed, out=own)
            if projection is not None:
                torch.mm(own, projection.t(), out=output)
            _clip(output, projection_clip, output_mask)
            state.copy_(output)
        ctx.save_for_backward(
            gates,
            cells_before,
            shown,
            None if projection is None else raw,
            before,
            weight,
            projection,
            cell_inside,
            output_inside,
        )
        ctx.steps = steps
        return outputs, hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor, d_cell: Tensor) -> tuple[Tensor | None, ...]:
        gates, cells_before, shown, raw, before, weight, projection, cell_inside, output_inside = ctx.saved_tensors
        size = shown.shape[1]
        write, keep, candidate, show = gates.split(size, dim=1)
        to_cell = show * (1 - shown * shown)  # (T, H): the cell, from the hidden state
        slopes = [  # the gates' sums: three from the cell, the last one from the hidden state
            candidate * write * (1 - write),
            cells_before * keep * (1 - keep),
            write * (1 - candidate * candidate),
            shown * show * (1 - show),
        ]
        d_gates = torch.stack(slopes, dim=1)  # (T, 4, H): the slopes, at first
        del slopes
        d_hidden, d_cell = d_hidden.clone(), d_cell.clone()
        d_states = torch.empty_like(before)
        steps: Steps = ctx.steps
        buffers = (d_outputs, to_cell, keep, d_gates, d_states)
        inside = zip(steps.masks(cell_inside, back=True), steps.masks(output_inside, back=True), strict=True)
        for (count, (d_output, cell_slope, kept, d_gate, d_own)), (cell_mask, output_mask) in zip(
            steps.backward(*buffers), inside, strict=True
        ):
            d_state, d_memory = d_hidden[:count], d_cell[:count]
            torch.add(d_state, d_output, out=d_own)
            if output_mask is not None:
                d_own.mul_(output_mask)
            d_raw = d_own if projection is None else d_own @ projection  # (n, H)
            d_memory.addcmul_(d_raw, cell_slope)
            if cell_mask is not None:
                d_memory.mul_(cell_mask)
            d_gate[:, :3].mul_(d_memory[:, None])
            d_gate[:, 3].mul_(d_raw)
            d_memory.mul_(kept)
            torch.mm(d_gate.flatten(1), weight, out=d_state)
        flat = d_gates.flatten(1)  # (T, 4 H)
        d_weight = flat.t() @ before if ctx.needs_input_grad[1] else None
        d_projection = d_states.t() @ raw if ctx.needs_input_grad[2] else None
        return flat, d_weight, d_projection, d_hidden, d_cell, None, None, None


def _clip(numbers: Tensor, bound: float | None, inside: Tensor | None) -> None:
    """Cut to [-bound, bound], and tell which were inside."""
    if bound is not None and inside is not None:
        torch.le(numbers.abs(), bound, out=inside)
        numbers.clamp_(-bound, bound)
