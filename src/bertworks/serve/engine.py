"""One model's queue and the thread that empties it: batches of what waits, never waiting for more.

    submit ──▶ queue (bounded) ──▶ the thread takes items of equal work, up to a budget of tokens ──▶ model ──▶ answers

A lone request goes to the model at once. While a batch is computed others gather, and the next batch takes as many as the
budget allows: the busier the server, the fuller its batches. A request of many texts is taken piece by piece, and goes
to the end of the queue after each, so that a short one behind it waits for one batch and not for all of it.

The queue never grows beyond its bounds: who comes when it is full is refused at once, and told when to come back. A
request whose client has left, or whose time is over, is taken out; if it is being computed, the model stops at its next
batch. An error in a batch of several requests is found by running each alone, so it reaches its own request only.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bertworks.errors import BertworksError
from bertworks.serve.metrics import Metrics
from bertworks.serve.problems import RequestError
from bertworks.serve.settings import ServeSettings

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
RATE_WEIGHT = 0.1
"""How much the last batch counts in the mean speed."""
FIRST_RATE = 2000.0
"""Tokens a second, until a batch has been measured."""


class AbandonedError(Exception):
    """Nobody waits any longer for what the model is computing."""


@dataclass(frozen=True)
class Work:
    """What is to be done with items. Items of equal `key` may share a batch."""

    key: tuple[Any, ...]
    run: Callable[[list[Any], Progress], Sequence[Any]] = field(compare=False)
    """Items -> one result each; calls its second argument between batches, where it can."""


@dataclass(eq=False)
class Job:
    """One request: its items, how many of them were taken, and their results so far."""

    work: Work
    items: Sequence[Any]
    sizes: Sequence[int]
    future: asyncio.Future[list[Any]]
    came: float
    results: list[Any] = field(default_factory=list)
    taken: int = 0
    started: float | None = None
    over: bool = False
    """Answered, failed, too late, or its client has left."""
    open_tokens: int = field(init=False)
    """Of the items that were not taken yet."""

    def __post_init__(self) -> None:
        self.open_tokens = sum(self.sizes)


@dataclass(frozen=True)
class Part:
    """Some items of a job, in one batch."""

    job: Job
    start: int
    stop: int

    @property
    def items(self) -> Sequence[Any]:
        return self.job.items[self.start : self.stop]

    @property
    def tokens(self) -> int:
        return sum(self.job.sizes[self.start : self.stop])


class Turns:
    """A lock that is fair: models that share the processor's cores take turns, batch by batch, in the order they asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        mine = threading.Event()
        with self._lock:
            self._line.append(mine)
            if self._line[0] is mine:
                return
        mine.wait()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._line.popleft()
            if self._line:
                self._line[0].set()


