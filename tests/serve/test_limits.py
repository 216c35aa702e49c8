"""What a server does with everything that is not a good request: one documented answer each."""

from __future__ import annotations

import json
import logging
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import bertworks
from bertworks.errors import CheckpointError, ConfigError, DataError, ModelError, UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.serve import ServeSettings, create_app
from bertworks.serve.hosts import allowed_hosts, is_loopback
from bertworks.serve.logs import JsonLines
from bertworks.serve.problems import RequestError, add_problem_handlers, sentence_of
from bertworks.serve.settings import estimated_tokens
from tests.serve.conftest import tiny

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"", 422, "the body: field required"),
        (b"{", 400, "not valid JSON"),
        (b'{"texts": NaN}', 400, "not valid JSON"),
        (b'{"texts": ["a"], "layers": Infinity}', 400, "not valid JSON"),
        (b'{"texts": ["a"], "layers": 1e999}', 400, "not valid JSON"),
        (b'{"texts": ["a"], "layers": 1' + b"0" * 5000 + b"}", 400, "not valid JSON"),
        (b'{"texts": ["a"], "layers": 123456789012345678}', 422, "layers"),
        (b'{"texts": ["\xff\xfe"]}', 400, "not valid JSON"),
        (b'{"texts": ["\\ud800"]}', 400, "not valid JSON"),
        (b'\xef\xbb\xbf{"texts": ["a"]}', 400, "not valid JSON"),
        (b"[" * 100_000, 400, "not valid JSON"),
        (b'{"texts": ' + b"[" * 1000 + b"]" * 1000 + b"}", 422, "texts"),
        (b"[]", 422, "the body: "),
        (b"null", 422, "the body: "),
        (b'"text"', 422, "the body: "),
        (b'{"texts": []}', 422, "texts is empty; give at least one"),
        (b'{"texts": {}}', 422, "texts"),
        (b'{"texts": [null]}', 422, "texts"),
        (b'{"texts": ["a"], "normalize": "yes"}', 422, "normalize: input should be a valid boolean (it is 'yes')"),
        (b'{"texts": ["a"], "normalise": true}', 422, "normalise: extra inputs are not permitted"),
        (b'{"texts": ["a"], "model": "\\u0000"}', 404, "is not served here"),
        (json.dumps({"texts": ["a"] * 10_000}).encode(), 413, "texts has 10,000 entries; this server takes 50 at once"),
        (json.dumps({"texts": ["word " * 30_000]}).encode(), 413, "tokens of work; this server takes 20,000 at once"),
        (b" " * 5_000_000, 413, "the body is larger than 4,194,304 bytes"),
    ],
)
def test_odd_bodies(client: TestClient, content: bytes, status: int, words: str) -> None:
    answer = client.post("/embed", content=content, headers=JSON)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]
    assert len(answer.text) < 600


@pytest.mark.parametrize("text", ["", " ", "\u0000", "\u202e\u200d", "😀" * 300, "a" * 5000, "\n\n\n", "[MASK] [CLS]"])
def test_odd_texts_are_texts(client: TestClient, text: str) -> None:
    for route, field, model in [
        ("/embed", "texts", "plain"),
        ("/classify", "texts", "classify"),
        ("/tag", "texts", "tag"),
        ("/tokenize", "texts", "plain"),
        ("/regress", "texts", "regress"),
    ]:
        assert client.post(route, json={"model": model, field: [text]}).status_code == 200, route
    question = {"question": text, "context": text}
    assert client.post("/answer", json={"model": "qa", "questions": [question]}).status_code == 200
    for pooling in ("tokens", "words"):
        assert client.post("/embed", json={"texts": [text], "pooling": pooling}).status_code == 200


def test_other_kinds_of_body(client: TestClient) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        answer = client.post("/embed", content=b'{"texts": "a"}', headers=headers)
        assert answer.status_code == 415
        assert "send the header 'Content-Type: application/json'" in answer.json()["error"]


