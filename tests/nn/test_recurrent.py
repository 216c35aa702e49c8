"""The kernels against the equations written out cell by cell, in plain Python over one sequence at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from bertworks.errors import UsageError
from bertworks.nn.packed import Layout
from bertworks.nn.recurrent import Recurrent, RecurrentState, TimeMajor, reverse_sequences

LENGTHS = (2, 0, 5, 1, 5)
INPUT, HIDDEN, PROJECTION = 3, 6, 4


def build(seed: int = 0, **options: Any) -> Recurrent:
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"input_size": INPUT, "hidden_size": HIDDEN, **options}
    return Recurrent(**sizes).double().eval()


def random_input(lengths: Sequence[int], seed: int = 1) -> Tensor:
    return torch.randn(sum(lengths), INPUT, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def one_step(stack: Recurrent, layer: int, suffix: str, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The equations of the module's docstring, for one token of one sequence."""
    weights = {name: value.detach() for name, value in stack.layers[layer].named_parameters()}
    u, w = weights["weight_ih_l0" + suffix], weights["weight_hh_l0" + suffix]
    b, d = weights["bias_ih_l0" + suffix], weights["bias_hh_l0" + suffix]
    if stack.cell == "rnn":
        total = b + d + w @ h + u @ x
        return (total.clamp(min=0) if stack.layers[layer].nonlinearity == "relu" else total.tanh()), c
    if stack.cell == "gru":
        (u_r, u_z, u_n), (w_r, w_z, w_n) = u.chunk(3), w.chunk(3)
        (b_r, b_z, b_n), (d_r, d_z, d_n) = b.chunk(3), d.chunk(3)
        r = torch.sigmoid(b_r + d_r + w_r @ h + u_r @ x)
        z = torch.sigmoid(b_z + d_z + w_z @ h + u_z @ x)
        n = torch.tanh(b_n + u_n @ x + r * (d_n + w_n @ h))
        return (1 - z) * n + z * h, c
    (u_i, u_f, u_g, u_o), (w_i, w_f, w_g, w_o), (b_i, b_f, b_g, b_o) = u.chunk(4), w.chunk(4), (b + d).chunk(4)
    f = torch.sigmoid(b_f + w_f @ h + u_f @ x)
    i = torch.sigmoid(b_i + w_i @ h + u_i @ x)
    o = torch.sigmoid(b_o + w_o @ h + u_o @ x)
    g = torch.tanh(b_g + w_g @ h + u_g @ x)
    c = f * c + i * g
    if stack.cell_clip is not None:
        c = c.clamp(-stack.cell_clip, stack.cell_clip)
    h = o * torch.tanh(c)
    if stack.direction_size != stack.hidden_size:
        h = weights["weight_hr_l0" + suffix] @ h
    if stack.projection_clip is not None:
        h = h.clamp(-stack.projection_clip, stack.projection_clip)
    return h, c


def reference(stack: Recurrent, x: Tensor, state: RecurrentState, sequence: int) -> tuple[Tensor, Tensor, Tensor]:
    """All layers of one sequence x (n, F): outputs (L, n, D * P), final hidden (L, D, P) and cell (L, D, H)."""
    hidden = state.hidden[:, :, sequence].clone()
    cell = x.new_zeros(stack.num_layers, stack.num_directions, HIDDEN)
    if state.cell is not None:
        cell = state.cell[:, :, sequence].clone()
    outputs = []
    for layer in range(stack.num_layers):
        columns = []
        for direction, suffix in enumerate(["", "_reverse"][: stack.num_directions]):
            h, c = hidden[layer, direction].clone(), cell[layer, direction].clone()
            rows = [torch.empty(0)] * len(x)
            for t in range(len(x)) if direction == 0 else reversed(range(len(x))):
                h, c = one_step(stack, layer, suffix, x[t], h, c)
                rows[t] = h
            hidden[layer, direction], cell[layer, direction] = h, c
            columns.append(torch.stack(rows) if rows else x.new_zeros(0, stack.direction_size))
        output = torch.cat(columns, dim=1)
        x = output + x if stack.residual and layer > 0 else output
        outputs.append(x)
    return torch.stack(outputs), hidden, cell


