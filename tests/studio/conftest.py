"""A studio with real and tiny models in a thread, and pages of a real Chromium that watch what they do.

`studio` is the address of the running studio, `page` a fresh page that fails its test if anything was written to the console as
an error, if a script failed, or if any request left this machine.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlparse

import pytest
import uvicorn
from fastapi import FastAPI

import bertworks
from bertworks.hub.translation import Translation
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.studio.app import create_studio
from tests.infer.test_generate import write_language_model
from tests.translate.small import make_tokenizer, make_transformer

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
ANIMAL = "The animal didn't cross the street because it was too tired"


@contextlib.contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Serve an application in a thread; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)


@pytest.fixture(scope="session")
def minilm(minilm_directory: Path) -> LoadedModel:
    return bertworks.load(minilm_directory)


@pytest.fixture(scope="session")
def albert(weights_minidata: Path) -> LoadedModel:
    """A Chinese ALBERT with a masked-LM head."""
    return bertworks.load(weights_minidata)


@pytest.fixture(scope="session")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A tiny random GPT-2: byte-level BPE, causal, a norm at its end."""
    return bertworks.load(write_language_model(tmp_path_factory.mktemp("gpt") / "model"))


@pytest.fixture(scope="session")
def translator() -> LoadedTranslator:
    """A tiny random Transformer of two layers with three heads each."""
    tokenizer = make_tokenizer()
    model = make_transformer(tokenizer)
    return LoadedTranslator(Translation(model=model, source=tokenizer, target=tokenizer, directory=Path()))


@pytest.fixture(scope="session")
def studio(minilm: LoadedModel, albert: LoadedModel, gpt: LoadedModel, translator: LoadedTranslator) -> Iterator[str]:
    """The address of a studio with four models."""
    models = [("minilm", minilm), ("albert", albert), ("gpt", gpt), ("translator", translator)]
    with running(create_studio(models)) as address:
        yield address


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Chromium; closed when the tests of this folder are done, because it holds the thread's event loop."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path(CHROMIUM).exists() and not shutil.which("chromium"):
        pytest.skip(f"no Chromium at {CHROMIUM}; on Debian: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium") or CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@dataclass
class Watch:
    """What a page did that nobody wanted."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    """Parts of console errors that a test causes on purpose."""

    def unexpected(self) -> list[str]:
        return [text for text in self.errors if not any(part in text for part in self.expected)]


def watched(context: Any) -> tuple[Any, Watch]:
    """A page of a browser's context, and what it does."""
    watch = Watch()

    def route(found: Any) -> None:
        host = urlparse(found.request.url).hostname
        if host in ("127.0.0.1", None):
            found.continue_()
        else:
            watch.foreign.append(found.request.url)
            found.abort()

    context.route("**/*", route)
    page = context.new_page()
    page.set_default_timeout(30_000)  # a busy machine is slow
    page.on("console", lambda message: message.type == "error" and watch.errors.append(message.text))
    page.on("pageerror", lambda error: watch.errors.append(str(error)))
    return page, watch


def until(page: Any, condition: Callable[[], bool]) -> None:
    """Wait for a condition; a page's own waiting would need `eval`, which its policy forbids."""
    for _ in range(300):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it did not happen within 30 seconds")


def link(address: str, part: str, /, **state: Any) -> str:
    """The address of a part of the page in a state."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in state.items()}
    return f"{address}/#{part}?{urlencode(texts)}"


def saved(page: Any, ending: str, place: Any = None) -> Path:
    """The file of the first download button of this kind, under its own name."""
    with page.expect_download() as download:
        (place or page).locator(f'[data-download="{ending}"]').first.click()
    path: Path = Path(download.value.path()).with_name(download.value.suggested_filename)
    download.value.save_as(path)
    return path


def serious(page: Any, options: dict[str, Any] | None = None) -> list[Any]:
    """What axe finds that keeps people from using the page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    found = axe.Axe().run(page, options=options).response["violations"]
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    opened = browser.new_context(
        viewport={"width": 1280, "height": 900}, reduced_motion="reduce", accept_downloads=True
    )
    yield opened
    opened.close()


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    """A fresh page; `page.watch.expected = (...)` allows errors that a test causes on purpose."""
    opened, watch = watched(context)
    opened.watch = watch
    yield opened
    assert watch.unexpected() == []
    assert watch.foreign == []
