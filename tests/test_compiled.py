"""Every set of compiled loops works where numba has no directory to keep them in."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from bertworks import compiled
from bertworks.infer import quantize_kernels
from bertworks.text.train import kernels as merges
from bertworks.vectors import kernels as vectors


@pytest.mark.parametrize("module", [quantize_kernels, merges, vectors])
def test_loops_are_compiled_where_nothing_can_be_kept(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def njit(**options: object) -> Any:
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiled, "njit", njit)
    assert module.compiled(len)([1, 2]) == 2
    kept, compiled_anew = asked
    assert kept.pop("cache") is True
    assert kept == compiled_anew  # nothing but the keeping is given up
    assert kept["error_model"] == "numpy"


def test_a_loop_is_compiled() -> None:
    def triangle(count: int) -> int:
        total = 0
        for number in range(count):
            total += number
        return total

    loop = compiled.compile_loop(triangle)
    assert loop(5) == 10
    assert loop.signatures
