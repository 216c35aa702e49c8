"""One step of training: gradients of a whole batch, exact however it is cut up, and the update that follows.

    loss = sum over names of  weight[name] * (sum over processes and micro-batches of Loss.sum) / (global count of name)

The counts are known before the forward pass, so each micro-batch's sum is divided by the global count at once, and the
gradients simply add up: accumulation and data parallelism change nothing but the order of additions.

Dropout is seeded by (seed, step, micro-batch, process) before each forward pass. There is then no random state that a
checkpoint would have to hold.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertworks.nn.blocks import Block
from bertworks.objectives.base import Batch, Loss, Objective
from bertworks.train.config import TrainConfig
from bertworks.train.optim import make_optimizer, set_learning_rate, trained_parameters
from bertworks.train.parallel import Parallel


class Step(nn.Module):
    """The module and its losses as one forward pass, which is what DDP and FSDP listen to.

    A batch without sequences goes through it like any other: where processes compute together, the one that has none
    left must still take part.
    """

    def __init__(self, module: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.module = module
        self.objective = objective

    def forward(self, batch: Batch) -> dict[str, Loss]:
        """The losses of one micro-batch."""
        return self.objective.losses(self.module, batch)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the forward and backward passes of one step gave, over all processes."""

    losses: dict[str, float]
    accuracy: dict[str, float]
    grad_norm: float
    num_tokens: int
    flags: tuple[float, ...]
    """The caller's own numbers, added up over the processes."""


class Stepper:
    """Takes steps on a module. Between steps the gradients are empty."""

    def __init__(
        self, module: nn.Module, objective: Objective, config: TrainConfig, *, seed: int, parallel: Parallel
    ) -> None:
        self.objective = objective
        self.config = config
        self.seed = seed
        self.parallel = parallel
        self.module = module.to(parallel.device)
        self.forward = parallel.prepare(Step(module, objective))
        self.optimizer = make_optimizer(module, config.optimizer)
        self._prepared = parallel.prepare_optimizer(self.optimizer)
        self.parameters = trained_parameters(module)

    def gradients(self, step: int, batches: Sequence[Batch], flags: Sequence[float] = ()) -> Outcome:
        """Fill the gradients with those of step `step` and clip them."""
        parallel, names = self.parallel, list(self.objective.weights)
        counts, num_tokens = self._global_counts(names, batches)
        zero = torch.zeros((), device=parallel.device)
        sums = dict.fromkeys(names, zero)
        right: dict[str, Tensor] = {}
        for micro, batch in enumerate(batches):
            torch.manual_seed(seed_of(self.seed, step, micro, parallel.rank))
            last = micro == len(batches) - 1
            with contextlib.nullcontext() if last else parallel.no_sync(self.forward):
                with parallel.autocast():
                    losses = self._losses(batch)
                total = zero
                for name in names:
                    if counts[name]:
                        share = self.objective.weights[name] * parallel.world / counts[name]
                        total = total + losses[name].sum * share
                if total.requires_grad:
                    parallel.backward(total)
            for name in names:  # still on the device: nothing waits here
                loss = losses[name]
                sums[name] = sums[name] + loss.sum.detach()
                if loss.correct is not None:
                    right[name] = right.get(name, zero) + loss.correct
        grad_norm = parallel.clip(self.parameters.values(), self.config.clip_norm)
        added = self._added_up(
            [*sums.values(), *(right.get(name, zero) for name in names)],
            [*(float(name in right) for name in names), *flags],
        )
        total_sums, total_right, judged = (added[i * len(names) : (i + 1) * len(names)] for i in range(3))
        there = [(i, name) for i, name in enumerate(names) if counts[name]]
        return Outcome(
            losses={name: total_sums[i] / counts[name] for i, name in there},
            accuracy={name: total_right[i] / counts[name] for i, name in there if judged[i]},
            grad_norm=grad_norm,
            num_tokens=num_tokens,
            flags=tuple(added[3 * len(names) :]),
        )

    def _added_up(self, measured: Sequence[Tensor], known: Sequence[float]) -> list[float]:
        """Numbers on the device and numbers known here, added up over the processes: the device is waited for once."""
        kind = torch.float32 if self.parallel.device.type == "mps" else torch.float64
        values = [value.detach().to(kind) for value in measured]
        numbers = torch.tensor(known, dtype=kind, device=self.parallel.device)
        result: list[float] = self.parallel.sum(torch.cat([torch.stack(values), numbers])).tolist()
        return result

    def _global_counts(self, names: Sequence[str], batches: Sequence[Batch]) -> tuple[dict[str, int], int]:
        local = [sum(batch.counts.get(name, 0) for batch in batches) for name in names]
        local.append(sum(batch.num_tokens for batch in batches))
        *counts, num_tokens = self.parallel.sum(torch.tensor(local, dtype=torch.int64)).tolist()
        return dict(zip(names, counts, strict=True)), num_tokens

    def _losses(self, batch: Batch) -> Mapping[str, Loss]:
        """The losses of a micro-batch, whose counts are as they were prepared."""
        losses: dict[str, Loss] = self.forward(batch.to(self.parallel.device))
        for name, loss in losses.items():
            if loss.count != batch.counts.get(name, 0):
                raise ValueError(
                    f"the loss {name} is of {loss.count} items, its batch was prepared with {batch.counts}"
                )
        return losses

    def update(self, scale: float) -> None:
        """Move the weights with the schedule's share of the learning rate, and empty the gradients."""
        set_learning_rate(self.optimizer, scale)
        self._prepared.step()
        self.drop()

    def drop(self) -> None:
        """Empty the gradients."""
        self._prepared.zero_grad(set_to_none=True)


def seed_of(*numbers: int) -> int:
    """One well-mixed seed out of several numbers."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()) >> 1


@contextlib.contextmanager
def recomputing(module: nn.Module) -> Iterator[None]:
    """Gradient checkpointing: inside, a block remembers its input only, and is computed again in the backward pass.

    Dropout falls as it did the first time, so the results are the same (Chen et al. 2016).
    """
    blocks = [block for block in module.modules() if isinstance(block, Block)]
    for block in blocks:
        vars(block)["forward"] = partial(_recomputed, block)
    try:
        yield
    finally:
        for block in blocks:
            del vars(block)["forward"]


def _recomputed(block: Block, *arguments: Any, **named: Any) -> Tensor:
    plain = partial(type(block).forward, block)
    if not (block.training and torch.is_grad_enabled()):
        return plain(*arguments, **named)
    result: Tensor = checkpoint(plain, *arguments, use_reentrant=False, **named)
    return result
