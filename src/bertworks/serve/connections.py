"""Connections that do nothing are ended: each has a time to send a request's first lines, and to take what it was sent.

Uvicorn's own protocol waits for ever in two places. Before the first lines of a request (its head) are whole there is no
request yet, so nothing that is wrapped around requests can end it. And an answer that is written to a client who does not
read stays in the connection's buffer; closing politely waits for it as well, so such a connection is cut off.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from bertworks.serve.settings import ServeSettings


def protocol_for(settings: ServeSettings) -> type[asyncio.Protocol]:
    """Uvicorn's protocol, with the patience of these settings."""

    class TimedProtocol(AutoHTTPProtocol):  # type: ignore[valid-type, misc]  # one of two classes
        """One connection."""

        unread: asyncio.TimerHandle | None = None
        """Set while the head of a request is awaited."""
        untaken: asyncio.TimerHandle | None = None
        """Set while something is written that the client has not taken."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # `pause_writing` as soon as anything is not taken at once
            self._await_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._await_head()

        def pause_writing(self) -> None:
            super().pause_writing()
            self.untaken = self.loop.call_later(settings.client_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            _cancel(self.untaken)

        def connection_lost(self, exc: Exception | None) -> None:
            _cancel(self.unread)
            _cancel(self.untaken)
            super().connection_lost(exc)

        def _await_head(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:  # a request is there
                _cancel(self.unread)
                self.unread = None
            elif self.unread is None:
                self.unread = self.loop.call_later(settings.client_seconds, self.transport.abort)

    return TimedProtocol


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
