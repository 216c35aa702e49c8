"""Recurrent layers over packed batches: the simple RNN, the LSTM and the GRU.

A recurrent layer reads a sequence one step at a time and keeps what it has seen in a state. With x_t the input and
h_{t-1} the previous hidden state, * elementwise, sigma the logistic function:

RNN (Elman, 1990)                 h_t = f(b + W h_{t-1} + U x_t)                         f = tanh or ReLU

LSTM (Hochreiter and Schmidhuber, 1997; forget gate by Gers et al., 2000)
    forget gate                   f_t = sigma(b_f + W_f h_{t-1} + U_f x_t)               what to keep of the cell
    input gate                    i_t = sigma(b_i + W_i h_{t-1} + U_i x_t)               what to write
    output gate                   o_t = sigma(b_o + W_o h_{t-1} + U_o x_t)               what to show
    candidate                     g_t = tanh(b_g + W_g h_{t-1} + U_g x_t)
    cell                          c_t = f_t * c_{t-1} + i_t * g_t
    hidden state                  h_t = o_t * tanh(c_t)                                  projected: P (o_t * tanh(c_t))

GRU (Cho et al., 2014)
    reset gate                    r_t = sigma(b_r + W_r h_{t-1} + U_r x_t)
    update gate                   z_t = sigma(b_z + W_z h_{t-1} + U_z x_t)
    candidate                     n_t = tanh(b_n + U_n x_t + r_t * (d_n + W_n h_{t-1}))
    hidden state                  h_t = (1 - z_t) * n_t + z_t * h_{t-1}

In an RNN the gradient passes through W once per step and so vanishes or explodes; the LSTM's cell is a sum, through
which it passes unhindered while the forget gate is open. `torch` stores each b as the sum of two vectors.

The kernels are those of `torch.nn` without gradients and on a GPU; what is trained on a CPU takes the passes of
`bertworks.nn.through_time`, which are quicker there. Both want rows by time step, the longest sequence first, so a packed
batch is reordered once before the first layer and once after the last; no step is ever computed for padding.

    flat          a0 a1 | b0 b1 b2 | c0                 three sequences, lengths (2, 3, 1)
    time-major    b0 a0 c0 | b1 a1 | b2                 step sizes (3, 2, 1)

Also here, for language models and for ELMo (Peters et al., 2018): a state that can be carried into the next stretch of
text, projected hidden states, clipping of cell and projection, residual connections, the outputs of all layers, dropout
with one mask for all steps of a sequence (Gal and Ghahramani, 2016), and dropout on the recurrent weights W (AWD-LSTM,
Merity et al., 2017). Left out: peepholes, and layer normalisation inside the cell.

Legend: T tokens in the packed batch, B sequences, S steps (the longest length), L layers, D directions (1 or 2),
F input width, H hidden width, P output width of one direction (the projection's where there is one, else H).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from bertworks.errors import UsageError, choice
from bertworks.nn.dropout import drop
from bertworks.nn.packed import Layout
from bertworks.nn.through_time import Steps, gru, lstm, rnn

CELLS = ("rnn", "lstm", "gru")
ACTIVATIONS = ("tanh", "relu")


@dataclass(frozen=True)
class TimeMajor:
    """How to reorder a packed batch by time step, longest sequence first. Empty sequences have no rows in it.

    Since the sequences are sorted, those still running at step t are always the first `step_sizes[t]`.
    """

    order: Tensor  # (B',) int64: the B' sequences that are not empty, longest first
    step_sizes: tuple[int, ...]  # S numbers: how many sequences are longer than t
    index: Tensor  # (T,) int64: the flat position of each time-major row
    inverse: Tensor  # (T,) int64: the time-major row of each flat position
    rank: Tensor  # (T,) int64: the place in `order` of the sequence that each time-major row belongs to

    @classmethod
    def of(cls, layout: Layout, device: torch.device) -> TimeMajor:
        """Work the order out on the CPU, where the lengths are, and put it on `device`."""
        lengths = torch.tensor(layout.lengths, dtype=torch.long)  # (B,)
        starts = torch.tensor(layout.starts, dtype=torch.long)
        order = torch.argsort(lengths, descending=True, stable=True)
        order = order[: int(torch.count_nonzero(lengths))]  # the empty ones came last
        finished = torch.cumsum(torch.bincount(lengths), dim=0)[:-1]  # (S,): sequences with at most t tokens
        sizes = layout.num_sequences - finished  # (S,)
        step = torch.repeat_interleave(torch.arange(len(sizes)), sizes)  # (T,)
        rank = torch.arange(layout.total) - (torch.cumsum(sizes, dim=0) - sizes)[step]  # (T,)
        index = starts[order[rank]] + step  # (T,)
        inverse = torch.empty_like(index)
        inverse[index] = torch.arange(layout.total)
        return cls(
            order=order.to(device),
            step_sizes=tuple(sizes.tolist()),
            index=index.to(device),
            inverse=inverse.to(device),
            rank=rank.to(device),
        )

    def steps(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Cut time-major rows (T, ...) into the S steps, each (step size, ...)."""
        return torch.split(rows, list(self.step_sizes))


