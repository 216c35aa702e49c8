"""One line of JSON for each request and each event; never a text, a key or an address of a client.

    {"time": "2026-01-31T12:00:00.123Z", "level": "info", "event": "request", "id": "…", "method": "POST",
     "path": "/embed", "status": 200, "seconds": 0.0123, "model": "minilm", "items": 1, "tokens": 9, "queue_seconds": 0.0}

A client's `X-Request-Id` is taken over where it is plain, and every answer has one.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertworks.serve.answers import CLIENT_LEFT, ServerState
from bertworks.serve.problems import our_fault

log = logging.getLogger("bertworks.serve.requests")

FIELDS = ("id", "method", "path", "status", "seconds", "model", "items", "tokens", "queue_seconds")
PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MAX_PATH = 200


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def write_logs(level: int = logging.INFO) -> None:
    """Send the records of this package and of uvicorn to standard error, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("bertworks.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # its starts and stops are told by us


class Observer:
    """Counts, times and logs every request, outside of everything else."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self.app = app
        self.state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.monotonic()
        given = Headers(scope=scope).get("x-request-id", "")
        identity = given if PLAIN_ID.fullmatch(given) else uuid.uuid4().hex
        facts = scope.setdefault("state", {})
        status = CLIENT_LEFT  # until an answer begins

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = identity
                if self.state.stopping:
                    headers["Connection"] = "close"  # so that nobody sends the next request into a closing connection
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except TimeoutError:
            log.warning("the client does not take its answer", extra={"id": identity})
            raise
        except Exception as error:
            answer = our_fault(error, scope["path"], id=identity)
            if status != CLIENT_LEFT:  # another one has begun, and cannot be taken back
                raise
            await answer(scope, receive, watched)
        finally:
            seconds = time.monotonic() - started
            route = getattr(scope.get("route"), "path", "other")
            self.state.metrics.requests.add(route=route, status=str(status))
            self.state.metrics.seconds.observe(seconds, route=route)
            told = {"id": identity, "method": scope["method"], "path": scope["path"][:MAX_PATH], "status": status}
            log.info("request", extra={**told, "seconds": round(seconds, 4), **facts.get("facts", {})})
