"""Pictures of every part of the studio, light, dark and on a phone, with a real browser.

    python examples/studio_screenshots.py docs/images english=MASKED_LM reviews=CLASSIFIER glove=VECTORS --runs RUNS

`minilm` is always there. A part whose model is not given is photographed as it is without one. It needs `playwright` and a
Chromium; with Pillow the files become a third as large.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import uvicorn
from playwright.sync_api import Page, sync_playwright

from bertworks.studio.app import create_studio

SIZES = {"light": (1200, 820), "dark": (1200, 820), "narrow": (390, 820)}


class Shot(NamedTuple):
    """A part, its state, what must be there before the picture is taken, and what is pressed first."""

    name: str
    part: str
    state: dict[str, Any]
    wanted: str
    pressed: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("light", "dark", "narrow")


def shots(models: list[str]) -> list[Shot]:
    names = [model.partition("=")[0] for model in models]
    english = "english" if "english" in names else names[0]
    reviews = "reviews" if "reviews" in names else names[0]
    film = "The film was released in the United States."
    review = "A slow start, but the last hour is wonderful and the music stays with you."
    return [
        Shot("attention", "attention", {"view": "lines"}, "svg.head-lines"),
        Shot("attention-heads", "attention", {"view": "grid"}, "svg.head-grid", kinds=("light",)),
        Shot(
            "attention-matrix",
            "attention",
            {"view": "matrix", "layer": 6, "heads": [12]},
            "svg.head-matrix",
            kinds=("light",),
        ),
        Shot("cloze", "cloze", {"model": english, "text": film, "masks": [7]}, ".bar, .notice"),
        Shot(
            "tokens",
            "tokens",
            {"text": "Tokenization isn't unbelievably hard"},
            ".tokenizer",
            (".pieces button >> nth=1", "text=Next"),
        ),
        Shot("meaning", "meaning", {}, ".scatter .dot, .notice", ("[data-text='0']",)),
        Shot("meaning-word", "meaning", {"tab": "word"}, ".matrix, .notice", kinds=("light",)),
        Shot(
            "tasks",
            "tasks",
            {"model": reviews, "row": {"text": review}, "method": "integrated-gradients"},
            ".tokens-chart, .notice",
        ),
        Shot("runs", "runs", {}, ".curve, .notice", ("[data-run]:not(:checked)",)),
    ]


def take(page: Page, address: str, shot: Shot, path: Path) -> None:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in shot.state.items()}
    page.goto(f"{address}/#{shot.part}?{urlencode(texts)}")
    page.locator(shot.wanted).first.wait_for(timeout=60_000)
    for selector in shot.pressed if not page.locator(".notice").count() else ():
        if page.locator(selector).count():
            page.locator(selector).first.click()
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(500)
    page.mouse.move(5, 400)
    page.wait_for_timeout(600)
    page.evaluate("document.activeElement.blur()")
    height = page.evaluate("document.querySelector('main').getBoundingClientRect().bottom + scrollY")
    width = page.viewport_size["width"] if page.viewport_size else 1200
    picture = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": min(height, 1400)})
    path.write_bytes(smaller(picture))
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def smaller(png: bytes) -> bytes:
    """The same picture with 256 colours, where Pillow is installed."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        return png
    target = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(
        target, "PNG", optimize=True
    )
    return target.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("output", type=Path)
    parser.add_argument("models", nargs="*", help="NAME=MODEL")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--only", nargs="*", help="names of pictures")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    models = ["minilm", *arguments.models]
    server = uvicorn.Server(uvicorn.Config(create_studio(models, arguments.runs), port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        for shot in shots(models):
            for kind in shot.kinds if not arguments.only or shot.name in arguments.only else ():
                context = browser.new_context(
                    viewport={"width": SIZES[kind][0], "height": SIZES[kind][1]},
                    color_scheme="dark" if kind == "dark" else "light",
                    reduced_motion="reduce",
                )
                take(context.new_page(), address, shot, arguments.output / f"studio-{shot.name}-{kind}.png")
                context.close()
        browser.close()
    server.should_exit = True


if __name__ == "__main__":
    main()
