"""The documentation as a site: no page is forgotten, links lead somewhere, nothing is fetched from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import mkdocs_hooks as hooks
import pytest

ROOT = Path(__file__).parents[1]
FETCHED = re.compile(r"""(?:<script[^>]*\ssrc|<link[^>]*\shref|<img[^>]*\ssrc)=["']?(https?:)?//""")


def test_the_navigation_names_pages_that_exist_and_gets_the_others(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    for name in ("index", "new", "benchmarks/embed", "benchmarks/corpus"):
        (tmp_path / f"{name}.md").write_text("# Title")
    nav = ["index.md", {"Start": ["index.md"]}]
    assert hooks.navigation(nav, tmp_path) == [
        *nav,
        {"More": ["new.md"]},
        {"Benchmarks": ["benchmarks/corpus.md", "benchmarks/embed.md"]},
        {"Project": ["contributing.md", "changelog.md"]},
    ]


def test_every_page_that_is_named_is_there() -> None:
    named = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(named) > 10
    for name in named:
        assert (ROOT / "docs" / name).exists(), f"mkdocs.yml names {name}, which is not in docs/"


@pytest.mark.parametrize(
    ("text", "page", "expected"),
    [
        ("[a](tutorial.md#end)", "index.md", "[a](tutorial.md#end)"),
        ("[a](https://example.org)", "index.md", "[a](https://example.org)"),
        ("[a](../CONTRIBUTING.md)", "index.md", "[a](contributing.md)"),
        ("[a](../../CHANGELOG.md)", "benchmarks/embed.md", "[a](../changelog.md)"),
        ("see [`a`](../src/bertworks/page.py)!", "index.md", "see `a`!"),
        ("[e](../benchmarks/results/embed.json)", "results.md", "[e](data/embed.json)"),
        ("[a](docs/architecture.md#x)", "contributing.md", "[a](architecture.md#x)"),
        ("![plot](figures/a.svg)", "results.md", "![plot](figures/a.svg)"),
        ("```sh\n[a](../CONTRIBUTING.md)\n```", "index.md", "```sh\n[a](../CONTRIBUTING.md)\n```"),
    ],
)
def test_links_are_those_of_the_site(text: str, page: str, expected: str) -> None:
    assert hooks.relinked(text, page) == expected


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed (pip install '.[docs]')")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        assert not FETCHED.search(page.read_text(encoding="utf-8")), page.name
    assert (tmp_path / "data" / "embed.json").exists()
