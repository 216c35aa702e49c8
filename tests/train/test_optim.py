"""Parameter groups are complete; LAMB and Muon take the steps that their papers say."""

import math

import pytest
import torch
from torch import nn

from bertworks.errors import ConfigError
from bertworks.train.config import OptimizerConfig, TrainConfig
from bertworks.train.lamb import Lamb
from bertworks.train.muon import Muon, orthogonalised
from bertworks.train.optim import (
    make_optimizer,
    parameter_groups,
    prove_complete,
    set_learning_rate,
    trained_parameters,
)
from tests.train.small import make_model


@pytest.mark.parametrize("name", ["adamw", "lamb", "muon"])
def test_groups_are_complete_and_decay_matrices_only(name):
    model = make_model()
    optimizer = make_optimizer(model, OptimizerConfig(name=name, weight_decay=0.3))
    prove_complete(model, optimizer.param_groups)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            assert group["weight_decay"] == (0.3 if parameter.ndim >= 2 else 0.0)


def test_tied_and_frozen_parameters():
    model = make_model()
    twin = nn.ModuleDict({"a": model, "b": nn.Linear(24, 31)})
    twin["b"].weight = model.body.embeddings.tokens.weight  # one parameter under two names
    model.pooler.dense.weight.requires_grad_(False)
    groups = parameter_groups(twin, OptimizerConfig())
    prove_complete(twin, groups)
    placed = [parameter for group in groups for parameter in group["params"]]
    assert sum(parameter is twin["b"].weight for parameter in placed) == 1
    assert not any(parameter is model.pooler.dense.weight for parameter in placed)
    model.requires_grad_(False)
    with pytest.raises(ConfigError, match="nothing to train"):
        parameter_groups(model, OptimizerConfig())


def test_wrong_groups_are_found():
    model = make_model()
    names = list(trained_parameters(model))
    first, second = (trained_parameters(model)[name] for name in names[:2])
    groups = parameter_groups(model, OptimizerConfig())
    with pytest.raises(ValueError, match=f"{names[0]} is in 2 groups"):
        prove_complete(model, [*groups, {"params": [first]}])
    for group in groups:
        group["params"] = [parameter for parameter in group["params"] if parameter is not first]
    with pytest.raises(ValueError, match=f"{names[0]} is in no group"):
        prove_complete(model, groups)
    second.requires_grad_(False)
    with pytest.raises(ValueError, match=f"{names[1]} is frozen"):
        prove_complete(model, groups)
    with pytest.raises(ValueError, match="another module"):
        prove_complete(model, [{"params": [nn.Parameter(torch.zeros(2))]}])


def test_layers_learn_slower_the_lower_they_are():
    model = make_model()
    config = OptimizerConfig(learning_rate=0.1, layer_decay=0.5)
    rates = {}
    for group in make_optimizer(model, config).param_groups:
        for parameter in group["params"]:
            rates[parameter] = group["highest_lr"]
    assert rates[model.heads["nsp"].output.weight] == 0.1
    assert rates[model.pooler.dense.weight] == 0.1
    assert rates[model.body.blocks[2].attention.out.weight] == pytest.approx(0.05)
    assert rates[model.body.blocks[0].attention.out.bias] == pytest.approx(0.0125)
    assert rates[model.body.embeddings.tokens.weight] == pytest.approx(0.00625)


def test_the_schedule_scales_every_group():
    optimizer = make_optimizer(make_model(), OptimizerConfig(learning_rate=0.1, layer_decay=0.5))
    set_learning_rate(optimizer, 0.25)
    set_learning_rate(optimizer, 0.5)
    assert all(group["lr"] == group["highest_lr"] * 0.5 for group in optimizer.param_groups)


def test_lamb_by_hand():
    matrix = nn.Parameter(torch.tensor([[3.0, 4.0]]))  # norm 5
    vector = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = Lamb(
        [{"params": [matrix], "weight_decay": 0.1}, {"params": [vector], "weight_decay": 0.0}],
        lr=0.01,
        betas=(0.9, 0.99),
        eps=0.0,
    )
    matrix.grad = torch.tensor([[2.0, -0.5]])
    vector.grad = torch.tensor([2.0, -0.5])
    optimizer.step()
    # First step: m / (1 - b1) = g and v / (1 - b2) = g², so r = sign(g) = (1, -1).
    update = torch.tensor([1.0 + 0.3, -1.0 + 0.4])  # with decay 0.1 of (3, 4)
    moved = torch.tensor([3.0, 4.0]) - 0.01 * 5.0 / update.norm() * update
    torch.testing.assert_close(matrix.detach()[0], moved)
    torch.testing.assert_close(vector.detach(), torch.tensor([3.0 - 0.01, 4.0 + 0.01]))

    before = matrix.detach().clone()
    matrix.grad = torch.tensor([[1.0, 1.0]])
    vector.grad = None
    optimizer.step()
    first, second = torch.tensor([2.0, -0.5]), torch.tensor([1.0, 1.0])
    mean = (0.9 * 0.1 * first + 0.1 * second) / (1 - 0.9**2)
    square = (0.99 * 0.01 * first**2 + 0.01 * second**2) / (1 - 0.99**2)
    update = mean / square.sqrt() + 0.1 * before[0]
    torch.testing.assert_close(matrix.detach()[0], before[0] - 0.01 * before.norm() / update.norm() * update)
    torch.testing.assert_close(vector.detach(), torch.tensor([3.0 - 0.01, 4.0 + 0.01]))


