"""Servers under load: `bertworks serve` against the server that a user would write in twenty lines.

    python -m benchmarks.serve --threads 2 --rounds 3 [--servers bertworks] [--overload-seconds 180] [--write-docs]

All servers run side by side, one of them under load at a time, in rounds. Each request is one sentence of SST-2, and the
load comes from another process on the same machine, which takes its share of the cores.

    closed loop, 1, 8 and 32 clients   throughput and times; a lone client's time is held against calling the library
    open loop, twice the capacity      what is answered, refused and lost, how soon, and the server's memory over time
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embed import default_model, read_short
from benchmarks.harness import describe_machine, summary
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.report import spread, table, write_json
from benchmarks.serve_engines import SERVERS, Library, Running

CLIENTS = (1, 8, 32)
SETTLE_SECONDS = 0.5
OURS = "bertworks"


def percentiles(times: Sequence[float]) -> dict[str, float]:
    if not times:
        return {}
    p50, p95, p99 = np.percentile(np.array(times), [50, 95, 99]).tolist()
    return {"p50": p50, "p95": p95, "p99": p99, "max": max(times)}


def closed(server: Running, clients: int, seconds: float, texts: Sequence[str]) -> dict[str, Any]:
    """One stretch with so many clients."""
    found = server.load({"clients": clients, "seconds": seconds, "texts": list(texts)})
    good = found["seconds"].get("200", [])
    others = sum(len(times) for status, times in found["seconds"].items() if status != "200")
    time.sleep(SETTLE_SECONDS)
    return {"per_second": len(good) / found["took"], **percentiles(good), "not_200": others + found["lost"]}


def overload(server: Running, rate: float, seconds: float, texts: Sequence[str]) -> dict[str, Any]:
    """Requests at a rate that is too high, and the memory of the server meanwhile."""
    memory: list[float] = []
    with server.loading({"rate": rate, "seconds": seconds, "texts": list(texts)}) as client:
        output = None
        while output is None:
            memory.append(round(server.memory_mib(), 1))
            try:
                output = client.communicate(timeout=1.0 if seconds > 20 else 0.2)[0]  # keeps what it has read so far
            except subprocess.TimeoutExpired:
                continue
    found = json.loads(output)
    good = found["seconds"].get("200", [])
    refused = found["seconds"].get("429", [])
    others = {status: len(times) for status, times in found["seconds"].items() if status not in ("200", "429")}
    return {
        "rate": rate,
        "seconds": seconds,
        "answered_per_second": len(good) / found["took"],
        "answered": len(good),
        "refused": len(refused),
        "other_statuses": others,
        "lost": found["lost"],
        "reasons": found["reasons"],
        "times": percentiles(good),
        "refusal_times": percentiles(refused),
        "memory_mib": memory,
    }


def rounds_of(
    servers: Sequence[Running], library: Library, options: argparse.Namespace, texts: Sequence[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {server.name: {str(clients): [] for clients in options.clients} for server in servers}
    lone: list[float] = []
    for number in range(options.rounds):
        lone.append(statistics.median(library.times(texts[: options.lone_texts])))
        for clients in options.clients:
            turn = number % len(servers)
            for server in [*servers[turn:], *servers[:turn]]:
                one = closed(server, clients, options.seconds, texts)
                found[server.name][str(clients)].append(one)
                say(
                    f"round {number + 1}/{options.rounds}, {clients} clients, {server.name}: {one['per_second']:.0f}/s, "
                    f"p50 {one.get('p50', 0) * 1e3:.1f} ms, p99 {one.get('p99', 0) * 1e3:.1f} ms"
                )
    return {"library_seconds": lone, "servers": found}


def summarised(rounds: Mapping[str, Any], baseline: str) -> dict[str, Any]:
    """Medians with their spread, and our throughput against the others' within each round."""
    found: dict[str, Any] = {}
    for name, by_clients in rounds["servers"].items():
        found[name] = {}
        for clients, stretches in by_clients.items():
            numbers = {
                key: summary([one[key] for one in stretches if key in one])
                for key in ("per_second", "p50", "p95", "p99")
            }
            theirs = rounds["servers"][baseline][clients]
            ratios = [
                a["per_second"] / b["per_second"] for a, b in zip(stretches, theirs, strict=True) if b["per_second"]
            ]
            failures = sum(one["not_200"] for one in stretches)
            found[name][clients] = {**numbers, "ratio": summary(ratios), "not_200": failures}
    return found


# -- the page ----------------------------------------------------------------------------------------------------------


