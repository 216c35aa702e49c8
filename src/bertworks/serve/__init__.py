"""A server for every head: queues, batches, limits and the routes over HTTP.

>>> from bertworks.serve import create_app
>>> app = create_app({"minilm": bertworks.load("minilm")})      # any ASGI server runs it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["ServeSettings", "create_app"]

if TYPE_CHECKING:
    from bertworks.serve.http import create_app
    from bertworks.serve.settings import ServeSettings


def __getattr__(name: str) -> Any:
    """Import the parts only when they are wanted: the error answers alone need no model."""
    if name == "create_app":
        from bertworks.serve.http import create_app

        return create_app
    if name == "ServeSettings":
        from bertworks.serve.settings import ServeSettings

        return ServeSettings
    raise AttributeError(f"module 'bertworks.serve' has no attribute {name!r}")
