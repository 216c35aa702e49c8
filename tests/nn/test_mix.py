from __future__ import annotations

import math

import pytest
import torch

from bertworks.errors import UsageError
from bertworks.nn.mix import LayerMix


def test_by_hand() -> None:
    mix = LayerMix(2)
    layers = torch.tensor([[[1.0, 2.0, 3.0]], [[5.0, 6.0, 7.0]]])  # (2 layers, 1 token, 3)
    torch.testing.assert_close(mix(layers), torch.tensor([[3.0, 4.0, 5.0]]))  # at first the plain mean
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.0, math.log(3.0)]))  # shares 1/4 and 3/4
        mix.gamma.fill_(2.0)
    torch.testing.assert_close(mix.weights, torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(mix(layers), torch.tensor([[8.0, 10.0, 12.0]]))


def test_the_weights_learn() -> None:
    torch.manual_seed(0)
    layers = torch.randn(3, 50, 4)
    mix = LayerMix(3)
    optimizer = torch.optim.Adam(mix.parameters(), lr=0.1)
    for _ in range(200):
        loss = (mix(layers) - 1.5 * layers[1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert mix.weights[1] > 0.95
    assert mix.gamma.item() == pytest.approx(1.5, abs=0.1)


def test_no_layers() -> None:
    with pytest.raises(UsageError, match="num_layers is 0"):
        LayerMix(0)
