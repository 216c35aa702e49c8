"""From a module and its settings to an optimiser whose parameter groups are proven complete.

Weight decay is for matrices and embedding tables; biases and norms go without, as in BERT and RoBERTa. With `layer_decay`
each layer learns a little slower than the one above it (ULMFiT's discriminative fine-tuning, Howard & Ruder 2018): the heads
at full rate, the highest block at `layer_decay`, the one below at its square, the embeddings slowest.

A parameter that is used in two places is one parameter and is in one group. One that is frozen (`requires_grad=False`) is in
none. Whatever else happened to the groups is an error here, and not a model that silently does not learn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.errors import ConfigError
from bertworks.nn.attention import MultiHeadAttention
from bertworks.nn.blocks import Block, FeedForward
from bertworks.train.config import OptimizerConfig
from bertworks.train.lamb import Lamb
from bertworks.train.muon import Muon

_BLOCK = re.compile(r"(?:^|\.)(?:blocks|recurrent\.layers)\.(\d+)\.")
_LOWEST = re.compile(r"(?:^|\.)(?:embeddings|buckets)\.")


def trained_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that want a gradient, each once, under its first name."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def make_optimizer(module: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimiser for everything in `module` that wants a gradient. `set_learning_rate` before each step."""
    groups = parameter_groups(module, config)
    prove_complete(module, groups)
    device = next(iter(trained_parameters(module).values())).device.type
    fused = device in ("cpu", "cuda", "mps", "xpu")
    optimizer: torch.optim.Optimizer
    if config.name == "lamb":
        optimizer = Lamb(groups, betas=config.betas, eps=config.eps)
    elif config.name == "muon":
        matrices = [group for group in groups if group["parts"]]
        rest = [group for group in groups if not group["parts"]]
        optimizer = Muon(matrices, rest, betas=config.betas, eps=config.eps, fused=fused)
    else:
        optimizer = torch.optim.AdamW(groups, betas=config.betas, eps=config.eps, fused=fused)
    prove_complete(module, optimizer.param_groups)
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, scale: float) -> None:
    """Give every group the schedule's share of its own highest learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["highest_lr"] * scale


@dataclass(frozen=True, order=True)
class _Kind:
    """What the parameters of one group have in common."""

    layer: int
    decay: bool
    parts: int
    """Matrices stacked in the parameter's rows that Muon makes orthogonal; 0 = not for Muon."""


def parameter_groups(module: nn.Module, config: OptimizerConfig) -> list[dict[str, Any]]:
    """Groups as torch's optimisers take them, with "highest_lr", "weight_decay" and, for Muon, "parts" and "momentum"."""
    parameters = trained_parameters(module)
    if not parameters:
        raise ConfigError("there is nothing to train: every parameter of the model is frozen")
    blocks = [int(found[1]) for name in parameters if (found := _BLOCK.search(name))]
    top = max(blocks, default=-1) + 2  # 0 = embeddings, 1 … = blocks, top = heads and whatever else stands above
    parts = _matrix_parts(module) if config.name == "muon" else {}
    kinds: dict[_Kind, list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        layer = _layer_of(name, top) if config.layer_decay < 1.0 else top
        kind = _Kind(layer, parameter.ndim >= 2, parts.get(parameter, 0))
        kinds.setdefault(kind, []).append(parameter)
    groups = []
    for kind, members in sorted(kinds.items()):
        rate = config.learning_rate
        if kind.parts:
            rate = config.muon_learning_rate or rate
        rate *= config.layer_decay ** (top - kind.layer)
        group = {
            "params": members,
            "lr": rate,
            "highest_lr": rate,
            "weight_decay": config.weight_decay if kind.decay else 0.0,
            "parts": kind.parts,
        }
        if kind.parts:
            group["momentum"] = config.muon_momentum
        groups.append(group)
    return groups


def prove_complete(module: nn.Module, groups: Iterable[dict[str, Any]]) -> None:
    """Every parameter that wants a gradient is in exactly one group, and nothing else is in any; else a ValueError."""
    wanted = {id(parameter): name for name, parameter in trained_parameters(module).items()}
    frozen = {id(parameter): name for name, parameter in module.named_parameters()}
    times = Counter(id(parameter) for group in groups for parameter in group["params"])
    problems = [f"{name} is in no group" for key, name in wanted.items() if key not in times]
    for key, count in times.items():
        if key not in wanted:
            problems.append(f"{frozen[key]} is frozen" if key in frozen else "a parameter of another module is there")
        elif count > 1:
            problems.append(f"{wanted[key]} is in {count} groups")
    if problems:
        raise ValueError(f"the optimiser's parameter groups are wrong: {'; '.join(problems)}")


def _layer_of(name: str, top: int) -> int:
    block = _BLOCK.search(name)
    if block:
        return int(block[1]) + 1
    return 0 if _LOWEST.search(name) else top


def _matrix_parts(module: nn.Module) -> dict[Tensor, int]:
    """The matrices inside the blocks, and how many are stacked in each: queries, keys and values share one tensor, and so do
    the gates of a recurrent layer."""
    parts: dict[Tensor, int] = {}
    for block in module.modules():
        if isinstance(block, nn.RNNBase):
            for name, weight in block.named_parameters():
                if name.startswith(("weight_ih", "weight_hh")):
                    parts[weight] = len(weight) // block.hidden_size
        if not isinstance(block, Block):
            continue
        for part in block.modules():
            if isinstance(part, nn.Linear):
                parts.setdefault(part.weight, 1)
            elif isinstance(part, FeedForward):
                parts[part.up.weight] = 2 if part.gated else 1
            elif isinstance(part, MultiHeadAttention):
                if part.cross:
                    parts[part.key_value.weight] = 2
                else:
                    parts[part.qkv.weight] = 3
    return parts
