"""The next step's batches are made in a thread while the present step is computed.

One thread and one step ahead are enough: a batch is made in a small part of the time that it takes to train on it. An
error in the thread is raised where its batches are asked for. Leaving the `with` block ends the thread.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Protocol

from bertworks.objectives.base import Batch


class Data(Protocol):
    """Where the batches come from."""

    def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
        """This process's micro-batches of step `step` (from 0): a pure function of its arguments, called in a thread.

        Every process gets the same number of them; some may be empty.
        """
        ...


class Prefetch:
    """`take(step)` gives a step's batches and begins with those of the step after it."""

    def __init__(self, data: Data, *, rank: int, world: int, end: int) -> None:
        self.data = data
        self.rank, self.world = rank, world
        self.end = end
        self.coming: dict[int, Future[list[Batch]]] = {}
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thread.shutdown(wait=True, cancel_futures=True)

    def take(self, step: int) -> list[Batch]:
        """The micro-batches of `step`."""
        for ahead in (step, step + 1):
            if ahead not in self.coming and ahead < self.end:
                self.coming[ahead] = self.thread.submit(
                    self.data.micro_batches, ahead, rank=self.rank, world=self.world
                )
        return self.coming.pop(step).result()
