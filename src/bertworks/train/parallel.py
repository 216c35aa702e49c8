"""One process or many, one device or another, behind one small object, on `accelerate` and PyTorch's own FSDP.

    python …                               one process on the CPU, in fp32 or bf16: `accelerate` is not even imported
    torchrun --nproc-per-node 2 …          one process per device (`accelerate launch` is the same)

With several processes each holds a copy of the model and they add up their gradients (DDP), or, `sharded`, each holds a
part of the weights and of the optimiser and lends it to the others for as long as a block is computed (FSDP 2). Both divide
the added gradients by the number of processes; the loop, whose losses are divided by global counts, multiplies it back.
Sharding is PyTorch's `fully_shard` itself, applied to each block and to the whole: `accelerate` does just that on GPUs, and
not on CPUs, where it can be tested by anyone.

Left out: tensor, pipeline and context parallelism. Checkpoints are written by process 0: with several machines the run's
directory is on a disk that all of them see.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.errors import UsageError
from bertworks.nn.blocks import Block
from bertworks.train.config import Precision


class Parallel:
    """What a training needs to know of its processes, and what they do together."""

    def __init__(
        self, *, device: str | torch.device = "cpu", precision: Precision = "fp32", sharded: bool = False
    ) -> None:
        self.device = torch.device(device)
        self.precision = precision
        self.rank, self.world = 0, int(os.environ.get("WORLD_SIZE", "1"))
        self.sharded = sharded and self.world > 1
        self.accelerator: Any = None
        if precision == "fp16" and self.device.type == "cpu":
            raise UsageError("precision fp16 needs a GPU; on the CPU, use fp32 or bf16")
        if precision == "fp16" and self.sharded:
            raise UsageError("precision fp16 cannot be sharded here; use bf16")
        if self.world > 1 or self.device.type != "cpu":
            if self.device.type == "cuda" and self.device.index is not None and self.world == 1:
                torch.cuda.set_device(self.device)  # accelerate takes the current one
            self.accelerator = _accelerator(self.device, precision)
            self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
            self.device = self.accelerator.device

    @property
    def main(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    # Before training.

    def prepare(self, module: nn.Module) -> nn.Module:
        """The module as it is to be called. Sharded, its parameters are other objects afterwards."""
        if self.accelerator is None:
            return module
        if self.sharded:
            return self._shard(module)
        prepared: nn.Module = self.accelerator.prepare(module)
        return prepared

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimiser, made for the prepared module's parameters, as it is to be stepped."""
        if self.accelerator is None or self.sharded:
            return optimizer
        prepared: torch.optim.Optimizer = self.accelerator.prepare(optimizer)
        return prepared

    def _shard(self, module: nn.Module) -> nn.Module:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.world,))
        for block in [part for part in module.modules() if isinstance(part, Block)]:
            fully_shard(block, mesh=mesh)
        fully_shard(module, mesh=mesh)  # in place
        return module

    def release(self) -> None:
        """Forget what was prepared."""
        if self.accelerator is not None:
            self.accelerator.free_memory()

    # In a step.

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Inside, the module computes in the configured precision; one that `accelerate` has prepared does so by itself."""
        if self.precision == "fp32":
            return contextlib.nullcontext()
        if self.accelerator is None:
            return torch.autocast(self.device.type, torch.bfloat16)
        if not self.sharded:
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = self.accelerator.autocast()
        return context

    @contextlib.contextmanager
    def no_sync(self, module: nn.Module) -> Iterator[None]:
        """Inside, backward passes add to this process's gradients only; the next one outside shares them all."""
        if self.sharded:
            module.set_requires_gradient_sync(False)  # type: ignore[operator]  # what fully_shard made of it can
            yield
            module.set_requires_gradient_sync(True)  # type: ignore[operator]
        elif self.world > 1:
            with self.accelerator.no_sync(module):
                yield
        else:
            yield

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of `loss`."""
        if self.accelerator is None:
            loss.backward()
        else:
            self.accelerator.backward(loss)

    @torch.no_grad()
    def clip(self, parameters: Iterable[nn.Parameter], max_norm: float | None) -> float:
        """The gradients' common norm; where it is above `max_norm` they are scaled down to it."""
        if self.accelerator is not None:
            self.accelerator.unscale_gradients()
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = self.full(nn.utils.get_total_norm(gradients)).item()
        # Written so that a norm that is not a number scales nothing; the caller sees it and drops the step.
        if max_norm is not None and norm > max_norm and norm != float("inf"):
            torch._foreach_mul_(gradients, max_norm / (norm + 1e-6))
        return norm

    def leave_out(self) -> None:
        """Tell fp16's gradient scale, instead of a step of the optimiser, that there is none for these gradients."""
        scaler = getattr(self.accelerator, "scaler", None)
        if scaler is not None:
            scaler.update()

    # Between processes.

    def sum(self, values: Tensor) -> Tensor:
        """Added up over the processes; a new tensor where there are several, `values` itself where there is one."""
        if self.world == 1:
            return values
        total: Tensor = self.accelerator.reduce(values.to(self.device), reduction="sum")
        return total

    def mean(self, value: float) -> float:
        """Over the processes: what each has measured for itself becomes the same for all."""
        return float(self.sum(torch.tensor([value], dtype=torch.float64))) / self.world

    def full(self, tensor: Tensor) -> Tensor:
        """The whole of a tensor of which this process may hold a part. Every process must ask."""
        if self.sharded and hasattr(tensor, "full_tensor"):
            whole: Tensor = tensor.full_tensor()
            return whole
        return tensor

    def share(self, whole: Tensor, like: Tensor) -> Tensor:
        """This process's part of a whole tensor, laid out as `like` is: a new tensor."""
        if self.sharded:
            from torch.distributed.tensor import DTensor, distribute_tensor

            if isinstance(like, DTensor):
                return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements)
        return torch.empty_like(like, requires_grad=False).copy_(whole)

    @contextlib.contextmanager
    def readable(self, module: nn.Module) -> Iterator[None]:
        """Inside, the prepared module's own parts can be called; every process must make the same calls."""
        if not self.sharded:
            yield
            return
        module.unshard()  # type: ignore[operator]
        try:
            yield
        finally:
            module.reshard()  # type: ignore[operator]

    def scaler_state(self) -> dict[str, float] | None:
        """The state of fp16's gradient scale."""
        scaler = getattr(self.accelerator, "scaler", None)
        return None if scaler is None else dict(scaler.state_dict())

    def load_scaler_state(self, state: Mapping[str, float] | None) -> None:
        """Put the gradient scale back."""
        scaler = getattr(self.accelerator, "scaler", None)
        if scaler is not None and state:
            scaler.load_state_dict(dict(state))

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            self.accelerator.wait_for_everyone()

    def close(self) -> None:
        """Leave the group of processes."""
        if self.world > 1:
            self.accelerator.end_training()


def _accelerator(device: torch.device, precision: Precision) -> Any:
    try:
        import accelerate
    except ImportError as error:
        raise UsageError(
            "several processes and a GPU need the package accelerate; install it with: pip install 'bertworks[train]'"
        ) from error
    return accelerate.Accelerator(
        cpu=device.type == "cpu",
        mixed_precision="no" if precision == "fp32" else precision,
        # Not every parameter is used in every micro-batch: a pooler nobody asks, a loss without items.
        kwargs_handlers=[accelerate.DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
