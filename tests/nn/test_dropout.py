"""Dropout drops as often as it says, keeps the mean, and is a function of the seed."""

from __future__ import annotations

import pytest
import torch

from bertworks.nn.dropout import Dropout, drop


@pytest.mark.parametrize("prob", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(1001, 203), (7, 3, 29, 401)])
def test_share_scale_and_mean(shape: tuple[int, ...], prob: float) -> None:
    torch.manual_seed(0)
    x = torch.full(shape, 2.0)
    y = drop(x, prob)
    dropped = (y == 0).double().mean().item()
    assert abs(dropped - prob) < 5 * (prob * (1 - prob) / x.numel()) ** 0.5 + 2**-17
    kept = y[y != 0]
    assert torch.allclose(kept, torch.full_like(kept, 2.0 / (1 - prob)), rtol=1e-4)
    assert abs(y.double().mean().item() - 2.0) < 0.05


def test_every_place_is_dropped_on_its_own() -> None:
    torch.manual_seed(1)
    draws = torch.stack([drop(torch.ones(203), 0.3) == 0 for _ in range(4000)]).double()  # (draws, places)
    assert (draws.mean(0) - 0.3).abs().max() < 0.04
    together = torch.corrcoef(draws.T)
    assert (together - torch.eye(203)).abs().max() < 0.1


def test_the_gradient_has_the_same_mask() -> None:
    torch.manual_seed(2)
    x = torch.randn(17, 13, requires_grad=True)
    y = drop(x, 0.4)
    y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0)
    assert torch.allclose(x.grad * x, y)


def test_the_seed_decides() -> None:
    x = torch.randn(101)
    torch.manual_seed(3)
    first = drop(x, 0.2)
    torch.manual_seed(3)
    assert torch.equal(first, drop(x, 0.2))
    assert not torch.equal(first, drop(x, 0.2))


def test_none_all_and_evaluation() -> None:
    x = torch.randn(5, 7)
    assert drop(x, 0.0) is x
    assert not drop(x, 1.0).any()
    module = Dropout(0.5)
    assert (module(x) == 0).any()
    assert torch.equal(module.eval()(x), x)


def test_half_precision_keeps_its_type() -> None:
    assert drop(torch.ones(64, dtype=torch.bfloat16), 0.5).dtype == torch.bfloat16
