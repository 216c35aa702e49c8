"""Memory that is freed inside is taken again without asking the kernel, which counts the pages that it hands out."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bertworks.train import memory
from tests.train.runs import make_corpus, run

CHOICES = {
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "LD_PRELOAD": "/usr/lib/libjemalloc.so.2",
}
PROGRAM = """
import ctypes, resource, torch
from bertworks.train.memory import kept_memory

def faults(megabytes):
    counts = []
    for _ in range(8):  # the first ones may still find no place that is large enough
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(megabytes * 2**18)
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(counts)

ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: else a fault may be 2 MB
print(faults(64), faults(8))
with kept_memory():
    print(faults(64), faults(8))
print(faults(64), faults(8))
"""


@pytest.fixture(autouse=True)
def _as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("MALLOC_") or name in CHOICES:
            monkeypatch.delenv(name)


@pytest.mark.skipif(memory._library() is None, reason="another C library than glibc")
def test_memory_is_kept_inside_and_given_back_outside() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outside, inside, after = [[int(count) for count in line.split()] for line in done.stdout.splitlines()]
    pages = 64 * 2**20 // resource.getpagesize()
    if not outside[0]:
        pytest.skip("faults are not counted here")
    assert outside[0] > 0.6 * pages
    assert inside[0] < 0.06 * pages
    assert after[0] > 0.6 * pages
    assert after[1] < 0.06 * pages / 8  # 8 MB are kept by glibc itself, and still are


class Told:
    """A C library that writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def mallopt(self, setting: int, value: int) -> None:
        self.calls.append((setting, value))

    def malloc_trim(self, pad: int) -> None:
        self.calls.append("trim")


def test_the_last_of_several_trainings_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(memory, "_library", lambda: told)
    keeping, usual = list(memory.KEEPING.items()), list(memory.USUAL.items())
    with memory.kept_memory():
        with pytest.raises(ValueError), memory.kept_memory():
            raise ValueError
        assert told.calls == [*keeping, *keeping]
    assert told.calls == [*keeping, *keeping, *usual, "trim"]


@pytest.mark.parametrize("name", CHOICES)
def test_who_has_chosen_an_allocator_keeps_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(memory, "_library", lambda: told)
    monkeypatch.setenv(name, CHOICES[name])
    with memory.kept_memory():
        pass
    assert told.calls == []


def test_another_library_loaded_before_is_no_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(memory, "_library", lambda: told)
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libiomp5.so")
    with memory.kept_memory():
        pass
    assert told.calls


def test_trainings_and_their_measuring_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(memory, "_library", lambda: told)
    run(make_corpus(tmp_path, "bert"), tmp_path / "run", steps=1)
    assert told.calls == [*memory.KEEPING.items(), *memory.USUAL.items(), "trim"] * 2  # measured, then trained
