"""Codes of a row by hand, the product against exact integers, GELU against its formula, and rows that know no neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from bertworks.errors import ModelError
from bertworks.infer import quantize_layers
from bertworks.infer.quantize_layers import (
    WEIGHT_LIMIT,
    Int8FeedForward,
    Int8Linear,
    fused,
    has_fast_product,
    integer_weight,
    to_codes,
)
from bertworks.nn.blocks import FeedForward


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        made.weight.copy_(random(outputs, inputs))
    return made.requires_grad_(False)


def rounded(weight: Tensor) -> Tensor:
    """What is left of a weight (O, K) after `integer_weight`, as floats."""
    integers, scales = integer_weight(weight)
    return integers * scales[:, None]


def test_a_row_by_hand() -> None:
    codes, scales, lows = to_codes(torch.tensor([[-1.0, 0.0, 0.5, 4.1], [7.0, 7.0, 7.0, 7.0]]))
    assert codes.tolist() == [[0, 50, 75, 255], [0, 0, 0, 0]]  # (4.1 + 1) / 255 = 0.02
    np.testing.assert_allclose(scales, [0.02, 0.0], rtol=1e-6)
    assert lows.tolist() == [-1.0, 7.0]


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=70))
def test_codes_are_within_half_a_step(numbers: list[float]) -> None:
    x = torch.tensor([numbers])
    codes, scales, lows = to_codes(x)
    back = lows[:, None] + scales[:, None] * codes.numpy()
    step = float(scales[0])
    assert float(np.abs(back - x.numpy()).max()) <= 0.502 * step + 2e-6 * float(x.abs().max())
    assert int(codes.max()) <= 255
    assert float(lows[0]) == min(numbers)


def test_a_weight_by_hand() -> None:
    integers, scales = integer_weight(torch.tensor([[0.64, -0.32, 0.004], [0.0, 0.0, 0.0], [-128.0, 3.0, 1.0]]))
    assert integers.tolist() == [[64, -32, 0], [0, 0, 0], [-64, 2, 0]]  # 3 / 2 = 1.5 and 1 / 2: ties go to even
    torch.testing.assert_close(scales[[0, 2]], torch.tensor([0.01, 2.0]))
    weight = random(5, 9)
    assert torch.equal(integer_weight(rounded(weight))[0], integer_weight(weight)[0]), "rounding twice changes nothing"


@pytest.mark.parametrize(("inputs", "outputs", "rows"), [(384, 40, 3), (7, 5, 1), (33, 65, 17)])
def test_the_product_is_exact(inputs: int, outputs: int, rows: int) -> None:
    layer = Int8Linear.of(linear(inputs, outputs))
    codes = torch.randint(0, 256, (rows, inputs), dtype=torch.uint8)
    wanted = (codes.double() @ layer.integers.double().t()) * layer.scales.double()
    torch.testing.assert_close(layer.product(codes).double(), wanted, rtol=1e-6, atol=1e-6)


def test_the_largest_numbers_do_not_saturate() -> None:
    weight = torch.ones(16, 1536)
    layer = Int8Linear(*integer_weight(weight), torch.zeros(16))
    assert layer.integers.unique().tolist() == [WEIGHT_LIMIT]
    assert layer.product(torch.full((2, 1536), 255, dtype=torch.uint8)).unique().tolist() == [255 * 1536]


@pytest.mark.parametrize("bias", [True, False])
def test_near_the_layer_in_floats(bias: bool) -> None:
    exact, x = linear(96, 31, bias=bias), random(13, 96, seed=1)
    found = Int8Linear.of(exact)(x)
    wanted = exact(x)
    assert float((found - wanted).norm() / wanted.norm()) < 0.02
    codes, scales, lows = to_codes(x)
    rounded_x = torch.from_numpy(lows[:, None] + scales[:, None] * codes.numpy())
    bias_of = exact.bias if bias else torch.zeros(31)
    torch.testing.assert_close(found, rounded_x @ rounded(exact.weight).t() + bias_of, rtol=1e-4, atol=1e-4)


def test_columns_are_a_part() -> None:
    layer, x = Int8Linear.of(linear(24, 18)), random(5, 24)
    torch.testing.assert_close(layer.columns(x, 6, 18), layer(x)[:, 6:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_feed_forward_with_its_fused_activation(activation: str) -> None:
    plain = FeedForward(hidden_size=48, intermediate_size=130, activation=activation)
    plain.up, plain.down = linear(48, 130), linear(130, 48)
    x = random(9, 48, seed=2)
    wanted = plain(x)
    int8 = FeedForward(hidden_size=48, intermediate_size=130, activation=activation)
    int8.up, int8.down = Int8Linear.of(plain.up), Int8Linear.of(plain.down)  # type: ignore[assignment]
    both = fused(int8)
    assert isinstance(both, Int8FeedForward)
    one_by_one = int8.down(int8.activation(int8.up(x)))
    assert float((both(x) - one_by_one).norm() / one_by_one.norm()) < 0.01
    assert float((both(x) - wanted).norm() / wanted.norm()) < 0.03


@pytest.mark.parametrize(("activation", "gated"), [("relu", False), ("gelu", True)])
def test_what_is_not_fused(activation: str, gated: bool) -> None:
    plain = FeedForward(hidden_size=8, intermediate_size=12, activation=activation, gated=gated)
    assert fused(plain) is None, "both are in floats"
    plain.up, plain.down = Int8Linear.of(plain.up), Int8Linear.of(plain.down)  # type: ignore[assignment]
    assert fused(plain) is None


@pytest.mark.parametrize(("name", "approximate"), [("gelu", "none"), ("gelu_new", "tanh")])
def test_gelu_is_exact_enough(name: str, approximate: str) -> None:
    z = torch.linspace(-12, 12, 4801)[None]  # as the products of an identity
    arrays = (np.ones(1, np.float32), np.zeros(1, np.float32), np.zeros(4801, np.float32), np.zeros(4801, np.float32))
    y = z.clone().numpy()
    curve = quantize_layers.CURVES[quantize_layers.ACTIVATIONS[name]]
    quantize_layers.gelu_rows(y, *arrays, curve, np.empty((1, 4801), np.uint8))
    wanted = nn.functional.gelu(z, approximate=approximate)
    assert float((torch.from_numpy(y) - 0.1701 - wanted).abs().max()) < 3e-5
    assert y.min() >= 0


def test_rows_know_no_neighbours() -> None:
    layer, x = Int8Linear.of(linear(40, 30)), random(11, 40)
    alone = torch.cat([layer(row[None]) for row in x])
    x_with_outliers = torch.cat([x, 1000 * random(3, 40)])
    assert torch.equal(layer(x_with_outliers)[:11], alone)


def test_there_are_no_gradients() -> None:
    layer = Int8Linear.of(linear(4, 3))
    with pytest.raises(ModelError, match="no gradients"):
        layer(random(2, 4).requires_grad_())
    assert not layer(random(2, 4)).requires_grad


def test_without_the_fast_product(monkeypatch: pytest.MonkeyPatch) -> None:
    exact, x = linear(50, 20), random(6, 50)
    fast = Int8Linear.of(exact)
    monkeypatch.setattr(quantize_layers, "has_fast_product", lambda: False)
    slow = Int8Linear.of(exact)
    assert not slow.fast
    torch.testing.assert_close(slow(x), fast(x), rtol=1e-5, atol=1e-5)


def test_an_operator_of_another_form_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Tensor:
        raise RuntimeError("expected at most 9 arguments")

    has_fast_product.cache_clear()
    monkeypatch.setattr(quantize_layers, "_fast_product", refuse)
    assert not has_fast_product()
    has_fast_product.cache_clear()
