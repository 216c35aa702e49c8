"""Vectors and tokens over HTTP are those of the library."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from bertworks.infer.loaded import LoadedModel
from bertworks.serve import create_app
from tests.tasks.small import SENTENCES


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layers": "first"},
        {"layers": 1, "pooling": "max"},
        {"layers": "sum-all", "pooling": "cls", "normalize": True},
        {"model": "similarity"},
        {"model": "similarity", "normalize": False},
        {"model": "classify", "layers": "second-to-last", "pooling": "mean"},
    ],
)
def test_embed(client: TestClient, models: dict[str, LoadedModel], options: dict[str, Any]) -> None:
    answer = client.post("/embed", json={"texts": SENTENCES, **options}).json()
    given = {key: value for key, value in options.items() if key != "model"}
    expected = models[options.get("model", "plain")].embed(SENTENCES, **given)
    assert answer["width"] == expected.shape[1]
    np.testing.assert_allclose(np.array(answer["vectors"]), expected, atol=2e-6)
    single = client.post("/embed", json={"texts": SENTENCES[0], **options}).json()["vectors"]
    np.testing.assert_allclose(np.array(single), expected[:1], atol=2e-6)


@pytest.mark.parametrize("pooling", ["tokens", "words"])
def test_pieces_have_offsets(client: TestClient, models: dict[str, LoadedModel], pooling: str) -> None:
    body = {"texts": SENTENCES, "pooling": pooling, "layers": 1}
    answer = client.post("/embed", json=body).json()
    model = models["plain"]
    expected = (model.embed_words if pooling == "words" else model.embed_tokens)(SENTENCES, layers=1)
    for found, wanted in zip(answer["pieces"], expected, strict=True):
        assert [(one["text"], one["start"], one["end"]) for one in found] == [
            (one.text, one.start, one.end) for one in wanted
        ]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one["vector"], other.vector, atol=2e-6)
    unit = client.post("/embed", json={**body, "normalize": True}).json()["pieces"][0][0]["vector"]
    assert np.linalg.norm(unit) == pytest.approx(1.0, abs=1e-5)


def test_words_may_be_given(client: TestClient, models: dict[str, LoadedModel]) -> None:
    words = ["The", "river", "runs"]
    (found,) = client.post("/embed", json={"texts": [words], "pooling": "words"}).json()["pieces"]
    (expected,) = models["plain"].embed_words([words])
    assert [one["text"] for one in found] == words
    np.testing.assert_allclose([one["vector"] for one in found], [one.vector for one in expected], atol=2e-6)
    answer = client.post("/embed", json={"texts": [words]})
    assert answer.status_code == 422
    assert "they go with pooling 'words' only" in answer.json()["error"]


def test_openai_s_form(client: TestClient, models: dict[str, LoadedModel]) -> None:
    expected = models["similarity"].embed(SENTENCES)
    body = {"model": "similarity", "input": SENTENCES, "user": "me", "something": "new"}
    answer = client.post("/v1/embeddings", json=body).json()
    assert [one["index"] for one in answer["data"]] == list(range(len(SENTENCES)))
    np.testing.assert_allclose([one["embedding"] for one in answer["data"]], expected, atol=2e-6)
    tokens = sum(len(models["similarity"].tokenizer.encode(text)) for text in SENTENCES)
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    packed = client.post("/v1/embeddings", json={**body, "encoding_format": "base64"}).json()
    vectors = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in packed["data"]]
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    short = client.post("/v1/embeddings", json={**body, "dimensions": 5}).json()["data"]
    wanted = expected[:, :5] / np.linalg.norm(expected[:, :5], axis=1, keepdims=True)
    np.testing.assert_allclose([one["embedding"] for one in short], wanted, atol=2e-6)


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"model": "similarty"}, 404, "(did you mean 'similarity'?); served: plain, classify"),
        ({"input": [1, 2, 3]}, 400, "check_embedding_ctx_length=False"),
        ({"input": [[1, 2], [3]]}, 400, "token numbers"),
        ({"input": []}, 400, "input is empty"),
        ({"input": ["a"] * 51}, 413, "input has 51 entries; this server takes 50"),
        ({"input": "word " * 20_000}, 413, "tokens of work; this server takes 20,000"),
        ({"dimensions": 1000}, 400, "dimensions is 1000; the vectors of 'similarity' have 36 numbers"),
        ({"dimensions": 0}, 400, "dimensions: input should be greater than or equal to 1 (it is 0)"),
        ({"encoding_format": "hex"}, 400, "encoding_format"),
        ({"input": None}, 400, "input"),
    ],
)
def test_openai_s_errors(client: TestClient, changes: dict[str, Any], status: int, words: str) -> None:
    answer = client.post("/v1/embeddings", json={"model": "similarity", "input": "a", **changes})
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_openai_s_clients_may_send_null(client: TestClient) -> None:
    body = {"model": "similarity", "input": "a", "encoding_format": None, "dimensions": None, "user": None}
    (found,) = client.post("/v1/embeddings", json=body).json()["data"]
    assert len(found["embedding"]) == 36


def test_who_is_refused_costs_nothing(models: dict[str, LoadedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app({"plain": models["plain"]})
    served = app.state.server.models["plain"]
    count, counted = served.num_tokens, []

    def num_tokens(texts: list[str]) -> list[int]:
        counted.extend(texts)
        return list(count(texts))

    monkeypatch.setattr(served, "num_tokens", num_tokens)
    client = TestClient(app)
    assert client.post("/embed", json={"texts": "first", "pooling": "tokens"}).status_code == 200
    assert client.post("/embed", json={"texts": "a vector"}).status_code == 200  # whose tokens nobody asks for
    served.engine.close()
    assert client.post("/embed", json={"texts": "second", "pooling": "tokens"}).status_code == 503
    assert counted == ["first"]


def test_answers_have_bounds(client: TestClient) -> None:
    answer = client.post("/embed", json={"texts": ["river mill " * 2000], "pooling": "tokens"})
    assert answer.status_code == 413
    assert "this server gives 100,000 at once" in answer.json()["error"]


def test_tokenize(client: TestClient, models: dict[str, LoadedModel]) -> None:
    tokenizer = models["plain"].tokenizer
    for special in (True, False):
        rows = client.post("/tokenize", json={"texts": SENTENCES, "special": special}).json()["texts"]
        for row, expected in zip(rows, tokenizer.encode_batch(SENTENCES, special=special), strict=True):
            assert row["ids"] == expected.ids.tolist()
            assert row["tokens"] == tokenizer.tokens(expected.ids)
            assert row["offsets"] == expected.offsets.tolist()
            assert row["words"] == expected.words.tolist()


def test_unknown_layers(client: TestClient) -> None:
    answer = client.post("/embed", json={"texts": "a", "layers": "lst"})
    assert answer.status_code == 422
    assert "did you mean 'last'?" in answer.json()["error"]
