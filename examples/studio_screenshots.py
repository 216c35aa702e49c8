"""Pictures of every part of the studio, light, dark and on a phone, with a real browser.

    python examples/studio_screenshots.py docs/images english=MASKED_LM reviews=CLASSIFIER en-de=TRANSLATION glove=VECTORS \
        --runs RUNS

`minilm` is always there. A part whose model is not given is photographed as it is without one; of a folder of runs the newest
two are compared, so they should be of one kind. A picture ends where a section ends. Where something that is pressed has no
effect, there is no picture but an error. It needs `playwright` and a Chromium; with Pillow the files become a third as large.
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

import numpy as np
import uvicorn
from playwright.sync_api import Page, sync_playwright

from bertworks.studio.app import create_studio

MARGIN = 16
SIZES = {"light": (1200, 820), "dark": (1200, 820), "narrow": (390, 820)}


class Shot(NamedTuple):
    """A part, its state, what must be there before the picture is taken, what is pressed first, and what is seen.

    pressed:     what is pressed, and what must be there after it that was not there before
    first, last: the picture goes from the beginning of one element to the end of the other; from the top without `first`
    """

    name: str
    part: str
    state: dict[str, Any]
    wanted: str
    pressed: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ("light", "dark", "narrow")
    first: str = ""
    last: str = "#view > :last-child"


def shots(models: list[str]) -> list[Shot]:
    names = [model.partition("=")[0] for model in models]
    english = "english" if "english" in names else names[0]
    reviews = "reviews" if "reviews" in names else names[0]
    film = "The film was released in the United States."
    review = "A slow start, but the last hour is wonderful and the music stays with you."
    german = "en-de" if "en-de" in names else names[0]
    one, picture = ("light",), ".attention"
    return [
        Shot("attention", "attention", {"view": "lines"}, "svg.head-lines"),
        Shot("attention-heads", "attention", {"view": "grid"}, "svg.head-grid", (), one, picture, picture),
        Shot(
            "attention-matrix",
            "attention",
            {"view": "matrix", "layer": 6, "heads": [12]},
            "svg.head-matrix",
            (),
            one,
            picture,
            picture,
        ),
        Shot(  # the word "Mädchen", at the head with which it looks most at a word of the source
            "attention-alignment",
            "attention",
            {"model": german, "text": "Today the girl likes the bird.", "pick": "row-4"},
            "svg.head-lines",
            ((".finds button", r".caption:text-matches('^Layer \\d+, head \\d+:')"),),
            one,
            picture,
            picture,
        ),
        Shot("cloze", "cloze", {"model": english, "text": film, "masks": [7]}, ".bar, .notice"),
        Shot(
            "tokens",
            "tokens",
            {"text": "Tokenization isn't unbelievably hard"},
            ".tokenizer",
            ((".pieces button >> nth=1", "[data-player]"), ("text=Next", "text=Step 1 of")),
        ),
        Shot(
            "meaning",
            "meaning",
            {},
            ".scatter .dot, .notice",
            (("[data-text='0']", ".details .bar"),),
            last="section:has(.map)",
        ),
        Shot("meaning-word", "meaning", {"tab": "word"}, ".matrix, .notice", (), one, "section:has(.scatter)"),
        Shot(
            "meaning-vectors",
            "meaning",
            {"tab": "vectors", "near": "violin", "a": "man", "b": "king", "c": "woman"},
            "section:has-text('Neighbours') .bar, .notice",
            (),
            one,
            ".card:has(select)",
            ".columns",
        ),
        Shot(
            "meaning-bias",
            "meaning",
            {"tab": "vectors", "own": "nurse engineer librarian pilot"},
            ".axis-plot, .notice",
            (),
            one,
            "section:has(.axis-plot)",
        ),
        Shot(
            "tasks",
            "tasks",
            {"model": reviews, "row": {"text": review}, "method": "integrated-gradients"},
            ".tokens-chart, .notice",
        ),
        Shot("runs", "runs", {}, ".curve, .notice", (("[data-run]:not(:checked)", ".compare"),)),
    ]


def take(page: Page, address: str, shot: Shot, path: Path) -> None:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in shot.state.items()}
    page.goto(f"{address}/#{shot.part}?{urlencode(texts)}")
    page.locator(shot.wanted).first.wait_for(timeout=60_000)
    for button, effect in shot.pressed if not page.locator(".notice").count() else ():
        if page.locator(effect).count():
            raise SystemExit(f"{path}: {effect} is there before {button} is pressed")
        page.locator(button).first.click()
        page.locator(effect).first.wait_for()
    page.mouse.move(5, 400)
    page.wait_for_timeout(600)
    page.evaluate("document.activeElement.blur()")
    width = page.viewport_size["width"] if page.viewport_size else 1200
    top = edge(page, shot.first, "top") - MARGIN if shot.first else 0
    bottom = edge(page, shot.last, "bottom") + MARGIN
    picture = page.screenshot(full_page=True, clip={"x": 0, "y": top, "width": width, "height": bottom - top})
    path.write_bytes(smaller(picture))
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def edge(page: Page, selector: str, side: str) -> float:
    """Where the first such element begins, or where the last one ends; without any, the part itself."""
    found = page.locator(selector)
    one = (found.first if side == "top" else found.last) if found.count() else page.locator("#view")
    return float(one.evaluate("(element, side) => element.getBoundingClientRect()[side] + scrollY", side))


def smaller(png: bytes) -> bytes:
    """The same picture with its 256 most frequent colours, where Pillow is installed: grounds and marks stay exact."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        return png
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), np.int64)
    packed = pixels @ [65536, 256, 1]  # one number for a colour
    found, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    kept = found[np.argsort(-counts)[:256]]
    apart = sum((found[:, None] // unit % 256 - kept // unit % 256) ** 2 for unit in (65536, 256, 1))
    picture = Image.fromarray(np.argmin(apart, axis=1)[places].reshape(packed.shape).astype(np.uint8), "P")
    picture.putpalette([int(colour // unit % 256) for colour in kept for unit in (65536, 256, 1)])
    target = io.BytesIO()
    picture.save(target, "PNG", optimize=True)
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
