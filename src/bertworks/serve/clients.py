"""Clients that are greedy, slow or unknown, dealt with before a request reaches its route.

too large     a body is read up to its limit and no further; what still comes is thrown away, so that the client
              reads the answer (413) instead of a broken connection
too slow      a body must be there, and each piece of the answer taken, within a time (408; the connection ends);
              what is before a request, and after an answer, is the matter of `bertworks.serve.connections`
too many      beyond so many connections a request is refused (503), and its connection ended; while every model's
              queue is full, what asks for a model is refused (429) before anything is read or computed for it
unknown       where the server has API keys, a request must bring one (401)
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Collection
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertworks.serve.answers import ServerState
from bertworks.serve.problems import RequestError, problem
from bertworks.serve.settings import ServeSettings

PIECE_BYTES = 65_536
RETRY_SECONDS = 1
OPEN_PATHS = ("/", "/health", "/docs", "/openapi.json")
"""What may be seen without a key."""


class LargeError(Exception):
    """The body is larger than allowed; whether more of it comes."""

    def __init__(self, more: bool) -> None:
        super().__init__()
        self.more = more


class KeyCheck:
    """Lets requests pass that bring one of the keys."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app = app
        self.keys = [key.encode("ascii") for key in settings.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.keys and scope["path"] not in OPEN_PATHS and not self._known(scope):
            sentence = "this server needs an API key: send the header 'Authorization: Bearer KEY'"
            headers = {"WWW-Authenticate": "Bearer"}
            await problem(401, sentence, path=scope["path"], headers=headers)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _known(self, scope: Scope) -> bool:
        kind, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return False
        key = given.strip().encode("latin-1", "replace")
        return sum(hmac.compare_digest(key, known) for known in self.keys) > 0  # all of them: the time tells nothing


class Crowd:
    """Refuses requests while there are more connections than allowed."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self.app = app
        self.state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self.state.settings.max_connections
        if scope["type"] == "http" and self.state.connections() > allowed:
            sentence = f"there are more than {allowed:,} connections; try again in {RETRY_SECONDS} s"
            headers = {"Retry-After": str(RETRY_SECONDS), "Connection": "close"}
            await problem(503, sentence, path=scope["path"], headers=headers)(scope, receive, send)
            return
        await self.app(scope, receive, send)


class Full:
    """Refuses what asks for a model while no model has room: a refusal must cost next to nothing when there are many."""

    def __init__(self, app: ASGIApp, state: ServerState, paths: Collection[str]) -> None:
        self.app = app
        self.state = state
        self.paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in self.paths and (refusal := self._refusal()):
            await problem(refusal.status, str(refusal), path=scope["path"], headers=refusal.headers)(
                scope, receive, send
            )
            return
        await self.app(scope, receive, send)

    def _refusal(self) -> RequestError | None:
        """What the first model says; None if one of them has room."""
        engines = [served.engine for served in self.state.models.values()]
        return engines[0].refusal(0) if all(engine.full for engine in engines) else None


class Intake:
    """Reads bodies whole, within the limits, and hands answers over piece by piece."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app = app
        self.max_bytes = settings.max_body_bytes
        self.seconds = settings.client_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = b""
        if scope["method"] not in ("GET", "HEAD"):
            try:
                async with asyncio.timeout(self.seconds):
                    found = await self._read(scope, receive)
            except LargeError as large:
                sentence = f"the body is larger than {self.max_bytes:,} bytes; send several requests"
                await self._refuse(413, sentence, scope, receive if large.more else None, send)
                return
            except TimeoutError:
                sentence = f"the body was not there within {self.seconds:g} seconds"
                await self._refuse(408, sentence, scope, None, send)
                return
            if found is None:  # the client has left
                return
            body = found
        told = False

        async def receive_body() -> Message:
            nonlocal told
            if told:
                return await receive()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, receive_body, self._patient(send))

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self.max_bytes:
            raise LargeError(more=True)
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self.max_bytes:
                raise LargeError(more)
        return b"".join(parts)

    async def _refuse(self, status: int, sentence: str, scope: Scope, receive: Receive | None, send: Send) -> None:
        """Answer at once, then throw away what the client still sends: closing in the middle would lose the answer."""
        answer = problem(status, sentence, path=scope["path"], headers={"Connection": "close"})
        await send({"type": "http.response.start", "status": status, "headers": answer.raw_headers})
        await send({"type": "http.response.body", "body": bytes(answer.body), "more_body": True})
        asks_first = Headers(scope=scope).get("expect", "").lower() == "100-continue"  # and sends nothing after a no
        if receive is not None and not asks_first:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.seconds):
                    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                        pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _patient(self, send: Send) -> Send:
        """Sending in pieces, each within the time: else one slow reader of a large answer could hold it for ever."""

        async def send_pieces(message: Message) -> None:
            body = message.get("body", b"")
            for start in range(0, max(len(body), 1), PIECE_BYTES):
                piece = message
                if len(body) > PIECE_BYTES:
                    more = start + PIECE_BYTES < len(body) or message.get("more_body", False)
                    piece = {**message, "body": body[start : start + PIECE_BYTES], "more_body": more}
                async with asyncio.timeout(self.seconds):
                    await send(piece)

        return send_pieces