def test_lamb_takes_the_plain_step_where_a_norm_is_zero():
    matrix = nn.Parameter(torch.zeros(1, 2))
    optimizer = Lamb([{"params": [matrix]}], lr=0.01, eps=0.0)
    matrix.grad = torch.tensor([[2.0, -0.5]])
    optimizer.step()
    torch.testing.assert_close(matrix.detach(), torch.tensor([[-0.01, 0.01]]))


@pytest.mark.parametrize("shape", [(4, 7, 11), (3, 11, 7), (2, 5, 5)])
def test_orthogonalised_keeps_directions_and_evens_lengths(shape):
    matrices = torch.randn(shape)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    inner = left.mT @ orthogonalised(matrices) @ right.mT  # diagonal where the directions are kept
    lengths = torch.diagonal(inner, dim1=1, dim2=2)
    assert lengths.min() > 0.5
    assert lengths.max() < 1.3
    torch.testing.assert_close(inner, torch.diag_embed(lengths), atol=1e-4, rtol=0)


def test_muon_by_hand():
    """A multiple of an orthogonal matrix stays one: the iteration runs on the single number 1/sqrt(2)."""
    weight = nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    start = weight.detach().clone()
    weight.grad = torch.tensor([[0.0, -7.0], [7.0, 0.0]])
    optimizer = Muon([{"params": [weight], "lr": 0.1, "weight_decay": 0.5, "momentum": 0.9, "parts": 1}], [])
    optimizer.step()
    length = 1 / math.sqrt(2)
    for _ in range(5):
        length = 3.4445 * length - 4.7750 * length**3 + 2.0315 * length**5
    turned = torch.tensor([[0.0, -length], [length, 0.0]])
    torch.testing.assert_close(weight.detach(), start * (1 - 0.1 * 0.5) - 0.1 * 0.2 * math.sqrt(2) * turned)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon of its own")
def test_muon_goes_torchs_way():
    """torch computes in bf16, we in fp32: the same up to that."""
    ours = [nn.Parameter(torch.randn(11, 7)), nn.Parameter(torch.randn(11, 7)), nn.Parameter(torch.randn(5, 13))]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in ours]
    mine = Muon([{"params": ours, "lr": 0.02, "weight_decay": 0.1, "momentum": 0.95, "parts": 1}], [])
    reference = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for our, their in zip(ours, theirs, strict=True):
            our.grad = torch.randn(our.shape)
            their.grad = our.grad.clone()
        before = [weight.detach().clone() for weight in ours]
        mine.step()
        reference.step()
        for our, their, start in zip(ours, theirs, before, strict=True):
            step, other = our.detach() - start, their.detach() - start
            assert torch.cosine_similarity(step.flatten(), other.flatten(), dim=0) > 0.999
            their.data.copy_(our)


def test_muon_treats_stacked_projections_one_by_one():
    whole = nn.Parameter(torch.zeros(6, 5))
    parts = [nn.Parameter(torch.zeros(2, 5)) for _ in range(3)]
    whole.grad = torch.randn(6, 5)
    for part, gradient in zip(parts, whole.grad.chunk(3), strict=True):
        part.grad = gradient.clone()
    Muon([{"params": [whole], "lr": 0.1, "parts": 3}], []).step()
    Muon([{"params": parts, "lr": 0.1, "parts": 1}], []).step()
    torch.testing.assert_close(whole.detach(), torch.cat([part.detach() for part in parts]))


def test_muon_is_for_the_blocks_and_adamw_for_the_rest():
    model = make_model()
    optimizer = make_optimizer(model, OptimizerConfig(name="muon", muon_learning_rate=0.02, learning_rate=0.001))
    parts = {parameter: group["parts"] for group in optimizer.param_groups for parameter in group["params"]}
    block = model.body.blocks[1]
    assert parts[block.attention.qkv.weight] == 3
    assert parts[block.feed_forward.up.weight] == 2
    assert parts[block.attention.out.weight] == parts[block.feed_forward.down.weight] == 1
    assert parts[model.body.embeddings.tokens.weight] == parts[model.heads["nsp"].output.weight] == 0
    assert parts[block.attention.qkv.bias] == 0
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    alone = make_model()
    reference = make_optimizer(alone, OptimizerConfig(name="adamw", learning_rate=0.001))
    for parameter, other in zip(model.parameters(), alone.parameters(), strict=True):
        other.grad = parameter.grad.clone()
    for _ in range(2):
        optimizer.step()
        reference.step()
    for parameter, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(parameter, other) == (parts[parameter] == 0)


@pytest.mark.parametrize(
    "options", [{"learning_rate": 0.0}, {"betas": (0.9, 1.0)}, {"layer_decay": 1.5}, {"eps": -1.0}]
)
def test_senseless_optimizer_settings_are_refused(options):
    with pytest.raises(ConfigError, match="allowed"):
        OptimizerConfig(**options)


@pytest.mark.parametrize("options", [{"ema": 1.0}, {"checkpoint_steps": 0}, {"clip_norm": 0.0}, {"micro_tokens": 0}])
def test_senseless_settings_are_refused(options):
    with pytest.raises(ConfigError, match="allowed"):
        TrainConfig(**options)
