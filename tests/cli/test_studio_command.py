"""`bertworks studio`: what the command hands to the application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from bertworks.cli.common import MODEL_AT_HAND, OWN_MODEL
from bertworks.cli.main import main
from bertworks.studio import app as studio_app
from bertworks.studio import projection, word_vectors
from tests.vectors.small import few_vectors


def started(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> FastAPI:
    """The application that the command makes; nothing is served."""
    apps: list[FastAPI] = []
    create = studio_app.create_studio

    def kept(*given: Any, **options: Any) -> FastAPI:
        apps.append(create(*given, **options))
        return apps[0]

    monkeypatch.setattr(studio_app, "create_studio", kept)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    assert main(["studio", *arguments, "--no-open", "--port", "0"]) == 0
    return apps[0]


@pytest.mark.parametrize(("option", "seed"), [((), 0), (("--seed", "7"), 7)])
def test_the_seed_is_that_of_maps_and_tests(
    option: tuple[str, ...], seed: int, minilm_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_vectors().save(tmp_path / "few")
    client = TestClient(
        started(monkeypatch, f"mini={minilm_directory}", str(tmp_path / "few"), *option), "http://127.0.0.1"
    )
    seeds: list[int] = []
    project = projection.project

    def projected(*given: Any, seed: int) -> projection.Projection:
        seeds.append(seed)
        return project(*given, seed=seed)

    monkeypatch.setattr(projection, "project", projected)
    monkeypatch.setattr(word_vectors, "bias_axis", lambda *_, seed: seeds.append(seed) or {})
    texts = ["A cat sleeps.", "The kitten is asleep.", "Shares fell.", "The bank raised its rates.", "It rains."]
    answer = client.post("/api/meaning/map", json={"model": "mini", "texts": texts, "method": "tsne"})
    assert answer.status_code == 200, answer.text
    assert client.post("/api/meaning/bias", json={"vectors": "few"}).json() == {}
    assert seeds == [seed, seed]


def test_without_a_name_it_has_the_models_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    client = TestClient(started(monkeypatch), "http://127.0.0.1")
    models = client.get("/api/models").json()["models"]
    assert [model["name"] for model in models] == list(dict.fromkeys((MODEL_AT_HAND, OWN_MODEL)))
    assert "cloze" in models[-1]["can"]
