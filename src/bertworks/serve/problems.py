"""Error answers: whatever goes wrong, the client gets one sentence as JSON, with the status that says whose turn it is.

    {"error": "the model 'bert' is not served here; served: minilm"}

Paths under /v1/ are spoken by clients made for OpenAI's service, which expect an object instead of the sentence, and 400
instead of 422:

    {"error": {"message": "…", "type": "invalid_request_error", "param": null, "code": null}}

    400  the body is not JSON         405  no such method              422  the content is wrong
    401  the API key is missing       408  the body came too slowly    429  too many wait already
    404  no such path or model        413  too much at once            500  our own fault
                                      415  not said to be JSON         503  stopping, or too late

`add_problem_handlers` gives any FastAPI application these answers; a `BertworksError` is the client's to mend (422), and a
`RequestError` names its own status. What is not an error of ours is a bug: the client gets a sentence without details
(`our_fault`), the log gets the traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from bertworks.errors import BertworksError

log = logging.getLogger(__name__)

SENTENCES = {
    404: "there is nothing at {path}; what there is: {paths}",
    405: "{path} does not take {method}; it takes {allowed}",
}
TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
MAX_SHOWN = 60
MAX_PROBLEMS = 3


class RequestError(BertworksError):
    """A request that is refused with a status of its own, and maybe with the seconds after which to try again."""

    def __init__(self, status: int, sentence: str, *, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def problem(status: int, sentence: str, *, path: str = "", headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer itself, in the form that clients of `path` expect."""
    if path.startswith("/v1/"):
        status = 400 if status == 422 else status  # their service has no 422
        kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
        content: dict[str, Any] = {"error": {"message": sentence, "type": kind, "param": None, "code": None}}
    else:
        content = {"error": sentence}
    return JSONResponse(content, status_code=status, headers=dict(headers or {}))


def add_problem_handlers(app: FastAPI) -> None:
    """Turn every exception of the application into such an answer."""
    app.add_exception_handler(BertworksError, _user_error)
    app.add_exception_handler(RequestValidationError, _wrong_body)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _any_error)


async def _user_error(request: Request, error: Exception) -> Response:
    status, headers = (error.status, error.headers) if isinstance(error, RequestError) else (422, {})
    return problem(status, str(error), path=request.url.path, headers=headers)


async def _wrong_body(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    if any(one["type"] == "json_invalid" for one in problems):
        context = problems[0].get("ctx") or {}
        return problem(
            400, f"the body is not valid JSON: {context.get('error', 'it ends early')}", path=request.url.path
        )
    if any(isinstance(one["input"], bytes) for one in problems):
        sentence = "the body must be JSON, and be said to be: send the header 'Content-Type: application/json'"
        return problem(415, sentence, path=request.url.path)
    return problem(422, sentence_of(problems), path=request.url.path)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    sentence = str(error.detail)
    if error.status_code in SENTENCES:
        paths = [
            str(getattr(route, "path", "")) for route in request.app.routes if getattr(route, "include_in_schema", True)
        ]
        allowed = (error.headers or {}).get("Allow", "other methods")
        sentence = SENTENCES[error.status_code].format(
            path=path, method=request.method, paths=", ".join(paths), allowed=allowed
        )
    elif error.status_code == 400:  # FastAPI could not read the body
        sentence = "the body is not valid JSON in UTF-8, or is nested too deeply"
    return problem(error.status_code, sentence, path=path, headers=error.headers)


async def _any_error(request: Request, error: Exception) -> Response:
    """In an application without an `Observer`, which would have answered before."""
    return our_fault(error, request.url.path)


def our_fault(error: Exception, path: str, **facts: Any) -> JSONResponse:
    """The answer where the server itself is wrong; the log gets the traceback, with the facts by which it is found."""
    log.error("a request failed", exc_info=error, extra={"path": path, **facts})
    return problem(500, "the server failed on this request; its log says why", path=path)


def sentence_of(problems: Sequence[Mapping[str, Any]]) -> str:
    """What pydantic found, as one sentence: where, what is wrong, and the value."""
    found = []
    for one in problems[:MAX_PROBLEMS]:
        place = ".".join(str(part) for part in one["loc"] if part != "body") or "the body"
        message = str(one["msg"])
        message = message.removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
        shown = (
            "" if one["type"] in ("missing", "value_error", "extra_forbidden") else f" (it is {_short(one['input'])})"
        )
        found.append(f"{place}: {message}{shown}")
    more = len(problems) - MAX_PROBLEMS
    return "; ".join(found) + (f"; and {more} more" if more > 0 else "")


def _short(value: Any) -> str:
    """A value as it may be shown: its beginning, and never what JSON or UTF-8 cannot hold."""
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    text = repr(value[: MAX_SHOWN + 1] if isinstance(value, str | bytes) else value)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