def reverse_sequences(x: Tensor, layout: Layout) -> Tensor:
    """Turn every sequence of `x` (T, ...) back to front, each in its own place; twice gives `x` again.

    A backward language model is a forward one that reads its sequences reversed.
    """
    lengths = torch.tensor(layout.lengths, dtype=torch.long)
    starts = torch.tensor(layout.starts, dtype=torch.long)
    mirror = torch.repeat_interleave(2 * starts + lengths - 1, lengths) - torch.arange(layout.total)  # (T,)
    return x[mirror.to(x.device)]


def drop_per_sequence(x: Tensor, prob: float, owners: Tensor, num_sequences: int) -> Tensor:
    """Dropout that drops the same columns of `x` (T, F) in all rows of a sequence; `owners` (T,) are the rows' sequences."""
    if prob == 0.0:
        return x
    kept = drop(x.new_ones(num_sequences, x.shape[1]), prob)  # (B, F)
    return x * kept.index_select(0, owners)


@dataclass(frozen=True)
class RecurrentState:
    """What a stack remembers of B sequences; the sequences are in the order of the layout."""

    hidden: Tensor  # (L, D, B, P)
    cell: Tensor | None = None  # (L, D, B, H), LSTM only

    def detach(self) -> RecurrentState:
        """The same values without their history: truncated backpropagation through time stops here."""
        return RecurrentState(self.hidden.detach(), None if self.cell is None else self.cell.detach())

    def select(self, sequences: Tensor) -> RecurrentState:
        """The states of `sequences` (any number, int64), repeats allowed: what a beam search keeps of its beams."""
        cell = None if self.cell is None else self.cell.index_select(2, sequences)
        return RecurrentState(self.hidden.index_select(2, sequences), cell)

    def summary(self) -> Tensor:
        """(B, D * P): the last layer's final hidden state, both directions side by side: one vector per sequence."""
        return self.hidden[-1].transpose(0, 1).flatten(1)


