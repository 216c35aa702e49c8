"""The same function in several processes, with the results in the order of the items and memory that stays bounded.

Processes are spawned, not forked: a forked child of a process with threads may hang. A worker leaves Ctrl-C to its
parent, and ends with it even where the parent is killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from bertworks.errors import DataError, UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def checked_workers(workers: int | None) -> int:
    """The number of processes: as asked for, or one per usable core; a `UsageError` below 1."""
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be at least 1, not {workers}")
    return workers or usable_cores()


def map_in_order(
    make: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int, *, ahead: int = 1
) -> Generator[Result]:
    """Apply the function that `make()` gives to every item, in `workers` processes (in this one, if it is one).

    make: is called once in each process, so it must be a function of a module, or a `partial` of one
    ahead: how many items may wait while all workers are busy; more cost memory and gain nothing
    """
    if workers == 1:
        work = make()
        for item in items:
            yield work(item)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(make,))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            with _without_interrupts():  # processes are started here, and inherit it
                waiting.append(pool.submit(_apply, item))
            if len(waiting) >= workers + ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise DataError("a worker process has died, most likely for lack of memory; use fewer --workers") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back for a moment, where the system can: a process that is just starting could not handle it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_work: Callable[[Any], Any] | None = None  # of this worker process


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one process per core is all there is room for
    os.environ["RAYON_NUM_THREADS"] = "1"
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = make()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _apply(item: Any) -> Any:
    assert _work is not None
    return _work(item)
