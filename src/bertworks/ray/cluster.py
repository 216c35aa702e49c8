"""What every job needs of Ray: a connection, an order, and errors that are ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bertworks.errors import DataError, UsageError


def connect() -> None:
    """Use the cluster that `ray.init` has connected to, or start one on this machine."""
    try:
        import ray.data
    except ImportError as error:
        raise UsageError(f"Ray Data is not installed ({error}); pip install 'bertworks[ray]'") from error
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        for handler in logging.getLogger("ray.data").handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setLevel(logging.ERROR)  # the rest is in Ray's own files


@contextmanager
def in_order(*, block_bytes: int | None = None) -> Iterator[None]:
    """What is made here gives its rows in the order of the inputs, and shows no progress of its own.

    block_bytes: how large the blocks may grow that are handed from one step to the next; a block is what one worker takes
    """
    import ray.data

    context = ray.data.DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    if block_bytes is not None:
        context.target_max_block_size = block_bytes
    with ray.data.DataContext.current(context):
        yield


def unless_error(row: dict[str, Any]) -> dict[str, Any]:
    """The row, unless it carries an error: those of the user's making come back as rows, since Ray would wrap them."""
    if row.get("error"):
        raise DataError(str(row["error"]))
    return row
