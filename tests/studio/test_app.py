"""The application over HTTP: headers, sentences instead of errors, names of models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from bertworks.errors import UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.studio.app import MAX_BODY, create_studio
from bertworks.studio.models import Models


@pytest.fixture(scope="module")
def client(minilm: LoadedModel, albert: LoadedModel, translator: LoadedTranslator) -> Iterator[TestClient]:
    app = create_studio([("minilm", minilm), ("albert", albert), ("translator", translator)])
    with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False) as opened:
        yield opened


def test_the_page_and_its_modules(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert client.get("/lib/dom.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/views/attention.js").status_code == 200


def test_models_are_described(client: TestClient) -> None:
    first, second, third = client.get("/api/models").json()["models"]
    assert (first["name"], first["kind"], first["layers"], first["heads"]) == ("minilm", "encoder", 6, 12)
    assert "attention" in first["can"]
    assert "cloze" not in first["can"]
    assert "cloze" in second["can"]
    assert (third["kind"], third["can"]) == ("translation", ["alignment"])


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        (
            "/api/attention",
            {"model": "minilmm", "text": "a"},
            400,
            "no model 'minilmm' is loaded (did you mean 'minilm'?)",
        ),
        ("/api/attention", {"model": "minilm", "text": ""}, 400, "the text is empty"),
        ("/api/attention", {"model": "minilm", "text": "x" * 100_000}, 400, "100,000 characters"),
        ("/api/attention", {"model": "minilm"}, 422, "text: Field required"),
        ("/api/cloze", {"model": "minilm", "text": "a [MASK]"}, 400, "no masked-LM head"),
        ("/api/cloze", {"model": "translator", "text": "a [MASK]"}, 400, "reads one text and writes another"),
        ("/api/cloze", {"model": "albert", "text": "a"}, 400, "no mask"),
        ("/api/tokens", {"text": " "}, 400, "the text is empty"),
        ("/api/tokens", {"text": "x" * 100_001}, 400, "100,001 characters"),
        ("/api/tokens/steps", {"tokenizer": "x", "text": "a", "start": 0, "end": 1}, 400, "no tokenizer 'x' is loaded"),
        ("/api/nothing", {}, 405, "Method Not Allowed"),
    ],
)
def test_errors_are_sentences(
    client: TestClient, path: str, body: dict[str, object], status: int, sentence: str
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_other_refusals(client: TestClient) -> None:
    assert client.get("/nothing").json() == {"error": "there is nothing at /nothing"}
    assert client.post("/api/tokens", content=b"x" * (MAX_BODY + 1)).status_code == 413
    assert client.post("/api/tokens", content=iter([b"{}"])).status_code == 411  # of unknown length
    assert client.post("/api/tokens", content=b"{").status_code == 422


@pytest.mark.parametrize("host", ["evil.example", "testserver", "[", "[x]:80", "127.0.0.1.evil.example", "a:b:c"])
def test_no_website_reaches_it_through_a_browser(client: TestClient, host: str) -> None:
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 400
    assert f"does not answer under the name {host!r}" in answer.json()["error"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["[::1]:8421", "127.0.0.1:8421", "localhost", "LOCALHOST:1", "192.168.0.7:8421"])
def test_where_it_answers(client: TestClient, host: str) -> None:
    assert client.get("/api/models", headers={"host": host}).status_code == 200


def test_a_fault_is_a_sentence_too(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("bertworks.studio.tokens.tokens_answer", broken)
    answer = client.post("/api/tokens", json={"text": "a"})
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "the studio failed (ZeroDivisionError); its terminal says more"},
    )
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_names_of_models(minilm: LoadedModel, translator: LoadedTranslator) -> None:
    models = Models([("a", minilm), ("a", minilm), ("b", translator)])
    assert models.names == ["a", "a-2", "b"]
    assert list(models.tokenizers()) == ["a, a-2", "b"]
    with pytest.raises(UsageError, match="names no model"):
        Models(["name="])
    with models.use("a-2") as found:
        assert found is minilm
    with pytest.raises(UsageError, match="loaded: a, a-2, b"), models.use("c"):
        pass
