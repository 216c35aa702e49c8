"""The studio's web application: its pages, its routes, and every error as one sentence.

Only this machine is talked to: the Content-Security-Policy lets the page load nothing from elsewhere, and requests that
name another host are refused, so that no website can reach the studio through the browser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from bertworks.errors import BertworksError
from bertworks.infer.loaded import LoadedModel
from bertworks.serve.hosts import is_address, requested_host
from bertworks.studio import attention, cloze, meaning, tasks, tokens
from bertworks.studio import runs as run_routes
from bertworks.studio.models import Models
from bertworks.vectors.words import WordVectors

LOCAL = ("localhost",)
MAX_BODY = 16 * 2**20
"""The largest request, in bytes; the parts set smaller limits of their own."""

Next = Callable[[Request], Awaitable[Response]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def create_studio(
    models: Sequence[str | tuple[str, LoadedModel | WordVectors]],
    runs: Path | None = None,
    *,
    hosts: Sequence[str] = LOCAL,
    device: str = "cpu",
    seed: int = 0,
) -> FastAPI:
    """The application with these models (`MODEL`, `NAME=MODEL`, or a name with a loaded model) and a folder of runs.

    hosts: under which names it answers, beside addresses in numbers
    seed:  where random numbers start, of maps and of tests
    """
    loaded = Models(models, device)
    app = FastAPI(title="Bertworks studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.middleware("http")(_guard(hosts))
    app.add_exception_handler(BertworksError, _user_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _fault)

    @app.get("/api/models")
    def list_models() -> dict[str, Any]:
        return {"models": loaded.describe()}

    for part in (attention, cloze, tokens, tasks):
        app.include_router(part.router(loaded))
    app.include_router(meaning.router(loaded, seed))
    app.include_router(run_routes.router(runs))
    app.mount("/", StaticFiles(directory=str(files("bertworks.studio") / "static"), html=True))
    return app


def _guard(hosts: Sequence[str]) -> Callable[[Request, Next], Awaitable[Response]]:
    """Refuse what is not meant for us or too large before it is read; put the headers on answers that do not set their own."""

    names = frozenset(host.lower() for host in hosts if host)

    async def guard(request: Request, call_next: Next) -> Response:
        host = requested_host(request.headers)
        if host not in names and not is_address(host):
            asked = request.headers.get("host", "")[:100]
            return _sentence(400, f"the studio does not answer under the name {asked!r}; use its address, as 127.0.0.1")
        length = request.headers.get("content-length", "")
        if request.method == "POST" and not length.isdigit():
            return _sentence(411, "the request does not say how long it is")
        if length.isdigit() and int(length) > MAX_BODY:
            return _sentence(413, f"the request has {int(length):,} bytes; the studio takes {MAX_BODY:,} at most")
        response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return guard


def _sentence(status: int, text: str) -> JSONResponse:
    """Also where nothing else puts the headers on: before the routes, and after a fault."""
    return JSONResponse({"error": text}, status_code=status, headers=HEADERS)


def _user_error(request: Request, error: Exception) -> Response:
    return _sentence(400, str(error))


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return _sentence(422, f"the request is not as it should be: {place or 'body'}: {first['msg']}")


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _sentence(404, f"there is nothing at {request.url.path}")
    return _sentence(error.status_code, str(error.detail))


def _fault(request: Request, error: Exception) -> Response:
    """A fault of ours: the traceback is in the terminal, the page only says so."""
    return _sentence(500, f"the studio failed ({type(error).__name__}); its terminal says more")
