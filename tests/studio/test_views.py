"""Cloze and tokens in a real browser: real models, real clicks, the library's values on the screen."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from bertworks.infer.loaded import LoadedModel
from bertworks.studio.app import create_studio
from bertworks.studio.merges import read_tables
from bertworks.studio.tokens import steps_answer
from tests.studio.conftest import ANIMAL, link, running, until

# --- cloze -----------------------------------------------------------------------------------------------------------


def test_a_word_is_masked_with_a_click(page: Any, studio: str, albert: LoadedModel) -> None:
    page.goto(link(studio, "cloze", text="北京是中国的首都。", model="albert"))
    page.get_by_role("button", name="都", exact=True).click()
    page.get_by_text("Behind the mask").wait_for()
    (best,) = albert.fill("北京是中国的首[MASK]。", top_k=8)
    assert page.locator(".bar button").all_inner_texts() == [one.token for one in best]
    assert page.locator(".bar").first.inner_text().split("\n")[-1] == f"{100 * best[0].probability:.1f}%"
    cell = page.locator(".layers tbody tr").first.locator("td").first.inner_text()  # the last layer, its first answer
    assert cell == f"{best[0].token}{100 * best[0].probability:.1f}%"
    assert page.locator(".layers tbody tr").count() == albert.model.num_layers + 1
    assert "masks=%5B7%5D" in page.url

    page.get_by_role("button", name="首", exact=True).click()
    page.get_by_text("All masks together").wait_for()
    joint = albert.fill("北京是中国的[MASK][MASK]。", top_k=8, joint=True)
    assert page.locator(".joint tr td:nth-child(2)").all_inner_texts() == [one.text for one in joint]

    page.locator(".columns section").first.locator(".bar button").first.click()  # puts the word in
    page.get_by_text("Behind the mask").wait_for()
    assert page.locator('.words [aria-pressed="true"]').count() == 1
    page.go_back()
    page.get_by_text("All masks together").wait_for()


def test_a_piece_that_joins_a_word_leaves_the_other_masks_in_place(page: Any, studio: str) -> None:
    words = "text => import('/views/cloze.js').then(found => found.splitWords(text).map(word => word.text))"
    page.goto(link(studio, "cloze", text="a house here and there", model="albert", masks=[2, 4]))
    page.locator(".bar").first.wait_for()
    answer = {"masks": [[{"token": "##s", "probability": 1}], [{"token": "x", "probability": 1}]], "joint": []}
    layers = [[{"best": []}, {"best": []}]]
    body = json.dumps({**answer, "layers": layers, "originals": [None, None]})
    page.route("**/api/cloze", lambda route: route.fulfill(body=body, content_type="application/json"))
    page.get_by_role("button", name="there, masked").click()
    page.get_by_role("button", name="there", exact=True).click()
    page.get_by_role("button", name="##s", exact=True).click()
    assert page.get_by_label("Text", exact=True).input_value() == "a houses and there"
    assert page.evaluate(words, "a houses and there") == ["a", "houses", "and", "there"]
    assert page.locator('.words [aria-pressed="true"]').get_attribute("data-word") == "3"


def test_cloze_says_what_goes_wrong(page: Any, studio: str) -> None:
    page.watch.expected = ("status of 400",)
    status = page.locator("#status.error")
    page.goto(link(studio, "cloze", text="北京是中国的首都。", model="nobody", masks=[7]))
    status.filter(has_text="No model 'nobody' is loaded").wait_for()
    page.get_by_label("Model", exact=True).select_option("albert")
    page.get_by_text("Behind the mask").wait_for()
    text = page.get_by_label("Text", exact=True)
    text.fill("")
    page.get_by_text("The text is empty: write something first.").wait_for()
    text.fill("北京是中国的首[MASK]。")  # typed, not pressed
    page.get_by_text("Behind the mask").wait_for()
    long = "[MASK]" + "北" * 20_000
    text.fill(long)
    status.filter(has_text="this part takes 20,000 at most").wait_for()
    page.get_by_text("The first 600 words can be pressed.").wait_for()
    assert text.input_value() == long


def test_an_answer_that_comes_too_late_is_not_shown(page: Any, studio: str) -> None:
    held: list[Any] = []
    page.route("**/api/cloze", lambda route: held.append(route))
    page.route("**/api/tokens", lambda route: held.append(route))
    page.goto(link(studio, "cloze", text="北京是中国的首都。", model="albert", masks=[7]))
    until(page, lambda: len(held) == 1)
    page.get_by_role("button", name="都, masked").click()
    page.get_by_text("Nothing is masked yet").wait_for()
    page.goto(link(studio, "tokens", text="A cat"))
    until(page, lambda: len(held) == 2)
    page.get_by_label("Text", exact=True).fill("")
    page.get_by_text("The text is empty").wait_for()
    for route in held:
        with contextlib.suppress(Exception):  # nobody waits for it any more
            route.continue_()
    page.wait_for_timeout(300)
    assert page.get_by_text("The text is empty").is_visible()
    assert page.locator(".tokenizer, .bar").count() == 0


def test_cloze_without_a_model_says_what_is_needed(page: Any, minilm: LoadedModel) -> None:
    with running(create_studio([("minilm", minilm)])) as small:
        page.goto(f"{small}/#cloze")
        page.get_by_text("None of the loaded models can fill masks").wait_for()


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_tokenizers_side_by_side(page: Any, studio: str, minilm: LoadedModel, gpt: LoadedModel) -> None:
    page.goto(link(studio, "tokens", text="Tokenization 🐶 rocks"))
    page.locator(".tokenizer").first.wait_for()
    assert page.locator(".tokenizer h2").all_inner_texts() == ["minilm", "albert", "gpt", "translator"]
    ids = page.locator('[data-tokenizer="minilm"] [data-id]').evaluate_all(
        "all => all.map(one => Number(one.dataset.id))"
    )
    assert ids == minilm.tokenizer.encode("Tokenization 🐶 rocks").ids.tolist()
    page.locator('[data-tokenizer="minilm"] button').nth(2).hover()
    assert page.locator(".traced mark").inner_text() == "ization"
    page.locator('[data-tokenizer="minilm"] button').nth(4).hover()
    assert page.locator(".traced mark").inner_text() == "rocks"  # behind a character of two UTF-16 units


@pytest.mark.parametrize("name", ["minilm", "gpt"])
def test_steps_are_played(name: str, page: Any, studio: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(name).tokenizer
    page.goto(link(studio, "tokens", text="Tokenization rocks"))
    page.locator(f'[data-tokenizer="{name}"] [data-start]').first.click()
    steps = steps_answer(tokenizer, lambda: read_tables(tokenizer), "Tokenization rocks", 0, 12)["steps"]
    page.locator(f'[data-player="{name}"]').wait_for()
    for step in steps:
        pieces = page.locator(".steps code:not(.rest)").all_inner_texts()
        assert pieces == step["pieces"]
        if step is not steps[-1]:
            page.get_by_role("button", name="Next", exact=True).click()
    assert page.get_by_role("button", name="Next", exact=True).is_disabled()


def test_play_and_a_link_to_a_step(page: Any, studio: str, gpt: LoadedModel) -> None:
    steps = steps_answer(gpt.tokenizer, lambda: read_tables(gpt.tokenizer), "Tokenization rocks", 0, 12)["steps"]
    last = len(steps) - 1
    page.goto(link(studio, "tokens", text="Tokenization rocks"))
    page.locator('[data-tokenizer="gpt"] [data-start]').first.click()
    page.get_by_role("button", name="Next", exact=True).click()
    until(page, lambda: "step=1" in page.url)
    page.reload()
    page.get_by_text(f"Step 1 of {last}:").wait_for()
    page.get_by_role("button", name="Play", exact=True).click()
    page.get_by_role("button", name="Pause", exact=True).wait_for()
    page.get_by_text(f"Step {last} of {last}:").wait_for()
    page.get_by_role("button", name="Play", exact=True).wait_for()
    assert page.locator(".steps code").all_inner_texts() == steps[-1]["pieces"]
    page.get_by_role("button", name="Close").click()
    until(page, lambda: "step=" not in page.url)


def test_a_piece_is_pressed_on_a_phone(page: Any, studio: str) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(link(studio, "tokens", text=f"{ANIMAL}. {ANIMAL}."))
    piece = page.locator('[data-tokenizer="minilm"] button', has_text="tired").first
    piece.scroll_into_view_if_needed()
    before = piece.bounding_box()
    page.mouse.move(before["x"] + 8, before["y"] + 8)
    page.locator(".traced mark").wait_for()
    assert piece.bounding_box() == before  # it does not move away from the pointer
    mark, room = page.locator(".traced mark").bounding_box(), page.locator(".traced").bounding_box()
    assert mark["x"] + mark["width"] <= room["x"] + room["width"]
    page.mouse.down()
    page.mouse.up()
    page.locator('[data-player="minilm"]').wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_tokens_say_what_goes_wrong(page: Any, studio: str) -> None:
    page.watch.expected = ("status of 400",)
    status = page.locator("#status.error")
    page.goto(link(studio, "tokens", text="Tokenization rocks", tokenizer="nobody", word=[0, 12]))
    status.filter(has_text="No tokenizer 'nobody' is loaded").wait_for()
    text = page.get_by_label("Text", exact=True)
    text.fill("")
    page.get_by_text("The text is empty: write something first.").wait_for()
    text.fill("x" * 100_001)
    status.filter(has_text="100,001 characters; this part takes 100,000 at most").wait_for()
    assert len(text.input_value()) == 100_001
