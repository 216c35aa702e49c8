"""What the page shows as HTML is downloaded as SVG and PNG: every file is well-formed and holds the values on the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from bertworks.infer.loaded import LoadedModel
from bertworks.studio.app import create_studio
from tests.studio.conftest import link, running, saved
from tests.studio.test_tasks import classifier as classifier  # a fixture
from tests.studio.test_tasks import tagger as tagger  # a fixture
from tests.studio.test_tasks_page import answerer as answerer  # a fixture
from tests.vectors.small import few_vectors

SVG = "{http://www.w3.org/2000/svg}"
MARKUP = '<b>Anna</b> walked & "talked" past the old mill <img src=x onerror=alert(1)>'
SENTENCES = ["He sat on the <i>bank</i> of the river.", "The bank lent & took money.", "A bank in London."]


@pytest.fixture(scope="module")
def address(
    minilm: LoadedModel, albert: LoadedModel, classifier: LoadedModel, tagger: LoadedModel, answerer: LoadedModel
) -> Iterator[str]:
    models = [("minilm", minilm), ("albert", albert), ("classifier", classifier), ("tagger", tagger)]
    with running(create_studio([*models, ("answerer", answerer), ("few", few_vectors())])) as found:
        yield found


def open_part(page: Any, address: str, part: str, wanted: str, /, **state: Any) -> None:
    page.goto(link(address, part, **state))
    page.locator(wanted).first.wait_for()


def check(page: Any, picture: Any, *shown: str, also: tuple[str, ...] = ()) -> None:
    """The picture's SVG has the letters of every element `shown` (selectors), its PNG is one; `also` are more letters."""
    root = ElementTree.fromstring(saved(page, "svg", picture).read_bytes())
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "rect", "line", "text", "title"}, kinds
    written = "".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))
    values = [text for selector in shown for text in picture.locator(selector).all_text_contents()]
    assert len(values) >= len(shown)
    for value in [*values, *also]:
        assert squeezed(value) in squeezed(written), value
    assert "Download" not in written
    for element in root.iter():
        for value in element.attrib.values():
            assert "var(" not in value
            assert "color" not in value
    assert saved(page, "png", picture).read_bytes().startswith(b"\x89PNG")


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_cloze(page: Any, address: str) -> None:
    open_part(page, address, "cloze", ".layers", text="北京<是中国的首都。", model="albert", masks=[2, 8])
    first, second = page.locator(".columns section").all()
    check(page, first, "h2", ".bar button", ".bar .number", also=("was “<”",))
    check(page, second, "h2", ".bar button", ".bar .number")
    check(page, page.locator(".joint"), "td")
    check(page, page.locator("section", has=page.locator(".layers")), "th", "td span", "td small")


def test_tokens_and_their_steps(page: Any, address: str) -> None:
    open_part(page, address, "tokens", ".tokenizer", text=MARKUP)
    page.locator('[data-tokenizer="minilm"] button', has_text="walked").click()
    player = page.locator("[data-player]")
    player.wait_for()
    check(page, player, ".steps code", "p")
    assert page.locator("#view > section").count() == 1
    view = page.locator("#view")
    written = "".join(ElementTree.fromstring(saved(page, "svg", view.locator("section").first).read_bytes()).itertext())
    for text in view.locator(".pieces code, .pieces small, .tokenizer h2").all_inner_texts():
        assert text in written


def test_labels_and_what_mattered(page: Any, address: str) -> None:
    row = {"text": MARKUP, "pair": ""}
    open_part(page, address, "tasks", ".tokens-chart", model="classifier", row=row, method="integrated-gradients")
    check(page, page.locator("section", has=page.locator(".answer")), ".answer", ".bar button", ".bar .number")
    check(page, page.locator(".explained"), "h3", ".tagged", "p.soft", ".tokens-chart text")


def test_entities(page: Any, address: str) -> None:
    open_part(page, address, "tasks", "[data-word]", model="tagger", row={"text": MARKUP})
    said = page.locator("section", has=page.locator("[data-word]"))
    check(page, said, ".word", ".legend li", *((".entity > small",) if said.locator(".entity").count() else ()))


def test_an_answer_in_its_context(page: Any, address: str) -> None:
    row = {"question": "Who walked?", "context": MARKUP}
    open_part(page, address, "tasks", "mark.entity", model="answerer", row=row)
    said = page.locator("section", has=page.locator("mark.entity"))
    check(page, said, ".answer", "mark.entity", ".tagged", ".bar button", ".bar .number", also=(MARKUP,))


def test_neighbours_on_the_map(page: Any, address: str) -> None:
    texts = "\n".join([MARKUP, *SENTENCES])
    open_part(page, address, "meaning", ".details .bar", tab="map", text=texts, model="minilm", pick=2, query="a <u>")
    check(page, page.locator(".details"), ".picked-text", ".bar button", ".bar .number")
    found = page.locator("section", has=page.get_by_role("heading", name="Find texts like"))
    found.locator(".bar").first.wait_for()
    check(page, found, "h3", ".bar button", ".bar .number", also=(MARKUP[:60],))


def test_a_word_in_context(page: Any, address: str) -> None:
    open_part(page, address, "meaning", ".matrix", tab="word", word="bank", sentences="\n".join(SENTENCES))
    table = page.locator("section", has=page.locator(".matrix"))
    check(page, table, "h2", ".matrix th", ".matrix tbody td", also=("<i>bank</i>",))


def test_plots_have_their_legends(page: Any, address: str) -> None:
    labelled = "\n".join(f"{label}\t{text}" for label, text in zip(("river", "money", "money"), SENTENCES, strict=True))

    def names(place: Any) -> set[str]:
        texts = ElementTree.fromstring(saved(page, "svg", place).read_bytes()).itertext()
        return {text.strip() for text in texts}

    open_part(page, address, "meaning", ".scatter", tab="map", text=labelled)
    assert {"river", "money", "3 texts"} <= names(page.locator("section:has(.scatter)"))
    open_part(page, address, "meaning", ".matrix", tab="word", word="bank", sentences=labelled)
    assert {"river", "money", "at layer 6"} <= names(page.locator("section:has(.scatter)"))
    layers = page.locator("section:has(svg.lines)")
    assert {"same label", "different labels"} <= names(layers)
    means = json.loads(saved(page, "json", layers).read_text(encoding="utf-8"))["means"]
    assert [(one["name"], len(one["points"])) for one in means] == [("same label", 7), ("different labels", 7)]


def test_word_vectors(page: Any, address: str) -> None:
    open_part(page, address, "meaning", ".bar", tab="vectors", near="apple", a="man", b="woman", c="king")
    for name in ("Neighbours", "Analogies"):
        part = page.locator("section", has=page.get_by_role("heading", name=name, exact=True))
        part.locator(".bar").first.wait_for()
        check(page, part, "h3", ".bar button", ".bar .number")


def test_signs_that_no_file_may_hold(page: Any, address: str) -> None:
    open_part(page, address, "tasks", ".answer", model="classifier", row={"text": "a\u0001b\ufffe c", "pair": ""})
    page.evaluate("document.querySelector('.answer').textContent = 'a\\u0001b\\ufffe<c>'")
    check(page, page.locator("section", has=page.locator(".answer")), also=("a\ufffdb\ufffd<c>",))
