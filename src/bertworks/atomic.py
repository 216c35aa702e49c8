"""Files that are either whole or not there.

A file is written under a temporary name in its own directory, synced to the disk, and only then renamed over the
final name; the directory is synced too, because a rename is an entry in it. Whoever looks at the final name sees the
old content or the new one, never a part, whenever the process or the machine stops.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; on a clean exit it takes the name `path`, on an error it is removed."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with usual_mode(temporary):
            yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def usual_mode(path: Path) -> Iterator[None]:
    """Let a file that is written meanwhile be read by whom new files are: safetensors makes some that nobody else may."""
    path.touch()
    mode = path.stat().st_mode
    yield
    path.chmod(mode)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a small UTF-8 file atomically."""
    write_bytes(path, text.encode())


def sync_directory(path: Path) -> None:
    """Make renames inside `path` durable, where the system can open directories (Windows cannot, and needs it less)."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems refuse; the file itself was synced before
    finally:
        os.close(descriptor)