VARIANTS: dict[str, dict[str, Any]] = {
    "rnn": {"cell": "rnn"},
    "rnn-relu": {"cell": "rnn", "activation": "relu"},
    "lstm": {"cell": "lstm"},
    "gru": {"cell": "gru"},
    "lstm-projected": {"cell": "lstm", "projection_size": PROJECTION},
    "lstm-clipped": {"cell": "lstm", "cell_clip": 0.1},
    "lstm-elmo": {
        "cell": "lstm", "projection_size": PROJECTION, "cell_clip": 0.2, "projection_clip": 0.03, "residual": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_equals_the_equations_cell_by_cell(variant: str, bidirectional: bool) -> None:
    stack = build(num_layers=2, bidirectional=bidirectional, **VARIANTS[variant])
    layout, x = Layout(LENGTHS), random_input(LENGTHS)
    state = stack.initial_state(len(LENGTHS), like=x)
    torch.manual_seed(5)  # a state that is not zero, as one carried over
    state = RecurrentState(
        torch.randn_like(state.hidden) / 9, None if state.cell is None else torch.randn_like(state.cell) / 9
    )
    outputs, final = stack(x, layout, state, all_layers=True)
    last, _ = stack(x, layout, state)
    assert outputs.shape == (2, sum(LENGTHS), stack.output_size)
    assert torch.equal(outputs[-1], last)
    for number, (start, length) in enumerate(zip(layout.starts, layout.lengths, strict=True)):
        wanted, hidden, cell = reference(stack, x[start : start + length], state, number)
        torch.testing.assert_close(outputs[:, start : start + length], wanted, atol=1e-6, rtol=0)
        torch.testing.assert_close(final.hidden[:, :, number], hidden, atol=1e-6, rtol=0)
        if final.cell is not None:
            torch.testing.assert_close(final.cell[:, :, number], cell, atol=1e-6, rtol=0)


def test_rnn_by_hand() -> None:
    """One unit, W = 0.5, U = 2, b = 0.1, inputs 1, 0, -1.

    h_1 = tanh(0.1 + 0.5 * 0 + 2 * 1)       = tanh(2.1)      =  0.970452
    h_2 = tanh(0.1 + 0.5 * 0.970452 + 0)    = tanh(0.585226) =  0.526453
    h_3 = tanh(0.1 + 0.5 * 0.526453 - 2)    = tanh(-1.636773) = -0.927020
    """
    stack = Recurrent(input_size=1, hidden_size=1, cell="rnn")
    for name, value in {"weight_hh_l0": 0.5, "weight_ih_l0": 2.0, "bias_ih_l0": 0.1, "bias_hh_l0": 0.0}.items():
        torch.nn.init.constant_(getattr(stack.layers[0], name), value)
    outputs, state = stack(torch.tensor([[1.0], [0.0], [-1.0]]), Layout([3]))
    assert outputs.flatten().tolist() == pytest.approx([0.970452, 0.526453, -0.927020], abs=1e-6)
    assert state.summary().item() == pytest.approx(-0.927020, abs=1e-6)


def test_relu_rnn_by_hand() -> None:
    """W = -1, U = 1, b = 1: h = 1 + x - h_before where positive: inputs 2, 0, 5 give 3, max(0, -2) = 0, 6."""
    stack = Recurrent(input_size=1, hidden_size=1, cell="rnn", activation="relu")
    for name, value in {"weight_hh_l0": -1.0, "weight_ih_l0": 1.0, "bias_ih_l0": 1.0, "bias_hh_l0": 0.0}.items():
        torch.nn.init.constant_(getattr(stack.layers[0], name), value)
    assert stack(torch.tensor([[2.0], [0.0], [5.0]]), Layout([3]))[0].flatten().tolist() == [3.0, 0.0, 6.0]


def test_lstm_gates_by_hand() -> None:
    """Zero weights: a gate is sigma of its bias. Forget wide open, input half: c grows by 0.5 * tanh(1) a step."""
    stack = Recurrent(input_size=2, hidden_size=1, cell="lstm")
    for parameter in stack.parameters():
        torch.nn.init.zeros_(parameter)
    stack.layers[0].bias_ih_l0.data = torch.tensor([0.0, 100.0, 1.0, 100.0])  # input, forget, candidate, output
    outputs, state = stack(torch.zeros(3, 2), Layout([3]))
    grown = [0.5 * math.tanh(1.0) * step for step in (1, 2, 3)]
    assert state.cell is not None
    assert state.cell.item() == pytest.approx(grown[-1], abs=1e-6)
    assert outputs.flatten().tolist() == pytest.approx([math.tanh(value) for value in grown], abs=1e-6)


def test_time_major_by_hand() -> None:
    """The drawing of the module's docstring, with an empty sequence put in."""
    layout = Layout([2, 0, 3, 1])  # a0 a1 | | b0 b1 b2 | c0
    time_major = TimeMajor.of(layout, torch.device("cpu"))
    names = ["a0", "a1", "b0", "b1", "b2", "c0"]
    assert [names[i] for i in time_major.index.tolist()] == ["b0", "a0", "c0", "b1", "a1", "b2"]
    assert time_major.step_sizes == (3, 2, 1)
    assert time_major.order.tolist() == [2, 0, 3]
    assert time_major.rank.tolist() == [0, 1, 2, 0, 1, 0]
    assert time_major.index[time_major.inverse].tolist() == list(range(6))


def test_reverse_sequences() -> None:
    x, layout = torch.arange(6)[:, None], Layout([2, 0, 3, 1])
    assert reverse_sequences(x, layout).flatten().tolist() == [1, 0, 4, 3, 2, 5]
    assert torch.equal(reverse_sequences(reverse_sequences(x, layout), layout), x)


def test_backward_direction_is_a_forward_stack_over_reversed_sequences() -> None:
    both, one = build(bidirectional=True), build()
    for name, parameter in one.layers[0].named_parameters():
        parameter.data = getattr(both.layers[0], name + "_reverse").data
    layout, x = Layout(LENGTHS), random_input(LENGTHS)
    mirrored = reverse_sequences(one(reverse_sequences(x, layout), layout)[0], layout)
    torch.testing.assert_close(both(x, layout)[0][:, HIDDEN:], mirrored, atol=1e-10, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(0, 6), max_size=6), seed=st.integers(0, 99))
def test_a_sequence_does_not_depend_on_its_batch_mates(variant: str, lengths: list[int], seed: int) -> None:
    stack = build(num_layers=2, bidirectional=True, **VARIANTS[variant]).float()
    layout, x = Layout(lengths), random_input(lengths, seed).float()
    outputs, state = stack(x, layout)
    assert outputs.shape == (sum(lengths), stack.output_size)
    for number, (start, length) in enumerate(zip(layout.starts, lengths, strict=True)):
        alone, alone_state = stack(x[start : start + length], Layout([length]))
        torch.testing.assert_close(outputs[start : start + length], alone, atol=1e-6, rtol=0)
        torch.testing.assert_close(state.summary()[number : number + 1], alone_state.summary(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=10, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4))
def test_state_carried_over_equals_one_long_run(variant: str, pairs: list[tuple[int, int]]) -> None:
    stack = build(num_layers=2, **VARIANTS[variant])
    whole = Layout([first + second for first, second in pairs])
    x = random_input(whole.lengths)
    wanted, final = stack(x, whole)
    in_first = torch.cat([torch.arange(a + b) < a for a, b in pairs])
    one, state = stack(x[in_first], Layout([a for a, _ in pairs]))
    two, state = stack(x[~in_first], Layout([b for _, b in pairs]), state.detach())
    torch.testing.assert_close(one, wanted[in_first], atol=1e-10, rtol=0)
    torch.testing.assert_close(two, wanted[~in_first], atol=1e-10, rtol=0)
    torch.testing.assert_close(state.hidden, final.hidden, atol=1e-10, rtol=0)


def test_nothing_is_remembered_between_calls_and_detach_cuts_the_history() -> None:
    stack = build(num_layers=2)
    layout, x = Layout([4, 2]), random_input([4, 2]).requires_grad_()
    first, state = stack(x, layout)
    assert torch.equal(stack(x, layout)[0], first)
    assert state.hidden.requires_grad
    assert state.cell is not None
    cut = state.detach()
    assert cut.cell is not None
    assert not cut.hidden.requires_grad
    assert not cut.cell.requires_grad


def test_select_keeps_repeats_and_reorders_sequences() -> None:
    stack = build(num_layers=2)
    _, state = stack(random_input([3, 1, 2]), Layout([3, 1, 2]))
    assert state.cell is not None
    chosen = state.select(torch.tensor([2, 0, 0, 1]))
    assert chosen.cell is not None
    assert torch.equal(chosen.hidden[:, :, 2], state.hidden[:, :, 0])
    assert torch.equal(chosen.cell[:, :, 0], state.cell[:, :, 2])
    assert chosen.summary().shape == (4, HIDDEN)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_wide_clip_is_the_kernel(bidirectional: bool) -> None:
    options: dict[str, Any] = {"num_layers": 2, "bidirectional": bidirectional}
    kernel, clipped = build(**options), build(**options, cell_clip=1e6)
    lengths = (3, 3, 3)  # the kernel is what trains a plain LSTM on sequences of one length
    x = random_input(lengths)
    x.requires_grad_()
    ours, theirs = clipped(x, Layout(lengths)), kernel(x, Layout(lengths))
    torch.testing.assert_close(ours[0], theirs[0], atol=1e-10, rtol=0)
    torch.testing.assert_close(ours[1].cell, theirs[1].cell, atol=1e-10, rtol=0)
    gradients = [torch.autograd.grad(result[0].square().sum(), x)[0] for result in (ours, theirs)]
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-10, rtol=0)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_projection_is_the_kernels(bidirectional: bool) -> None:
    stack = build(bidirectional=bidirectional, projection_size=PROJECTION)
    x = random_input(LENGTHS)
    batch = pack_sequence([part for part in x.split(LENGTHS) if len(part)], enforce_sorted=False)
    theirs, (hidden, cell) = stack.layers[0](batch)
    ours, state = stack(x, Layout(LENGTHS))
    present = torch.tensor([number for number, length in enumerate(LENGTHS) if length])
    torch.testing.assert_close(ours, torch.cat(unpack_sequence(theirs)), atol=1e-10, rtol=0)
    torch.testing.assert_close(state.hidden[0][:, present], hidden, atol=1e-10, rtol=0)
    assert state.cell is not None
    torch.testing.assert_close(state.cell[0][:, present], cell, atol=1e-10, rtol=0)


