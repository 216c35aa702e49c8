"""Bodies read by orjson, which takes nothing but JSON: no NaN, no half of a surrogate pair, no endless nesting.

Python's own reader takes all of these, and each would fail later, where it is harder to say what was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute


class StrictRequest(Request):
    """A request whose body is strict JSON."""

    async def json(self) -> Any:
        return orjson.loads(await self.body())


class StrictRoute(APIRoute):
    """A route whose function gets a `StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly
