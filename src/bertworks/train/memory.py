"""What a step gives back it takes again in the next one; this keeps it with the process in between.

Every step of a training allocates the same large tensors. The C library asks the kernel for each of them and gives it back at
once, and the kernel hands out such memory page by page, each cleared at the first touch: where products are quick (bf16, a
processor that multiplies it) an eighth of a step's time, elsewhere a hundredth. While a training runs, freed memory therefore
stays in the C library's hands, which costs a twentieth more of it at most; at the end the kernel has it back.

Only glibc is told so (`mallopt`), and only where nobody has set its allocator in another way. Others do this by themselves
(jemalloc), or differently (macOS, Windows), and are left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
USUAL = {M_TRIM_THRESHOLD: 128 * 1024, M_MMAP_MAX: 65_536}
KEEPING = {M_TRIM_THRESHOLD: -1, M_MMAP_MAX: 0}  # never trim; no block of its own from the kernel


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Inside, memory that is freed stays with the process."""
    library = _glibc()
    if library is None:
        yield
        return
    for setting, value in KEEPING.items():
        library.mallopt(setting, value)
    try:
        yield
    finally:
        for setting, value in USUAL.items():
            library.mallopt(setting, value)
        library.malloc_trim(0)


def _glibc() -> Any:
    """The C library, where it is glibc with its own allocator as it comes."""
    chosen = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if chosen or os.environ.get("LD_PRELOAD") or not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  # musl has none
        return library if library.mallopt and library.malloc_trim else None
    except (OSError, AttributeError):
        return None
