"""The shell in a real browser: what goes wrong is said, nothing typed is lost, every part can be used by everybody."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bertworks.infer.loaded import LoadedModel
from bertworks.studio.app import create_studio
from tests.studio.conftest import ANIMAL, link, running, serious

MARKUP = '<img src=x onerror="document.title=1"> <b>bold</b>'
CLOZE = {"text": "北京是中国的首都。", "model": "albert", "masks": [6, 7]}
REFUSED = ("status of 400",)
STOPPED = ("ERR_CONNECTION", "ERR_EMPTY_RESPONSE")


def test_what_goes_wrong_is_said_and_nothing_is_lost(page: Any, minilm: LoadedModel) -> None:
    page.watch.expected = (*REFUSED, *STOPPED)
    status = page.locator("#status.error")
    with running(create_studio([("minilm", minilm)])) as small:
        page.goto(link(small, "attention", model="minilmm", text=ANIMAL))
        status.wait_for()
        assert "did you mean 'minilm'?" in status.inner_text()
        assert page.get_by_label("Text", exact=True).input_value() == ANIMAL
        page.get_by_label("Model", exact=True).select_option("minilm")
        page.locator("svg.head-lines").wait_for()
        assert page.get_by_label("Model", exact=True).locator("option").all_inner_texts() == ["minilm"]
        page.get_by_label("Text", exact=True).fill("")
        page.get_by_role("button", name="Look").click()
        status.filter(has_text="The text is empty").wait_for()
        page.get_by_label("Text", exact=True).fill("word " * 20_000)
        page.get_by_role("button", name="Look").click()
        status.filter(has_text="100,000 characters").wait_for()
        assert len(page.get_by_label("Text", exact=True).input_value()) == 100_000
        page.get_by_text("This is too long for a link").wait_for()
        page.get_by_role("link", name="Tokens").click()
        page.locator(".tokenizer").wait_for()
        assert page.evaluate("document.activeElement.id") == "title"
        page.get_by_role("link", name="Attention").click()
        status.filter(has_text="100,000 characters").wait_for()
        assert len(page.get_by_label("Text", exact=True).input_value()) == 100_000
        page.get_by_label("Text", exact=True).fill("still here")
    page.get_by_role("button", name="Look").click()
    status.filter(has_text="its server has stopped").wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "still here"
    page.get_by_role("link", name="Runs").click()  # a part that was never opened
    page.wait_for_timeout(300)
    assert "its server has stopped" in status.inner_text()
    assert page.get_by_label("Text", exact=True).input_value() == "still here"


def test_what_is_typed_stays(page: Any, studio: str) -> None:
    page.goto(studio)
    page.locator("svg.head-lines").wait_for()
    assert "model=minilm" in page.url
    assert "text=The+animal" in page.url
    page.get_by_label("Text", exact=True).fill("typed but not asked")
    page.get_by_label("Second text").fill("and another")
    page.get_by_role("link", name="Tokens").click()
    page.locator(".tokenizer").first.wait_for()
    page.get_by_role("link", name="Attention").focus()
    page.keyboard.press("Enter")
    page.locator("svg.head-lines").wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "typed but not asked"
    assert page.get_by_label("Second text").input_value() == "and another"
    page.get_by_role("link", name="Tokens").click()
    page.get_by_label("Text", exact=True).fill("typed and left at once")
    page.get_by_role("link", name="Cloze").click()
    page.locator(".words").wait_for()
    page.get_by_role("link", name="Tokens").click()
    page.locator(".tokenizer").first.wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "typed and left at once"


@pytest.mark.parametrize("view", ["attention", "tokens", "cloze"])
def test_markup_is_text(view: str, page: Any, studio: str) -> None:
    page.goto(link(studio, view, text=MARKUP, **({"masks": [2]} if view == "cloze" else {})))
    page.locator({"attention": "svg.head-lines", "tokens": ".tokenizer", "cloze": ".bar"}[view]).first.wait_for()
    assert page.locator("main img, main b:text('bold')").count() == 0
    assert page.title() != "1"


def test_light_and_dark(page: Any, studio: str) -> None:
    page.goto(studio)
    page.locator("svg.head-lines").wait_for()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Use dark colours").click()
    assert page.evaluate(ground) != light
    page.reload()
    page.locator("svg.head-lines").wait_for()
    assert page.evaluate(ground) != light


def test_a_browser_that_remembers_nothing(page: Any, studio: str) -> None:
    forbidden = "get() { throw new DOMException('no', 'SecurityError'); }"
    page.add_init_script(f"Object.defineProperty(window, 'localStorage', {{ {forbidden} }})")
    page.goto(studio)
    page.locator("svg.head-lines").wait_for()
    page.get_by_role("button", name="Use dark colours").click()
    page.get_by_role("button", name="Use light colours").wait_for()


@pytest.mark.parametrize(
    ("view", "wanted", "state"),
    [
        ("attention", "svg.head-lines", {"text": "A cat sat."}),
        ("attention", "svg.head-grid", {"text": "A cat sat.", "view": "grid"}),
        ("attention", "svg.head-matrix", {"text": "A cat sat.", "view": "matrix"}),
        ("cloze", ".layers", CLOZE),
        ("tokens", "[data-player]", {"text": "Unbelievably", "tokenizer": "minilm", "word": [0, 12]}),
        ("meaning", ".scatter", {}),
        ("tasks", ".card", {}),
        ("runs", ".card", {}),
    ],
)
def test_every_part_is_accessible_and_fits_a_phone(
    view: str, wanted: str, state: dict[str, Any], page: Any, studio: str
) -> None:
    page.goto(link(studio, view, **state))
    page.locator(wanted).first.wait_for()
    page.wait_for_load_state("networkidle")
    for theme, options in (("light", None), ("dark", {"runOnly": ["color-contrast"]})):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        assert serious(page, options) == [], theme
    page.set_viewport_size({"width": 360, "height": 780})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert serious(page) == []


def test_the_address_of_nothing(page: Any, studio: str) -> None:
    page.goto(f"{studio}/#nowhere")
    page.get_by_text(re.compile("There is no part called")).wait_for()
