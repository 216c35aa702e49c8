"""What the documentation site needs beyond the pages in docs/: a navigation that forgets no page, and links that lead out.

navigation   a page of docs/ that mkdocs.yml does not name goes under "More", one of docs/benchmarks under "Benchmarks"
links        pages link to files of the repository as they lie there (../CONTRIBUTING.md, ../benchmarks/results/x.json).
             The guides and the measured results come along into the site and the links lead to them; a link to
             any other file outside docs/ (a source file) becomes plain text
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parent
GUIDES = ("CONTRIBUTING.md", "CHANGELOG.md")
RESULTS = "benchmarks/results"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", flags=re.MULTILINE | re.DOTALL)


def named(entry: Any) -> Iterator[str]:
    """All pages below an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from named(below)


def navigation(nav: list[Any], docs: Path) -> list[Any]:
    """The navigation with every page of `docs`."""
    listed = set(named(nav))
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    missing = [page for page in pages if page not in listed]
    benchmarks = [page for page in missing if page.startswith("benchmarks/")]
    others = [page for page in missing if page not in benchmarks]
    result = list(nav)
    if others:
        result.append({"More": others})
    if benchmarks:
        result.append({"Benchmarks": benchmarks})
    return [*result, {"Project": [guide.lower() for guide in GUIDES]}]


def carried() -> dict[str, str]:
    """Files outside docs/ that come along: where they lie in the repository, and where in the site."""
    found = {guide: guide.lower() for guide in GUIDES}
    for path in sorted((ROOT / RESULTS).glob("*.json")):
        found[f"{RESULTS}/{path.name}"] = f"data/{path.name}"
    return found


def relinked(text: str, page: str) -> str:
    """The text of the site's page `page` with links for the site. Code is left alone."""
    along = carried()
    origin = {site: place for place, site in along.items()}.get(page, f"docs/{page}")

    def link(match: re.Match[str]) -> str:
        image, words, target, anchor = match.groups()
        if re.match(r"[a-z]+:", target):
            return match[0]
        place = os.path.normpath(PurePosixPath(origin).parent / target)
        if place.startswith("docs/"):
            site = place.removeprefix("docs/")
        elif place in along:
            site = along[place]
        else:
            return words
        return f"{image}[{words}]({os.path.relpath(site, PurePosixPath(page).parent)}{anchor or ''})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def on_config(config: Any) -> Any:
    """mkdocs calls this first."""
    config.nav = navigation(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Any, config: Any) -> Any:
    """mkdocs calls this with the files of docs/."""
    from mkdocs.structure.files import File

    for place, site in carried().items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / place)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """mkdocs calls this with the text of each page."""
    return relinked(markdown, page.file.src_uri)
