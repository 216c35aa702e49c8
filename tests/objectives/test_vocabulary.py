"""The chunked cross entropy against torch's own, and the draws against the distribution they come from."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bertworks.objectives import vocabulary
from bertworks.objectives.vocabulary import (
    Output,
    output_of,
    soft_vocabulary_loss,
    vocabulary_loss,
    vocabulary_loss_and_samples,
)
from tests.objectives.language import VOCAB_SIZE, make_model, vocabulary_head


def leaves(rows: int, width: int = 7, vocab_size: int = 23, *, bias: bool = True) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(rows, width), (vocab_size, width), (vocab_size,)][: 3 if bias else 2]
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 40])
@pytest.mark.parametrize("block", [5, 23, 100])
def test_sum_and_gradients_are_those_of_cross_entropy(
    rows: int, block: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "CHUNK_BYTES", 4 * 10 * 23)  # ten rows at once
    monkeypatch.setattr(vocabulary, "BLOCK", block)
    targets = torch.arange(rows) * 5 % 23
    ours, theirs = leaves(rows, bias=bias), leaves(rows, bias=bias)
    loss = vocabulary_loss(Output(ours[0], ours[1], ours[2] if bias else None), targets)
    logits = F.linear(theirs[0], theirs[1], theirs[2] if bias else None)
    expected = F.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(loss.sum, expected)
    assert loss.count == rows
    assert int(loss.correct) == int((logits.argmax(-1) == targets).sum())
    (loss.sum * 0.37).backward()
    (expected * 0.37).backward()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("rows", [0, 9, 25])
@pytest.mark.parametrize("bias", [True, False])
def test_in_bf16_it_is_the_same_but_for_rounding(rows: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one chunk or three: logits of 8 bits, sums over rows in more."""
    monkeypatch.setattr(vocabulary, "CHUNK_BYTES", 2 * 10 * 23)
    targets = torch.arange(rows) * 5 % 23
    ours, theirs = leaves(rows, bias=bias), leaves(rows, bias=bias)
    with torch.autocast("cpu", torch.bfloat16):
        loss = vocabulary_loss(Output(ours[0], ours[1], ours[2] if bias else None), targets)
    rounded = [leaf.bfloat16().float() for leaf in theirs]
    logits = F.linear(rounded[0], rounded[1], rounded[2] if bias else None)
    expected = F.cross_entropy(logits, targets, reduction="sum")
    assert loss.sum.dtype == torch.float32
    torch.testing.assert_close(loss.sum, expected, rtol=0.01, atol=0.0)
    (loss.sum * 0.37).backward()
    (expected * 0.37).backward()
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad.dtype == torch.float32
        torch.testing.assert_close(one.grad, other.grad, rtol=0.02, atol=0.03)


def test_by_hand() -> None:
    """Logits 0 and log 3: the probabilities are 1/4 and 3/4."""
    features = torch.tensor([[1.0], [1.0]], requires_grad=True)
    weight = torch.tensor([[0.0], [math.log(3)]], requires_grad=True)
    loss = vocabulary_loss(Output(features, weight, None), torch.tensor([0, 1]))
    assert float(loss.sum.detach()) == pytest.approx(math.log(4) + math.log(4 / 3))
    assert int(loss.correct) == 1
    loss.sum.backward()
    # softmax minus one-hot: (-3/4, 3/4) and (1/4, -1/4)
    assert weight.grad.flatten().tolist() == pytest.approx([-0.5, 0.5])
    assert features.grad.flatten().tolist() == pytest.approx([0.75 * math.log(3), -0.25 * math.log(3)])


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_soft_targets_are_a_divergence(temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "CHUNK_BYTES", 4 * 4 * 23)
    monkeypatch.setattr(vocabulary, "BLOCK", 10)
    ours, theirs = leaves(11), leaves(11)
    generator = torch.Generator().manual_seed(1)
    teacher = Output(torch.randn(11, 5, generator=generator), torch.randn(23, 5, generator=generator), None)
    loss = soft_vocabulary_loss(Output(*ours), teacher, temperature)
    expected = temperature**2 * F.kl_div(
        F.log_softmax(F.linear(*theirs) / temperature, dim=-1),
        F.log_softmax(F.linear(teacher.features, teacher.weight) / temperature, dim=-1),
        reduction="sum",
        log_target=True,
    )
    torch.testing.assert_close(loss.sum, expected)
    assert loss.count == 11
    (loss.sum * 0.37).backward()
    (expected * 0.37).backward()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_soft_targets_by_hand() -> None:
    """At T = 2, logits 0 and 2 log 3 are the probabilities 1/4 and 3/4; the student says 1/2 and 1/2."""
    teacher = Output(torch.ones(1, 1), torch.tensor([[0.0], [2 * math.log(3)]]), None)
    student = Output(torch.ones(1, 1), torch.zeros(2, 1), None)
    kl = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert float(soft_vocabulary_loss(student, teacher, 2.0).sum) == pytest.approx(4 * kl)
    assert float(soft_vocabulary_loss(teacher, teacher, 2.0).sum) == pytest.approx(0.0, abs=1e-7)


def test_far_apart_logits_stay_finite() -> None:
    features = torch.tensor([[1.0]], requires_grad=True)
    loss = vocabulary_loss(Output(features, torch.tensor([[-1e4], [1e4]]), None), torch.tensor([0]))
    assert float(loss.sum.detach()) == pytest.approx(2e4)
    loss.sum.backward()
    assert torch.isfinite(features.grad).all()


def test_a_second_backward_pass_is_refused() -> None:
    features, weight, bias = leaves(3)
    loss = vocabulary_loss(Output(features, weight, bias), torch.tensor([0, 1, 2]))
    loss.sum.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified"):
        loss.sum.backward()


def test_the_head_is_the_models_own() -> None:
    """Cut before the last matrix or not, tied or not: the logits are those of the head."""
    for tied in (True, False):
        head = vocabulary_head("mlm", 32)
        model = make_model(type(head)(**{**vars(head), "tied": tied}))
        hidden = torch.randn(4, 32)
        output = output_of(model, "mlm", hidden)
        logits = F.linear(output.features, output.weight, output.bias)
        torch.testing.assert_close(logits, model.head("mlm")(hidden, model.body.embeddings.tokens.weight))
        assert logits.shape == (4, VOCAB_SIZE)


def test_samples_follow_the_distribution() -> None:
    """Evenly spaced numbers invert the cumulative distribution: each token comes as often as it is likely."""
    probabilities = torch.tensor([0.1, 0.0, 0.4, 0.2, 0.3])
    rows = 1000
    uniform = (torch.arange(rows) + 0.5) / rows
    output = Output(torch.ones(rows, 1), probabilities.log()[:, None], None)
    _, sampled = vocabulary_loss_and_samples(output, torch.zeros(rows, dtype=torch.long), uniform)
    assert torch.bincount(sampled, minlength=5).tolist() == pytest.approx([100, 0, 400, 200, 300], abs=1)
    assert torch.equal(sampled, sampled.sort().values)


def test_the_ends_of_the_range_give_tokens_that_are_possible() -> None:
    probabilities = torch.tensor([0.0, 0.5, 0.5, 0.0])
    uniform = torch.tensor([0.0, 0.5, 1 - 2**-24])
    output = Output(torch.ones(3, 1), probabilities.log()[:, None], None)
    _, sampled = vocabulary_loss_and_samples(output, torch.tensor([1, 1, 1]), uniform)
    assert sampled.tolist() == [1, 2, 2]