def test_clips_bound_what_they_clip() -> None:
    stack = build(projection_size=PROJECTION, cell_clip=0.05, projection_clip=0.01)
    with torch.no_grad():
        outputs, state = stack(10 * random_input(LENGTHS), Layout(LENGTHS))
    assert state.cell is not None
    assert float(state.cell.abs().max()) == pytest.approx(0.05)
    assert float(outputs.abs().max()) <= 0.01


@pytest.mark.parametrize("variational", [False, True])
def test_dropout_acts_between_layers_while_training_only(variational: bool) -> None:
    stack = build(num_layers=2, dropout_prob=0.5, variational_dropout=variational)
    layout, x = Layout(LENGTHS), random_input(LENGTHS)
    quiet = stack(x, layout, all_layers=True)[0]
    assert torch.equal(stack(x, layout, all_layers=True)[0], quiet)
    stack.train()
    noisy = stack(x, layout, all_layers=True)[0]
    assert torch.equal(noisy[0], quiet[0])
    assert not torch.allclose(noisy[1], quiet[1])


def test_residual_adds_the_input_as_it_was_before_dropout() -> None:
    """With zero weights the second layer computes zeros, so all that remains is what the residual adds."""
    stack = build(num_layers=2, residual=True, dropout_prob=0.5).train()
    for parameter in stack.layers[1].parameters():
        torch.nn.init.zeros_(parameter)
    outputs, _ = stack(random_input(LENGTHS), Layout(LENGTHS), all_layers=True)
    assert torch.equal(outputs[1], outputs[0])


