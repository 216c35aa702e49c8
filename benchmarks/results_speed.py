"""The section of the results page on speed (see `results_page`): one table and one plot over all benchmarks with peers."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import corpus, finetune, serve
from benchmarks.plot import Bar, bars
from benchmarks.report import embedded, spread, startup_section, table
from benchmarks.results_page import COMMANDS, Page

OURS = "bertworks"
WITH_WORKLOADS = ("embed", "tokenize", "train_tokenizer", "pretrain", "vectors", "decode")


def speed(page: Page) -> list[str]:
    about = (
        "Each engine in a process of its own, in turn, with the same threads: the median of the rounds, with the smallest and "
        "the largest. *Against the best peer*: the medians' ratio; above 1, quicker than the quickest engine that is not ours. "
        "In the plots the ratio is taken within each round. *Of the limit*: the arithmetic that the work needs, over time and "
        "over the rate of a large matrix product in the same run.\n"
    )
    parts = [about]
    more = [name for name in page.others() if name not in COMMANDS and "workloads" in (page.peek(name) or {})]
    for name in (*WITH_WORKLOADS, *more):
        tell = partial(workloads, page, name)
        parts += [f"### {title_of(name, page)}\n", *page.part(name, tell)]
    parts += ["### Building a corpus\n", *page.part("corpus", lambda report: building(page, report))]
    parts += ["### Fine-tuning\n", *page.part("finetune", lambda report: tuning(page, report))]
    parts += ["### Serving\n", *page.part("serve", lambda report: embedded(serve.render(report)))]
    return parts


def title_of(name: str, page: Page) -> str:
    title = (page.peek(name) or {}).get("title") or name.replace("_", " ")
    return title[:1].upper() + title[1:]


def workloads(page: Page, name: str, report: dict[str, Any]) -> list[str]:
    """A row per workload and engine, and a plot of the ratios against the slower engines."""
    rows, drawn = [], []
    for work in report["workloads"].values():
        for engine, row in work["engines"].items():
            if "error" in row:
                continue
            best = max((peer["per_second"]["median"] for peer in peers_of(engine, work["engines"])), default=None)
            share = row.get("matmul_share", {}).get("median") if work.get("flops") else None
            ratio = "" if best is None else f"{row['per_second']['median'] / best:.2f}"
            cells = [work["title"], engine, f"{spread(row['per_second'], 1)} {work['unit']}/s", ratio]
            rows.append([*cells, "" if share is None else f"{share:.0%}", f"{row['peak_mib']:.0f}"])
        for engine, row in work["engines"].items():
            if "speed_ratio" in row and engine != work["baseline"]:
                ratios = row["speed_ratio"]
                label = work["title"].partition(",")[0].partition(":")[0] + f": {engine}"
                kind = "ours" if engine.startswith(OURS) else "peer"
                drawn.append(Bar(label[:44], ratios["median"], ratios["min"], ratios["max"], kind))
    baselines = sorted({work["baseline"] for work in report["workloads"].values()})
    title = f"Speed against {', '.join(baselines)} (1: as fast)"
    parts = [table(["work", "engine", "speed", "against the best peer", "of the limit", "peak MiB"], rows) + "\n"]
    if drawn:
        parts.append(page.plot(f"results-speed-{name}", bars(title, drawn, ".2f"), title))
    if report.get("startup"):
        parts += embedded(startup_section(report["startup"]))
    return parts


def peers_of(engine: str, engines: dict[str, Any]) -> list[dict[str, Any]]:
    """What an engine is held against: peers of its own precision and, in int8, those that keep the quality."""
    return [
        row
        for name, row in engines.items()
        if "error" not in row
        and not name.startswith(OURS)
        and ("int8" in name) == ("int8" in engine)
        and ("int8" not in name or row.get("passes_gate", True))
    ]


def building(page: Page, report: dict[str, Any]) -> list[str]:
    measured = report["measured"]["megabytes_per_second"]
    drawn = [
        Bar(name, rate["median"], rate["min"], rate["max"], "ours" if name == corpus.OURS else "peer")
        for name, rate in measured.items()
    ]
    title = "Building a corpus: megabytes of text a second"
    return [*embedded(corpus.render(report)), page.plot("results-speed-corpus", bars(title, drawn), title)]


def tuning(page: Page, report: dict[str, Any]) -> list[str]:
    drawn = []
    for name, wanted in finetune.SETS.items():
        ratios = finetune.speed_ratios(report, name)
        if ratios:
            drawn.append(Bar(wanted.title, ratios[len(ratios) // 2], ratios[0], ratios[-1], "ours"))
    title = "Fine-tuning: speed against transformers' Trainer (1: as fast)"
    plot = [page.plot("results-speed-finetune", bars(title, drawn, ".2f"), title)] if drawn else []
    return [*embedded(finetune.render(report)), *plot]
