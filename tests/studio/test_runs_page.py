"""Runs in a real browser: found, drawn, followed while they are written, compared, their reports opened."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bertworks.studio.app import create_studio
from tests.studio.conftest import running, saved, serious, until
from tests.studio.test_runs import STEPS, write_run

SETTINGS = '[run]\ncommand = "{command}"\nsteps = 10\nseed = {seed}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    write_run(root / "first", SETTINGS.format(command="pretrain", seed=0), STEPS)
    result = {
        "task": "classify",
        "metric": "accuracy",
        "metrics": {"accuracy": 0.875},
        "model": "minilm",
        "seconds": 3.5,
    }
    lines = [
        {"step": step, "loss": 2.0 / step, "held_out_accuracy": 0.5 + step / 100, "seconds": step * 2.0}
        for step in (1, 2, 4)
    ]
    write_run(root / "deep" / "second <b>", SETTINGS.format(command="finetune", seed=7), lines, result)
    before = time.time() - 7200
    for file in (root / "deep" / "second <b>").iterdir():
        os.utime(file, (before, before))
    return root


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    with running(create_studio([], folder)) as found:
        yield found


def test_live_curves(page: Any, address: str, folder: Path) -> None:
    page.goto(f"{address}/#runs")
    page.locator("polyline.curve").first.wait_for()
    rows = page.locator(".runs tbody tr")
    assert rows.evaluate_all("rows => rows.map(row => row.dataset.name)") == ["first", "deep/second <b>"]
    assert page.get_by_role("checkbox", name="Show first").is_checked()
    assert rows.first.locator(".state").inner_text() == "running"
    assert "5 of 10" in rows.first.inner_text()
    assert "87.5% accuracy" in rows.nth(1).inner_text()
    legend = page.locator("[data-legend] li")
    assert [entry.strip() for entry in legend.all_inner_texts()] == ["first 1", "first, held out 5"]
    assert "runs=%5B%22first%22%5D" in page.url  # though nobody has chosen it
    points = page.locator("polyline.curve").first.get_attribute("points") or ""
    assert len(points.split()) == 5

    with (folder / "first" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": 6, "loss": 0.25, "seconds": 6.0}) + "\n")
    page.locator("[data-legend] li", has_text="first 0.25").wait_for(timeout=10_000)
    assert len((page.locator("polyline.curve").first.get_attribute("points") or "").split()) == 6


def test_compare_and_open_the_report(page: Any, context: Any, address: str) -> None:
    page.goto(f"{address}/#runs")
    page.get_by_role("checkbox", name="Show deep/second <b>").check()
    page.locator("polyline.curve[data-name='deep/second <b>']").wait_for()
    assert page.get_by_role("row", name="run.seed 0 7").is_visible()
    assert page.get_by_role("row", name="accuracy – 87.5%").is_visible()
    page.get_by_label("Curve").select_option("held_out_accuracy")
    page.locator("[data-legend] li", has_text="deep/second <b> 54.0%").wait_for()
    page.get_by_label("Over").select_option("seconds")
    page.get_by_label("logarithmic").check()
    assert "metric=held_out_accuracy" in page.url
    assert "across=seconds" in page.url

    page.mouse.move(*centre(page.locator("svg.lines")))
    page.locator(".readout b").wait_for()
    assert "seconds 4" in page.locator(".readout").inner_text()
    assert "52.0%" in page.locator(".readout").inner_text()

    again = context.new_page()
    again.goto(page.url)
    again.locator("[data-legend] li", has_text="deep/second <b> 54.0%").wait_for()
    with context.expect_page() as opened:
        page.get_by_role("link", name="the report of deep/second <b>").click()
    opened.value.get_by_text("the report").wait_for()  # its script did not run: a dialog would have stopped everything
    opened.value.close()
    page.watch.expected = ("Blocked script execution",)


def centre(place: Any) -> tuple[float, float]:
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_who_reads_is_not_disturbed(page: Any, address: str, folder: Path) -> None:
    for number in range(30):
        write_run(folder / f"more-{number}", SETTINGS.format(command="pretrain", seed=number), STEPS[:2])
    page.goto(f"{address}/#runs?runs=%5B%22first%22%5D")
    page.locator("polyline.curve").first.wait_for()
    box, shown = page.locator(".scroll.runs"), page.get_by_role("checkbox", name="Show first")
    shown.focus()
    box.evaluate("one => { one.scrollTop = 200; }")

    def log(step: int) -> None:
        with (folder / "first" / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "loss": 0.5 / step, "seconds": step}) + "\n")
        page.get_by_role("row", name=f"{step} of 10").wait_for()  # its row was drawn anew
        page.locator("[data-legend] li", has_text=f"first {0.5 / step:.3g}").wait_for()

    log(6)
    assert box.evaluate("one => one.scrollTop") == 200
    assert shown.evaluate("one => one === document.activeElement")
    for control in (page.get_by_label("Over"), page.get_by_label("logarithmic"), page.locator("svg.lines")):
        control.focus()
        page.keyboard.press("Shift")
        log(int(page.locator("tr[data-name='first']").inner_text().split(" of 10")[0].split()[-1]) + 1)
        assert control.evaluate("one => one === document.activeElement")
    assert box.evaluate("one => one.scrollTop") == 200


def test_only_what_changed_is_read_again(page: Any, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}/#runs")
    page.locator("svg.lines").wait_for()  # the first run has been read
    page.get_by_role("checkbox", name="Show deep/second <b>").check()
    until(page, lambda: sum(url.endswith("/api/runs") for url in asked) >= 3)
    read = [url.partition("/curves?")[2] for url in asked if "/curves?" in url]
    assert read == ["run=first", "run=deep%2Fsecond%20%3Cb%3E"]


def test_values_by_keyboard_and_pictures_with_names(page: Any, address: str) -> None:
    page.goto(f"{address}/#runs?runs=%5B%22first%22%2C%22deep%2Fsecond+%3Cb%3E%22%5D")
    plot, readout = page.locator("svg.lines"), page.locator(".readout")
    plot.focus()
    assert readout.inner_text().split("\n")[:2] == ["step 5", "first 1"]  # the last place
    page.keyboard.press("ArrowLeft")
    assert readout.inner_text().split("\n")[:2] == ["step 4", "first 1.25"]
    page.keyboard.press("Home")
    assert readout.inner_text().startswith("step 0")
    page.get_by_label("Curve").focus()
    assert readout.inner_text() == ""

    names = ["first", "first, held out", "deep/second <b>"]
    for part, wanted in (
        ("section:has(svg.lines)", names),
        ("section:has-text('Figures')", [*names[::2], "accuracy", "87.5%"]),
        ("section:has-text('Settings that differ')", [*names[::2], "run.seed", "7"]),
    ):
        section = page.locator(part)
        texts = list(ElementTree.fromstring(saved(page, "svg", section).read_bytes()).itertext())
        assert set(wanted) <= {text.strip() for text in texts}
        assert "Curve" not in texts
        assert saved(page, "png", section).read_bytes().startswith(b"\x89PNG")
        assert "deep/second <b>" in json.dumps(json.loads(saved(page, "json", section).read_text(encoding="utf-8")))


def test_a_new_run_appears(page: Any, address: str, folder: Path) -> None:
    page.goto(f"{address}/#runs")
    page.get_by_role("checkbox", name="Show first").wait_for()
    write_run(folder / "third", SETTINGS.format(command="translate", seed=1), STEPS[:2])
    page.get_by_role("checkbox", name="Show third").wait_for(timeout=10_000)
    assert page.get_by_role("checkbox", name="Show first").is_checked()


def test_no_folder_and_an_empty_one(page: Any, tmp_path: Path) -> None:
    with running(create_studio([], None)) as address:
        page.goto(f"{address}/#runs")
        page.get_by_text("bertworks studio --runs DIR").wait_for()
    with running(create_studio([], tmp_path)) as address:
        page.goto(f"{address}/#runs")
        page.get_by_text("it will appear here as soon as one begins").wait_for()


def test_a_finished_run_brings_its_figures(page: Any, address: str, folder: Path) -> None:
    page.goto(f"{address}/#runs")
    page.get_by_role("checkbox", name="Show deep/second <b>").check()
    page.get_by_role("row", name="accuracy – 87.5%").wait_for()
    (folder / "first" / "metrics.json").write_text(json.dumps({"metrics": {"accuracy": 0.5}}), encoding="utf-8")
    page.get_by_role("row", name="accuracy 50.0% 87.5%").wait_for(timeout=10_000)
    page.get_by_role("checkbox", name="Show deep/second <b>").uncheck()
    page.locator(".compare").first.wait_for(state="detached")


def test_a_link_to_a_run_that_is_not_there(page: Any, address: str) -> None:
    page.goto(f"{address}/#runs?runs=%5B%22nope%22%5D")
    page.get_by_role("status").get_by_text("Not in this folder: “nope”.").wait_for()


def test_a_server_that_stops(page: Any, folder: Path) -> None:
    with running(create_studio([], folder)) as address:
        page.goto(f"{address}/#runs")
        page.locator("polyline.curve").first.wait_for()
    page.watch.expected = ("ERR_CONNECTION",)
    page.get_by_role("status").get_by_text("its server has stopped").wait_for(timeout=10_000)
    assert page.locator("polyline.curve").count() > 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessible(page: Any, address: str, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto(f"{address}/#runs")
    page.get_by_role("checkbox", name="Show deep/second <b>").check()
    page.locator("polyline.curve[data-name='deep/second <b>']").wait_for()
    page.locator("svg.lines").focus()
    page.locator(".readout b").wait_for()
    assert serious(page) == []
