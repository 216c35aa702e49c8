"""The feed-forward network worked by hand, activations, and the two places of the norm."""

import math

import pytest
import torch
from torch import nn

from bertworks.nn.activations import ACTIVATIONS
from bertworks.nn.attention import make_plan
from bertworks.nn.blocks import Block, FeedForward, Sight
from bertworks.nn.packed import Layout


def test_the_lectures_worked_feed_forward_network():
    """y = wᵀ g(Wᵀx + b₁) + b₂ with ReLU, W of ones, b₁ = (0, -1), w = (1, -2), b₂ = 0 computes the exclusive or."""
    network = FeedForward(hidden_size=2, intermediate_size=2, activation="relu")
    network.down = nn.Linear(2, 1)
    with torch.no_grad():
        network.up.weight.copy_(torch.ones(2, 2))
        network.up.bias.copy_(torch.tensor([0.0, -1.0]))
        network.down.weight.copy_(torch.tensor([[1.0, -2.0]]))
        network.down.bias.zero_()
    inputs = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert network(inputs).flatten().tolist() == [0.0, 1.0, 1.0, 0.0]


def phi(z: float) -> float:
    return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("relu", lambda z: max(0.0, z)),
        ("gelu", lambda z: z * phi(z)),
        ("gelu_new", lambda z: 0.5 * z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))),
        ("elu", lambda z: z if z > 0 else math.exp(z) - 1),
        ("silu", lambda z: z / (1 + math.exp(-z))),
        ("sigmoid", lambda z: 1 / (1 + math.exp(-z))),
        ("tanh", math.tanh),
        ("linear", lambda z: z),
    ],
)
def test_activations_by_their_formulas(name, formula):
    for z in (-2.5, -0.3, 0.0, 0.7, 3.0):
        assert float(ACTIVATIONS[name](torch.tensor(z))) == pytest.approx(formula(z), abs=1e-6)


def test_gated_feed_forward_by_hand():
    network = FeedForward(hidden_size=1, intermediate_size=1, activation="relu", gated=True, bias=False)
    with torch.no_grad():
        network.up.weight.copy_(torch.tensor([[2.0], [3.0]]))
        network.down.weight.copy_(torch.tensor([[5.0]]))
    assert float(network(torch.tensor([[1.0]])).detach()) == 30.0  # 5 · relu(2) · 3


@pytest.mark.parametrize("pre_norm", [False, True])
def test_add_and_normalise(pre_norm):
    torch.manual_seed(0)
    block = Block(hidden_size=6, num_heads=2, intermediate_size=7, activation="gelu", pre_norm=pre_norm).eval()
    layout = Layout([3, 2])
    plan = make_plan(layout, layout)
    x = torch.randn(5, 6)
    if pre_norm:
        wanted = x + block.attention(block.attention_norm(x), plan)
        wanted = wanted + block.feed_forward(block.feed_forward_norm(wanted))
    else:
        wanted = block.attention_norm(x + block.attention(x, plan))
        wanted = block.feed_forward_norm(wanted + block.feed_forward(wanted))
    torch.testing.assert_close(block(x, Sight(plan)), wanted)
