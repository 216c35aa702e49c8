"""Requests made up from the server's own OpenAPI document: no fault of ours, and no answer that it does not announce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from bertworks.infer.loaded import LoadedModel
from bertworks.infer.search import SearchIndex
from bertworks.serve import create_app
from bertworks.serve.http import POSTED
from tests.serve.conftest import SMALL
from tests.serve.live import running

MODELS = {
    "/classify": "classify",
    "/pair": "pair",
    "/rerank": "similarity",
    "/regress": "regress",
    "/choice": "choice",
    "/tag": "tag",
    "/answer": "qa",
    "/fill": "fill",
    "/v1/embeddings": "similarity",
}
"""Which model most requests name, so that they get as far as it."""
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def document(models: dict[str, LoadedModel], indexes: dict[str, SearchIndex]) -> Iterator[Any]:
    with running(create_app(models, SMALL, indexes=indexes)) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize("examples", [10, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", [route.path for route in POSTED])
def test_posted_requests(document: Any, path: str, mode: GenerationMode, examples: int) -> None:
    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(case=document[path]["POST"].as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("model", ""), str) and path in MODELS:
            case.body["model"] = MODELS[path]
        answer = case.call()
        assert answer.status_code < 500, answer.text
        seen.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    seen: set[int] = set()
    ask()
    assert 200 in seen or mode is GenerationMode.NEGATIVE


@pytest.mark.parametrize("path", ["/models", "/v1/models", "/health", "/metrics"])
def test_other_requests(document: Any, path: str) -> None:
    case = document[path]["GET"].Case()
    answer = case.call()
    assert answer.status_code == 200
    case.validate_response(answer, checks=CHECKS)
