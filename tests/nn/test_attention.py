"""Attention: worked by hand, the two paths equal, masks, and independence of batch mates."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.nn import attention
from bertworks.nn.attention import MultiHeadAttention, attend_explicit, attend_fused, make_plan
from bertworks.nn.packed import Layout
from bertworks.nn.positions import RelativeBuckets, RelativeKeys


def test_worked_by_hand():
    """Two keys, scores 0 and ln 3: the weights are 1/4 and 3/4."""
    queries = torch.tensor([[[[1.0, 0.0]]]])
    keys = torch.tensor([[[[0.0, 5.0], [math.log(3.0), 7.0]]]])
    values = torch.tensor([[[[4.0, 0.0], [0.0, 4.0]]]])
    context, weights = attend_explicit(queries, keys, values, scale=1.0)
    torch.testing.assert_close(weights, torch.tensor([[[[0.25, 0.75]]]]))
    torch.testing.assert_close(context, torch.tensor([[[[1.0, 3.0]]]]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_two_paths_agree(causal, with_bias):
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 5, 7, 4)  # n = 2, N = 5, L = 7, D = 4
    plan = make_plan(Layout([7, 7]), Layout([7, 7]), causal=causal)
    bias = plan.biases[0]
    if with_bias:
        extra = torch.randn(1, 5, 7, 7)
        bias = extra if bias is None else bias + extra
    explicit, weights = attend_explicit(queries, keys, values, scale=0.5, bias=bias)
    fused = attend_fused(
        queries, keys, values, scale=0.5, bias=bias if with_bias else None, causal=causal and not with_bias
    )
    torch.testing.assert_close(fused, explicit)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5, 7))


def test_masks_by_hand():
    plan = make_plan(Layout([4]), Layout([4]), causal=True, window=1)
    bias = plan.biases[0]
    assert bias is not None
    assert (bias[0, 0] == 0).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    local = make_plan(Layout([4]), Layout([4]), window=1).biases[0]
    assert local is not None
    assert (local[0, 0] == 0).int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert make_plan(Layout([4]), Layout([4]), window=4).biases == (None,)


def module(**options) -> MultiHeadAttention:
    torch.manual_seed(1)
    made = MultiHeadAttention(hidden_size=12, num_heads=3, **options)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made.eval()


@pytest.mark.parametrize("relative", ["none", "buckets", "keys", "keys_queries"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("explicit_below", [0, 1000])
def test_a_sequence_alone_equals_itself_in_a_batch(relative, causal, window, explicit_below, monkeypatch):
    """On both paths, with every kind of bias."""
    monkeypatch.setattr(attention, "EXPLICIT_BELOW", explicit_below)
    keys = None
    if relative.startswith("keys"):
        keys = RelativeKeys(max_positions=9, head_size=4, with_keys=relative == "keys_queries")
    block = module(relative_keys=keys)
    buckets = None
    if relative == "buckets":
        buckets = RelativeBuckets(num_buckets=8, max_distance=20, num_heads=3, bidirectional=not causal)
        torch.nn.init.normal_(buckets.weight)

    def run(lengths, x):
        layout = Layout(lengths)
        plan = make_plan(layout, layout, causal=causal, window=window, buckets=buckets, with_distances=keys is not None)
        return block(x, plan)

    lengths = [3, 5, 5, 9]
    pieces = [torch.randn(length, 12) for length in lengths]
    together = run(lengths, torch.cat(pieces))
    alone = torch.cat([run([len(piece)], piece) for piece in pieces])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("window", [None, 2])
def test_narrow_numbers_go_both_ways_alike(window, monkeypatch):
    """In bf16 the explicit way is taken for longer keys, where the processor is quick at it; context and gradient are those
    of the fused one."""
    taken = []
    for name in ("attend_explicit", "attend_fused"):
        way = getattr(attention, name)
        monkeypatch.setattr(
            attention, name, lambda *a, _way=way, _name=name, **k: (taken.append(_name), _way(*a, **k))[1]
        )
    monkeypatch.setattr(attention, "EXPLICIT_BELOW", 0)
    block, layout = module(), Layout([5, 9, 9])
    plan = make_plan(layout, layout, window=window)
    x = torch.randn(layout.total, 12)
    found = []
    for quick in (False, True):
        monkeypatch.setattr(attention, "multiplies_bf16", lambda quick=quick: quick)
        taken.clear()
        given = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            out = block(given, plan)
        out.float().square().sum().backward()
        assert out.dtype == torch.bfloat16
        assert given.grad is not None
        found.append((out.float(), given.grad))
        assert set(taken) == {"attend_explicit" if quick else "attend_fused"}
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() < 0.03 * one.norm()  # 8 bits of mantissa, rounded at other places


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=5), st.data())
def test_no_gradient_between_packed_sequences(lengths, data):
    layout = Layout(lengths)
    x = torch.randn(layout.total, 12, requires_grad=True)
    chosen = data.draw(st.integers(0, len(lengths) - 1))
    start, length = layout.starts[chosen], layout.lengths[chosen]
    out = module()(x, make_plan(layout, layout))
    (gradient,) = torch.autograd.grad(out[start : start + length].square().sum(), x)
    others = torch.ones(layout.total, dtype=torch.bool)
    others[start : start + length] = False
    assert gradient[others].abs().sum() == 0
    assert gradient[~others].abs().sum() > 0


def test_cross_attention_looks_only_at_its_own_memory():
    block = module(cross=True)
    targets, sources = Layout([2, 3, 1]), Layout([4, 1, 4])
    x, memory = torch.randn(6, 12), torch.randn(9, 12)
    out = block(x, make_plan(targets, sources), memory=memory)
    for sequence in range(3):
        own_x = x[targets.starts[sequence] :][: targets.lengths[sequence]]
        own_memory = memory[sources.starts[sequence] :][: sources.lengths[sequence]]
        plan = make_plan(Layout([len(own_x)]), Layout([len(own_memory)]))
        torch.testing.assert_close(
            out[targets.starts[sequence] :][: len(own_x)], block(own_x, plan, memory=own_memory), atol=1e-6, rtol=1e-5
        )


def test_dropout_on_weights_only_in_training():
    block = module(dropout=0.5)
    x, layout = torch.randn(5, 12), Layout([5])
    plan = make_plan(layout, layout)
    torch.testing.assert_close(block(x, plan), block(x, plan))
    block.train()
    assert not torch.allclose(block(x, plan), block(x, plan))
