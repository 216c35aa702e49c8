"""Items of different lengths through a model, without gradients: batches of near-equal lengths, up to a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np
import torch

CPU_BATCH_TOKENS = 1024
"""Enough for full speed of the matrix products in one thread; more only takes more memory."""
DEVICE_BATCH_TOKENS = 16384
"""Accelerators want more work at once."""


def default_batch_tokens(device: torch.device) -> int:
    """How many tokens to compute at once where nobody says."""
    return CPU_BATCH_TOKENS if device.type == "cpu" else DEVICE_BATCH_TOKENS


def batches(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Indices of items in batches of at most `budget` tokens, longest first, so that memory peaks at the start."""
    order = np.argsort(-lengths, kind="stable")
    ends = np.cumsum(lengths[order])
    first = 0
    while first < len(order):
        spent = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, spent + budget, side="right")))
        yield order[first:stop]
        first = stop


def over_batches(
    work: Callable[[np.ndarray], None], lengths: np.ndarray, *, budget: int, device: torch.device
) -> Iterator[int]:
    """Do `work` on the indices of each batch of at most `budget` tokens; yields how many items are done so far."""
    yield from over_plan(work, list(batches(lengths, budget)), device=device)


def over_plan(work: Callable[[np.ndarray], None], plan: Sequence[np.ndarray], *, device: torch.device) -> Iterator[int]:
    """Do `work` on the indices of each batch, without gradients; yields how many items are done so far.

    On a CPU as many batches run side by side as there are threads, each in one thread: nobody waits at the end of every
    product, and one batch's copies overlap with another's arithmetic (9 % faster than one batch over two threads).
    """

    def quietly(chosen: np.ndarray) -> int:
        with torch.inference_mode():  # a property of the thread
            work(chosen)
        return len(chosen)

    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or len(plan) < 2 * threads:
        yield from accumulate(map(quietly, plan))
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from accumulate(pool.map(quietly, plan))
    finally:
        torch.set_num_threads(threads)