class Recurrent(nn.Module):
    """A stack of RNN, LSTM or GRU layers.

    `activation` is the RNN's. `dropout_prob` acts between the layers while training, not after the last one;
    `variational_dropout` drops the same features at every step of a sequence. `weight_dropout_prob` drops numbers of the
    recurrent matrices, the same at every step of a batch. `residual` adds a layer's input to its output from the second
    layer on. `projection_size`, `cell_clip` and `projection_clip` are the LSTM's: values of the
    cell and of the projected hidden state are cut to [-clip, clip].

    Two directions are joined after each layer, so the next one sees both. ELMo's two language models must not see each
    other: these are two one-directional stacks, one of them over `reverse_sequences`.
    """

    def __init__(
        self,
        *,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        cell: str = "lstm",
        bidirectional: bool = False,
        dropout_prob: float = 0.0,
        variational_dropout: bool = False,
        weight_dropout_prob: float = 0.0,
        residual: bool = False,
        activation: str = "tanh",
        projection_size: int | None = None,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
    ) -> None:
        super().__init__()
        choice(cell, CELLS, "recurrent cell")
        choice(activation, ACTIVATIONS, "activation of an RNN")
        _check_sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        for name, prob in (("dropout_prob", dropout_prob), ("weight_dropout_prob", weight_dropout_prob)):
            if not 0.0 <= prob < 1.0:
                raise UsageError(f"{name} is {prob}; it must be at least 0 and below 1")
        if cell != "rnn" and activation != "tanh":
            raise UsageError(f"activation is {activation!r} with cell {cell!r}; only cell 'rnn' has the choice")
        _check_lstm_options(cell, hidden_size, projection_size, cell_clip, projection_clip)

        self.cell = cell
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.num_directions = 2 if bidirectional else 1
        self.direction_size = projection_size or hidden_size  # P
        self.output_size = self.num_directions * self.direction_size
        self.dropout_prob = dropout_prob
        self.variational_dropout = variational_dropout
        self.weight_dropout_prob = weight_dropout_prob
        self.residual = residual
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip

        # One kernel per layer, not one for the stack: so every output is at hand, and what happens between is ours.
        self.layers = nn.ModuleList()
        for layer in range(num_layers):
            width = input_size if layer == 0 else self.output_size
            if cell == "rnn":
                built: nn.RNNBase = nn.RNN(width, hidden_size, nonlinearity=activation, bidirectional=bidirectional)
            elif cell == "gru":
                built = nn.GRU(width, hidden_size, bidirectional=bidirectional)
            else:
                built = nn.LSTM(width, hidden_size, bidirectional=bidirectional, proj_size=projection_size or 0)
            self.layers.append(built)

    def initial_state(self, num_sequences: int, *, like: Tensor) -> RecurrentState:
        """The state before any input: zeros, with the dtype and device of `like`."""
        shape = (self.num_layers, self.num_directions, num_sequences)
        cell = like.new_zeros(*shape, self.hidden_size) if self.cell == "lstm" else None
        return RecurrentState(like.new_zeros(*shape, self.direction_size), cell)

    def forward(
        self, x: Tensor, layout: Layout, state: RecurrentState | None = None, *, all_layers: bool = False
    ) -> tuple[Tensor, RecurrentState]:
        """Run over `x` (T, F), starting from `state` or from zeros; nothing is remembered between calls.

        Returns the last layer's outputs (T, D * P), or with `all_layers` those of every layer (L, T, D * P), in the
        order of `x`, and the final state. A sequence without tokens leaves its state as it was. In a bidirectional
        stack the backward half of `state` is what its *last* token starts from.
        """
        if x.dim() != 2 or tuple(x.shape) != (layout.total, self.input_size):
            raise UsageError(
                f"the input has shape {tuple(x.shape)}; with {layout.total} tokens in the layout and "
                f"input_size {self.input_size} it must be ({layout.total}, {self.input_size})"
            )
        if state is None:
            state = self.initial_state(layout.num_sequences, like=x)
        else:
            self._check_state(state, layout)
        if layout.total == 0:
            # What is computed of nothing has a gradient all the same: 0, for the input and for every weight.
            nothing = torch.stack([x.sum(), *(weight.sum() for weight in self.parameters())]).sum() * 0.0
            empty = x.new_zeros(0, self.output_size) + nothing
            return (empty.expand(self.num_layers, -1, -1) if all_layers else empty), state

        time_major = TimeMajor.of(layout, x.device)
        order = time_major.order
        rows = x[time_major.index]  # (T, F)
        outputs: list[Tensor] = []
        finals: list[RecurrentState] = []
        for number, layer in enumerate(self.layers):
            started = RecurrentState(
                state.hidden[number].index_select(1, order),  # (D, B', P)
                None if state.cell is None else state.cell[number].index_select(1, order),  # (D, B', H)
            )
            entering = self._dropout(rows, time_major) if number > 0 else rows
            computed, final = self._run_layer(cast(nn.RNNBase, layer), entering, time_major, started)  # (T, D * P)
            rows = computed + rows if self.residual and number > 0 else computed
            outputs.append(rows)
            finals.append(final)

        hidden = _put_back(state.hidden, order, [final.hidden for final in finals])
        cell = None if state.cell is None else _put_back(state.cell, order, [cast(Tensor, f.cell) for f in finals])
        if all_layers:
            return torch.stack([output[time_major.inverse] for output in outputs]), RecurrentState(hidden, cell)
        return rows[time_major.inverse], RecurrentState(hidden, cell)

    def _run_layer(
        self, layer: nn.RNNBase, rows: Tensor, time_major: TimeMajor, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """One layer over time-major rows (T, F); the state is (D, B', P) and (D, B', H) of the sorted sequences."""
        if self._needs_steps(rows, time_major):
            return self._run_steps(layer, rows, time_major, state)
        batch = PackedSequence(rows, torch.tensor(time_major.step_sizes, dtype=torch.long))
        start = state.hidden if state.cell is None else (state.hidden, state.cell)
        dropped = self._dropped_weights(layer)
        output, final = functional_call(layer, dropped, (batch, start)) if dropped else layer(batch, start)
        return output.data, RecurrentState(final) if state.cell is None else RecurrentState(*final)

    def _dropped_weights(self, layer: nn.RNNBase) -> dict[str, Tensor]:
        """The recurrent matrices with numbers dropped, by name; none where nothing is dropped."""
        if not self.training or self.weight_dropout_prob == 0.0:
            return {}
        return {
            name: drop(weight, self.weight_dropout_prob)
            for name, weight in layer.named_parameters()
            if name.startswith("weight_hh")
        }

    def _needs_steps(self, rows: Tensor, time_major: TimeMajor) -> bool:
        """Whether our own steps are right where the kernel is wrong, or quicker.

        No kernel can clip, and the gradients of a projection are slow in all of them. On a CPU PyTorch's gradients of packed
        steps write the whole batch once for every step, so that their time grows with the square of the length
        (`bertworks.nn.through_time`); a plain LSTM's only where lengths differ.
        """
        if self.direction_size != self.hidden_size or self.cell_clip is not None:
            return True
        if rows.device.type != "cpu" or not torch.is_grad_enabled():
            return False
        return self.cell != "lstm" or len(set(time_major.step_sizes)) > 1

    def _run_steps(
        self, layer: nn.RNNBase, rows: Tensor, time_major: TimeMajor, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """The equations step by step, with the kernel's own weights."""
        dropped = self._dropped_weights(layer)
        outputs: list[Tensor] = []
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for direction, suffix in enumerate(("_l0", "_l0_reverse")[: self.num_directions]):
            weights = {name: getattr(layer, name + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
            recurrent = dropped.get("weight_hh" + suffix, weights["weight_hh"])  # (gates * H, P)
            bias = weights["bias_ih"] if self.cell == "gru" else weights["bias_ih"] + weights["bias_hh"]
            from_input = functional.linear(rows, weights["weight_ih"], bias)  # (T, gates * H)
            hidden = state.hidden[direction]  # (B', P)
            steps = Steps(time_major.step_sizes, reverse=direction == 1)
            if self.cell == "rnn":
                output, hidden = rnn(from_input, recurrent, hidden, steps, relu=layer.nonlinearity == "relu")
            elif self.cell == "gru":
                output, hidden = gru(from_input, recurrent, weights["bias_hh"], hidden, steps)
            else:
                output, hidden, cell = lstm(
                    from_input,
                    recurrent,
                    getattr(layer, "weight_hr" + suffix, None),
                    hidden,
                    cast(Tensor, state.cell)[direction],
                    steps,
                    cell_clip=self.cell_clip,
                    projection_clip=self.projection_clip,
                )
                cells.append(cell)
            outputs.append(output)  # (T, P)
            hiddens.append(hidden)
        final = RecurrentState(torch.stack(hiddens), torch.stack(cells) if cells else None)
        return torch.cat(outputs, dim=1), final

    def _dropout(self, rows: Tensor, time_major: TimeMajor) -> Tensor:
        if not self.training or self.dropout_prob == 0.0:
            return rows
        if not self.variational_dropout:
            return drop(rows, self.dropout_prob)
        return drop_per_sequence(rows, self.dropout_prob, time_major.rank, len(time_major.order))

    def _check_state(self, state: RecurrentState, layout: Layout) -> None:
        shape = (self.num_layers, self.num_directions, layout.num_sequences)
        if tuple(state.hidden.shape) != (*shape, self.direction_size):
            raise UsageError(
                f"the state has shape {tuple(state.hidden.shape)}; for {layout.num_sequences} sequences it must be "
                f"{(*shape, self.direction_size)} (layers, directions, sequences, width)"
            )
        wanted = (*shape, self.hidden_size) if self.cell == "lstm" else None
        given = None if state.cell is None else tuple(state.cell.shape)
        if given != wanted:
            raise UsageError(f"the state's cell has shape {given}; for cell {self.cell!r} here it must be {wanted}")


def _put_back(initial: Tensor, order: Tensor, finals: list[Tensor]) -> Tensor:
    """Write the final states of the sorted sequences over the initial (L, D, B, ·); empty sequences keep theirs."""
    final = torch.stack(finals)  # (L, D, B', ·)
    return initial.to(final.dtype).index_copy(2, order, final)


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise UsageError(f"{name} is {value}; it must be at least 1")


def _check_lstm_options(
    cell: str, hidden_size: int, projection_size: int | None, cell_clip: float | None, projection_clip: float | None
) -> None:
    options = {"projection_size": projection_size, "cell_clip": cell_clip, "projection_clip": projection_clip}
    for name, value in options.items():
        if value is None:
            continue
        if cell != "lstm":
            raise UsageError(f"{name} is {value} with cell {cell!r}; only cell 'lstm' has it, leave it out")
        if value <= 0:
            raise UsageError(f"{name} is {value}; it must be above 0, or left out")
    if projection_size is not None and projection_size >= hidden_size:
        raise UsageError(f"projection_size is {projection_size}; it must be below hidden_size, which is {hidden_size}")
    if projection_clip is not None and projection_size is None:
        raise UsageError(f"projection_clip is {projection_clip}, but there is no projection; give projection_size too")