def test_variational_dropout_drops_the_same_features_at_every_step() -> None:
    stack = build(num_layers=2, dropout_prob=0.4, variational_dropout=True).train()
    layout = Layout(LENGTHS)
    time_major = TimeMajor.of(layout, torch.device("cpu"))
    torch.manual_seed(3)
    kept = stack._dropout(torch.ones(layout.total, 50), time_major)[time_major.inverse]  # flat order again
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.6], rel=1e-4)
    masks = []
    for start, length in zip(layout.starts, layout.lengths, strict=True):
        if length:
            assert torch.equal(kept[start : start + length], kept[start].expand(length, -1))
            masks.append(kept[start])
    assert not any(torch.equal(masks[0], other) for other in masks[1:])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_learns(variant: str) -> None:
    stack = build(num_layers=2, bidirectional=True, **VARIANTS[variant]).train()
    stack(random_input(LENGTHS), Layout(LENGTHS))[0].square().sum().backward()
    for name, parameter in stack.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0, 0)])
@pytest.mark.parametrize("variant", ["gru", "lstm-elmo"])
def test_no_tokens_at_all(variant: str, lengths: tuple[int, ...]) -> None:
    stack = build(num_layers=2, **VARIANTS[variant])
    x = torch.zeros(0, INPUT).double()
    assert stack(x, Layout(lengths))[0].shape == (0, stack.output_size)
    outputs, state = stack(x, Layout(lengths), all_layers=True)
    assert outputs.shape == (2, 0, stack.output_size)
    assert state.summary().shape == (len(lengths), stack.output_size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "ltsm"}, "did you mean 'lstm'"),
        ({"cell": "rnn", "activation": "gelu"}, "allowed: tanh, relu"),
        ({"cell": "gru", "activation": "relu"}, "only cell 'rnn'"),
        ({"cell": "gru", "projection_size": 2}, "only cell 'lstm'"),
        ({"projection_size": 6}, "below hidden_size, which is 6"),
        ({"projection_clip": 3.0}, "give projection_size too"),
        ({"cell_clip": 0.0}, "above 0"),
        ({"num_layers": 0}, "num_layers is 0"),
        ({"dropout_prob": 1.0}, "below 1"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(**options)


def test_wrong_inputs_are_explained() -> None:
    stack = build(num_layers=2)
    x = random_input([3, 2])
    with pytest.raises(UsageError, match=r"must be \(4, 3\)"):
        stack(x, Layout([2, 2]))
    _, state = stack(x, Layout([3, 2]))
    with pytest.raises(UsageError, match=r"for 1 sequences it must be \(2, 1, 1, 6\)"):
        stack(x, Layout([5]), state)
    with pytest.raises(UsageError, match="cell has shape None"):
        stack(x, Layout([3, 2]), RecurrentState(state.hidden))


@pytest.mark.parametrize(
    "options",
    [
        {"cell": "rnn"},
        {"cell": "rnn", "activation": "relu"},
        {"cell": "gru"},
        {"cell": "lstm"},
        {"cell": "lstm", "projection_size": PROJECTION},
    ],
    ids=str,
)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_steps_that_train_are_the_kernel(options: dict[str, Any], bidirectional: bool) -> None:
    """Outputs and gradients; the kernel is what runs without gradients, and torch's own module with them."""
    stack = build(bidirectional=bidirectional, **options)
    layout, x = Layout(LENGTHS), random_input(LENGTHS).requires_grad_()
    looped, final = stack(x, layout)
    with torch.no_grad():
        expected, kernel_final = stack(x, layout)
    torch.testing.assert_close(looped, expected)
    torch.testing.assert_close(final.hidden, kernel_final.hidden)
    looped.square().sum().backward()
    ours = [x.grad, *(weight.grad for weight in stack.parameters())]
    x.grad = None
    stack.zero_grad()
    start = 0
    total = x.new_zeros(())
    for length in LENGTHS:
        if length:
            total = total + stack.layers[0](x[start : start + length])[0].square().sum()
        start += length
    total.backward()
    for one, other in zip(ours, [x.grad, *(weight.grad for weight in stack.parameters())], strict=True):
        torch.testing.assert_close(one, other)
