"""What the studio says of fine-tuned models is what the library says."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

import bertworks
from bertworks.errors import UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.studio import tasks
from bertworks.studio.models import Models
from tests.infer.foreign import Foreign

TEXT = "The river runs past the old mill."


def tiny(directory: Path, architecture: str, **options: object) -> LoadedModel:
    Foreign(directory, "bert", architecture, **options)
    return bertworks.load(directory)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return tiny(
        tmp_path_factory.mktemp("c"),
        "ForSequenceClassification",
        id2label={0: "no", 1: "yes"},
        label2id={"no": 0, "yes": 1},
    )


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    names = {0: "O", 1: "B-PER", 2: "I-PER"}
    return tiny(
        tmp_path_factory.mktemp("t"),
        "ForTokenClassification",
        id2label=names,
        label2id={v: k for k, v in names.items()},
    )


def test_what_models_are_for(
    classifier: LoadedModel, tagger: LoadedModel, minilm: LoadedModel, translator: LoadedTranslator, gpt: LoadedModel
) -> None:
    found = tasks.describe("c", classifier)
    assert (found["task"], found["labels"], found["fields"], found["optional"]) == (
        "classify",
        ["no", "yes"],
        ["text", "pair"],
        "pair",
    )
    assert found["methods"] == ["integrated-gradients", "attention-rollout"]
    assert tasks.describe("t", tagger)["fields"] == ["text"]
    assert tasks.describe("m", minilm)["task"] == "similarity"
    assert "translation model" in tasks.describe("x", translator)["why"]
    assert "fine-tune it first" in tasks.describe("g", gpt)["why"]


def test_a_busy_model_keeps_nobody_waiting(classifier: LoadedModel) -> None:
    models = Models([("c", classifier)])
    app = FastAPI()
    app.include_router(tasks.router(models))
    with models.use("c"):
        assert [one["task"] for one in TestClient(app).get("/api/tasks").json()["models"]] == ["classify"]


def test_predictions(classifier: LoadedModel, tagger: LoadedModel, minilm: LoadedModel) -> None:
    assert tasks.predict(classifier, {"text": TEXT}) == {"task": "classify", **classifier.predict(TEXT).as_json()}
    assert (
        tasks.predict(classifier, {"text": TEXT, "pair": "x"})["probabilities"]
        == classifier.predict((TEXT, "x")).probabilities
    )
    tags = tasks.predict(tagger, {"text": TEXT})
    assert [TEXT[start:end] for start, end in tags["offsets"]] == tags["words"]
    assert tags["tags"] == list(tagger.predict(TEXT).tags)
    assert (
        tasks.predict(minilm, {"text": "a cat", "pair": "a dog"})["similarity"]
        == minilm.predict(("a cat", "a dog")).similarity
    )


def test_explanations(classifier: LoadedModel, tagger: LoadedModel) -> None:
    found = tasks.explained(classifier, {"text": TEXT}, target="yes")
    (one,) = found["explanations"]
    assert found["says"].startswith("Integrated gradients")
    assert one["texts"] == [TEXT]
    assert sum(token["value"] for token in one["tokens"]) == pytest.approx(one["output"] - one["baseline"], abs=2e-3)
    rolled = tasks.explained(tagger, {"text": TEXT}, "attention-rollout", 2)
    assert rolled["says"].startswith("Attention rollout")
    assert rolled["explanations"][0]["of"].endswith("for the word runs")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"text": " "}, "the text is empty: write something first"),
        ({}, "the text is missing"),
        ({"text": 3}, "the text is missing"),
        ({"text": "a" * 100_001}, "100,001 characters; this part takes 100,000 at most"),
    ],
)
def test_rows_that_are_none(classifier: LoadedModel, row: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        tasks.predict(classifier, row)


def test_a_long_text_is_predicted_and_not_explained(classifier: LoadedModel) -> None:
    row = {"text": "a b " * 24_000}
    assert tasks.predict(classifier, row)["label"] in ("no", "yes")
    with pytest.raises(UsageError, match="shorten it"):
        tasks.explained(classifier, row)


def test_options(tmp_path: Path) -> None:
    model = tiny(tmp_path, "ForMultipleChoice")
    said = tasks.predict(model, {"text": TEXT, "options": ["one", "two", "three"]})
    assert len(said["probabilities"]) == 3
    assert tasks.explained(model, {"text": TEXT, "options": ["one", "two"]}, target=1)["explanations"][0]["texts"] == [
        TEXT,
        "two",
    ]
    for options, problem in (
        (["one"], "1 options; a choice has 2 to 20"),
        ("one", "the options are missing"),
        (["a", ""], "option 2 is empty"),
    ):
        with pytest.raises(UsageError, match=problem):
            tasks.predict(model, {"text": TEXT, "options": options})


def test_answers(tmp_path: Path) -> None:
    model = tiny(tmp_path, "ForQuestionAnswering")
    row = {"question": "What runs?", "context": TEXT}
    said = tasks.predict(model, row)
    assert TEXT[said["start"] : said["end"]] == said["text"]
    candidate = said["candidates"][1]
    found = tasks.explained(model, row, target=[candidate["start"], candidate["end"]])["explanations"][0]
    assert found["of"] == f"the score of the answer {candidate['text']}"
