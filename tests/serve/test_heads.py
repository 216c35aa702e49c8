"""Each head's route says what the library says of the same model, fine-tuned by `bertworks finetune`."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from bertworks.infer.loaded import LoadedModel

CONTEXT = "The library in Vadstena was opened by Ada Berg in 1911. " * 12
CASES: list[tuple[str, str, str, list[Any]]] = [
    ("/classify", "classify", "texts", ["Where is my order?", "", "The app crashes."]),
    ("/pair", "pair", "pairs", [["It rains.", "Rain falls."], ["Yes", "No"]]),
    ("/pair", "similarity", "pairs", [["It rains.", "Rain falls."]]),
    ("/regress", "regress", "texts", ["Wonderful stay.", "Never again."]),
    ("/regress", "regress", "texts", [["Wonderful", "stay."]]),
    ("/tag", "tag", "texts", ["Ada Byrne opened it.", "", "no names"]),
    ("/tag", "words", "texts", ["Ada Byrne opened it.", "no names"]),
    ("/tag", "tag", "texts", [["Ada", "Byrne", "opened", "it"]]),
]


def rows_of(given: list[Any], route: str) -> list[Any]:
    """As the library takes them: a pair is a tuple, words are a list."""
    return [tuple(row) if isinstance(row, list) and route != "/tag" else row for row in given]


@pytest.mark.parametrize(("route", "model", "field", "given"), CASES)
def test_predictions_are_the_library_s(
    client: TestClient,
    models: dict[str, LoadedModel],
    route: str,
    model: str,
    field: str,
    given: list[Any],
) -> None:
    answer = client.post(route, json={"model": model, field: given})
    assert answer.status_code == 200, answer.text
    expected = [one.as_json() for one in models[model].predict(rows_of(given, route))]
    assert answer.json()["model"] == model
    close(answer.json()["predictions"], expected)


def close(found: Any, expected: Any) -> None:
    """Equal, numbers to six digits."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            close(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-4, abs=1e-6) if isinstance(expected, float) else expected)


def test_choice(client: TestClient, models: dict[str, LoadedModel]) -> None:
    row = {"text": "It began to rain, so she", "options": ["sang.", "opened her umbrella.", "slept."]}
    (found,) = client.post("/choice", json={"model": "choice", "choices": [row]}).json()["predictions"]
    expected = models["choice"].predict((row["text"], row["options"]))
    close(found, expected.as_json())
    assert len(found["probabilities"]) == 3
    assert (
        client.post("/choice", json={"model": "choice", "choices": [{"text": "a", "options": ["b"]}]}).status_code
        == 422
    )


def test_answers_are_characters_of_long_contexts(client: TestClient, models: dict[str, LoadedModel]) -> None:
    body = {"model": "qa", "questions": [{"question": "Who opened it?", "context": CONTEXT}], "top_k": 2}
    (found,) = client.post("/answer", json=body).json()["predictions"]
    assert len(models["qa"].tokenizer.encode(CONTEXT)) > models["qa"].predictor.window
    assert len(found["candidates"]) == 2
    for one in [found, *found["candidates"]]:
        assert CONTEXT[one["start"] : one["end"]] == one["text"]
    expected = models["qa"].predict(("Who opened it?", CONTEXT)).as_json()
    close(found["candidates"], expected["candidates"][:2])


@pytest.mark.parametrize("model", ["pair", "regress", "similarity", "plain"])
def test_rerank(client: TestClient, models: dict[str, LoadedModel], model: str) -> None:
    query, documents = "oak trees", ["Oak trees are old.", "A bird.", "", "The road is closed."]
    body = {"model": model, "query": query, "documents": documents}
    found = client.post("/rerank", json=body).json()["results"]
    scores = {one["index"]: one["relevance_score"] for one in found}
    assert sorted(scores) == [0, 1, 2, 3]
    assert [one["relevance_score"] for one in found] == sorted(scores.values(), reverse=True)
    loaded = models[model]
    if model in ("similarity", "plain"):
        vectors = loaded.embed([query, *documents], normalize=True)
        expected = [float(vectors[0] @ vector) for vector in vectors[1:]]
    elif model == "pair":
        label = loaded.predictor.labels[1]
        expected = [loaded.predict((query, text)).probabilities[label] for text in documents]
    else:
        expected = [loaded.predict((query, text)).value for text in documents]
    assert [scores[number] for number in range(4)] == pytest.approx(expected, abs=1e-5)
    best = client.post("/rerank", json={**body, "top_n": 1, "return_documents": True}).json()["results"]
    assert best == [
        {
            **found[0],
            "relevance_score": pytest.approx(found[0]["relevance_score"], abs=1e-6),
            "document": documents[found[0]["index"]],
        }
    ]


