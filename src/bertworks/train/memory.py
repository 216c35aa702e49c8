"""What a step gives back it takes again in the next one; this keeps it with the process in between.

Every step of a training allocates the same large tensors. The C library asks the kernel for each of them and gives it back at
once, and the kernel hands out such memory page by page, each cleared at the first touch. Measured with two threads: an
eighth of a step's time at 6x384 in bf16 on a processor that multiplies it, a hundredth at 4x256 in fp32. While a
training runs on a processor, freed memory therefore stays in the C library's hands (2 and 5 % more of it at the peak, in the
same two); at the end the kernel has it back.

Only glibc is told so (`mallopt`), and only where nobody has set its allocator in another way. Others do this by themselves
(jemalloc), or differently (macOS, Windows), and are left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
KEEPING = {M_TRIM_THRESHOLD: -1, M_MMAP_MAX: 0}  # never trim; no block of its own from the kernel
# Where glibc's own thresholds, which grow with what is freed, end; once they were set they grow no more.
USUAL = {M_TRIM_THRESHOLD: 64 * 2**20, M_MMAP_THRESHOLD: 32 * 2**20, M_MMAP_MAX: 65_536}

_lock = threading.Lock()
_inside = 0


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Inside, memory that is freed stays with the process; trainings may overlap."""
    global _inside
    library = _glibc()
    if library is None:
        yield
        return
    with _lock:
        _inside += 1
        _set(library, KEEPING)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _set(library, USUAL)
                library.malloc_trim(0)


def _set(library: Any, settings: dict[int, int]) -> None:
    for setting, value in settings.items():
        library.mallopt(setting, value)


def _glibc() -> Any:
    """The C library, where it is glibc with its own allocator as it comes; those to be loaded before it have `malloc` in
    their names (libjemalloc, libtcmalloc, libmimalloc)."""
    chosen = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    return None if chosen or "malloc" in os.environ.get("LD_PRELOAD", "") else _library()


@cache
def _library() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    names = ("gnu_get_libc_version", "mallopt", "malloc_trim")  # musl has the last two at most
    return library if all(hasattr(library, name) for name in names) else None