def test_paths_and_methods(client: TestClient) -> None:
    answer = client.get("/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("there is nothing at /nothing; what there is: ")
    assert {"/embed", "/v1/embeddings", "/health"} <= set(answer.json()["error"].partition("is: ")[2].split(", "))
    answer = client.get("/embed")
    assert (answer.status_code, answer.json()) == (405, {"error": "/embed does not take GET; it takes POST"})
    assert answer.headers["Allow"] == "POST"
    assert client.get("/v1/nothing").json()["error"]["type"] == "not_found_error"


def test_chunked_bodies_have_the_same_limit(client: TestClient) -> None:
    pieces = (b" " * 100_000 for _ in range(100))
    assert client.post("/embed", content=pieces, headers=JSON).status_code == 413
    good = iter([b'{"texts": ', b'"a"}'])
    assert client.post("/embed", content=good, headers=JSON).status_code == 200


def test_keys() -> None:
    settings = ServeSettings(api_keys=("first-key", "second-key"))
    with TestClient(create_app({"hidden-name": tiny()}, settings)) as client:
        body = {"texts": "a"}
        for header in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "first-key"},
            {"Authorization": "Basic x"},
        ):
            answer = client.post("/embed", json=body, headers=header)
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert "Authorization: Bearer KEY" in answer.json()["error"]
        for key in settings.api_keys:
            assert client.post("/embed", json=body, headers={"Authorization": f"Bearer {key}"}).status_code == 200
        assert client.get("/models").status_code == client.get("/metrics").status_code == 401
        assert client.get("/v1/models").json()["error"]["type"] == "authentication_error"
        for path in ("/health", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200
        assert "Authorization: Bearer KEY" in client.get("/docs").text
        for path in ("/", "/health", "/docs", "/openapi.json"):  # what is served is for those with a key
            assert "hidden-name" not in client.get(path).text
        assert client.get("/health").json()["models"] == []
        document = client.get("/openapi.json").json()
        assert "401" in document["paths"]["/embed"]["post"]["responses"]
        assert document["paths"]["/embed"]["post"]["security"] == [{"HTTPBearer": []}]


@pytest.mark.parametrize(
    "wrong",
    [{"max_items": 0}, {"timeout_seconds": 0.0}, {"drain_seconds": -1.0}, {"api_keys": (" a",)}, {"api_keys": ("ä",)}],
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ServeSettings(**wrong)


def test_a_server_needs_a_model() -> None:
    with pytest.raises(UsageError, match="no model to serve"):
        create_app({})


def test_one_text_cannot_hold_the_model() -> None:
    with TestClient(create_app({"tiny": tiny()}, ServeSettings(max_item_tokens=100))) as client:
        answer = client.post("/embed", json={"texts": ["short", "." * 99]})
        assert answer.status_code == 413
        assert "entry 1 has about 101 tokens of work; this server takes 100 for one" in answer.json()["error"]
        assert client.post("/embed", json={"texts": ["." * 98] * 3}).status_code == 200


def test_estimates() -> None:
    assert estimated_tokens("") == 2
    assert estimated_tokens("eight by") == 4
    assert estimated_tokens("...", "!") == 6  # every mark is a token
    assert estimated_tokens("北京是中") == 5  # three bytes each


def test_a_loopback_server_answers_to_its_own_names_only() -> None:
    app = create_app({"tiny": tiny()}, ServeSettings(hosts=allowed_hosts("127.0.0.1", ["my.name"])))
    client = TestClient(app)
    for host in ("127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "my.name"):
        assert client.get("/health", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example:8000", "127.0.0.1.evil.example", "[::1", ""):
        answer = client.get("/v1/models", headers={"Host": host})
        assert answer.status_code == 400
        assert "does not answer under the name" in answer.json()["error"]["message"]
    assert allowed_hosts("0.0.0.0") == allowed_hosts("my.name") == ("*",)
    assert [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "10.0.0.1", "x")] == [
        True
    ] * 3 + [False] * 3


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"task": "classify"}, "'labels' is missing"),
        ({"task": "classify", "labels": 3}, "not iterable"),
        ({"task": "sing"}, "name the task 'sing'"),
        ("classify", "must hold objects"),
    ],
)
def test_a_damaged_fine_tuned_model_is_not_taken_for_an_embedding_model(
    directories: dict[str, Path], tmp_path: Path, task: Any, words: str
) -> None:
    model = shutil.copytree(directories["classify"], tmp_path / "model")
    content = json.loads((model / "bertworks.json").read_text())
    (model / "bertworks.json").write_text(json.dumps({**content, "task": task}))
    with pytest.raises(CheckpointError, match=f"the model 'mood' cannot be served: .*{words}"):
        create_app({"mood": bertworks.load(model)})


