"""/search says what the index says when it is asked in Python."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from bertworks.errors import UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.search import SearchIndex
from bertworks.serve import ServeSettings, create_app
from bertworks.serve.engine import FIRST_RATE


def test_hits_are_the_index_s(client: TestClient, indexes: dict[str, SearchIndex]) -> None:
    queries = ["a bird with a fast heart", "old trees"]
    answer = client.post("/search", json={"queries": queries, "top_k": 4}).json()
    assert (answer["index"], answer["model"]) == ("library", "similarity")
    for found, expected in zip(answer["results"], indexes["library"].search(queries, k=4), strict=True):
        assert [(one["row"], one["text"]) for one in found] == [(one.row, one.text) for one in expected]
        assert [one["score"] for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)
    single = client.post("/search", json={"queries": queries[0], "index": "library", "top_k": 1000}).json()
    assert len(single["results"][0]) == len(indexes["library"])


def test_answers_have_bounds(
    client: TestClient, models: dict[str, LoadedModel], indexes: dict[str, SearchIndex]
) -> None:
    answer = client.post("/search", json={"queries": ["trees"] * 50, "top_k": 1000})
    assert answer.status_code == 413
    assert "characters; this server gives 100,000 at once" in answer.json()["error"]
    strict = create_app({"similarity": models["similarity"]}, ServeSettings(max_numbers=5), indexes=indexes)
    answer = TestClient(strict).post("/search", json={"queries": ["a", "b"], "top_k": 3})
    assert answer.status_code == 413
    assert "the answer would hold 6 texts; this server gives 5 at once" in answer.json()["error"]
    assert strict.state.server.models["similarity"].engine.rate == FIRST_RATE  # nothing was computed


def test_searching_is_work_of_the_model(
    models: dict[str, LoadedModel], indexes: dict[str, SearchIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it waits in its queue, ends with its time, and does not go on beside it."""
    threads = []
    search = indexes["library"].search_vectors

    def watched(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return search(*given)

    monkeypatch.setattr(indexes["library"], "search_vectors", watched)
    app = create_app({"similarity": models["similarity"]}, indexes=indexes)
    assert TestClient(app).post("/search", json={"queries": "a"}).status_code == 200
    assert threads == ["model similarity"]


def test_indexes_are_listed(client: TestClient, indexes: dict[str, SearchIndex]) -> None:
    assert client.get("/models").json()["indexes"] == [
        {"name": "library", "model": "similarity", "rows": len(indexes["library"]), "recall": 1.0}
    ]
    assert "<h2>Indexes</h2>" in client.get("/docs").text


def test_unknown_indexes(client: TestClient, models: dict[str, LoadedModel]) -> None:
    answer = client.post("/search", json={"queries": "a", "index": "libary"})
    assert answer.status_code == 404
    assert "(did you mean 'library'?); served: library" in answer.json()["error"]
    without = TestClient(create_app({"plain": models["plain"]}))
    answer = without.post("/search", json={"queries": "a"})
    assert answer.status_code == 404
    assert "start the server with --index NAME=DIR" in answer.json()["error"]


def test_an_index_needs_its_own_model(models: dict[str, LoadedModel], indexes: dict[str, SearchIndex]) -> None:
    with pytest.raises(UsageError, match="which is not among the served models; serve it too"):
        create_app({name: models[name] for name in ("words", "fill", "tag")}, indexes=indexes)
