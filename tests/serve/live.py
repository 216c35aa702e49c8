"""A real server on the loopback, in a thread of the test's process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from fastapi import FastAPI

from bertworks.serve.run import address_of, bind, server_for


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Its address."""
    bound = bind("127.0.0.1", 0)
    server = server_for(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        yield address_of(bound)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def metric(address: str, name: str) -> float:
    """One number of /metrics; 0 where it is not there yet."""
    for line in httpx2.get(f"{address}/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def until(address: str, name: str, value: float) -> None:
    """Wait until a number of /metrics is what it should be; the test's own time limit is a minute."""
    end = time.monotonic() + 60
    while (found := metric(address, name)) != value:
        assert time.monotonic() < end, f"{name} is {found}, not {value}"
        time.sleep(0.01)