class Engine:
    """The queue and the thread of one model."""

    def __init__(self, name: str, settings: ServeSettings, metrics: Metrics, turns: Turns | None = None) -> None:
        self.name = name
        self.settings = settings
        self.metrics = metrics
        self.rate = FIRST_RATE
        self._turns = turns or Turns()
        self._ready = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._closing = False
        self._thread: threading.Thread | None = None

    # -- in the event loop ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many requests wait, those included of which some items are done."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether no further request is taken, however small."""
        return len(self._waiting) >= self.settings.max_waiting

    @property
    def waiting_tokens(self) -> int:
        with self._ready:
            return sum(job.open_tokens for job in self._waiting)

    async def submit(self, work: Work, items: Sequence[Any], sizes: Sequence[int], *, in_time: bool = True) -> Job:
        """One result per item, once they are there. Refuses at once (429, 503) what cannot be done soon.

        Cancelling it takes the request out of the queue. `in_time`: it is given up after `timeout_seconds`.
        """
        loop = asyncio.get_running_loop()
        job = Job(work, items, sizes, loop.create_future(), time.monotonic())
        if not items:
            return job
        self._admit(job)
        timer = loop.call_later(self.settings.timeout_seconds, self._expire, job) if in_time else None
        try:
            await job.future
            return job
        finally:
            if timer is not None:
                timer.cancel()
            if not job.over:  # the client has left
                self._drop(job)
                self.metrics.dropped.add(model=self.name)

    def check_room(self, more: int) -> None:
        """Refuse (429, 503) a request of so many tokens that cannot be done soon, before anything is done for it."""
        if refusal := self.refusal(more):
            raise refusal

    def refusal(self, more: int) -> RequestError | None:
        """What a request of so many tokens is told at this moment, which counts as refused then; None where there is room."""
        with self._ready:
            if self._closing:
                return RequestError(503, "the server is stopping", retry_after=1)
            tokens = sum(waiting.open_tokens for waiting in self._waiting)
            if not self.full and not (self._waiting and tokens + more > self.settings.max_waiting_tokens):
                return None
            self.metrics.refused.add(model=self.name)
            seconds = max(1, math.ceil(tokens / self.rate))
            return RequestError(
                429,
                f"{len(self._waiting)} requests with about {tokens:,} tokens wait already; try again in {seconds} s",
                retry_after=seconds,
            )

    def _admit(self, job: Job) -> None:
        with self._ready:
            self.check_room(job.open_tokens)  # the lock is the thread's own, so it may ask for it again
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"model {self.name}", daemon=True)
                self._thread.start()
            self._waiting.append(job)
            self._ready.notify()

    def _expire(self, job: Job) -> None:
        if not job.future.done():
            self._drop(job)
            self.metrics.expired.add(model=self.name)
            seconds = self.settings.timeout_seconds
            job.future.set_exception(
                RequestError(503, f"not done within {seconds:g} seconds; try again later", retry_after=1)
            )

    def _drop(self, job: Job) -> None:
        with self._ready:
            job.over = True
            if job in self._waiting:
                self._waiting.remove(job)

    def close(self) -> None:
        """Finish what was accepted, then end the thread; nothing is accepted any more, until `open`."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def open(self) -> None:
        """Accept requests; a new engine does so by itself."""
        self._closing = False

    # -- in the model's thread -----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while parts := self._take():
            started = time.monotonic()
            for part in parts:
                part.job.started = part.job.started or started
            with self._turns:
                begun = time.monotonic()
                settled = self._compute(parts)
                seconds = time.monotonic() - begun
            tokens = sum(part.tokens for part in parts)
            self.rate += RATE_WEIGHT * (tokens / max(seconds, 1e-6) - self.rate)
            self.metrics.batches.observe(tokens, model=self.name)
            self.metrics.computing.add(seconds, model=self.name)
            for loop, jobs in _by_loop(settled).items():
                with suppress(RuntimeError):  # a loop that is closed has nobody who waits
                    loop.call_soon_threadsafe(_settle, jobs)

    def _take(self) -> list[Part]:
        """The next batch, as soon as anything waits; [] at the end."""
        with self._ready:
            while not self._waiting:
                if self._closing:
                    return []
                self._ready.wait()
            work, room = self._waiting[0].work, self.settings.batch_tokens
            parts: list[Part] = []
            for job in [job for job in self._waiting if job.work == work]:
                stop = job.taken
                while stop < len(job.items) and (job.sizes[stop] <= room or (not parts and stop == job.taken)):
                    room -= job.sizes[stop]
                    stop += 1
                if stop == job.taken:
                    break
                parts.append(Part(job, job.taken, stop))
                job.taken = stop
                job.open_tokens -= parts[-1].tokens
                self._waiting.remove(job)
                if stop < len(job.items):
                    self._waiting.append(job)
            return parts

    def _compute(self, parts: Sequence[Part]) -> list[tuple[Job, BaseException | None]]:
        """Run a batch; the jobs that it settled, with what went wrong for them, if anything."""

        def look(done: int, total: int) -> None:
            if all(part.job.over for part in parts):
                raise AbandonedError

        parts = [part for part in parts if not part.job.over]
        if not parts:
            return []
        try:
            found = parts[0].job.work.run([item for part in parts for item in part.items], look)
        except AbandonedError:
            return []
        except Exception as error:
            if len(parts) > 1:
                return [settled for part in parts for settled in self._compute([part])]
            if not isinstance(error, BertworksError):
                log.exception("the model failed", extra={"model": self.name})
            self._drop(parts[0].job)
            return [(parts[0].job, error)]
        settled: list[tuple[Job, BaseException | None]] = []
        first = 0
        for part in parts:
            count = part.stop - part.start
            part.job.results.extend(found[first : first + count])
            first += count
            if len(part.job.results) == len(part.job.items):
                settled.append((part.job, None))
        return settled


def _by_loop(
    settled: Sequence[tuple[Job, BaseException | None]],
) -> dict[asyncio.AbstractEventLoop, list[tuple[Job, BaseException | None]]]:
    found: dict[asyncio.AbstractEventLoop, list[tuple[Job, BaseException | None]]] = {}
    for job, error in settled:
        found.setdefault(job.future.get_loop(), []).append((job, error))
    return found


def _settle(jobs: Sequence[tuple[Job, BaseException | None]]) -> None:
    """In the event loop: hand the results over, or what went wrong."""
    for job, error in jobs:
        if job.future.done():  # its client has left, or its time was over
            continue
        job.over = True
        if error is None:
            job.future.set_result(job.results)
        else:
            job.future.set_exception(error)
