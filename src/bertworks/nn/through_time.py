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
H hidden width, P width of the output (the projection's where there is one, else H), G gates.
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

    def _over(self, buffers: Sequence[Tensor], *, backwards: bool) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
        rows = list(zip(self.sizes, zip(*(buffer.split(self.sizes) for buffer in buffers), strict=True), strict=True))
        return iter(reversed(rows) if backwards else rows)


def rnn(from_input: Tensor, weight: Tensor, hidden: Tensor, steps: Steps, *, relu: bool) -> tuple[Tensor, Tensor]:
    """A simple RNN.

    from_input: (T, H), what the input and the biases add to each step; weight: (H, H); hidden: (B, H), before the first step
    Returns the outputs (T, H) and the last hidden states (B, H).
    """
    result: tuple[Tensor, Tensor] = _RNN.apply(from_input, weight, hidden, steps, relu)
    return result


def gru(from_input: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, steps: Steps) -> tuple[Tensor, Tensor]:
    """A GRU: as `rnn`, with `from_input` (T, 3 H), `weight` (3 H, H) and the state's own `bias` (3 H,)."""
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
        back = weight.t()
        for count, (output, start) in steps.forward(outputs, before):
            state = hidden[:count]
            start.copy_(state)
            output.addmm_(start, back)
            torch.relu_(output) if relu else output.tanh_()
            state.copy_(output)
        ctx.save_for_backward(outputs, before, weight)
        ctx.steps, ctx.relu = steps, relu
        return outputs, hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        outputs, before, weight = ctx.saved_tensors
        slopes = (outputs > 0).to(outputs.dtype) if ctx.relu else 1 - outputs * outputs
        d_hidden = d_hidden.clone()
        d_gates = torch.empty_like(outputs)
        for count, (d_output, slope, d_gate) in ctx.steps.backward(d_outputs, slopes, d_gates):
            d_state = d_hidden[:count]
            torch.mul(d_state.add_(d_output), slope, out=d_gate)
            torch.mm(d_gate, weight, out=d_state)
        return d_gates, d_gates.t() @ before, d_hidden, None, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, from_input: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, steps: Steps
    ) -> tuple[Tensor, Tensor]:
        size = hidden.shape[1]
        hidden = hidden.clone()
        outputs, before, new = (from_input.new_empty(len(from_input), size) for _ in range(3))
        gates = from_input[:, : 2 * size].contiguous()  # reset and update, (T, 2 H)
        from_state = torch.empty_like(from_input)  # (T, 3 H)
        back = weight.t()
        buffers = (outputs, before, new, gates, from_state, from_input[:, 2 * size :])
        for count, (output, start, candidate, gate, state_part, input_part) in steps.forward(*buffers):
            state = hidden[:count]
            start.copy_(state)
            torch.addmm(bias, start, back, out=state_part)
            gate.add_(state_part[:, : 2 * size]).sigmoid_()
            torch.addcmul(input_part, gate[:, :size], state_part[:, 2 * size :], out=candidate).tanh_()
            torch.lerp(candidate, start, gate[:, size:], out=output)
            state.copy_(output)
        ctx.save_for_backward(before, new, gates, from_state[:, 2 * size :].contiguous(), weight)
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
        slopes = torch.stack(
            [candidate * state_new * reset * (1 - reset), (before - new) * update * (1 - update), candidate * reset],
            dim=1,
        )  # (T, 3, H)
        d_hidden = d_hidden.clone()
        d_states = torch.empty_like(new)
        d_gates = torch.empty_like(slopes)
        buffers = (d_outputs, slopes, d_gates, d_states, update)
        for count, (d_output, slope, d_gate, kept, keep) in ctx.steps.backward(*buffers):
            d_state = d_hidden[:count]
            kept.copy_(d_state.add_(d_output))
            torch.mul(d_state[:, None], slope, out=d_gate)
            d_state.mul_(keep).addmm_(d_gate.flatten(1), weight)
        d_weight = d_gates.flatten(1).t() @ before
        d_bias = d_gates.sum(dim=0).flatten()
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
        cells, cells_before, shown, raw = (from_input.new_empty(rows, size) for _ in range(4))
        before = from_input.new_empty(rows, hidden.shape[1])
        outputs = raw if projection is None else torch.empty_like(before)
        back = weight.t()
        buffers = (gates, cells, cells_before, shown, raw, before, outputs)
        for count, (gate, memory, memory_before, squashed, own, start, output) in steps.forward(*buffers):
            state, kept = hidden[:count], cell[:count]
            start.copy_(state)
            memory_before.copy_(kept)
            gate.addmm_(start, back)
            write, keep, candidate, show = gate.split(size, dim=1)
            gate[:, : 2 * size].sigmoid_()
            candidate.tanh_()
            show.sigmoid_()
            torch.mul(keep, memory_before, out=memory).addcmul_(write, candidate)
            if cell_clip is None:
                kept.copy_(memory)
            else:
                torch.clamp(memory, -cell_clip, cell_clip, out=kept)
            torch.tanh(kept, out=squashed)
            torch.mul(show, squashed, out=own)
            if projection is not None:
                torch.mm(own, projection.t(), out=output)
            if projection_clip is None:
                state.copy_(output)
            else:
                torch.clamp(output, -projection_clip, projection_clip, out=state)
        saved = (gates, cells, cells_before, shown, raw, before, outputs, weight, projection)
        ctx.save_for_backward(*saved)
        ctx.steps, ctx.cell_clip, ctx.projection_clip = steps, cell_clip, projection_clip
        visible = outputs if projection_clip is None else outputs.clamp(-projection_clip, projection_clip)
        return visible, hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor, d_cell: Tensor) -> tuple[Tensor | None, ...]:
        gates, cells, cells_before, shown, raw, before, outputs, weight, projection = ctx.saved_tensors
        size = cells.shape[1]
        write, keep, candidate, show = gates.split(size, dim=1)
        to_show = shown * show * (1 - show)  # (T, H): the output gate's sum, from the hidden state
        to_cell = show * (1 - shown * shown)  # the cell, from the hidden state
        slopes = torch.stack(
            [candidate * write * (1 - write), cells_before * keep * (1 - keep), write * (1 - candidate * candidate)],
            dim=1,
        )  # (T, 3, H): the other gates' sums, from the cell
        cell_inside = None if ctx.cell_clip is None else cells.abs() <= ctx.cell_clip
        if ctx.projection_clip is None:
            inside = None
        else:
            inside = outputs.abs() <= ctx.projection_clip
        d_hidden, d_cell = d_hidden.clone(), d_cell.clone()
        d_gates = gates.new_empty(len(gates), 4, size)
        d_states = torch.empty_like(before)
        buffers = (d_outputs, to_show, to_cell, slopes, keep, d_gates, d_states)
        masks = [mask for mask in (cell_inside, inside) if mask is not None]
        for count, (d_output, show_slope, cell_slope, slope, kept, d_gate, d_own, *within) in ctx.steps.backward(
            *buffers, *masks
        ):
            d_state, d_memory = d_hidden[:count], d_cell[:count]
            torch.add(d_state, d_output, out=d_own)
            if inside is not None:
                d_own.mul_(within[-1])
            d_raw = d_own if projection is None else d_own @ projection  # (n, H)
            torch.mul(d_raw, show_slope, out=d_gate[:, 3])
            d_memory.addcmul_(d_raw, cell_slope)
            if cell_inside is not None:
                d_memory.mul_(within[0])
            torch.mul(d_memory[:, None], slope, out=d_gate[:, :3])
            d_memory.mul_(kept)
            torch.mm(d_gate.flatten(1), weight, out=d_state)
        flat = d_gates.flatten(1)  # (T, 4 H)
        d_projection = None if projection is None else d_states.t() @ raw
        return flat, flat.t() @ before, d_projection, d_hidden, d_cell, None, None, None
