"""The application: a table of routes over the models, with limits, keys, logs and numbers around them.

    app = create_app({"minilm": bertworks.load("minilm")}, ServeSettings(max_items=100))

It is an ASGI application, so any server of that kind can run it; `bertworks serve` runs it with uvicorn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.responses import PlainTextResponse

import bertworks
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.search import SearchIndex
from bertworks.serve import about, heads, searching, vectors
from bertworks.serve import schemas_answers as schemas
from bertworks.serve.answers import ServerState
from bertworks.serve.clients import Crowd, Full, Intake, KeyCheck
from bertworks.serve.docs_page import docs
from bertworks.serve.hosts import HostCheck
from bertworks.serve.logs import Observer
from bertworks.serve.metrics import Gauge, Metrics
from bertworks.serve.problems import add_problem_handlers
from bertworks.serve.searching import with_models
from bertworks.serve.served import serve_models
from bertworks.serve.settings import ServeSettings
from bertworks.serve.strict_json import StrictRoute


class Route(NamedTuple):
    """A path, what answers it, and the form of its answer."""

    path: str
    function: Callable[..., Any]
    answer: type[BaseModel]


POSTED = (
    Route("/v1/embeddings", vectors.embeddings, schemas.EmbeddingsAnswer),
    Route("/embed", vectors.embed, schemas.EmbedAnswer),
    Route("/tokenize", vectors.tokenize, schemas.TokenizeAnswer),
    Route("/search", searching.search, schemas.SearchAnswer),
    Route("/classify", heads.classify, schemas.ClassifyAnswer),
    Route("/pair", heads.pair, schemas.PairAnswer),
    Route("/rerank", heads.rerank, schemas.RerankAnswer),
    Route("/regress", heads.regress, schemas.RegressAnswer),
    Route("/choice", heads.choice, schemas.ChoiceAnswer),
    Route("/tag", heads.tag, schemas.TagAnswer),
    Route("/answer", heads.answer, schemas.AnswerAnswer),
    Route("/fill", heads.fill, schemas.FillAnswer),
)
STATUSES = {
    400: "The body is not JSON.",
    404: "The model or index is not served here.",
    408: "The body came too slowly.",
    413: "Too much at once: bytes, entries, tokens or numbers of the answer.",
    415: "The body is not said to be JSON.",
    422: "The content is wrong, or the model cannot do this.",
    429: "Too many requests wait; `Retry-After` says when to try again.",
    500: "A fault of the server; its log says more.",
    503: "The server is stopping, or the request was not done in time.",
}
WITH_KEYS = {401: "The API key is missing or wrong."}
ANYWHERE = {
    400: "The server does not answer under this name.",
    500: STATUSES[500],
    503: "There are too many connections; `Retry-After` says when to try again.",
}
"""What a request without a body may be told."""


def create_app(
    models: Mapping[str, LoadedModel],
    settings: ServeSettings | None = None,
    *,
    indexes: Mapping[str, SearchIndex] | None = None,
) -> FastAPI:
    """An application that serves `models`, and searches `indexes` of theirs, by their names.

    The first of each that can answers requests that name none.
    """
    settings = settings or ServeSettings()
    metrics = Metrics()
    served = serve_models(models, settings, metrics)
    state = ServerState(served, settings, metrics, int(time.time()), with_models(indexes or {}, served))
    metrics.parts += _queues(state)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        for one in served.values():
            one.engine.open()
        yield
        for one in served.values():
            await asyncio.to_thread(one.engine.close)

    app = FastAPI(
        title="Bertworks",
        version=bertworks.__version__,
        description="Vectors, labels, tags, answers." if settings.api_keys else f"Serves {', '.join(state.models)}.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(HTTPBearer(auto_error=False))] if settings.api_keys else [],
    )
    app.state.server = state
    app.router.route_class = StrictRoute
    add_problem_handlers(app)
    _add_routes(app, settings)
    # The last one added is the outermost.
    app.add_middleware(Intake, settings=settings)
    app.add_middleware(Full, state=state, paths=[route.path for route in POSTED])
    app.add_middleware(KeyCheck, settings=settings)
    app.add_middleware(Crowd, state=state)
    app.add_middleware(HostCheck, hosts=settings.hosts)
    app.add_middleware(Observer, state=state)
    return app


def _add_routes(app: FastAPI, settings: ServeSettings) -> None:
    with_keys = WITH_KEYS if settings.api_keys else {}
    told = {**ANYWHERE, **with_keys}
    for route in POSTED:
        form = schemas.OpenAIProblem if route.path.startswith("/v1/") else schemas.Problem
        app.add_api_route(
            route.path,
            route.function,
            methods=["POST"],
            response_model=route.answer,
            responses=_described({**STATUSES, **with_keys}, form),
        )
    app.add_api_route(
        "/models", about.models, response_model=schemas.ModelsAnswer, responses=_described(told, schemas.Problem)
    )
    app.add_api_route(
        "/v1/models",
        about.openai_models,
        response_model=schemas.ListedModels,
        responses=_described(told, schemas.OpenAIProblem),
    )
    app.add_api_route(
        "/v1/models/{name:path}",
        about.openai_model,
        response_model=schemas.ListedModel,
        responses=_described({404: STATUSES[404], **told}, schemas.OpenAIProblem),
    )
    unwell = _described(
        {503: "The server is stopping, or has too many connections."}, schemas.HealthAnswer | schemas.Problem
    )
    app.add_api_route(
        "/health",
        about.health,
        response_model=schemas.HealthAnswer,
        responses={**_described(ANYWHERE, schemas.Problem), **unwell},
    )
    app.add_api_route("/health", about.health, methods=["HEAD"], include_in_schema=False)
    app.add_api_route(
        "/metrics",
        about.metrics,
        response_class=PlainTextResponse,
        responses=_described(told, schemas.Problem),
    )
    for path in ("/", "/docs"):
        app.add_api_route(path, docs, include_in_schema=False)


def _described(statuses: Mapping[int, str], form: Any) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": sentence, "model": form} for status, sentence in statuses.items()}


def _queues(state: ServerState) -> list[Gauge]:
    return [
        Gauge(
            "bertworks_waiting_requests",
            "Requests that wait for a model.",
            lambda: {(("model", name),): float(served.engine.waiting) for name, served in state.models.items()},
        ),
        Gauge(
            "bertworks_waiting_tokens",
            "Tokens that wait for a model, as estimated.",
            lambda: {(("model", name),): float(served.engine.waiting_tokens) for name, served in state.models.items()},
        ),
    ]
