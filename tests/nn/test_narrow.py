"""The loops for bf16 against PyTorch's operations in fp32, in values and gradients: apart by bf16's rounding alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bertworks.nn import narrow, narrow_loops
from bertworks.nn.attention import MultiHeadAttention, make_plan
from bertworks.nn.blocks import FeedForward
from bertworks.nn.packed import Layout, Span
from bertworks.nn.positions import rotary_angles, rotate

ROWS = 519
HALF = 2**-8
"""Half a step between neighbouring bf16 numbers, relative to the larger of them."""


def bf16(*shape: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return (scale * torch.randn(shape, generator=generator)).bfloat16()


def leaves(x: Tensor) -> tuple[Tensor, Tensor]:
    """The same numbers twice, in bf16 and in fp32."""
    return x.clone().requires_grad_(), x.float().requires_grad_()


@pytest.fixture(params=[1, 3])
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in one piece, and cut up among three threads."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    monkeypatch.setattr(narrow, "FEW_NUMBERS", 64)


def close(ours: Tensor, exact: Tensor, *, atol: float = 1e-6) -> None:
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float(), exact.float(), rtol=1.01 * HALF, atol=atol)


@pytest.mark.usefixtures("_threads")
def test_gated_gelu() -> None:
    x = bf16(ROWS, 2 * 37, scale=3.0)
    x[0, :6] = torch.tensor([50.0, -50.0, 5.0, -5.0, 0.0, -4.8])  # beyond where the fraction is fitted
    ours, exact = leaves(x)
    a, b = exact.chunk(2, dim=-1)
    result, expected = narrow.gated_gelu(ours), F.gelu(a) * b
    close(result, expected, atol=2e-4)  # what gelu's fraction is off by, times b
    gradient = bf16(ROWS, 37)
    result.backward(gradient)
    expected.backward(gradient.float())
    close(ours.grad, exact.grad, atol=2e-4)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("turned", [True, False])
def test_heads_apart(turned: bool) -> None:
    heads, size = 3, 10
    spans = (Span(4, 0, 70, 0, 70), Span(60, 283, 5, 283, 5))  # between them three tokens that nothing looks at
    num_tokens = 4 * 70 + 3 + 60 * 5 + 2
    angles = rotary_angles(torch.arange(num_tokens) % 17, head_size=size, theta=100.0) if turned else None
    ours, exact = leaves(bf16(num_tokens, 3, heads, size))
    queries, keys, values = exact.unbind(1)
    if angles is not None:
        queries, keys = rotate(queries, angles), rotate(keys, angles)
    result = narrow.heads_apart(ours, spans, angles)
    expected = [
        states[span.key_start : span.key_start + span.count * span.key_length]
        .view(span.count, span.key_length, heads, size)
        .transpose(1, 2)
        for span in spans
        for states in (queries, keys, values)
    ]
    flat = [states for three in result for states in three]
    for one, other in zip(flat, expected, strict=True):
        close(one, other)
    gradients = [bf16(*states.shape) for states in flat]
    torch.autograd.backward(flat, gradients)
    torch.autograd.backward(expected, [gradient.float() for gradient in gradients])
    close(ours.grad, exact.grad)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("vocab_size", [5, 1003])
def test_softmax_error(vocab_size: int) -> None:
    logits = bf16(ROWS, vocab_size, scale=4.0)
    targets = torch.arange(ROWS) * 7 % vocab_size
    targets[:100] = logits[:100].argmax(dim=-1)
    logits[100] = 3.0  # all equal: the first one is the answer
    logits[101] = torch.linspace(-300, 300, vocab_size)
    targets[100:102] = 0
    exact = logits.float().requires_grad_()
    expected = F.cross_entropy(exact, targets, reduction="none")
    expected.sum().backward()
    error = logits.clone()
    loss, correct = narrow.softmax_error(error, targets)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-5)
    assert torch.equal(correct, logits.argmax(dim=-1) == targets)
    assert correct[100]
    close(error, exact.grad, atol=1e-6)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("bad", [0x7FC0, 0xFFC0, 0xFFFF, 0x7F80], ids=["nan", "-nan", "-nan of ones", "inf"])
def test_what_is_not_a_number_stays_so(bad: int) -> None:
    x = bf16(40, 80)  # wide enough for vector instructions
    x.view(torch.int16)[1, 2] = torch.tensor(bad).to(torch.int16)
    finite = [row != 1 for row in range(40)]
    leaf = x.clone().requires_grad_()
    result = narrow.gated_gelu(leaf)
    result.sum().backward()
    assert result.isfinite().all(dim=1).tolist() == finite
    assert leaf.grad.isfinite().all(dim=1).tolist() == finite
    if x[1, 2].isnan():  # where it stood, too, although the slope there is cut off
        assert leaf.grad[1, 2].isnan()
    for target in (0, 2):
        loss, _ = narrow.softmax_error(x.clone(), torch.full((40,), target))
        assert loss.isfinite().tolist() == finite


@pytest.mark.parametrize("target", [-100, 5])
def test_targets_beyond_the_vocabulary_are_refused(target: int) -> None:
    with pytest.raises(IndexError, match="are not all among 5 logits"):
        narrow.softmax_error(bf16(2, 5), torch.tensor([0, target]))


def test_threads_have_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows of a large vocabulary are cut up, many short ones are not."""
    pieces: list[tuple[int, int]] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(narrow, "FEW_NUMBERS", 2**17)
    for rows, columns, threads in ((300, 50_000, 4), (3, 250_000, 3), (400, 100, 1), (0, 100, 1)):
        pieces.clear()
        narrow._over_rows(lambda first, end: pieces.append((first, end)), rows, columns)
        assert len(pieces) == threads
        assert sorted(pieces)[0][0] == 0
        assert sum(end - first for first, end in pieces) == rows


