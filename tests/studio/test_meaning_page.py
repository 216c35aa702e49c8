"""Meaning in a real browser: maps, a word in context, word vectors; what is on the screen is what the library says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bertworks.infer.loaded import LoadedModel
from bertworks.studio import meaning
from bertworks.studio.app import create_studio
from bertworks.vectors.words import WordVectors
from tests.studio.conftest import running, saved, serious, until
from tests.studio.test_meaning import gendered as gendered  # a fixture
from tests.vectors.small import few_vectors

TEXTS = ["A cat sleeps on the sofa.", "The kitten is asleep.", "Shares fell again today.", "The bank raised its rates."]


@pytest.fixture(scope="module")
def address(minilm: LoadedModel, gpt: LoadedModel, gendered: WordVectors) -> Iterator[str]:
    models = [("minilm", minilm), ("gpt", gpt), ("few", few_vectors()), ("gendered", gendered)]
    with running(create_studio(models)) as found:
        yield found


def draw(page: Any, texts: str) -> None:
    page.get_by_label("Texts, one in each line").fill(texts)
    with page.expect_response("**/api/meaning/map") as answer:
        page.get_by_role("button", name="Draw the map").click()
    assert answer.value.ok
    page.get_by_role("heading", name=f"{len(texts.splitlines())} texts", exact=True).wait_for()


def test_map(page: Any, address: str, minilm: LoadedModel) -> None:
    page.goto(f"{address}/#meaning")
    page.locator(".scatter .dot").first.wait_for()
    draw(page, "\n".join(TEXTS))
    assert page.locator(".scatter .dot").count() == 4
    vectors = np.asarray(minilm.embed(TEXTS))
    points = np.array(meaning.text_map(vectors)["points"])
    drawn = np.array(
        page.locator(".scatter .dot").evaluate_all(
            "dots => dots.map(dot => [+dot.getAttribute('cx'), -dot.getAttribute('cy')])"
        )
    )
    shift, unit = drawn.mean(axis=0), np.linalg.norm(drawn[0] - drawn[2]) / np.linalg.norm(points[0] - points[2])
    np.testing.assert_allclose(drawn - shift, (points - points.mean(axis=0)) * unit, atol=0.1)

    page.locator(".scatter .dot[data-index='0']").click()
    bars = page.locator(".details .bar")
    assert bars.first.locator("button").inner_text() == TEXTS[1]
    assert bars.first.locator(".number").inner_text() == f"{float(vectors[0] @ vectors[1]):.3f}"

    page.get_by_label("Your text").fill("interest rates")
    page.get_by_role("button", name="Find").click()
    found = page.locator("section", has_text="Find texts like").locator(".bar")
    found.first.wait_for()
    assert found.first.locator("button").inner_text() == TEXTS[3]


def test_labels_layers_and_ways_of_drawing(page: Any, address: str) -> None:
    page.goto(f"{address}/#meaning")
    page.locator(".scatter .dot").first.wait_for()
    draw(page, "\n".join(f"{label}\t{text}" for label, text in zip("aabb", TEXTS, strict=True)))
    assert [entry.strip() for entry in page.locator(".legend li").all_inner_texts()] == ["a 2", "b 2"]
    before = page.locator(".scatter .dot").first.get_attribute("cx")
    for name, value in (("Layers", "1"), ("Pooling", "max"), ("Map", "tsne")):
        with page.expect_response("**/api/meaning/map"):
            page.get_by_label(name, exact=True).select_option(value)
    page.get_by_text("distances between groups and sizes of groups mean nothing").wait_for()
    assert page.locator(".scatter .dot").first.get_attribute("cx") != before
    assert "layers=%221%22" in page.url
    assert "method=tsne" in page.url

    with page.expect_download() as download:
        page.get_by_role("button", name="Download as JSON").first.click()
    data = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert (data["labels"], data["layers"], data["pooling"], data["texts"]) == (list("aabb"), "1", "max", TEXTS)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as SVG").first.click()
    assert Path(download.value.path()).read_text(encoding="utf-8").count("<circle") == 4
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as PNG").first.click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_another_model_has_other_layers(page: Any, address: str) -> None:
    page.goto(f"{address}/#meaning?layers=%225%22")
    page.locator(".scatter .dot").first.wait_for()
    assert page.get_by_label("Layers", exact=True).input_value() == "5"
    with page.expect_response("**/api/meaning/map") as answer:
        page.get_by_label("Model", exact=True).select_option("gpt")  # of two layers
    assert answer.value.ok
    assert page.get_by_label("Layers", exact=True).input_value() == "last"


def test_another_tab_is_not_told_what_the_first_one_does(page: Any, address: str) -> None:
    held: list[Any] = []
    page.route("**/api/meaning/map", lambda route: held.append(route))
    page.goto(f"{address}/#meaning")
    page.get_by_role("status").get_by_text("Embedding 20 texts…").wait_for()
    page.get_by_role("button", name="Word vectors").click()
    assert page.get_by_role("status").inner_text() == ""
    page.get_by_role("button", name="Map of texts").click()
    page.route("**/api/meaning/read", lambda route: held.append(route))
    page.locator("input[type=file]").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a\nb"})
    until(page, lambda: len(held) == 3)
    page.get_by_role("button", name="Word vectors").click()
    with contextlib.suppress(Exception):  # nobody waits for it any more
        held[2].continue_()
    page.wait_for_timeout(300)
    assert "tab=vectors" in page.url


def test_a_link_brings_the_same_map_again(page: Any, context: Any, address: str) -> None:
    page.goto(f"{address}/#meaning")
    page.locator(".scatter .dot").first.wait_for()
    draw(page, "\n".join(TEXTS))
    places = page.locator(".scatter .dot").evaluate_all("dots => dots.map(dot => dot.getAttribute('cx'))")
    other = context.new_page()
    other.goto(page.url)
    other.locator(".scatter .dot").nth(3).wait_for()
    assert other.locator(".scatter .dot").evaluate_all("dots => dots.map(dot => dot.getAttribute('cx'))") == places


def test_the_file_of_a_map_is_that_of_the_map(page: Any, address: str) -> None:
    page.goto(f"{address}/#meaning?tab=map&pick=2&query=a+cat")
    page.locator(".details .bar").first.wait_for()
    assert page.locator(".picked-text").inner_text().endswith("A kitten plays with a ball of wool.")
    page.watch.expected = ("400",)
    page.route("**/api/meaning/map", lambda route: route.fulfill(status=400, json={"error": "no"}))
    page.get_by_label("Layers", exact=True).select_option("1")
    page.get_by_role("status").get_by_text("No.").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as JSON").first.click()
    assert json.loads(Path(download.value.path()).read_text(encoding="utf-8"))["layers"] == "last"


def test_an_answer_that_was_asked_for_earlier_leaves_an_error_standing(page: Any, address: str) -> None:
    held: list[Any] = []
    page.watch.expected = ("400",)
    page.route("**/api/meaning/nearest", lambda route: held.append(route))
    page.goto(f"{address}/#meaning?tab=map&query=a+cat")
    page.locator(".scatter .dot").first.wait_for()
    page.route("**/api/meaning/map", lambda route: route.fulfill(status=400, json={"error": "no"}))
    page.get_by_label("Layers", exact=True).select_option("1")
    failure = page.get_by_role("status").get_by_text("No.")
    failure.wait_for()
    held[0].continue_()
    page.get_by_role("heading", name="Nearest to “a cat”").wait_for()
    assert failure.is_visible()


def test_texts_and_words_of_the_tabs_stay(page: Any, address: str) -> None:
    page.goto(f"{address}/#meaning")
    page.get_by_label("Texts, one in each line").fill("one\ntwo")
    page.get_by_role("button", name="Word vectors").click()
    page.get_by_label("Word", exact=True).fill("apple")
    page.get_by_role("button", name="One word in context").click()
    assert page.get_by_label("Word", exact=True).input_value() == "apple"  # its own first sample
    page.get_by_label("Word", exact=True).fill("bank")
    page.get_by_role("button", name="Word vectors").click()
    assert page.get_by_label("Word", exact=True).input_value() == "apple"
    page.get_by_role("button", name="Map of texts").click()
    assert page.get_by_label("Texts, one in each line").input_value() == "one\ntwo"


def test_a_link_with_a_wrong_name(page: Any, address: str) -> None:
    page.watch.expected = ("400",)
    for tab in ("map", "word"):
        page.goto(f"{address}/#meaning?tab={tab}&model=nobody")
        page.reload()
        page.get_by_role("status").get_by_text("No model 'nobody' is loaded").wait_for()
        assert page.get_by_label("Model", exact=True).input_value() == "nobody"


def test_a_file(page: Any, address: str, tmp_path: Path) -> None:
    path = tmp_path / "news.csv"
    path.write_text(
        "headline,body,topic\nCat,A cat sleeps.,pets\nDog,A dog barks.,pets\nRates,Rates rise.,money\n",
        encoding="utf-8",
    )
    page.goto(f"{address}/#meaning")
    page.locator(".scatter .dot").first.wait_for()
    page.locator("input[type=file]").set_input_files(path)
    page.get_by_role("heading", name="3 texts").wait_for()
    assert page.locator("input[type=file]").input_value() == ""  # the same file can be chosen again
    assert [entry.strip() for entry in page.locator(".legend li").all_inner_texts()] == ["pets 2", "money 1"]
    assert page.locator("[data-text='0']").inner_text() == "A cat sleeps."  # the column with the longest texts
    page.get_by_label("Column of the texts").select_option("headline")
    page.locator("[data-text='0']", has_text="Cat").wait_for()
    page.get_by_label("Column of the labels").select_option("-")
    page.locator(".legend").wait_for(state="detached")
    page.watch.expected = ("400",)
    page.locator("input[type=file]").set_input_files({"name": "bad.txt", "mimeType": "text/plain", "buffer": b"a\0b"})
    page.get_by_role("status").get_by_text("Bad.txt:1: has a NUL byte").wait_for()
    large = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a\n" * 6_000_001}
    page.locator("input[type=file]").set_input_files(large)
    page.locator("#status.error").get_by_text("files of up to 12 MB are read here").wait_for()
    page.get_by_role("button", name="Type texts instead").click()
    page.get_by_label("Texts, one in each line").wait_for()


def test_texts_that_cannot_be_drawn(page: Any, address: str) -> None:
    page.goto(f"{address}/#meaning")
    page.locator(".scatter .dot").first.wait_for()
    page.watch.expected = ("400",)
    status = page.get_by_role("status")
    text = page.get_by_label("Texts, one in each line")
    for typed, problem in (
        ("", "There are no texts"),
        ("a " * 250_000, "a map takes 400,000 at most"),
        ("\n".join(["x"] * 2001), "There are 2,001 texts"),
    ):
        text.evaluate("(field, typed) => { field.value = typed; }", typed)  # typing so much takes minutes
        page.get_by_role("button", name="Draw the map").click()
        status.get_by_text(problem).wait_for()
        assert text.input_value() == typed
    markup = "<img src=x onerror=alert(1)>\n<b>bold</b>\nplain"
    draw(page, markup)
    assert page.locator("[data-text='0']").inner_text() == "<img src=x onerror=alert(1)>"
    assert page.locator("#view img").count() == 0


def test_a_word_in_context(page: Any, address: str, minilm: LoadedModel) -> None:
    page.goto(f"{address}/#meaning?tab=word")
    page.get_by_role("heading", name="“apple” in 6 places").wait_for()
    sentences = ["He sat on the bank of the river.", "The bank lent him money 🙂.", "A 🙂 bank in London."]
    page.get_by_label("Sentences, one in each line").fill("\n".join(sentences))
    page.get_by_label("Word", exact=True).fill("bank")
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="“bank” in 3 places").wait_for()
    found = meaning.word_in_context(minilm, sentences, "bank")

    def cells() -> list[str]:
        return page.locator(".matrix tbody td").all_inner_texts()

    assert cells() == [f"{value:.2f}" for row in found["layers"][6]["cosines"] for value in row]
    assert page.locator(".places mark").all_inner_texts() == ["bank"] * 3
    slider = page.get_by_label("Layer", exact=True)
    slider.focus()
    for _ in range(4):
        slider.press("ArrowLeft")
    assert page.locator("output").inner_text() == "2 of 6"
    assert cells() == [f"{value:.2f}" for row in found["layers"][2]["cosines"] for value in row]
    assert "layer=2" in page.url
    page.watch.expected = ("400",)
    page.get_by_label("Word", exact=True).fill("river")
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("status").get_by_text("stands in 1 place of these sentences").wait_for()
    page.get_by_label("Sentences, one in each line").fill("a river " * 201)
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("status").get_by_text("stands in 201 places; this picture takes 200 at most").wait_for()


@pytest.mark.parametrize("layer", ["x", "-1", "99"])
def test_a_link_to_a_layer_that_is_none(page: Any, address: str, layer: str) -> None:
    page.goto(f"{address}/#meaning?tab=word&layer={layer}")
    page.get_by_role("heading", name="“apple” in 6 places").wait_for()
    assert page.locator("output").inner_text() == "6 of 6"


def test_word_vectors(page: Any, address: str, gendered: WordVectors) -> None:
    page.goto(f"{address}/#meaning")
    page.get_by_role("button", name="Word vectors").click()
    page.get_by_label("Word", exact=True).fill("apple")
    page.get_by_role("button", name="Find").click()
    near = page.locator("section", has_text="Neighbours").locator(".bar")
    near.first.wait_for()
    expected = few_vectors().similar("apple", 10)
    assert near.locator("button").all_inner_texts() == [one.word for one in expected]
    assert near.first.locator(".number").inner_text() == f"{expected[0].similarity:.3f}"
    page.get_by_label("is to b").fill("woman")
    page.get_by_label("as c").fill("king")
    page.get_by_role("button", name="is to …", exact=True).click()
    page.get_by_role("heading", name="man is to woman as king is to …").wait_for()
    four = page.locator("section", has_text="Analogies").locator(".bar").first
    assert four.locator("button").inner_text() == "queen"

    page.get_by_label("Word vectors", exact=True).last.select_option("gendered")
    page.watch.expected = ("400",)
    page.get_by_label("Words of your own on the axis").fill("accountant, nobody")
    page.get_by_role("button", name="Measure").click()
    page.get_by_role("status").get_by_text("The word 'nobody' has no vector here").wait_for()
    page.get_by_label("Words of your own on the axis").fill("accountant")
    page.get_by_role("button", name="Measure").click()
    own = page.locator("text.own")
    own.wait_for()
    measured = meaning.word_vectors.bias_axis(gendered, ["accountant"])
    assert own.get_attribute("data-value") == f"{measured['words'][0]['projection']:.3f}"
    page.get_by_role("button", name="Neutralised and equalised").click()
    assert page.get_by_text("→ 0.000").count() == 1
    assert own.get_attribute("data-value") == f"{measured['words'][0]['after']:.3f}"
    assert "when=after" in page.url

    tests = page.locator("div:has(> .spread):has(> .scroll .numbers)")
    for ending in ("svg", "png", "json"):
        assert saved(page, ending, tests).name == f"association-tests.{ending}"
    (test,) = measured["before"]["tests"]
    assert test["title"] in "".join(ElementTree.fromstring(saved(page, "svg", tests).read_bytes()).itertext())
    data = json.loads(saved(page, "json", tests).read_text(encoding="utf-8"))
    assert (data["vectors"], data["before"][0]["effect"]) == ("gendered", test["effect"])


@pytest.mark.parametrize(
    ("tab", "theme"), [("map", "light"), ("word", "dark"), ("vectors", "light"), ("vectors", "dark")]
)
def test_accessible(page: Any, address: str, tab: str, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto(f"{address}/#meaning?tab={tab}&vectors=gendered&near=she&own=accountant")
    for wanted in (".bar", ".axis-plot") if tab == "vectors" else (".scatter .dot",):
        page.locator(wanted).first.wait_for()
    if tab == "map":
        page.locator("[data-text='0']").click()
    assert serious(page) == []
