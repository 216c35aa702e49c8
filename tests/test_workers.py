"""Work in several processes: the order, the bound, and every way in which it can end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bertworks.errors import DataError, UsageError
from bertworks.workers import checked_workers, map_in_order, usable_cores


def adder(amount: int) -> Callable[[int], int]:
    return lambda number: number + amount


def dier() -> Callable[[int], int]:
    return lambda number: os._exit(1)  # type: ignore[no-any-return]


def refuser() -> Callable[[int], int]:
    def refuse(number: int) -> int:
        raise DataError("is no number", path="a.txt", line=number)

    return refuse


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_items_are_not_read_ahead(workers: int) -> None:
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        for number in range(20):
            read += 1
            yield number

    results = map_in_order(partial(adder, 100), items(), workers)
    assert next(results) == 100
    assert read <= workers + 1
    assert list(results) == list(range(101, 120))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_is_the_workers_own(workers: int) -> None:
    with pytest.raises(DataError, match=r"^a.txt:7: is no number$"):
        list(map_in_order(refuser, [7, 8], workers))


def test_a_process_that_dies_is_explained() -> None:
    with pytest.raises(DataError, match="has died, most likely for lack of memory; use fewer --workers"):
        list(map_in_order(dier, range(3), 2))


def test_how_many() -> None:
    assert checked_workers(3) == 3
    assert checked_workers(None) == usable_cores() >= 1
    with pytest.raises(UsageError, match="workers must be at least 1, not 0"):
        checked_workers(0)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system has no process groups")
@pytest.mark.parametrize("starting", [True, False], ids=["while they start", "while they work"])
def test_ctrl_c_is_quiet(tmp_path: Path, starting: bool) -> None:
    """The terminal sends Ctrl-C to all processes; only the parent may speak of it."""
    (tmp_path / "slow.py").write_text(
        textwrap.dedent(
            f"""
            import signal, sys, time
            from bertworks.workers import map_in_order

            def sleeper():
                return time.sleep

            def items():
                yield 0.01
                print("started", flush=True)
                while True:
                    yield 0.2

            if __name__ == "__main__":
                signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored where tests run
                try:
                    for _ in map_in_order(sleeper, items(), 2):
                        {"pass" if starting else 'print("working", flush=True)'}
                except KeyboardInterrupt:
                    sys.exit(130)
            """
        )
    )
    command = [sys.executable, str(tmp_path / "slow.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        for _ in range(1 if starting else 2):
            process.stdout.readline()
        time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
