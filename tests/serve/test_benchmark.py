"""`benchmarks.serve` with tiny work: the clients count right, and the page has whole tables. Never a time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import serve
from benchmarks.serve_engines import Running, Server
from benchmarks.serve_load import run

from bertworks.serve import ServeSettings, create_app
from tests.finetune import small
from tests.serve.conftest import tiny
from tests.serve.live import metric, running

TEXTS = ["The river runs past the old mill.", "Seventeen geese."]


def plan(address: str, **more: Any) -> dict[str, Any]:
    host, port = address.removeprefix("http://").split(":")
    return {"host": host, "port": int(port), "texts": TEXTS, **more}


def test_clients_count_what_they_get() -> None:
    with running(create_app({"tiny": tiny()})) as address:
        closed = run(plan(address, clients=3, seconds=0.3))
        opened = run(plan(address, rate=60.0, seconds=0.5))
        for found in (closed, opened):
            assert set(found["seconds"]) == {"200"}
            assert found["lost"] == 0
        answered = metric(address, 'bertworks_requests_total{route="/embed",status="200"}')
        assert answered == len(closed["seconds"]["200"]) + len(opened["seconds"]["200"])
    assert run(plan(address, clients=1, seconds=0.05))["lost"] > 0  # nobody listens any more


def test_refusals_are_seen() -> None:
    with running(create_app({"tiny": tiny()}, ServeSettings(max_waiting=1, batch_tokens=1))) as address:
        found = run(plan(address, clients=40, seconds=0.5))
        assert set(found["seconds"]) == {"200", "429"}
        assert metric(address, 'bertworks_refused_total{model="tiny"}') == len(found["seconds"]["429"])


@pytest.mark.slow
def test_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ours as a process, and a fake library; the whole way to the page."""

    class Library:
        def __init__(self, model: str, threads: int) -> None:
            pass

        def times(self, texts: list[str]) -> list[float]:
            return [0.001 for _ in texts]

        def close(self) -> None:
            pass

    monkeypatch.setattr(serve, "Library", Library)
    monkeypatch.setattr(serve, "ROOT", tmp_path)
    monkeypatch.setattr(serve, "SETTLE_SECONDS", 0.0)
    data = tmp_path / "data"
    (data / "sst2").mkdir(parents=True)
    (data / "sst2" / "train.tsv").write_text("".join(f"{text}\t1\n" for text in TEXTS))
    model = small.write_model(tmp_path / "model")
    given = ["--servers", "bertworks", "--clients", "1", "3", "--seconds", "0.3", "--overload-seconds", "1"]
    given += ["--rounds", "1", "--rows", "2", "--threads", "1", "--model", str(model), "--data", str(data)]
    serve.main([*given, "--output", str(tmp_path / "serve.json"), "--write-docs"])
    page = (tmp_path / "docs" / "benchmarks" / "serve.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == page + "\n"
    assert page.startswith("# Benchmark: servers under load\n")
    assert "a lone request to `bertworks serve` takes" in page
    report = json.loads((tmp_path / "serve.json").read_text())
    assert report["summary"]["bertworks"]["3"]["not_200"] == 0
    assert report["overload"]["bertworks"]["lost"] == 0
    assert report["overload"]["bertworks"]["answered"] > 0
    assert report["overload"]["bertworks"]["memory_mib"]


def test_a_server_that_dies_is_told(tmp_path: Path) -> None:
    dying = Server("dying", ("benchmarks.no_such_module",))
    with pytest.raises(SystemExit, match=r"dying ended with 1: .*no_such_module"):
        Running(dying, "model", 1, tmp_path / "log")


def test_the_twenty_lines_answer(minilm_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from starlette.testclient import TestClient

    monkeypatch.setenv("MODEL", str(minilm_directory))
    monkeypatch.delitem(sys.modules, "benchmarks.serve_twenty", raising=False)
    from benchmarks import serve_twenty

    for app in (serve_twenty.app, serve_twenty.blocking_app):
        (vector,) = TestClient(app).post("/embed", json={"texts": ["A cat."]}).json()["vectors"]
        assert len(vector) == 384
