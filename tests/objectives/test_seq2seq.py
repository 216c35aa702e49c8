"""The objective of translation: sums and counts that add up, gradients that are right, nothing between pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bertworks.data.pairs import Pairs, PairSource
from bertworks.objectives.seq2seq import NAME, Seq2Seq
from bertworks.objectives.vocabulary import Output, vocabulary_loss
from tests.translate.small import make_rnn, make_text, make_tokenizer, make_transformer

TEXT = make_text(60)
TOKENIZER = make_tokenizer()
SOURCE = PairSource(TEXT, TOKENIZER, max_length=24)
MODELS = {
    "transformer": make_transformer,
    "bahdanau": lambda tokenizer: make_rnn(tokenizer, attention="bahdanau"),
    "luong": lambda tokenizer: make_rnn(tokenizer, attention="luong", cell="lstm"),
}


def rows(*numbers: int) -> Pairs:
    return SOURCE.take(np.array(numbers), epoch=0)


def gradients(module: nn.Module, *parts: Pairs, smoothing: float = 0.1) -> tuple[float, int, dict[str, torch.Tensor]]:
    objective = Seq2Seq(label_smoothing=smoothing)
    total, count = 0.0, 0
    module.zero_grad()
    for part in parts:
        batch = objective.prepare(part, 0.5)
        loss = objective.losses(module, batch)[NAME]
        assert loss.count == batch.counts[NAME]
        loss.sum.backward()
        total, count = total + float(loss.sum.detach()), count + loss.count
    found = {}
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        found[name] = parameter.grad.clone()
    return total, count, found


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_label_smoothing_is_pytorch_s(smoothing: float) -> None:
    torch.manual_seed(0)
    features, weight = torch.randn(9, 5, requires_grad=True), torch.randn(13, 5, requires_grad=True)
    bias, targets = torch.randn(13, requires_grad=True), torch.randint(13, (9,))
    ours = vocabulary_loss(Output(features, weight, bias), targets, label_smoothing=smoothing)
    made = torch.autograd.grad(2.0 * ours.sum, [features, weight, bias])
    theirs = F.cross_entropy(F.linear(features, weight, bias), targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(ours.sum, theirs)
    for one, other in zip(made, torch.autograd.grad(2.0 * theirs, [features, weight, bias]), strict=True):
        torch.testing.assert_close(one, other)


def test_inputs_and_targets_are_shifted() -> None:
    batch = Seq2Seq().prepare(rows(0), 0.0)
    ids = TOKENIZER.encode(TEXT.targets[0]).ids
    assert batch.packed.input_ids.tolist() == ids[:-1].tolist()
    assert batch.tensors["targets"].tolist() == ids[1:].tolist()
    assert batch.source.input_ids.tolist() == TOKENIZER.encode(TEXT.sources[0]).ids.tolist()
    assert batch.num_tokens == len(ids) - 1 + batch.source.layout.total
    assert batch.to("cpu").source.layout is batch.source.layout


@pytest.mark.parametrize("kind", MODELS)
def test_sums_and_gradients_add_up_and_reach_everything(kind: str) -> None:
    module = MODELS[kind](TOKENIZER)
    numbers = [3, 8, 11, 20, 21, 30, 44]
    whole = gradients(module, rows(*numbers))
    parts = gradients(module, rows(*numbers[::2]), rows(*numbers[1::2]))
    assert whole[1] == parts[1]
    assert whole[0] == pytest.approx(parts[0], rel=1e-5)
    for name, gradient in whole[2].items():
        assert float(gradient.abs().max()) > 0, name
        scale = max(1.0, float(gradient.abs().max()))
        assert float((gradient - parts[2][name]).abs().max()) < 1e-4 * scale, name


@pytest.mark.parametrize("kind", MODELS)
def test_a_loss_does_not_depend_on_its_neighbours(kind: str) -> None:
    module = MODELS[kind](TOKENIZER)
    numbers = list(range(12))
    together = gradients(module, rows(*numbers), smoothing=0.0)[0]
    alone = sum(gradients(module, rows(number), smoothing=0.0)[0] for number in numbers)
    assert together == pytest.approx(alone, rel=1e-5)
