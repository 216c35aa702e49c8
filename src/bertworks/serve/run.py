"""Run the application with uvicorn: bind first, say the address, and stop without losing a request.

After TERM (or Ctrl-C) the server goes on for a moment: /health says 503, so that whoever distributes requests sends no
more, and every answer ends its connection, so that clients look elsewhere. Then it takes no new connections, finishes
what it has accepted, and ends with exit code 0. A second signal ends it at once.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from bertworks.errors import UsageError
from bertworks.serve.answers import ServerState
from bertworks.serve.connections import protocol_for

log = logging.getLogger(__name__)

BACKLOG = 2048
IDLE_SECONDS = 30


class PoliteServer(uvicorn.Server):
    """Uvicorn's server, which is told to exit only some time after the signal."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._state.stopping:
            self.force_exit = self.should_exit = True
            return
        self._state.stopping = True
        log.info("stopping: finishing what was accepted")
        timer = threading.Timer(self._state.settings.drain_seconds, self._exit)
        timer.daemon = True
        timer.start()

    def _exit(self) -> None:
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A listening place, or one sentence that says why not."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot listen on {host} port {port}: {reason.lower()}; choose another --host or --port (0: any free one)"
        ) from None
    return bound


def address_of(bound: socket.socket) -> str:
    """http://127.0.0.1:8000."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server_for(app: FastAPI) -> PoliteServer:
    """The server of an application that `create_app` made."""
    state: ServerState = app.state.server
    settings = state.settings
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        http=protocol_for(settings),
        ws="none",
        timeout_keep_alive=IDLE_SECONDS,
        # The longest that a request can take: its body, its turn and the work, the answer.
        timeout_graceful_shutdown=math.ceil(settings.timeout_seconds + 2 * settings.client_seconds),
    )
    server = PoliteServer(config, state)
    state.connections = lambda: len(server.server_state.connections)
    return server


def run(app: FastAPI, bound: socket.socket, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve until a signal says to stop."""
    if on_ready is not None:
        bound.listen(BACKLOG)  # whoever connects from now on is answered
        on_ready(address_of(bound))
    server_for(app).run(sockets=[bound])