def render(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["packages"].items() if number)
    where = (
        f"Machine: {machine['processor']}, {machine['cores']} cores, load before the run {machine['load_average']:.1f}. "
        f"{machine['threads']} threads for every server, {report['rounds']} rounds. {versions}.\n"
    )
    what = (
        "Each request is one sentence of SST-2, and its answer a vector of all-MiniLM-L6-v2 as JSON. The clients are a "
        "process of their own on the same cores. `20 lines` is `benchmarks/serve_twenty.py`, FastAPI with "
        "sentence-transformers, whose function runs in threads (`def`) or one by one (`async def`). Numbers are medians "
        "of the rounds, with the smallest and the largest; ratios are taken within a round.\n"
    )
    written = f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n"
    parts = ["# Benchmark: servers under load\n", written, where, what, "## Closed loop\n"]
    for clients in report["clients"]:
        rows = []
        for name, by_clients in report["summary"].items():
            one = by_clients[str(clients)]
            cells = [name, spread(one["per_second"], 1), spread(one["ratio"], 2)]
            cells += [spread(one[key], 1, 1e3) for key in ("p50", "p95", "p99")]
            rows.append([*cells, str(one["not_200"])])
        head = [
            "server",
            "requests/s",
            f"against {report['baseline']}",
            "p50, ms",
            "p95, ms",
            "p99, ms",
            "not answered 200",
        ]
        parts.append(f"{clients} {'client' if clients == 1 else 'clients'}:\n\n{table(head, rows)}\n")
    library = summary(report["library_seconds"])
    alone = report["summary"].get(OURS, {}).get("1")
    if alone:
        more = (alone["p50"]["median"] - library["median"]) * 1e3
        parts.append(
            f"Calling the library for one sentence takes {spread(library, 1, 1e3)} ms; a lone request to `bertworks serve` "
            f"takes {more:+.1f} ms more.\n"
        )
    if report["overload"]:
        parts.append(overload_section(report["overload"]))
    return "\n".join(parts)


def overload_section(found: Mapping[str, Any]) -> str:
    rows, notes = [], []
    for name, one in found.items():
        quarters = np.array_split(np.array(one["memory_mib"]), 4)
        course = " → ".join(f"{quarter.mean():.0f}" for quarter in quarters if len(quarter))
        times, refusals = one["times"], one["refusal_times"]
        rows.append(
            [
                name,
                f"{one['rate']:.0f}",
                f"{one['answered_per_second']:.1f}",
                f"{one['answered']:,}",
                f"{one['refused']:,}",
                f"{one['lost'] + sum(one['other_statuses'].values()):,}",
                ", ".join(f"{times[key] * 1e3:,.0f}" for key in ("p50", "p95", "p99")) if times else "",
                ", ".join(f"{refusals[key] * 1e3:,.1f}" for key in ("p50", "p99")) if refusals else "",
                course,
            ]
        )
        if one["reasons"]:
            reasons = ", ".join(f"{key} {count:,}" for key, count in one["reasons"].items())
            notes.append(f"Lost by {name}: {reasons}.")
    seconds = next(iter(found.values()))["seconds"]
    head = ["server", "requests/s sent", "answered/s", "answered", "refused (429)", "lost or failed"]
    head += ["answers: p50, p95, p99, ms", "refusals: p50, p99, ms", "memory by quarter, MiB"]
    text = (
        f"## Open loop at twice the capacity, {seconds:.0f} seconds\n\nRequests come at random moments, twice as many as the "
        f"server answered with 32 clients, whether or not earlier ones are answered.\n\n{table(head, rows)}\n"
    )
    return text + ("\n" + " ".join(notes) + "\n" if notes else "")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description="Servers under load.")
    parser.add_argument(
        "--servers", nargs="+", choices=list(SERVERS), default=[name for name in SERVERS if "int8" not in name]
    )
    parser.add_argument("--clients", nargs="+", type=int, default=list(CLIENTS))
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="of each stretch with a number of clients (default 8)"
    )
    parser.add_argument("--overload-seconds", type=float, default=180.0, help="at twice the capacity; 0: not at all")
    parser.add_argument("--rows", type=int, default=2000, help="sentences of SST-2 (default 2000)")
    parser.add_argument("--lone-texts", type=int, default=200, help="sentences given to the library, one by one")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=Path, help="a sentence-transformers directory (default: all-MiniLM-L6-v2)")
    add_places(parser, "serve")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    model = str(options.model or default_model())
    texts = read_short(options.data, options.rows)
    packages = ["bertworks", "fastapi", "uvicorn", "sentence-transformers", "torch"]
    machine = describe_machine(options.threads, packages)
    servers: list[Running] = []
    library = Library(model, options.threads)
    with tempfile.TemporaryDirectory() as logs:
        try:
            for number, name in enumerate(options.servers):
                servers.append(Running(SERVERS[name], model, options.threads, Path(logs) / f"{number}.log"))
            for server in servers:
                closed(server, max(options.clients), min(2.0, options.seconds), texts)  # warm-up
            rounds = rounds_of(servers, library, options, texts)
            baseline = next(
                (name for name in options.servers if name != OURS and "int8" not in name), options.servers[0]
            )
            found = summarised(rounds, baseline)
            flood = {}
            if options.overload_seconds > 0:
                for server in servers:
                    rate = 2 * found[server.name][str(max(options.clients))]["per_second"]["median"]
                    flood[server.name] = overload(server, rate, options.overload_seconds, texts)
                    say(f"overload, {server.name}: {flood[server.name]['answered_per_second']:.0f} answers/s")
        finally:
            library.close()
            for server in servers:
                server.close()
    report: dict[str, Any] = {
        "benchmark": "serve",
        "command": command_line("serve", arguments),
        "machine": machine,
        "rounds": options.rounds,
        "clients": options.clients,
        "baseline": baseline,
        "library_seconds": rounds["library_seconds"],
        "stretches": rounds["servers"],
        "summary": found,
        "overload": flood,
    }
    write_json(report, options.output)
    page = render(report)
    if options.write_docs:
        place = ROOT / "docs" / "benchmarks" / "serve.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
