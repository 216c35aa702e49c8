"""The commands: `attend` writes a page that opens from disk and stays usable at 512 tokens; `studio` starts and stops."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bertworks.cli.main import app, main
from bertworks.infer.loaded import LoadedModel
from bertworks.studio.attend_page import attend_page
from bertworks.studio.attention_data import attention_picture
from tests.studio.conftest import ANIMAL, serious, until


def test_the_page_opens_from_disk(page: Any, minilm: LoadedModel, minilm_directory: Path, tmp_path: Path) -> None:
    output = tmp_path / "animal.html"
    assert main(["attend", ANIMAL, "--model", str(minilm_directory), "-o", str(output)]) == 0
    page.goto(output.as_uri())
    page.locator("svg.head-lines").wait_for()
    attention = minilm.attend(ANIMAL)
    it = attention.tokens.index("it")
    assert chosen_layer(page) == "6"  # as in the studio: with head 12, at "it"
    shown = np.array([float(text) for text in page.locator("svg .values text").all_text_contents()])
    expected = attention.weights[5, 11, it]
    np.testing.assert_allclose(shown, expected[expected >= 0.0055], atol=0.006)  # 8 bits are enough for a picture
    assert serious(page) == []
    page.get_by_role("button", name="Use dark colours").click()
    assert serious(page) == []
    page.get_by_role("button", name="All heads", exact=True).click()
    assert page.locator("svg.head-grid .thumb").count() == 72
    page.reload()  # the address keeps what was chosen
    page.locator("svg.head-grid").wait_for()


def chosen_layer(page: Any) -> str:
    return str(page.get_by_label("Layer", exact=True).evaluate("box => box.selectedOptions[0].textContent"))


def test_the_page_opens_where_it_is_told(page: Any, minilm: LoadedModel, tmp_path: Path) -> None:
    picture = attention_picture(minilm, ANIMAL)
    for name, told, layer in (("told", {"layer": 3, "head": 2}, "3"), ("head", {"head": 2}, "1")):
        output = tmp_path / f"{name}.html"
        output.write_text(attend_page(picture, "minilm", **told), encoding="utf-8")
        page.goto(output.as_uri())
        page.locator("svg.head-lines").wait_for()
        assert chosen_layer(page) == layer
        page.locator('[data-side="row"][data-index="1"]').click()
        page.mouse.move(0, 0)
        shown = np.array([float(text) for text in page.locator("svg .values text").all_text_contents()])
        expected = picture.weights[int(layer) - 1, 1, 1]
        np.testing.assert_allclose(shown, expected[expected >= 0.005], atol=0.006)


def test_512_tokens_stay_small_and_usable(page: Any, minilm: LoadedModel, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    text = text[: minilm.tokenizer.encode(text, special=False).offsets[509, 1]]
    output = tmp_path / "long.html"
    output.write_text(attend_page(attention_picture(minilm, text), "minilm"), encoding="utf-8")
    assert output.stat().st_size < 15_000_000
    page.goto(output.as_uri())
    page.locator("svg.head-lines").wait_for()
    assert page.locator('[data-side="row"]').count() == 512
    assert 512 <= page.locator(".links:not(.over) line").count() <= 3 * 512
    page.get_by_label("Only tokens with").fill("token")
    until(page, lambda: 0 < page.locator(".links:not(.over) line").count() < 512)
    page.get_by_role("button", name="Matrix", exact=True).click()
    page.locator("svg.head-matrix").focus()
    page.keyboard.press("ArrowRight")
    assert "looks at “[CLS]”" in page.locator(".caption").inner_text()
    page.get_by_role("button", name="All heads", exact=True).click()
    page.locator("svg.head-grid").wait_for()


def test_the_studio_starts_and_stops(minilm_directory: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "bertworks",
        "studio",
        f"mini={minilm_directory}",
        "--no-open",
        "--port",
        "0",
    ]
    # Where the tests run in the background of a shell, Ctrl-C is ignored, and that is inherited.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.match(r"studio at (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)", said)
        assert found is not None, said
        with urllib.request.urlopen(f"{found[1]}api/models") as answer:
            assert [model["name"] for model in json.load(answer)["models"]] == ["mini"]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr is not None
        assert process.stderr.read() == "loading models …\nstopped\n"


def test_json_and_standard_input(minilm: LoadedModel, minilm_directory: Path) -> None:
    done = CliRunner().invoke(app, ["attend", "-", "--json", "--model", str(minilm_directory)], input="A cat sat.")
    answer = json.loads(done.output)
    assert answer["rows"] == ["[CLS]", "a", "cat", "sat", ".", "[SEP]"]
    np.testing.assert_allclose(answer["weights"], minilm.attend("A cat sat.").weights, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["attend", "A cat"], "where to? give -o PAGE.html"),
        (["attend", "A cat", "-o", "."], "is a directory"),
        (["attend", "A cat", "-o", "x.html", "--layer", "7"], "--layer 7 is too large; minilm has the layers 1 to 6"),
        (["attend", "A cat", "-o", "x.html", "--head", "13"], "--head 13 is too large; minilm has the heads 1 to 12"),
        (["attend", "A cat", "--json", "--head", "1"], "--layer and --head say where a page opens"),
        (["attend", " ", "-o", "x.html"], "the text is empty"),
        (["attend", "A cat", "-o", "nowhere/x.html"], "cannot write nowhere/x.html"),
        (["attend", "A cat", "-o", "x.html", "--model", "no/where/at/all"], "no/where/at/all"),
        (["studio", "--runs", "nowhere"], "--runs nowhere is not a folder"),
        (["studio", "--host", "203.0.113.1", "--no-open"], "cannot listen on 203.0.113.1 port 8421: "),
    ],
)
def test_wrong_use_is_one_sentence(
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
