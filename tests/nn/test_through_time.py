"""The gradients written by hand against numerical ones, clipped and projected cells among them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bertworks.nn.through_time import Steps, gru, lstm, rnn

SIZES = (3, 2, 2, 1)  # three sequences of 4, 3 and 1 tokens
ROWS, HIDDEN, PROJECTION = sum(SIZES), 5, 2


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"])
def steps(request: pytest.FixtureRequest) -> Steps:
    return Steps(SIZES, reverse=request.param)


def numbers(*shape: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()


@pytest.mark.parametrize("relu", [False, True])
def test_rnn(steps: Steps, relu: bool) -> None:
    inputs = (numbers(ROWS, HIDDEN), numbers(HIDDEN, HIDDEN), numbers(3, HIDDEN))
    assert torch.autograd.gradcheck(lambda *args: rnn(*args, steps, relu=relu), inputs)


def test_gru(steps: Steps) -> None:
    inputs = (numbers(ROWS, 3 * HIDDEN), numbers(3 * HIDDEN, HIDDEN), numbers(3 * HIDDEN), numbers(3, HIDDEN))
    assert torch.autograd.gradcheck(lambda *args: gru(*args, steps), inputs)


@pytest.mark.parametrize("projection", [None, PROJECTION])
@pytest.mark.parametrize("cell_clip", [None, 0.3])
@pytest.mark.parametrize("projection_clip", [None, 0.1])
def test_lstm(steps: Steps, projection: int | None, cell_clip: float | None, projection_clip: float | None) -> None:
    width = projection or HIDDEN
    given = (numbers(ROWS, 4 * HIDDEN), numbers(4 * HIDDEN, width), numbers(3, width), numbers(3, HIDDEN))
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
