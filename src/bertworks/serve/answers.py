"""What every route does: find the model, judge the size, wait for the result unless the client leaves, write the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from bertworks.errors import did_you_mean
from bertworks.serve.engine import Job, Work
from bertworks.serve.metrics import Metrics
from bertworks.serve.problems import RequestError
from bertworks.serve.served import Served
from bertworks.serve.settings import ServeSettings

if TYPE_CHECKING:
    from bertworks.serve.searching import Searchable

CLIENT_LEFT = 499
"""A status that nobody sees; it stands in the log."""


@dataclass(eq=False)
class ServerState:
    """What the routes share; it stands at `app.state.server`."""

    models: dict[str, Served]
    settings: ServeSettings
    metrics: Metrics
    created: int
    indexes: dict[str, Searchable]
    connections: Callable[[], int] = lambda: 0
    """How many there are, where whoever runs the application says so."""
    stopping: bool = False
    """Whether the server has been told to stop; it still answers for a moment."""

    def model(self, name: str) -> Served:
        """The model of that name."""
        if name not in self.models:
            names = ", ".join(self.models)
            raise RequestError(
                404, f"the model {name!r} is not served here{did_you_mean(name, self.models)}; served: {names}"
            )
        return self.models[name]

    def asked(self, name: str | None, route: str) -> Served:
        """The model of that name, if it can be asked at `route`; where no name is given, the first one that can."""
        able = [served for served in self.models.values() if route in served.routes]
        if name is None and able:
            return able[0]
        served = self.model(name) if name is not None else next(iter(self.models.values()))
        served.expect(route, others=[other.name for other in able])
        return served


def state_of(request: Request) -> ServerState:
    """What the routes share."""
    state: ServerState = request.app.state.server
    return state


async def results_of(
    request: Request, served: Served, work: Work, items: Sequence[Any], sizes: Sequence[int]
) -> list[Any]:
    """One result per item. `sizes` are the items' estimated tokens."""
    state = state_of(request)
    state.settings.check_tokens(sizes)
    request.state.facts = {"model": served.name, "items": len(items), "tokens": sum(sizes)}
    job = await _unless_left(request, served, work, items, sizes)
    waited = (job.started or job.came) - job.came
    request.state.facts["queue_seconds"] = round(waited, 4)
    state.metrics.queued.observe(waited, model=served.name)
    state.metrics.tokens.add(sum(sizes), model=served.name)
    return job.results


async def _unless_left(request: Request, served: Served, work: Work, items: Sequence[Any], sizes: Sequence[int]) -> Job:
    """Wait for the result, and give up as soon as nobody is there to read it."""
    working = asyncio.ensure_future(served.engine.submit(work, items, sizes))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RequestError(CLIENT_LEFT, "the client has left")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def as_json(content: Any) -> Response:
    """An answer; arrays are written as lists."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")
