"""The results page: docs/results.md and its plots, made only from the JSON files in benchmarks/results.

    make results            or            python -m benchmarks.results_page

No figure is typed in by hand. Each stands beside a link to its JSON file and the command that made it; what has no file yet is
said to be not measured, with the command to run. Published figures are those of `benchmarks/published.json`, with their
sources. A file that no section knows is shown at the end, by the `render` of its own program. The sections are in
`results_sections` and `results_speed`.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.options import ROOT, say
from benchmarks.report import embedded

COMMANDS = {
    "cloze": "python -m benchmarks.cloze bertworks-en --write-docs",
    "corpus": "python -m benchmarks.corpus --memory --write-docs",
    "decode": "python -m benchmarks.decode --write-docs",
    "distill": "python -m benchmarks.distill --minutes 20 --write-docs",
    "embed": "python -m benchmarks.embed --rows 2000 --rounds 5 --write-docs",
    "encoders": "python -m benchmarks.encoders bertworks-en minilm --seeds 3 --write-docs",
    "english": "python -m benchmarks.english add RUN --command TEXT",
    "equal_time": "python -m benchmarks.equal_time --minutes 20 --seeds 3 --write-docs",
    "finetune": "python -m benchmarks.finetune --seeds 3 --write-docs",
    "ladder": "python -m benchmarks.ladder --prepare-budget 15m --seeds 3 --write-docs",
    "language_models": "python -m benchmarks.language_models --budget 10m --seeds 3 --write-docs",
    "layers": "python -m benchmarks.layers minilm bertworks-en --write-docs",
    "leanings": "python -m benchmarks.leanings bertworks-en --write-docs",
    "pretrain": "python -m benchmarks.pretrain --write-docs",
    "quality": "python -m benchmarks.quality --seeds 3 --write-docs",
    "serve": "python -m benchmarks.serve --rounds 3 --write-docs",
    "study_depth": "python -m benchmarks.study depth --tokens 8000000 --write-docs",
    "study_distill": "python -m benchmarks.study distill --teacher DIR --write-docs",
    "study_ernie": "python -m benchmarks.study ernie --write-docs",
    "study_modern": "python -m benchmarks.study modern --write-docs",
    "study_recipes": "python -m benchmarks.study recipes --write-docs",
    "study_roberta": "python -m benchmarks.study roberta --write-docs",
    "study_sizes": "python -m benchmarks.study sizes --tokens 8000000 --write-docs",
    "tokenize": "python -m benchmarks.tokenize --write-docs",
    "train_tokenizer": "python -m benchmarks.train_tokenizer --memory --write-docs",
    "translate": "python -m benchmarks.translate transformer rnn-attention luong fra-eng --write-docs",
    "vectors": "python -m benchmarks.vectors --write-docs",
}
"""What makes each file that the page knows of."""

NOT_MEASURED = "not measured yet"
FIGURES = "figures"


@dataclass
class Page:
    """What the sections read and write: the results, the published figures, the plots so far."""

    results: Path
    docs: Path
    published: dict[str, Any]
    plots: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def load(self, name: str) -> dict[str, Any] | None:
        """The file `name.json`, or None."""
        self.used.add(name)
        return self.peek(name)

    def peek(self, name: str) -> dict[str, Any] | None:
        """The same for a section that does not show it yet."""
        path = self.results / f"{name}.json"
        content: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        return content

    def others(self) -> list[str]:
        """Files that no section has asked for."""
        return sorted(path.stem for path in self.results.glob("*.json") if path.stem not in self.used)

    def part(self, name: str, tell: Callable[[dict[str, Any]], list[str]]) -> list[str]:
        """What `tell` makes of the file, and where it comes from; or that it was not measured."""
        report = self.load(name)
        if report is None:
            return [f"**{name}**: {NOT_MEASURED}. To measure it: `{COMMANDS[name]}`\n"]
        return [*tell(report), self.source(name, report)]

    def source(self, name: str, report: dict[str, Any]) -> str:
        """The file and the command that made it."""
        date = report.get("machine", {}).get("date", "")[:10]
        page = self.docs / "benchmarks" / f"{name}.md"
        more = f"; [more of it](benchmarks/{name}.md)" if page.exists() else ""
        command = str(report.get("command", "")).replace("`", "'")
        on = f" on {date}" if date else ""
        return f"*From [{name}.json](../benchmarks/results/{name}.json), made{on} by* `{command}`{more}.\n"

    def plot(self, name: str, svg: str, title: str) -> str:
        """Keep a plot; the line that shows it."""
        self.plots[name] = svg
        return f"![{title}]({FIGURES}/{name}.svg)\n"

    def cite(self, name: str) -> str:
        """Where published figures come from."""
        found: str = self.published["sources"][name]
        return found


def rendered(name: str, report: dict[str, Any]) -> list[str]:
    """What the program that made a file tells of it, if it has a `render`."""
    program = str(report.get("benchmark", name))
    if not Path(__file__).with_name(f"{program}.py").exists():
        return []
    render = getattr(importlib.import_module(f"benchmarks.{program}"), "render", None)
    return [] if render is None else embedded(render(report))


def compose(page: Page) -> str:
    """The whole page."""
    from benchmarks.results_sections import SECTIONS

    parts = [
        "# Results\n",
        "Written by `make results` from the files in `benchmarks/results`; do not edit by hand.\n",
        (
            "What Bertworks reaches and how fast it is, on two cores of a processor and without a GPU. Every figure is from a "
            "JSON file that is linked beside it, with the command that made it. Published figures stand beside ours where "
            "there are any; they had other data and far larger budgets, and that is said where they stand.\n"
        ),
    ]
    for letter, (title, tell) in zip("abcdefghijklmnop", SECTIONS, strict=False):
        parts += [f"## {letter}. {title}\n", *tell(page)]
    if rest := page.others():
        parts.append("## Other measurements\n")
        for name in rest:
            report = page.load(name)
            assert report is not None
            parts += [f"### {report.get('title', name)}\n", *rendered(name, report), page.source(name, report)]
    return "\n".join(parts)


def write(page: Page) -> None:
    """The page and its plots; plots that it no longer has are removed."""
    text = compose(page)
    folder = page.docs / FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("results-*.svg"):
        if old.stem not in page.plots:
            old.unlink()
    for name, svg in page.plots.items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    (page.docs / "results.md").write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results_page", description="Write docs/results.md.")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    options = parser.parse_args(arguments)
    published = json.loads((ROOT / "benchmarks" / "published.json").read_text(encoding="utf-8"))
    page = Page(options.results, options.docs, published)
    write(page)
    missing = sum(not (options.results / f"{name}.json").exists() for name in COMMANDS)
    say(f"{options.docs / 'results.md'}: {len(page.plots)} plots; {missing} of {len(COMMANDS)} files not measured yet")


if __name__ == "__main__":
    main()