def test_rerank_by_another_label(client: TestClient, models: dict[str, LoadedModel]) -> None:
    body = {"model": "pair", "query": "a", "documents": ["b"]}
    first, second = models["pair"].predictor.labels
    scores = [
        client.post("/rerank", json={**body, "label": label}).json()["results"][0]["relevance_score"]
        for label in (first, second)
    ]
    assert sum(scores) == pytest.approx(1.0)
    for changes, words in [
        ({"label": "nothing"}, "unknown label"),
        ({"label": "nothing", "model": "plain"}, "has no labels"),
        ({"model": "classify"}, "has 6 labels; say with `label`"),
        ({"model": "qa"}, ""),
    ]:
        answer = client.post("/rerank", json={**body, **changes})
        if words:
            assert answer.status_code == 422
            assert words in answer.json()["error"]
        else:
            assert answer.status_code == 200  # by its vectors


def test_fill(client: TestClient, models: dict[str, LoadedModel]) -> None:
    text = "北京是中国的首[MASK]。"
    (masks,) = client.post("/fill", json={"model": "fill", "texts": text, "top_k": 2}).json()["masks"]
    assert masks[0][0]["token"] == "都"
    assert masks[0][0]["text"] == "北京是中国的首都。"
    body = {"model": "fill", "texts": ["北京是中国的[MASK][MASK]。"], "joint": True, "top_k": 3}
    (joint,) = client.post("/fill", json=body).json()["joint"]
    expected = models["fill"].fill(body["texts"][0], joint=True, top_k=3)
    assert [one["tokens"] for one in joint] == [list(one.tokens) for one in expected]
    body = {"model": "fill", "texts": ["北京是中国的[MASK]。"], "targets": ["首都", "城"]}
    (scores,) = client.post("/fill", json=body).json()["targets"]
    assert sum(one["share"] for one in scores) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("body", "characters"),
    [
        ({"texts": "[MASK]" * 60, "top_k": 100}, "2,160,000"),  # 60 masks, 100 candidates each, 360 characters each
        ({"texts": ["[MASK]" + "长" * 300] * 5, "top_k": 100}, "153,000"),
        ({"texts": "[MASK]" + "长" * 1500, "targets": ["城"] * 100}, "150,600"),
    ],
)
def test_fill_does_not_repeat_a_text_for_ever(client: TestClient, body: dict[str, Any], characters: str) -> None:
    answer = client.post("/fill", json={"model": "fill", **body})
    assert answer.status_code == 413
    assert f"the answer would hold {characters} characters; this server gives 100,000" in answer.json()["error"]
    assert "or ask for fewer candidates" in answer.json()["error"]


@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("/fill", {"model": "fill", "texts": "没有"}, "the text has no mask"),
        ("/fill", {"model": "fill", "texts": "[MASK]" * 9, "joint": True}, "has 9 masks; with joint it may have 8"),
        ("/fill", {"model": "fill", "texts": "[MASK]", "joint": True, "top_k": 11}, "top_k is 11"),
        ("/fill", {"model": "fill", "texts": "[MASK]", "joint": True, "targets": ["城"]}, "do not go together"),
        (
            "/fill",
            {"model": "plain", "texts": "a [MASK]"},
            "cannot be asked at /fill; it can at /v1/embeddings, /embed",
        ),
        ("/classify", {"model": "pair", "texts": "a"}, "cannot be asked at /classify; it can at"),
        ("/classify", {"model": "plain", "texts": "a"}, "; served here for that: classify"),
        ("/tag", {"model": "qa", "texts": "a"}, "it can at /v1/embeddings, /embed, /rerank, /answer, /tokenize"),
        ("/embed", {"model": "words", "texts": "a"}, "the model 'words' cannot be asked at /embed; it can at /tag"),
        ("/tag", {"model": "tag", "texts": []}, "texts is empty; give at least one"),
        ("/pair", {"model": "pair", "pairs": [["a"]]}, "pairs.0: list should have at least 2 items"),
        ("/classify", {"model": "classify", "texts": [1]}, "valid string (it is 1)"),
        ("/classify", {"model": "classify", "texts": ["a"], "top": 1}, "top: extra inputs are not permitted"),
    ],
)
def test_wrong_requests_are_told_why(client: TestClient, route: str, body: dict[str, Any], words: str) -> None:
    answer = client.post(route, json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_without_a_name_the_first_model_that_can_answers(client: TestClient) -> None:
    answer = client.post("/classify", json={"texts": "a"})
    assert (answer.status_code, answer.json()["model"]) == (200, "classify")