def test_without_a_compiler_pytorch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "_loops", lambda: None)
    assert not narrow.suits(bf16(2, 2))
    program = "from bertworks.nn import narrow; import torch; assert not narrow.suits(torch.ones(1).bfloat16())"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"})


def test_a_compiler_that_fails_is_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """numba compiles at the first call, and may then find its disk full."""

    def fail() -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(narrow_loops, "compile_all", fail)
    assert narrow._loops.__wrapped__() is None
    assert "without compiled loops: No space left on device" in caplog.text


def test_every_loop_is_compiled_before_it_is_used() -> None:
    """For the very arrays that come: none is compiled once more in the middle of a training."""
    loops = {name: loop for name, loop in vars(narrow_loops).items() if name.endswith("_rows")}
    narrow_loops.compile_all()
    compiled = {name: len(loop.signatures) for name, loop in loops.items()}
    x = bf16(6, 8).requires_grad_()
    narrow.gated_gelu(x).sum().backward()
    qkv = bf16(6, 3, 2, 4).requires_grad_()
    angles = rotary_angles(torch.arange(6), head_size=4, theta=100.0)
    for turned in (angles, None):
        torch.stack(narrow.heads_apart(qkv, [Span(2, 0, 3, 0, 3)], turned)[0]).sum().backward()
    narrow.softmax_error(bf16(6, 8), torch.arange(6))
    assert {name: len(loop.signatures) for name, loop in loops.items()} == compiled


@pytest.mark.parametrize("causal", [True, False])
def test_attention_takes_them_and_is_the_same(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One module, one batch, with the loops and without."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(hidden_size=24, num_heads=2)
    layout = Layout([7, 7, 3, 11])
    plan = make_plan(layout, layout, causal=causal)
    angles = rotary_angles(layout.positions(), head_size=12, theta=1000.0)
    taken = []
    heads_apart = narrow.heads_apart
    monkeypatch.setattr(narrow, "heads_apart", lambda *states: taken.append(1) or heads_apart(*states))

    def run() -> tuple[Tensor, Tensor]:
        attention.zero_grad()
        x = torch.linspace(-2, 2, 28 * 24).view(28, 24).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            y = attention(x, plan, query_angles=angles, key_angles=angles)
        y.float().square().sum().backward()
        assert x.grad is not None
        return y.detach().float(), x.grad

    with_loops = run()
    assert taken
    monkeypatch.setattr(narrow, "suits", lambda x: False)
    for one, other in zip(with_loops, run(), strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=0.03 * float(other.abs().max()))


def test_feed_forward_takes_them_for_gelu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(narrow, "gated_gelu", lambda x: taken.append(1) or x[:, : x.shape[1] // 2])
    for activation, gated, dtype in (("gelu", True, torch.bfloat16), ("silu", True, torch.bfloat16)):
        FeedForward(hidden_size=6, intermediate_size=4, activation=activation, gated=gated).to(dtype)(bf16(3, 6))
    FeedForward(hidden_size=6, intermediate_size=4, activation="gelu", gated=True)(bf16(3, 6).float())
    FeedForward(hidden_size=6, intermediate_size=4, activation="gelu").to(torch.bfloat16)(bf16(3, 6))
    assert taken == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    program = """
import os, torch
from bertworks.nn import narrow
torch.set_num_threads(2)
x = torch.ones(4, narrow.FEW_NUMBERS, dtype=torch.bfloat16)
parent = narrow._bits(narrow.gated_gelu(x))
child = os.fork()
same = (narrow._bits(narrow.gated_gelu(x)) == parent).all()  # PyTorch's own threads do not survive a fork
if not child:
    os._exit(0 if same else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_importing_it_compiles_nothing() -> None:
    program = "import sys, bertworks.nn.blocks; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
