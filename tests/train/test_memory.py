"""Memory that is freed inside is taken again without asking the kernel, which counts the pages that it hands out."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bertworks.train import memory

PROGRAM = """
import resource, torch
from bertworks.train.memory import kept_memory

def faults():
    counts = []
    for _ in range(8):  # the first ones may still find no place that is large enough
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(2**24)  # 64 MB
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(counts)

print(faults())
with kept_memory():
    print(faults())
print(faults())
"""


def run(**more: str) -> list[int]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "LD_PRE"))}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**clean, **more}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


@pytest.mark.skipif(memory._glibc() is None, reason="another allocator than glibc's")
def test_memory_is_kept_inside_and_given_back_outside() -> None:
    outside, inside, after = run()
    assert inside < outside / 10
    assert after > outside / 2


def test_who_has_chosen_an_allocator_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    assert memory._glibc() is None
    with memory.kept_memory():
        pass
