"""Loops that numba compiles: at their first call, and kept on disk for the processes that come after.

numba keeps them in `NUMBA_CACHE_DIR` where that is set, else beside the package, else in the home directory. Where none of
these can be written to, as in a container that is read-only, every process compiles for itself, which takes some seconds.
"""

from __future__ import annotations

from typing import Any

from numba import njit


def compile_loop(function: Any, **options: Any) -> Any:
    """`function`, compiled with numba's `options`, and kept on disk where that is possible."""
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no directory that it can write to
        return njit(**options)(function)
