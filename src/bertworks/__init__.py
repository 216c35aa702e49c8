"""Bertworks: the classic encoder workflow on one small, fast, readable PyTorch core.

>>> import bertworks
>>> model = bertworks.load("minilm")
>>> model.embed(["A cat sat on the mat.", "Ett djur låg på golvet."]).shape
(2, 384)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "load"]

if TYPE_CHECKING:
    from bertworks.infer.loaded import load


def __getattr__(name: str) -> Any:
    """Import PyTorch only when a model is wanted, so that `import bertworks` and `--help` are instant."""
    if name == "load":
        from bertworks.infer.loaded import load

        return load
    raise AttributeError(f"module 'bertworks' has no attribute {name!r}")
