"""/docs: how to ask this server, as one page without scripts, made from the OpenAPI document (/openapi.json)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bertworks import page
from bertworks.serve.answers import state_of


async def docs(request: Request) -> Response:
    """The page."""
    document = request.app.openapi()
    state = state_of(request)
    base = str(request.base_url).rstrip("/")
    models = page.table(
        [[name, served.task or "", " ".join(served.routes)] for name, served in state.models.items()],
        header=["model", "made for", "can be asked at"],
    )
    head = [
        "<h1>Bertworks</h1>",
        page.soft(
            "For programs: /openapi.json. Errors are JSON too: one sentence under 'error', with the status that fits."
        ),
    ]
    keys = bool(state.settings.api_keys)
    if keys:  # the page may be seen without one
        head.append(page.soft("This server needs an API key; with one, /models says what is served."))
    else:
        head.append(page.section("Models", models))
    if state.indexes and not keys:
        rows = [[name, one.served.name, f"{len(one.index):,}"] for name, one in state.indexes.items()]
        head.append(page.section("Indexes", page.table(rows, header=["index", "model", "texts"])))
    return HTMLResponse(page.document("Bertworks: how to ask", *head, *_routes(document, base, keys)))


def _routes(document: Mapping[str, Any], base: str, keys: bool) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts = [f"<p>{escape(operation.get('description', ''))}</p>"]
            command = ["curl", base + path]
            if keys:
                command += ["-H", "Authorization: Bearer KEY"]
            if "requestBody" in operation:
                schema = _found(document, operation["requestBody"]["content"]["application/json"]["schema"])
                parts.append(page.table(_fields(document, schema), header=["field", "type", "meaning"]))
                example = json.dumps(schema.get("examples", [{}])[0], ensure_ascii=False)
                command += ["-H", "Content-Type: application/json", "-d", example]
            parts.append(f"<pre>{escape(shlex.join(command))}</pre>")
            statuses = [[status, answer["description"]] for status, answer in operation["responses"].items()]
            parts.append(page.folded("Statuses", page.table(statuses)))
            yield page.section(f"{method.upper()} {path}", *parts)


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[list[str]]:
    needed = schema.get("required", ())
    rows = []
    for name, field in schema["properties"].items():
        default = "" if name in needed or field.get("default") is None else f" Default: {json.dumps(field['default'])}."
        about = field.get("description", "") + default + (" Needed." if name in needed else "")
        rows.append([name, _type(document, field), about.strip()])
    return rows


def _type(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A type in words."""
    schema = _found(document, schema)
    if "anyOf" in schema:
        return " or ".join(_type(document, one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of ({_type(document, schema['items'])})"
    if "properties" in schema:
        return "{" + ", ".join(schema["properties"]) + "}"
    return str(schema.get("type", "anything"))


def _found(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return found
