"""Attention, cloze and tokens in a real browser: real models, real clicks, the library's values on the screen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.studio.app import create_studio
from bertworks.studio.merges import read_tables
from bertworks.studio.tokens import steps_answer
from tests.studio.conftest import ANIMAL, running, until

MARKUP = '<img src=x onerror="document.title=1"> <b>bold</b>'
CLOZE = {"text": "北京是中国的首都。", "model": "albert", "masks": [6, 7]}
REFUSED = ("status of 400",)
STOPPED = ("ERR_CONNECTION", "ERR_EMPTY_RESPONSE")


def address(studio: str, part: str, /, **state: Any) -> str:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in state.items()}
    return f"{studio}/#{part}?{urlencode(texts)}"


def token(page: Any, side: str, index: int) -> Any:
    return page.locator(f'[data-side="{side}"][data-index="{index}"]')


def saved(page: Any, ending: str, folder: Path) -> Path:
    with page.expect_download() as download:
        page.locator(f'[data-download="{ending}"]').first.click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


# --- attention -------------------------------------------------------------------------------------------------------


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
    page.goto(address(studio, "attention", text=ANIMAL, layer=1, heads=[1]))
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
    page.goto(address(studio, "attention", text=ANIMAL, layer=1, heads=[1]))
    token(page, "row", 0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert token(page, "row", 2).get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.side") == "column"


def test_all_heads_and_the_matrix(page: Any, studio: str, minilm: LoadedModel) -> None:
    weights = minilm.attend(ANIMAL).weights
    page.goto(address(studio, "attention", text=ANIMAL, view="grid"))
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
    page.goto(address(studio, "attention", text=ANIMAL, layer=2, heads=[1], links=1))
    page.locator("svg.head-lines").wait_for()
    before = page.locator(".links:not(.over) line").count()
    page.get_by_label("Only tokens with").fill("animal")
    until(page, lambda: 0 < page.locator(".links:not(.over) line").count() != before)
    page.get_by_label("Only tokens with").fill("nowhere")
    page.get_by_text("No token contains “nowhere”.").wait_for()


def test_a_filter_finds_its_token_in_a_long_text(page: Any, studio: str) -> None:
    page.goto(address(studio, "attention", text="word " * 150 + "needle " + "word " * 20, layer=2, heads=[1], links=0))
    page.locator("svg.head-lines").wait_for()
    page.get_by_label("Only tokens with").fill("needle")
    needle = token(page, "row", 151)
    until(page, lambda: page.locator(".tokens .faint").count() > 300)
    assert "faint" not in (needle.get_attribute("class") or "")
    box, room = needle.bounding_box(), page.locator(".picture").bounding_box()
    assert room["y"] <= box["y"] <= room["y"] + room["height"]


def test_the_filter_of_the_matrix_is_for_rows_and_columns(page: Any, studio: str, minilm: LoadedModel) -> None:
    attention = minilm.attend(ANIMAL)
    page.goto(address(studio, "attention", text=ANIMAL, view="matrix", layer=2, heads=[1]))
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


def test_the_buttons_and_file_names_say_what_is_shown(page: Any, studio: str, tmp_path: Path) -> None:
    page.goto(address(studio, "attention", text=ANIMAL, view="grid"))
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
    assert saved(page, "svg", tmp_path).name == "attention-matrix-layer-5.svg"


def test_labels_of_a_small_matrix_stay_apart_and_in_sight(page: Any, studio: str) -> None:
    page.goto(address(studio, "attention", text="word " * 100, view="matrix", cell=9))
    label = page.locator("svg.head-matrix .label").nth(3)
    label.wait_for()
    assert float(label.evaluate("one => parseFloat(getComputedStyle(one).fontSize)")) <= 9
    before = label.bounding_box()
    page.locator(".picture").evaluate("one => { one.scrollLeft = 60; }")
    page.wait_for_timeout(200)
    assert label.bounding_box()["x"] == pytest.approx(before["x"], abs=1)


def test_heads_by_keyboard(page: Any, studio: str) -> None:
    page.goto(address(studio, "attention", text=ANIMAL, layer=1, heads=[1, 2, 3], pick="row-3"))
    page.get_by_role("button", name="head 3", exact=True).focus()
    page.keyboard.press("Shift+Enter")
    until(page, lambda: "heads=%5B3%5D" in page.url)
    found = page.locator(".finds button").first
    found.focus()
    control = found.get_attribute("data-control")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.control") == control


def test_pairs_and_their_parts(page: Any, studio: str, minilm: LoadedModel) -> None:
    page.goto(address(studio, "attention", text="x"))
    page.get_by_role("button", name="The cat sat on the mat. / The dog slept on the rug.").click()
    page.get_by_label("Between texts").select_option("10")
    attention = minilm.attend("The cat sat on the mat.", "The dog slept on the rug.")
    page.get_by_label("Links from each token").select_option("1")
    count = sum(sequence == 1 for sequence in attention.segments)
    until(page, lambda: 0 < page.locator(".links:not(.over) line").count() <= count)


def test_alignment_and_causal_models(page: Any, studio: str, translator: LoadedTranslator) -> None:
    source, target = "Today the girl often sings.", "Heute singt das Mädchen oft."
    weights = translator.align(source, target).weights
    page.goto(
        address(studio, "attention", model="translator", text=source, pair=target, layer=2, heads=[3], pick="row-4")
    )
    page.locator("svg.head-lines").wait_for()
    assert token(page, "row", 3).text_content().startswith("Mädchen")
    shown = page.locator("svg .values text").all_text_contents()
    assert shown == [f"{weight:.3f}" for weight in weights[1, 2, 3] if weight >= 0.005]
    page.goto(address(studio, "attention", model="gpt", text="The river"))
    page.get_by_text("looks back at tokens at the right").wait_for()


def test_downloads(page: Any, studio: str, minilm: LoadedModel, tmp_path: Path) -> None:
    page.goto(address(studio, "attention", text=ANIMAL, layer=2, heads=[3]))
    page.locator("svg.head-lines").wait_for()
    picture = saved(page, "svg", tmp_path).read_text(encoding="utf-8")
    assert "var(" not in picture
    assert "animal" in picture
    assert saved(page, "png", tmp_path).read_bytes().startswith(b"\x89PNG")
    data = json.loads(saved(page, "json", tmp_path).read_text(encoding="utf-8"))
    np.testing.assert_allclose(data["weights"][0], minilm.attend(ANIMAL).weights[1, 2], atol=3e-5)


# --- cloze -----------------------------------------------------------------------------------------------------------


def test_a_word_is_masked_with_a_click(page: Any, studio: str, albert: LoadedModel) -> None:
    page.goto(address(studio, "cloze", text="北京是中国的首都。", model="albert"))
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
    page.goto(address(studio, "cloze", text="a house here and there", model="albert", masks=[2, 4]))
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


def test_cloze_without_a_model_says_what_is_needed(page: Any, minilm: LoadedModel) -> None:
    with running(create_studio([("minilm", minilm)])) as small:
        page.goto(f"{small}/#cloze")
        page.get_by_text("None of the loaded models can fill masks").wait_for()


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_tokenizers_side_by_side(page: Any, studio: str, minilm: LoadedModel, gpt: LoadedModel) -> None:
    page.goto(address(studio, "tokens", text="Tokenization 🐶 rocks"))
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
    page.goto(address(studio, "tokens", text="Tokenization rocks"))
    page.locator(f'[data-tokenizer="{name}"] [data-start]').first.click()
    steps = steps_answer(tokenizer, lambda: read_tables(tokenizer), "Tokenization rocks", 0, 12)["steps"]
    page.locator(f'[data-player="{name}"]').wait_for()
    for step in steps:
        pieces = page.locator(".steps code:not(.rest)").all_inner_texts()
        assert pieces == step["pieces"]
        if step is not steps[-1]:
            page.get_by_role("button", name="Next", exact=True).click()
    assert page.get_by_role("button", name="Next", exact=True).is_disabled()


# --- the shell -------------------------------------------------------------------------------------------------------


def test_what_goes_wrong_is_said_and_nothing_is_lost(page: Any, minilm: LoadedModel) -> None:
    page.watch.expected = (*REFUSED, *STOPPED)
    status = page.locator("#status.error")
    with running(create_studio([("minilm", minilm)])) as small:
        page.goto(address(small, "attention", model="minilmm", text=ANIMAL))
        status.wait_for()
        assert "did you mean 'minilm'?" in status.inner_text()
        assert page.get_by_label("Text", exact=True).input_value() == ANIMAL
        page.get_by_label("Model", exact=True).select_option("minilm")
        page.locator("svg.head-lines").wait_for()
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


@pytest.mark.parametrize("view", ["attention", "tokens", "cloze"])
def test_markup_is_text(view: str, page: Any, studio: str) -> None:
    page.goto(address(studio, view, text=MARKUP, **({"masks": [2]} if view == "cloze" else {})))
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


@pytest.mark.parametrize("view", ["attention", "cloze", "tokens", "meaning", "tasks", "runs"])
def test_every_part_is_accessible_and_fits_a_phone(view: str, page: Any, studio: str) -> None:
    axe_playwright = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    states = {"attention": {"text": "A cat sat."}, "cloze": CLOZE, "tokens": {"text": "A cat sat."}}
    state = states.get(view, {})
    page.goto(address(studio, view, **state))
    page.wait_for_load_state("networkidle")
    page.locator("nav [aria-current]").wait_for()
    for theme, options in (("light", None), ("dark", {"runOnly": ["color-contrast"]})):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        found = axe_playwright.Axe().run(page, options=options)
        serious = [one for one in found.response["violations"] if one["impact"] in ("serious", "critical")]
        told = [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in serious]
        assert told == [], theme
    page.set_viewport_size({"width": 360, "height": 780})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_address_of_nothing(page: Any, studio: str) -> None:
    page.goto(f"{studio}/#nowhere")
    page.get_by_text(re.compile("There is no part called")).wait_for()
