"""The moving average of the weights."""

import pytest
import torch
from torch import nn

from bertworks.train.average import Average


def test_by_hand():
    weight = nn.Parameter(torch.tensor([1.0]))
    average = Average({"weight": weight}, decay=0.5)
    weight.data.fill_(3.0)
    average.update(1)  # decay min(0.5, 2/11): 1 + 9/11 * 2
    assert average.weights["weight"].item() == pytest.approx(1 + 9 / 11 * 2)
    average.update(100)
    assert average.weights["weight"].item() == pytest.approx((1 + 9 / 11 * 2 + 3) / 2)


def test_in_place_and_back_bit_for_bit():
    layer = nn.Linear(5, 3)
    average = Average(dict(layer.named_parameters()), decay=0.9)
    layer.weight.data.add_(torch.randn(3, 5))
    trained = layer.weight.detach().clone()
    kept = average.weights["weight"].clone()
    with average.in_place():
        assert torch.equal(layer.weight, kept)
    assert torch.equal(layer.weight, trained)
    assert torch.equal(average.weights["weight"], kept)