def test_errors_become_sentences(caplog: pytest.LogCaptureFixture) -> None:
    """The error answers alone, on an application of somebody else."""
    app = FastAPI()
    add_problem_handlers(app)
    errors: dict[str, Exception] = {
        "usage": UsageError("a value is wrong"),
        "data": DataError("is damaged", path="a.csv", line=3),
        "model": ModelError("no such model"),
        "own": RequestError(429, "later", retry_after=7),
        "bug": ZeroDivisionError("secret"),
    }

    def fail(name: str) -> None:
        raise errors[name]

    app.add_api_route("/fail/{name}", fail)
    client = TestClient(app, raise_server_exceptions=False)
    found = {name: client.get(f"/fail/{name}") for name in errors}
    assert {name: answer.status_code for name, answer in found.items()} == {
        "usage": 422,
        "data": 422,
        "model": 422,
        "own": 429,
        "bug": 500,
    }
    assert found["usage"].json() == {"error": "a value is wrong"}
    assert found["data"].json() == {"error": "a.csv:3: is damaged"}
    assert found["own"].headers["Retry-After"] == "7"
    assert "secret" not in found["bug"].text
    assert [record.message for record in caplog.records if record.name.startswith("bertworks")] == ["a request failed"]


def test_sentences_name_the_place() -> None:
    problem = {"loc": ("body", "texts", 3), "msg": "Input should be a valid string", "type": "string_type", "input": 5}
    assert sentence_of([problem]) == "texts.3: input should be a valid string (it is 5)"
    assert sentence_of([problem] * 5).endswith("; and 2 more")
    long = {**problem, "input": "x" * 10_000}
    assert len(sentence_of([long])) < 150
    assert "a list of 3" in sentence_of([{**problem, "input": [1, 2, 3]}])


def test_a_bug_of_ours_is_500_and_the_server_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = tiny()
    embed = model.embed

    def sometimes(texts: list[str], **options: Any) -> Any:
        if "bug" in texts:
            raise ZeroDivisionError("secret")
        return embed(texts, **options)

    monkeypatch.setattr(model, "embed", sometimes)
    with TestClient(create_app({"tiny": model}), raise_server_exceptions=False) as client:
        answer = client.post("/embed", json={"texts": ["bug"]}, headers={"X-Request-Id": "seventeen"})
        assert answer.status_code == 500
        assert answer.headers["X-Request-Id"] == "seventeen"
        assert answer.json() == {"error": "the server failed on this request; its log says why"}
        assert client.post("/embed", json={"texts": ["fine"]}).status_code == 200
        assert 'bertworks_requests_total{route="/embed",status="500"} 1' in client.get("/metrics").text
    assert "the model failed" in caplog.text
    (line,) = [record for record in caplog.records if record.getMessage() == "a request failed"]
    assert (vars(line)["id"], vars(line)["path"]) == ("seventeen", "/embed")


def test_the_first_texts_may_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    embed, texts_at_once = model.embed, []

    def slowly(texts: list[str], **options: Any) -> Any:
        texts_at_once.append(len(texts))
        time.sleep(0.3)
        return embed(texts, **options)

    monkeypatch.setattr(model, "embed", slowly)
    app = create_app({"tiny": model}, ServeSettings(timeout_seconds=0.1))
    app.state.server.models["tiny"].warm_up()
    assert texts_at_once[0] > 1
    assert texts_at_once[1:] == [1]


# -- the server itself -------------------------------------------------------------------------------------------------


