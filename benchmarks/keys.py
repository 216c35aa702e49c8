"""Whether a result that is there already is the one that is asked for: short hashes of everything that decides it."""

from __future__ import annotations

import functools
import hashlib
from typing import Any


def key_of(*parts: Any) -> str:
    """A name for these values; `repr` must tell them apart."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@functools.cache
def content_of(place: str) -> str:
    """A hash of a file, or of what a model's or vectors' directory holds; asked once."""
    from bertworks.infer.word_sources import fingerprint

    return fingerprint(place)
