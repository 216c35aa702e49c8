"""Tasks in a real browser: a classifier that is trained here, tiny models of the other tasks, real clicks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import bertworks
from bertworks.cli.main import main
from bertworks.infer.loaded import LoadedModel
from bertworks.studio import tasks
from bertworks.studio.app import create_studio
from tests.studio.conftest import running, serious
from tests.studio.test_tasks import tagger as tagger  # a fixture
from tests.studio.test_tasks import tiny

WORDS = {
    "good": "wonderful great brilliant lovely excellent beautiful funny moving",
    "bad": "terrible dull awful boring horrible ugly silly empty",
}
REVIEW = "The story is dull, but the music is wonderful & great."
QUESTION = {
    "question": "What runs past the mill?",
    "context": "Seventeen geese walked. The river runs past the old mill.",
}


@pytest.fixture(scope="module")
def reviews(minilm: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A head on MiniLM's frozen vectors, by the command itself."""
    folder = tmp_path_factory.mktemp("reviews")
    rows = [
        f"a {word} {what},{label}"
        for label, words in WORDS.items()
        for word in words.split()
        for what in ("film", "song")
    ]
    (folder / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    command = ["finetune", "classify", "--train", str(folder / "train.csv"), "--frozen", "--dev-fraction", "0.2"]
    assert main([*command, "-o", str(folder / "model"), "--quiet"]) == 0
    return bertworks.load(folder / "model")


@pytest.fixture(scope="module")
def answerer(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return tiny(tmp_path_factory.mktemp("q"), "ForQuestionAnswering")


@pytest.fixture(scope="module")
def chooser(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return tiny(tmp_path_factory.mktemp("o"), "ForMultipleChoice")


@pytest.fixture(scope="module")
def rater(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return tiny(tmp_path_factory.mktemp("n"), "ForSequenceClassification", num_labels=1, problem_type="regression")


@pytest.fixture(scope="module")
def address(
    reviews: LoadedModel,
    tagger: LoadedModel,
    answerer: LoadedModel,
    chooser: LoadedModel,
    rater: LoadedModel,
    minilm: LoadedModel,
    gpt: LoadedModel,
) -> Iterator[str]:
    models = [("reviews", reviews), ("tagger", tagger), ("answerer", answerer), ("chooser", chooser)]
    with running(create_studio([*models, ("rater", rater), ("minilm", minilm), ("gpt", gpt)])) as found:
        yield found


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def ask(page: Any) -> None:
    with page.expect_response("**/api/tasks/predict"):
        page.get_by_role("button", name="Ask the model").click()


def test_classes_and_why(page: Any, address: str, reviews: LoadedModel) -> None:
    page.goto(f"{address}/#tasks")
    page.get_by_label("Text", exact=True).fill(REVIEW)
    ask(page)
    said = reviews.predict(REVIEW)
    page.locator(".answer").wait_for()
    assert page.locator(".answer").inner_text() == said.label == "good"
    shown = dict(
        zip(page.locator("[data-label]").all_inner_texts(), page.locator(".bar .number").all_inner_texts(), strict=True)
    )
    assert shown == {label: percent(share) for label, share in said.probabilities.items()}

    page.get_by_role("button", name="Show").click()
    page.get_by_role("heading", name="Explained: the log-odds of the label good").wait_for()
    (found,) = tasks.explained(reviews, {"text": REVIEW})["explanations"]
    values = [f"{token['value']:.4f}" for token in found["tokens"] if token["part"] == 0]
    on_screen = page.locator(".weight").evaluate_all("spans => spans.map(span => span.dataset.value)")
    assert on_screen == values
    assert page.locator(".explained .tagged").inner_text() == REVIEW
    dull = page.locator(".weight", has_text="dull")
    assert "against" in (dull.get_attribute("class") or "")
    assert page.get_by_text("the contributions add up to the score minus that of a text of padding").is_visible()

    page.locator("[data-label='bad']").click()
    page.get_by_role("heading", name="Explained: the log-odds of the label bad").wait_for()
    assert "for" in (page.locator(".weight", has_text="dull").get_attribute("class") or "").split()
    page.get_by_label("Method").select_option("attention-rollout")
    page.get_by_text("It does not look at the score and knows no for or against").wait_for()
    page.locator(".weight.much").first.wait_for()
    assert "method=attention-rollout" in page.url


def test_a_link_brings_the_answer_again(page: Any, address: str) -> None:
    page.goto(
        f"{address}/#tasks?model=reviews&row=%7B%22text%22%3A%22a%20lovely%20day%22%7D&method=integrated-gradients"
    )
    page.locator(".weight").first.wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "a lovely day"
    assert page.locator(".answer").inner_text() == "good"


def test_entities(page: Any, address: str, tagger: LoadedModel) -> None:
    page.goto(f"{address}/#tasks")
    page.get_by_label("Model").select_option("tagger")
    text = "😀 Anna  walked <b>past</b> the mill"
    page.get_by_label("Text", exact=True).fill(text)
    ask(page)
    page.locator("[data-word]").first.wait_for()
    said = tagger.predict(text)
    assert [word.inner_text() for word in page.locator("[data-word]").all()] == list(said.words)
    marked = page.locator(".entity").evaluate_all(
        "marks => marks.map(mark => [mark.dataset.label, mark.querySelector('small').textContent])"
    )
    assert [label for label, _ in marked] == [span.label for span in said.spans]
    for (_, note), span in zip(marked, said.spans, strict=True):
        assert note == f"{span.label} {percent(span.probability)}"
    notes = "".join(page.locator(".entity > small").all_text_contents())
    whole = page.locator(".tagged").first.text_content() or ""
    assert len(whole) == len(text) + len(notes)  # the text as it was typed, and the notes
    page.locator("[data-word='2']").click()
    page.get_by_role("heading", name="for the word walked").wait_for()
    assert page.locator(".explained .tagged").inner_text() == text
    assert "walked" in "".join(page.locator(".weight").all_inner_texts())


def test_an_answer_in_its_context(page: Any, address: str, answerer: LoadedModel) -> None:
    page.goto(f"{address}/#tasks?model=answerer")
    page.get_by_label("Question").fill(QUESTION["question"])
    page.get_by_label("Context").fill(QUESTION["context"])
    ask(page)
    said = answerer.predict(QUESTION)
    page.locator("mark.entity").wait_for()
    assert page.locator("mark.entity").inner_text() == said.text
    assert page.locator(".long .bar button").all_inner_texts() == [one.text for one in said.candidates]
    page.locator(".long .bar button").nth(1).click()
    page.get_by_role("heading", name=f"the score of the answer {said.candidates[1].text}").wait_for()
    assert page.locator("mark.entity").inner_text() == said.candidates[1].text


def test_the_best_option(page: Any, address: str, chooser: LoadedModel) -> None:
    row = {"text": "The river runs past the old mill.", "options": ["It turns the wheel.", "A <b> goose."]}
    page.goto(f"{address}/#tasks?model=chooser")
    page.get_by_label("Beginning").fill(row["text"])
    page.get_by_label("Options, one in each line").fill("\n".join(row["options"]))
    ask(page)
    said = tasks.predict(chooser, row)
    page.locator(".answer").wait_for()
    assert page.locator(".answer").inner_text() == row["options"][said["option"]]
    assert page.locator(".bar .number").all_inner_texts() == [percent(share) for share in said["probabilities"]]
    (found,) = tasks.explained(chooser, row, target=1)["explanations"]
    page.locator(".bar button").nth(1).click()
    page.get_by_role("heading", name=f"Explained: {found['of']}").wait_for()
    assert page.locator(".explained .tagged").all_inner_texts() == [row["text"], row["options"][1]]


def test_a_number(page: Any, address: str, rater: LoadedModel) -> None:
    page.goto(f"{address}/#tasks?model=rater")
    page.get_by_label("Text", exact=True).fill(REVIEW)
    ask(page)
    page.locator(".answer").wait_for()
    assert page.locator(".answer").inner_text() == f"{rater.predict(REVIEW).value:.4f}"
    page.get_by_role("button", name="Show").click()
    page.locator(".weight").first.wait_for()
    (found,) = tasks.explained(rater, {"text": REVIEW})["explanations"]
    values = [f"{token['value']:.4f}" for token in found["tokens"] if token["part"] == 0]
    assert page.locator(".weight").evaluate_all("spans => spans.map(span => span.dataset.value)") == values


def test_similarity(page: Any, address: str, minilm: LoadedModel) -> None:
    page.goto(f"{address}/#tasks?model=minilm")
    page.get_by_label("First text").fill("A cat sleeps.")
    page.get_by_label("Second text").fill("The kitten is asleep.")
    ask(page)
    page.locator(".answer").wait_for()
    assert (
        page.locator(".answer").inner_text()
        == f"{minilm.predict(('A cat sleeps.', 'The kitten is asleep.')).similarity:.4f}"
    )


def test_another_model_keeps_the_text_and_forgets_the_target(page: Any, address: str) -> None:
    page.goto(f"{address}/#tasks?model=reviews")
    page.get_by_label("Text", exact=True).fill("Anna had a lovely day")
    ask(page)
    page.locator("[data-label='bad']").click()
    page.locator(".weight").first.wait_for()
    page.get_by_label("Model").select_option("tagger")
    page.locator("[data-word]").first.wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "Anna had a lovely day"
    assert "target" not in page.url
    assert page.locator(".weight").count() == 0
    page.get_by_label("Model").select_option("answerer")
    page.get_by_label("Question").fill("Who?")
    page.get_by_label("Model").select_option("reviews")
    assert page.get_by_label("Text", exact=True).input_value() == "Anna had a lovely day"
    page.get_by_role("link", name="Tokens").click()
    page.get_by_role("link", name="Tasks").click()
    page.get_by_label("Model").select_option("answerer")
    assert page.get_by_label("Question").input_value() == "Who?"


def test_what_cannot_be_asked(page: Any, address: str) -> None:
    page.watch.expected = ("400",)
    page.goto(f"{address}/#tasks?model=nobody")
    page.get_by_role("status").get_by_text("No model 'nobody' is loaded").wait_for()
    page.get_by_label("Model").select_option("reviews")
    text = page.get_by_label("Text", exact=True)
    text.wait_for()
    page.get_by_text("1 loaded model has no task").click()
    page.get_by_text("this model has no head that predicts labels").wait_for()
    for typed, problem in (("  ", "The text is empty"), ("a" * 100_001, "this part takes 100,000 at most")):
        text.fill(typed)
        ask(page)
        page.get_by_role("status").get_by_text(problem).wait_for()
        assert text.input_value() == typed


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessible(page: Any, address: str, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    rows = {"reviews": '{"text":"a dull and lovely day"}&target=good', "tagger": '{"text":"Anna walked past"}&target=1'}
    for model, row in rows.items():
        page.goto(f"{address}/#tasks?model={model}&method=integrated-gradients&row={row}")
        page.reload()
        page.locator(".weight").first.wait_for()
        assert serious(page) == []
