"""/search: the texts of an index (`bertworks search build`) that are nearest to a query.

A query is embedded by one of the served models and the index asked in the same breath, as one piece of that model's work:
searching has the same queue, batches and time limit as everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from bertworks.errors import UsageError, did_you_mean
from bertworks.infer.search import SAME_MODEL, SearchIndex
from bertworks.serve.answers import as_json, results_of, state_of
from bertworks.serve.engine import Progress, Work
from bertworks.serve.problems import RequestError
from bertworks.serve.schemas import SearchRequest
from bertworks.serve.served import Served
from bertworks.serve.settings import estimated_tokens

FEWER = "ask for fewer texts with top_k"


@dataclass(frozen=True)
class Searchable:
    """An index and the model that its vectors come from."""

    index: SearchIndex
    served: Served


def with_models(indexes: Mapping[str, SearchIndex], models: Mapping[str, Served]) -> dict[str, Searchable]:
    """Each index with the served model that its vectors come from."""
    found = {}
    for name, index in indexes.items():
        agreements = {one: index.agreement(one.loaded) if one.has_vectors else 0.0 for one in models.values()}
        served = max(agreements, key=lambda one: agreements[one])
        if agreements[served] < SAME_MODEL:
            raise UsageError(
                f"the index {name!r} was built with {index.facts.model}, which is not among the served models; serve it too"
            )
        found[name] = Searchable(index, served)
    return found


async def search(body: SearchRequest, request: Request) -> Response:
    """The nearest texts of an index for each query, the nearest first."""
    state = state_of(request)
    if not state.indexes:
        raise RequestError(404, "no index is served here; start the server with --index NAME=DIR")
    name = next(iter(state.indexes)) if body.index is None else body.index
    if name not in state.indexes:
        near = did_you_mean(name, state.indexes)
        raise RequestError(404, f"the index {name!r} is not served here{near}; served: {', '.join(state.indexes)}")
    found = state.indexes[name]
    queries = [body.queries] if isinstance(body.queries, str) else body.queries
    state.settings.check_items(len(queries), "queries")
    count = min(body.top_k, len(found.index))
    state.settings.check_numbers(len(queries) * count, "texts", FEWER)
    sizes = [estimated_tokens(query) for query in queries]
    nearest = await results_of(request, found.served, searching(name, found, count), queries, sizes)
    results: list[list[dict[str, Any]]] = []
    characters = 0
    for rows, scores in nearest:
        hits = [(int(row), float(score)) for row, score in zip(rows, scores, strict=True) if row >= 0]
        results.append([{"row": row, "score": score, "text": found.index.text(row)} for row, score in hits])
        characters += sum(len(hit["text"]) for hit in results[-1])
        state.settings.check_numbers(characters, "characters", FEWER)
    return as_json({"index": name, "model": found.served.name, "results": results})


def searching(name: str, found: Searchable, count: int) -> Work:
    """Queries -> numbers of the nearest texts, and their scores."""

    def run(queries: list[str], look: Progress) -> list[tuple[np.ndarray, np.ndarray]]:
        vectors = np.asarray(found.served.loaded.embed(queries, progress=look))  # (Q, W)
        return list(zip(*found.index.search_vectors(vectors, count), strict=True))

    return Work(("search", name, count), run)