def test_about(client: TestClient, models: dict[str, LoadedModel]) -> None:
    found = {one["name"]: one for one in client.get("/models").json()["models"]}
    assert list(found) == list(models)
    assert found["plain"]["task"] is None
    assert found["plain"]["routes"] == ["/v1/embeddings", "/embed", "/rerank", "/tokenize"]
    assert found["fill"]["routes"] == ["/v1/embeddings", "/embed", "/rerank", "/fill", "/tokenize"]
    assert found["tag"]["task"] == "tag"
    assert found["plain"]["precision"] == "fp32"
    assert found["pair"]["labels"] == ["different", "same"]
    assert (found["qa"]["width"], found["qa"]["layers"]) == (36, 2)
    listed = client.get("/v1/models").json()
    assert [one["id"] for one in listed["data"]] == list(models)
    assert [client.get(f"/v1/models/{name}").json()["id"] for name in models] == list(models)
    unknown = client.get("/v1/models/org/plain")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "not_found_error")
    assert client.head("/health").status_code == 200
    assert client.get("/health").json() == {"status": "ok", "models": list(models), "waiting": 0}


def test_every_route_of_a_model_answers_it(client: TestClient, models: dict[str, LoadedModel]) -> None:
    """What /models says is true: no route that it names refuses the model, and every other head's route does."""
    document = client.get("/openapi.json").json()
    for about in client.get("/models").json()["models"]:
        for path, methods in document["paths"].items():
            if "post" not in methods:
                continue
            reference = methods["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            (example,) = document["components"]["schemas"][reference.rsplit("/", 1)[1]]["examples"]
            body = example if path == "/search" else {**example, "model": about["name"]}
            if path == "/rerank" and about["task"] == "classify":
                body["label"] = about["labels"][0]
            expected = 200 if path in (*about["routes"], "/search") else 400 if path.startswith("/v1/") else 422
            assert client.post(path, json=body).status_code == expected, (path, about["name"])


def test_docs_show_every_route(client: TestClient) -> None:
    page = client.get("/docs").text
    assert client.get("/").text == page
    for path in client.get("/openapi.json").json()["paths"]:
        assert f"{path}</h2>" in page
    assert "curl http://testserver/embed -H" in page
    assert "https://" not in page  # nothing is fetched from elsewhere
    assert "<script" not in page


def test_metrics(client: TestClient) -> None:
    client.post("/embed", json={"texts": "a"})
    client.get("/nothing-of-that-name")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {}
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    assert values['bertworks_requests_total{route="/embed",status="200"}'] >= 1
    assert values['bertworks_requests_total{route="other",status="404"}'] >= 1
    assert values['bertworks_waiting_requests{model="plain"}'] == 0
    assert values["process_resident_memory_bytes"] > 1e6
    counts = [
        value for name, value in values.items() if name.startswith('bertworks_request_seconds_bucket{route="/embed"')
    ]
    assert counts == sorted(counts)
    assert counts[-1] == values['bertworks_request_seconds_count{route="/embed"}']
    assert answer.text.count("# TYPE") == len(
        {line.split()[2] for line in answer.text.splitlines() if "# TYPE" in line}
    )
    assert "nothing-of-that-name" not in answer.text  # a client cannot make new series


def test_logs_are_json_without_texts(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="bertworks.serve"):
        answer = client.post("/embed", json={"texts": ["a secret text"]}, headers={"X-Request-Id": "abc-1"})
        client.post("/embed", json={"texts": 1}, headers={"X-Request-Id": "bad id\n"})
    assert answer.headers["X-Request-Id"] == "abc-1"
    lines = [JsonLines().format(record) for record in caplog.records if record.name == "bertworks.serve.requests"]
    first, second = map(json.loads, lines)
    assert {key: first[key] for key in ("event", "id", "method", "path", "status", "model", "items")} == {
        "event": "request",
        "id": "abc-1",
        "method": "POST",
        "path": "/embed",
        "status": 200,
        "model": "plain",
        "items": 1,
    }
    assert first["seconds"] >= first["queue_seconds"] >= 0
    assert second["status"] == 422
    assert len(second["id"]) == 32
    assert "secret" not in "".join(lines)
    failed = logging.LogRecord("x", logging.ERROR, "", 0, "went wrong", (), (ValueError, ValueError("no"), None))
    assert "ValueError: no" in json.loads(JsonLines().format(failed))["traceback"]
