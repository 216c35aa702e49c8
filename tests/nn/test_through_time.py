"""The gradients written by hand against numerical ones, clipped and projected cells among them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bertworks.nn.through_time import Steps, gru, lstm, rnn

SIZES = {"several": (3, 2, 2, 1), "one token": (1,)}  # three sequences of 4, 3 and 1 tokens; one of one
HIDDEN, PROJECTION = 5, 2


@pytest.fixture(params=[(name, reverse) for name in SIZES for reverse in (False, True)], ids=str)
def steps(request: pytest.FixtureRequest) -> Steps:
    name, reverse = request.param
    return Steps(SIZES[name], reverse=reverse)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(100 * seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("relu", [False, True])
def test_rnn(steps: Steps, relu: bool) -> None:
    inputs = (numbers(sum(steps.sizes), HIDDEN), numbers(HIDDEN, HIDDEN), numbers(steps.sizes[0], HIDDEN))
    assert torch.autograd.gradcheck(lambda *args: rnn(*args, steps, relu=relu), inputs)


def test_gru(steps: Steps) -> None:
    rows, first = sum(steps.sizes), steps.sizes[0]
    inputs = (numbers(rows, 3 * HIDDEN), numbers(3 * HIDDEN, HIDDEN), numbers(3 * HIDDEN), numbers(first, HIDDEN))
    assert torch.autograd.gradcheck(lambda *args: gru(*args, steps), inputs)


@pytest.mark.parametrize("projection", [None, PROJECTION])
@pytest.mark.parametrize("cell_clip", [None, 0.3])
@pytest.mark.parametrize("projection_clip", [None, 0.1])
def test_lstm(steps: Steps, projection: int | None, cell_clip: float | None, projection_clip: float | None) -> None:
    width, rows, first = projection or HIDDEN, sum(steps.sizes), steps.sizes[0]
    states = (numbers(first, width), numbers(first, HIDDEN, seed=1))
    given = (numbers(rows, 4 * HIDDEN), numbers(4 * HIDDEN, width), *states)
    matrix = () if projection is None else (numbers(projection, HIDDEN),)

    def run(from_input: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        project = rest[0] if rest else None
        clips = {"cell_clip": cell_clip, "projection_clip": projection_clip}
        return lstm(from_input, weight, project, hidden, cell, steps, **clips)

    outputs, _, cells = run(*given, *matrix)
    if cell_clip is not None:
        assert float(cells.detach().abs().max()) == pytest.approx(cell_clip)  # some are cut, or nothing would be tested
    if projection_clip is not None:
        assert float(outputs.detach().abs().max()) == pytest.approx(projection_clip)
    assert torch.autograd.gradcheck(run, (*given, *matrix))


def test_narrow_input_keeps_the_state_wide() -> None:
    """What autocast makes of the input, with weights that it leaves alone."""
    steps = Steps((2, 1))
    narrow, weight = numbers(3, 12).bfloat16().detach().requires_grad_(), numbers(12, 3).float()
    state = torch.zeros(2, 3, dtype=torch.bfloat16)
    outputs, _, cells = lstm(narrow, weight, None, state, state, steps)
    assert outputs.dtype == cells.dtype == torch.float32
    outputs.sum().backward()
    assert narrow.grad is not None
    assert narrow.grad.dtype == torch.bfloat16
