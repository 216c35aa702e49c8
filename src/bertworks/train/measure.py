"""How long a step takes, and how many of them a budget of time covers.

A budget is turned into a number of steps once, before the training starts; from then on the number counts and not the clock,
so that a training can be stopped and resumed without becoming another one.
"""

from __future__ import annotations

import contextlib
import copy
import re
import statistics
import time
from dataclasses import dataclass

import torch
from torch import nn

from bertworks.errors import UsageError
from bertworks.objectives.base import Objective
from bertworks.train.average import Average
from bertworks.train.config import TrainConfig
from bertworks.train.memory import kept_memory
from bertworks.train.parallel import Parallel
from bertworks.train.prefetch import Data, Prefetch
from bertworks.train.step import Stepper, recomputing

MEASURED_STEPS = 5
_BUDGET = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def parse_budget(text: str) -> float:
    """`30m`, `1h30m` or `90s` in seconds."""
    found = _BUDGET.fullmatch(text.strip().lower().replace(" ", ""))
    seconds = 0.0
    if found:
        hours, minutes, rest = (float(part or 0.0) for part in found.groups())
        seconds = 3600.0 * hours + 60.0 * minutes + rest
    if seconds <= 0.0:
        raise UsageError(f"a budget must look like 30m, 1h30m or 90s, not {text!r}")
    return seconds


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a step costs."""

    seconds: float
    """Per step, the median."""
    num_tokens: float
    """Per step, the mean, over all processes."""


def gain_of_bf16() -> float:
    """How many times as fast as in fp32 this CPU multiplies matrices in bf16: above 2 where it has instructions for it,
    far below 1 where it has none. Takes a few hundredths of a second."""
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        x, weight = torch.ones(512, 512, dtype=dtype), torch.ones(512, 512, dtype=dtype)
        times = []
        for _ in range(4):  # the first one warms up
            began = time.perf_counter()
            torch.mm(x, weight)
            times.append(time.perf_counter() - began)
        seconds[dtype] = min(times)
    return seconds[torch.float32] / seconds[torch.bfloat16]


def measure_steps(
    module: nn.Module,
    objective: Objective,
    data: Data,
    config: TrainConfig,
    *,
    seed: int,
    parallel: Parallel | None = None,
    num_steps: int = MEASURED_STEPS,
    max_seconds: float = 20.0,
) -> Measured:
    """Take a few real steps (forward, backward, update) on a copy of the module, after one to warm up.

    It ends early, after at least one measured step, when `max_seconds` are over.
    """
    parallel = parallel or Parallel()
    random = torch.get_rng_state()
    trained = copy.deepcopy(module).train()
    stepper = Stepper(trained, objective, config, seed=seed, parallel=parallel)
    average = None if config.ema is None else Average(stepper.parameters, decay=config.ema)
    seconds: list[float] = []
    tokens: list[int] = []
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        if parallel.device.type == "cpu":
            stack.enter_context(kept_memory())
        if config.gradient_checkpointing:
            stack.enter_context(recomputing(trained))
        batches = stack.enter_context(Prefetch(data, rank=parallel.rank, world=parallel.world, end=num_steps + 1))
        for step in range(num_steps + 1):
            micro = batches.take(step)
            start = time.perf_counter()
            late = start - began > max_seconds and len(seconds) > 1
            outcome = stepper.gradients(step, micro, [float(late)])
            stepper.update(1e-3)  # small, so that no random start can run away
            if average is not None:
                average.update(step + 1)
            seconds.append(time.perf_counter() - start)
            tokens.append(outcome.num_tokens)
            if outcome.flags[0]:
                break
    parallel.release()
    torch.set_rng_state(random)
    median = statistics.median(seconds[1:] or seconds)
    return Measured(seconds=parallel.mean(median), num_tokens=statistics.fmean(tokens))
