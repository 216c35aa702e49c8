"""The exponential moving average of the weights (Polyak & Juditsky 1992, in the form that is usual since).

After each step every averaged weight moves a little towards the trained one:

    average = average + (1 - decay) * (weight - average)

The average is worth about 1 / (1 - decay) steps. Early in the training that many steps have not been taken, and the
average would mostly remember the random start; so the decay is at most (1 + steps) / (10 + steps).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn


class Average:
    """The averaged weights of a module's trained parameters, by name."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, decay: float) -> None:
        self.decay = decay
        self.parameters = dict(parameters)
        self.weights: dict[str, Tensor] = {name: weight.detach().clone() for name, weight in parameters.items()}

    def decay_at(self, step: int) -> float:
        """The decay after `step` steps."""
        return min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights as they are after `step` steps."""
        now = [weight.detach() for weight in self.parameters.values()]
        torch._foreach_lerp_(list(self.weights.values()), now, 1.0 - self.decay_at(step))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the module has the averaged weights; afterwards it has its own again, bit for bit."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the module's weights and the averaged ones."""
        for name, parameter in self.parameters.items():
            weight = parameter.detach().clone()
            parameter.copy_(self.weights[name])
            self.weights[name].copy_(weight)
