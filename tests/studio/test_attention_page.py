"""Attention in a real browser: real models, real clicks, the library's values on the screen."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from tests.studio.conftest import ANIMAL, link, saved, until


def token(page: Any, side: str, index: int) -> Any:
    return page.locator(f'[data-side="{side}"][data-index="{index}"]')


def test_the_lectures_sentence_is_there(page: Any, studio: str, minilm: LoadedModel) -> None:
    page.goto(studio)
    page.locator("svg.head-lines").wait_for()
    attention = minilm.attend(ANIMAL)
    it, animal, street = (attention.tokens.index(word) for word in ("it", "animal", "street"))
    weights = attention.weights[:, :, it, [animal, street]].max(axis=-1)
    layer, head = np.unravel_index(weights.argmax(), weights.shape)
    assert page.get_by_label("Layer", exact=True).input_value() == str(layer)
    assert token(page, "row", it).get_attribute("aria-pressed") == "true"
    shown = page.locator("svg .values text").all_text_contents()
    row = attention.weights[layer, head, it]
    assert shown == [f"{weight:.3f}" for weight in row if weight >= 0.005]


def test_layers_heads_and_tokens_are_chosen(page: Any, studio: str, minilm: LoadedModel) -> None:
    weights = minilm.attend(ANIMAL).weights
    page.goto(link(studio, "attention", text=ANIMAL, layer=1, heads=[1]))
    page.get_by_label("Layer", exact=True).select_option(label="3")
    page.get_by_role("button", name="head 4", exact=True).click()  # heads 1 and 4 of layer 3
    token(page, "row", 2).click()
    page.mouse.move(0, 0)
    mean = weights[2, [0, 3], 2].mean(axis=0)
    shown = page.locator("svg .values text").all_text_contents()
    assert shown == [f"{weight:.3f}" for weight in mean if weight >= 0.005]
    assert "layer=3" in page.url
    assert "pick=row-3" in page.url
    page.reload()
    assert page.get_by_label("Layer", exact=True).input_value() == "2"
    page.go_back()
    until(page, lambda: "pick" not in page.url)
    page.locator("svg.head-lines:not(.lit)").wait_for()


def test_keys_go_through_the_tokens(page: Any, studio: str) -> None:
    page.goto(link(studio, "attention", text=ANIMAL, layer=1, heads=[1]))
    token(page, "row", 0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert token(page, "row", 2).get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.side") == "column"


def test_all_heads_and_the_matrix(page: Any, studio: str, minilm: LoadedModel) -> None:
    weights = minilm.attend(ANIMAL).weights
    page.goto(link(studio, "attention", text=ANIMAL, view="grid"))
    page.locator("svg.head-grid").wait_for()
    assert page.locator("svg.head-grid .thumb").count() == 72
    page.get_by_role("button", name="layer 4, head 2", exact=True).click()
    page.locator("svg.head-lines").wait_for()
    page.get_by_role("button", name="Matrix", exact=True).click()
    matrix = page.locator("svg.head-matrix")
    matrix.focus()
    for key in ["ArrowDown", *["ArrowDown"] * 3, *["ArrowRight"] * 5]:  # the first key enters at the first cell
        page.keyboard.press(key)
    said = f"Layer 4, head 2: “didn” looks at “t”: {weights[3, 1, 3, 5]:.3f}"
    assert page.locator(".caption").inner_text() == said
    box = page.locator("svg.head-matrix .frame").bounding_box()
    cell = box["width"] / 15
    page.mouse.move(box["x"] + 2.5 * cell, box["y"] + 10.5 * cell)
    assert page.locator(".caption").inner_text().endswith(f"“it” looks at “animal”: {weights[3, 1, 10, 2]:.3f}")


def test_the_filter_keeps_links_of_a_token(page: Any, studio: str) -> None:
    page.goto(link(studio, "attention", text=ANIMAL, layer=2, heads=[1], links=1))
    page.locator("svg.head-lines").wait_for()
    before = page.locator(".links:not(.over) line").count()
    page.get_by_label("Only tokens with").fill("animal")
    until(page, lambda: 0 < page.locator(".links:not(.over) line").count() != before)
    page.get_by_label("Only tokens with").fill("nowhere")
    page.get_by_text("No token contains “nowhere”.").wait_for()


def test_a_filter_finds_its_token_in_a_long_text(page: Any, studio: str) -> None:
    page.goto(link(studio, "attention", text="word " * 150 + "needle " + "word " * 20, layer=2, heads=[1], links=0))
    page.locator("svg.head-lines").wait_for()
    page.get_by_label("Only tokens with").fill("needle")
    needle = token(page, "row", 151)
    until(page, lambda: page.locator(".tokens .faint").count() > 300)
    assert "faint" not in (needle.get_attribute("class") or "")
    box, room = needle.bounding_box(), page.locator(".picture").bounding_box()
    assert room["y"] <= box["y"] <= room["y"] + room["height"]


def test_the_filter_of_the_matrix_is_for_rows_and_columns(page: Any, studio: str, minilm: LoadedModel) -> None:
    attention = minilm.attend(ANIMAL)
    page.goto(link(studio, "attention", text=ANIMAL, view="matrix", layer=2, heads=[1]))
    image = page.locator("svg.head-matrix image")
    image.wait_for()
    before = image.get_attribute("href")

    def labels(side: str, more: str = "") -> list[str]:
        return page.locator(f"svg.head-matrix [data-{side}]{more}").all_text_contents()

    page.get_by_label("Only tokens with").fill("animal")
    until(page, lambda: labels("row", ":not(.faint)") == labels("column", ":not(.faint)") == ["animal"])
    assert labels("row") == labels("column") == list(attention.tokens)
    assert image.get_attribute("href") != before  # the others are pale

    page.get_by_label("Among").select_option("columns")
    until(page, lambda: labels("column", ":not(.faint)") == labels("column") == ["animal"])
    assert labels("row", ":not(.faint)") == list(attention.tokens)
    it, animal = attention.tokens.index("it"), attention.tokens.index("animal")
    page.locator("svg.head-matrix").focus()
    for _ in range(it + 1):  # the first key enters at the first cell
        page.keyboard.press("ArrowDown")
    told = f"“it” looks at “animal”: {attention.weights[1, 0, it, animal]:.3f}"
    assert page.locator(".caption").inner_text().endswith(told)
    page.keyboard.press("ArrowRight")  # there is no other column
    assert page.locator(".caption").inner_text().endswith(told)
    assert "among=columns" in page.url

    page.get_by_label("Among").select_option("rows")
    until(page, lambda: labels("row") == ["animal"])
    assert labels("column") == list(attention.tokens)
    page.get_by_label("Among").select_option("both")
    page.get_by_label("Only tokens with").fill("t")
    until(page, lambda: labels("row") == labels("column") == [token for token in attention.tokens if "t" in token])
    page.reload()
    image.wait_for()
    assert labels("column") == [token for token in attention.tokens if "t" in token]


def test_the_buttons_and_file_names_say_what_is_shown(page: Any, studio: str) -> None:
    page.goto(link(studio, "attention", text=ANIMAL, view="grid"))
    page.get_by_role("button", name="layer 5, head 2", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("svg.head-lines").wait_for()
    pressed = page.locator('.choices [aria-pressed="true"]')
    assert pressed.inner_text() == "Lines"
    assert page.evaluate("document.activeElement.dataset.control") == "layer"
    page.get_by_role("button", name="head 2", exact=True).click()  # the last head stays
    assert page.get_by_role("button", name="head 2", exact=True).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Matrix", exact=True).click()
    page.locator("svg.head-matrix").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".caption").inner_text().startswith("Layer 5, head 2: “[CLS]” looks at “[CLS]”: ")
    assert saved(page, "svg").name == "attention-matrix-layer-5.svg"


def test_labels_of_a_small_matrix_stay_apart_and_in_sight(page: Any, studio: str) -> None:
    page.goto(link(studio, "attention", text="word " * 100, view="matrix", cell=9))
    label = page.locator("svg.head-matrix .label").nth(3)
    label.wait_for()
    assert float(label.evaluate("one => parseFloat(getComputedStyle(one).fontSize)")) <= 9
    before = label.bounding_box()
    page.locator(".picture").evaluate("one => { one.scrollLeft = 60; }")
    page.wait_for_timeout(200)
    assert label.bounding_box()["x"] == pytest.approx(before["x"], abs=1)


def test_heads_by_keyboard(page: Any, studio: str) -> None:
    page.goto(link(studio, "attention", text=ANIMAL, layer=1, heads=[1, 2, 3], pick="row-3"))
    page.get_by_role("button", name="head 3", exact=True).focus()
    page.keyboard.press("Shift+Enter")
    until(page, lambda: "heads=%5B3%5D" in page.url)
    found = page.locator(".finds button").first
    found.focus()
    control = found.get_attribute("data-control")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.control") == control


def test_pairs_and_their_parts(page: Any, studio: str, minilm: LoadedModel) -> None:
    page.goto(link(studio, "attention", text="x"))
    page.get_by_role("button", name="The cat sat on the mat. / The dog slept on the rug.").click()
    page.get_by_label("Between texts").select_option("10")
    attention = minilm.attend("The cat sat on the mat.", "The dog slept on the rug.")
    page.get_by_label("Links from each token").select_option("1")
    count = sum(sequence == 1 for sequence in attention.segments)
    until(page, lambda: 0 < page.locator(".links:not(.over) line").count() <= count)
    dog, cat = attention.tokens.index("dog"), attention.tokens.index("cat")
    there = attention.weights[:, :, dog, cat]
    layer, head = np.unravel_index(there.argmax(), there.shape)  # where "dog" looks most at "cat"
    row = zip(attention.weights[layer, head, dog], attention.segments, strict=True)
    shown = [f"{weight:.3f}" for weight, segment in row if segment == 0 and weight >= 0.005]
    assert page.locator("svg .values text").all_text_contents() == shown


def test_alignment_and_causal_models(page: Any, studio: str, translator: LoadedTranslator, gpt: LoadedModel) -> None:
    source, target = "Today the girl often sings.", "Heute singt das Mädchen oft."
    weights = translator.align(source, target).weights
    page.goto(link(studio, "attention", model="translator", text=source, pair=target, layer=2, heads=[3], pick="row-4"))
    page.locator("svg.head-lines").wait_for()
    assert token(page, "row", 3).text_content().startswith("Mädchen")
    shown = page.locator("svg .values text").all_text_contents()
    assert shown == [f"{weight:.3f}" for weight in weights[1, 2, 3] if weight >= 0.005]
    page.goto(link(studio, "attention", model="gpt", text="The river", layer=2, heads=[3], pick="row-2"))
    page.get_by_text("looks back at tokens at the right").wait_for()
    row = gpt.attend("The river").weights[1, 2, 1]
    assert page.locator("svg .values text").all_text_contents() == [
        f"{weight:.3f}" for weight in row if weight >= 0.005
    ]


def test_downloads(page: Any, studio: str, minilm: LoadedModel) -> None:
    page.goto(link(studio, "attention", text=ANIMAL, layer=2, heads=[3]))
    page.locator("svg.head-lines").wait_for()
    picture = saved(page, "svg").read_text(encoding="utf-8")
    assert "var(" not in picture
    assert "animal" in picture
    assert saved(page, "png").read_bytes().startswith(b"\x89PNG")
    data = json.loads(saved(page, "json").read_text(encoding="utf-8"))
    np.testing.assert_allclose(data["weights"][0], minilm.attend(ANIMAL).weights[1, 2], atol=3e-5)


def test_the_file_of_all_heads_has_all_heads(page: Any, studio: str, minilm: LoadedModel) -> None:
    page.goto(link(studio, "attention", text=ANIMAL, view="grid", layer=2))
    page.locator("svg.head-grid").wait_for()
    path = saved(page, "json")
    assert path.name == "attention-grid.json"
    weights = json.loads(path.read_text(encoding="utf-8"))["weights"]
    np.testing.assert_allclose(weights, minilm.attend(ANIMAL).weights, atol=3e-5)

    long = "word " * 130  # 1.25 million weights: too many for a file
    page.goto(link(studio, "attention", text=long, view="grid"))
    page.get_by_text("132 tokens, 6 layers").wait_for()
    data = json.loads(saved(page, "json").read_text(encoding="utf-8"))
    assert "3 strongest links of each row" in data["note"]
    strongest = np.array([[[row[0][1] for row in head] for head in layer] for layer in data["links"]])
    np.testing.assert_allclose(strongest, minilm.attend(long).weights.max(axis=-1), atol=0.01)


@pytest.mark.parametrize(("view", "key"), [("lines", "zoom"), ("matrix", "cell")])
def test_zoom(page: Any, studio: str, view: str, key: str) -> None:
    page.goto(link(studio, "attention", text=ANIMAL, view=view, layer=1, heads=[1]))
    picture = page.locator(f"svg.head-{view}")
    picture.wait_for()
    before = picture.bounding_box()["height"]
    page.get_by_label("Zoom").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    after = picture.bounding_box()["height"]
    assert after == pytest.approx(before + 3 * 15, abs=1)  # three pixels for each token
    assert f"{key}=" in page.url
    page.reload()
    picture.wait_for()
    assert picture.bounding_box()["height"] == after


def test_the_cursor_of_the_matrix_stays_in_sight(page: Any, studio: str) -> None:
    page.goto(link(studio, "attention", text="word " * 60, view="matrix", cell=24))
    matrix = page.locator("svg.head-matrix")
    matrix.focus()
    for keys in (["ArrowDown"] * 46 + ["ArrowRight"] * 50, ["ArrowUp"] * 40, ["ArrowLeft"] * 45):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_timeout(100)
        cell, room = page.locator(".cursor").bounding_box(), page.locator(".picture").bounding_box()
        rows, columns = (page.locator("svg.head-matrix .ground").nth(place).bounding_box() for place in (0, 1))
        assert rows["x"] + rows["width"] - 1 <= cell["x"] <= room["x"] + room["width"] - 24
        assert columns["y"] + columns["height"] - 1 <= cell["y"] <= min(room["y"] + room["height"], 900) - 24


def test_another_text_has_no_settings_of_the_old_picture(page: Any, studio: str) -> None:
    page.goto(link(studio, "attention", text=ANIMAL, layer=3, heads=[2], pick="row-12"))
    page.locator("svg.head-lines.lit").wait_for()
    page.get_by_label("Text", exact=True).fill("A cat")
    until(page, lambda: "text=A+cat" in page.url)
    page.get_by_label("Layer", exact=True).select_option(label="5")
    assert not any(key in page.url for key in ("layer=", "heads=", "pick="))
    page.get_by_label("Text", exact=True).fill(ANIMAL)
    until(page, lambda: all(part in page.url for part in ("layer=5", "heads=%5B2%5D", "pick=row-12")))


def test_pressed_on_a_phone(page: Any, studio: str, minilm: LoadedModel) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(link(studio, "attention", text=ANIMAL, layer=3, heads=[2]))
    token(page, "row", 2).click()
    page.mouse.move(0, 0)
    row = minilm.attend(ANIMAL).weights[2, 1, 2]
    assert page.locator("svg .values text").all_text_contents() == [
        f"{weight:.3f}" for weight in row if weight >= 0.005
    ]
    page.get_by_role("button", name="All heads", exact=True).click()
    page.get_by_role("button", name="layer 4, head 2", exact=True).click()
    page.get_by_text("Layer 4, head 2").wait_for()
