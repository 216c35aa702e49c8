"""LAMB: Adam whose step is measured against each matrix's own size (You et al. 2019, algorithm 2), for large batches.

    m = b1 m + (1 - b1) g            v = b2 v + (1 - b2) g²
    r = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
    u = r + decay * w
    w = w - rate * (|w| / |u|) * u

so a matrix moves by `rate` of its own norm, whatever its gradients are. Biases and norms, whose size says little, take
the plain step (ratio 1), as in the authors' code. Left out: the paper's optional bounds on |w|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor


class Lamb(torch.optim.Optimizer):
    """LAMB over lists of tensors: a few calls per step, not a few per parameter."""

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move every parameter that has a gradient."""
        assert closure is None, "the gradients are made before the step"
        for group in self.param_groups:
            weights: list[Tensor] = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._step(group, weights)
        return None

    def _step(self, group: dict[str, Any], weights: list[Tensor]) -> None:
        (beta1, beta2), rate = group["betas"], group["lr"]
        gradients = [weight.grad for weight in weights if weight.grad is not None]  # all have one
        states = [self._state_of(weight) for weight in weights]
        means = [state["mean"] for state in states]
        squares = [state["square"] for state in states]
        torch._foreach_add_([state["step"] for state in states], 1.0)
        steps = [state["step"].item() for state in states]  # on the CPU: nothing waits for the device

        torch._foreach_lerp_(means, gradients, 1.0 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1.0 - beta2)

        below = torch._foreach_sqrt(squares)
        torch._foreach_div_(below, [math.sqrt(1.0 - beta2**step) for step in steps])
        torch._foreach_add_(below, group["eps"])
        updates = torch._foreach_div(means, [1.0 - beta1**step for step in steps])
        torch._foreach_div_(updates, below)
        if group["weight_decay"]:
            torch._foreach_add_(updates, weights, alpha=group["weight_decay"])

        sized = [index for index, weight in enumerate(weights) if weight.ndim >= 2]
        if sized:
            weight_norms = torch._foreach_norm([weights[index] for index in sized])
            update_norms = torch._foreach_norm([updates[index] for index in sized])
            ratios = [
                torch.where((weight > 0) & (update > 0), weight / update, 1.0)
                for weight, update in zip(weight_norms, update_norms, strict=True)
            ]
            torch._foreach_mul_([updates[index] for index in sized], ratios)
        torch._foreach_add_(weights, updates, alpha=-rate)

    def _state_of(self, weight: Tensor) -> dict[str, Tensor]:
        state = self.state[weight]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["mean"] = torch.zeros_like(weight)
            state["square"] = torch.zeros_like(weight)
        return state
