"""Turn measured numbers into a JSON file and a page of markdown tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What a benchmark may say of its results, as (heading, format); a check of a run has some of these keys.
CHECKS = {
    "max_abs_difference": ("largest difference", ".1e"),
    "worst_cosine": ("worst cosine", ".7f"),
    "spearman": ("STS-B, Spearman", ".2f"),
    "ids": ("ids", ",.0f"),
    "different_ids": ("ids that differ", ",.0f"),
    "same": ("same texts", ".1%"),
}


def spread(numbers: Mapping[str, float], digits: int, scale: float = 1.0) -> str:
    """ "median (min–max)"."""
    median, low, high = (f"{numbers[key] * scale:.{digits}f}" for key in ("median", "min", "max"))
    return f"{median} ({low}–{high})"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def embedded(page: str, depth: int = 4) -> list[str]:
    """A page of a benchmark as a part of another: without its title and its first line on who wrote it, headings deeper."""
    lines = page.splitlines()
    kept = [line for line in lines if not line.startswith(("# ", "Written by "))]
    deeper = [("#" * depth + " " + line.removeprefix("## ")) if line.startswith("## ") else line for line in kept]
    return ["\n".join(deeper).strip("\n") + "\n"]


def workload_section(workload: Mapping[str, Any]) -> str:
    """One table: speed with spread, ratio to the baseline, share of the limit, memory, how right the results are."""
    one_by_one = workload["calls"] > 1
    rate = workload["matmul_flops_per_second"]
    named = {key for row in workload["engines"].values() for key in row.get("check", {})}
    checks = [key for key in CHECKS if key in named]
    header = ["engine", f"{workload['unit']}/s", f"speed against {workload['baseline']}"]
    header += ["milliseconds a call: median, 95 %"] if one_by_one else []
    header += ["share of matrix-multiply rate"] if workload["flops"] else []
    header += ["peak memory, MiB", "after load, MiB", "load, s"]
    header += [CHECKS[key][0] for key in checks]
    header += ["settings"]
    rows = []
    for name, row in workload["engines"].items():
        if "error" in row:
            rows.append([name, "failed: " + row["error"].replace("|", "/")] + [""] * (len(header) - 2))
            continue
        cells = [name, spread(row["per_second"], 1), spread(row["speed_ratio"], 2)]
        if one_by_one:
            cells.append(f"{row['call_seconds']['median'] * 1e3:.1f}, {row['call_seconds']['p95'] * 1e3:.1f}")
        if workload["flops"]:
            cells.append(f"{row['matmul_share']['median']:.0%}")
        loaded = row["loaded_mib"]
        cells += [f"{row['peak_mib']:.0f}", "" if loaded is None else f"{loaded:.0f}", f"{row['load_seconds']:.2f}"]
        check = row.get("check", {})
        cells += [f"{check[key]:{CHECKS[key][1]}}" if key in check else "" for key in checks]
        cells.append(", ".join(f"{key} {value}" for key, value in row["settings"].items()) or "defaults")
        rows.append(cells)
    others = [o for row in workload["engines"].values() for o in row.get("others", []) if o is not None]
    notes = [f"Matrix-multiply rate in the same run: {spread(rate, 1, 1e-9)} GFLOP/s."]
    if others:
        notes.append(
            f"Processor time taken by other work on the machine during the passes: at most {max(others):.0%} of it."
        )
    facts = ", ".join(f"{value} {key}" for key, value in workload["facts"].items())
    return f"## {workload['title']}\n\n{facts}.\n\n{table(header, rows)}\n\n{' '.join(notes)}\n"


def startup_section(startup: Mapping[str, Any]) -> str:
    rows = []
    for name, row in startup["engines"].items():
        if "error" in row:
            rows.append([name, "failed: " + row["error"].replace("|", "/"), ""])
        else:
            rows.append([name, spread(row, 2), spread(row["speed_ratio"], 2)])
    header = ["engine", "seconds", f"speed against {startup['baseline']}"]
    return f"## From process start to the first embedding of one sentence\n\n{table(header, rows)}\n"


def render(report: Mapping[str, Any]) -> str:
    """The whole page."""
    machine = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["packages"].items() if number)
    memory = f", {machine['memory_gib']:.0f} GiB" if machine["memory_gib"] else ""
    where = f"{machine['processor']}, {machine['cores']} cores{memory}"
    reading = (
        "Each number is the median of the rounds, with the smallest and the largest in brackets. Engines run in turn, "
        "each in a process of its own; the speed ratio is taken within a round (above 1: quicker than the baseline). "
        "The share is the arithmetic that the work needs without padding, over time and over the rate of a large fp32 "
        "matrix product measured between the rounds. How it is measured: `benchmarks/README.md`."
    )
    parts = [
        f"# Benchmark: {report['title']}\n",
        f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n",
        f"Machine: {where}. {machine['threads']} threads for every engine, {report['rounds']} rounds. {versions}.\n",
        f"{reading}\n",
    ]
    parts += [workload_section(workload) for workload in report["workloads"].values()]
    if report.get("startup"):
        parts.append(startup_section(report["startup"]))
    parts += [f"{note}\n" for note in report.get("notes", [])]
    return "\n".join(parts)


def write_json(report: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_page(report: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(report), encoding="utf-8")
