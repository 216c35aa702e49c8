"""The routes about the server itself: /models, /v1/models, /health, /metrics."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from bertworks.serve.answers import ServerState, as_json, state_of


async def models(request: Request) -> Response:
    """The models and indexes that are served, what each can be asked, and how wide its vectors are."""
    state = state_of(request)
    indexes = [
        {"name": name, "model": one.served.name, "rows": len(one.index), "recall": one.index.facts.recall}
        for name, one in state.indexes.items()
    ]
    return as_json({"models": [served.about() for served in state.models.values()], "indexes": indexes})


async def openai_models(request: Request) -> Response:
    """The models that are served, as OpenAI's clients list them."""
    state = state_of(request)
    return as_json({"object": "list", "data": [_listed(name, state) for name in state.models]})


async def openai_model(name: str, request: Request) -> Response:
    """One of the models, as OpenAI's clients ask for it."""
    state = state_of(request)
    return as_json(_listed(state.model(name).name, state))


def _listed(name: str, state: ServerState) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": state.created, "owned_by": "bertworks"}


async def health(request: Request) -> Response:
    """Whether requests are welcome: 200, or 503 once the server has been told to stop."""
    state = state_of(request)
    status = "stopping" if state.stopping else "ok"
    waiting = sum(served.engine.waiting for served in state.models.values())
    names = [] if state.settings.api_keys else list(state.models)  # this may be asked without a key
    response = as_json({"status": status, "models": names, "waiting": waiting})
    if state.stopping:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
    return response


async def metrics(request: Request) -> Response:
    """What the server has done, in Prometheus' text format."""
    text = state_of(request).metrics.text()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")
