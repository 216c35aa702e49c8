"""Muon: momentum whose step is made orthogonal (Jordan et al. 2024), for the matrices inside the blocks.

A gradient matrix is mostly a few strong directions. Muon replaces the (Nesterov) momentum M = U S V' by nearly U V': all
directions get the same length, the weak ones included. U V' is approached without a decomposition, by five rounds of
a quintic Newton-Schulz iteration, which is nothing but matrix products:

    X = M / |M|;   five times:  A = X X',  X = a X + (b A + c A A) X

The coefficients trade exactness for speed: the lengths end up between about 0.7 and 1.2. The step is then scaled by
0.2 sqrt(max(rows, columns)), which makes its entries as large as AdamW's usually are (Liu et al. 2025, "Muon is scalable"),
so that one learning rate and one weight decay serve both.

Everything that is not such a matrix (embedding tables, output layers, biases, norms) is trained by AdamW. Query, key and
value projections share one tensor here but are three matrices, and each is made orthogonal on its own; so are the two of a
gated feed-forward network. Matrices of one shape are stacked, so that the products are few and large.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, overload

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5


def orthogonalised(matrices: Tensor) -> Tensor:
    """(n, rows, columns) -> the same shape: each matrix with its singular values brought near 1."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices  # the products are of the shorter side's size
    # bf16 is exact enough for this iteration and fast where the device has it; a CPU mostly has not.
    x = x if x.device.type == "cpu" else x.bfloat16()
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        gram = x @ x.mT  # (n, r, r)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Muon for the `matrices` groups and torch's AdamW for the `rest`, as one optimiser.

    A group of matrices has "lr", "weight_decay", "momentum" and "parts": how many matrices each parameter's rows hold.
    """

    def __init__(
        self,
        matrices: Sequence[dict[str, Any]],
        rest: Sequence[dict[str, Any]],
        *,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-6,
        fused: bool | None = None,
    ) -> None:
        every = [*matrices, *rest]
        super().__init__(every, {"lr": 1e-3, "weight_decay": 0.0, "momentum": 0.95, "parts": 1})
        for group in self.param_groups[: len(matrices)]:
            for weight in group["params"]:
                if weight.ndim != 2 or weight.shape[0] % group["parts"]:
                    shape = tuple(weight.shape)
                    raise ValueError(f"Muon trains matrices of {group['parts']} equal parts, not shape {shape}")
        self.num_matrix_groups = len(matrices)
        self.adamw: torch.optim.AdamW | None = None
        if rest:
            self.adamw = torch.optim.AdamW(list(rest), betas=betas, eps=eps, fused=fused)
            # One list of groups and one state for both, so that schedules and checkpoints see a single optimiser.
            self.param_groups[len(matrices) :] = self.adamw.param_groups
            self.adamw.state = self.state

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move every parameter that has a gradient."""
        assert closure is None, "the gradients are made before the step"
        for group in self.param_groups[: self.num_matrix_groups]:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape[weight.shape].append(weight)
            for weights in by_shape.values():
                self._step(group, weights)
        if self.adamw is not None:
            self.adamw.step()
        return None

    def _step(self, group: dict[str, Any], weights: list[Tensor]) -> None:
        """n weights of one shape (parts * rows, columns)."""
        momentum, parts = group["momentum"], group["parts"]
        gradients = [weight.grad for weight in weights if weight.grad is not None]  # all have one
        buffers = [self._buffer_of(weight) for weight in weights]
        torch._foreach_lerp_(buffers, gradients, 1.0 - momentum)
        looking_ahead = torch._foreach_lerp(gradients, buffers, momentum)  # Nesterov's form
        stacked = (
            torch.stack([_whole(matrix) for matrix in looking_ahead]).unflatten(1, (parts, -1)).flatten(0, 1)
        )  # (n * parts, rows, columns)
        size = 0.2 * math.sqrt(max(stacked.shape[1:]))
        turned = orthogonalised(stacked).reshape(len(weights), *weights[0].shape)
        updates = [_part(update, weight) for update, weight in zip(turned, weights, strict=True)]
        torch._foreach_mul_(weights, 1.0 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(weights, updates, alpha=-group["lr"] * size)

    def _buffer_of(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        return state["momentum"]


def _whole(matrix: Tensor) -> Tensor:
    """A sharded matrix in full: orthogonality is a property of all of it, so each process turns the whole."""
    full: Tensor = matrix.full_tensor() if hasattr(matrix, "full_tensor") else matrix
    return full


def _part(update: Tensor, weight: Tensor) -> Tensor:
    """This process's part of an update that every process has in full."""
    if not hasattr(weight, "full_tensor"):
        return update
    from torch.distributed.tensor import DTensor, Replicate

    assert isinstance(weight, DTensor)
    return DTensor.from_local(update, weight.device_mesh, [Replicate()]).redistribute(placements=weight.placements)
