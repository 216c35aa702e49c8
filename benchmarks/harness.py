"""Measure engines against each other fairly: one process each, equal threads, interleaved rounds.

The idea. A machine's speed drifts (other work, heat, turbo), so engines timed one after the other are not comparable,
but engines timed within the same few seconds are. Every *engine* (ours or a peer) lives in a child process of its own,
so that its peak memory is its own, and sleeps until it is told to run one *pass* over a *workload*. The parent goes
round the engines, starting with a different one each time; ratios are taken within a round, and only then summarised.
Between rounds a further child measures the machine's fp32 matrix-multiply rate with the same threads: the limit that no
engine can beat.

Left out: statistics beyond median, minimum and maximum; GPUs; energy.

This file knows nothing of embeddings: an engine is a function name and a workload is a list of calls.
"""

from __future__ import annotations

import itertools
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.process import Engine, EngineError, EngineProcess, Pass, prepare, thread_environment


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What one pass does: `calls` are handed to the engine one after the other, each timed.

    `items` counts what the reader wants to see per second (texts, steps, requests) in all calls together. `flops` is
    the arithmetic that the pass needs at least (no padding), or None. `sample` holds shorter calls for the tuning
    sweep, or None for no sweep.
    """

    name: str
    title: str
    calls: Sequence[Any]
    items: int
    unit: str = "texts"
    flops: float | None = None
    sample: Sequence[Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def tune(
    engine: Engine, workload: Workload, threads: int, repeats: int = 2
) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    """The best of the engine's candidate settings on the workload's sample, and what each of them took.

    The sweep has a process of its own: what a rejected setting allocates must not count as the engine's peak memory.
    """
    if workload.sample is None or len(engine.candidates) == 1:
        return engine.candidates[0], []
    best = [float("inf")] * len(engine.candidates)
    with EngineProcess(engine, threads) as process:
        process.set_calls(workload.sample)
        process.run(engine.candidates[0])  # warm-up
        for _ in range(repeats):
            for i, settings in enumerate(engine.candidates):
                best[i] = min(best[i], process.run(settings).seconds)
    sweep = [{"settings": dict(s), "seconds": round(t, 4)} for s, t in zip(engine.candidates, best, strict=True)]
    return engine.candidates[best.index(min(best))], sweep


def matmul_probe(threads: int, size: int = 2048, repeats: int = 5) -> Callable[[Any], float]:
    """An engine whose result is this machine's fp32 matrix-multiply rate in floating-point operations per second."""
    import torch

    torch.set_num_threads(threads)
    a, b = torch.rand(size, size), torch.rand(size, size)
    out = torch.empty(size, size)

    def measure(_: Any) -> float:
        seconds = []
        for _repeat in range(repeats):
            start = time.perf_counter()
            torch.matmul(a, b, out=out)
            seconds.append(time.perf_counter() - start)
        return 2 * size**3 / statistics.median(seconds)

    return measure


MATMUL = Engine(name="matrix multiply", factory="benchmarks.harness:matmul_probe")


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median and spread."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(
    engines: Sequence[Engine],
    workload: Workload,
    *,
    rounds: int,
    threads: int,
    baseline: str,
    compare: Callable[[list[Any], list[Any]], dict[str, float]] | None = None,
    probe: Engine = MATMUL,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Tune, load, warm up and time every engine on one workload; a dictionary that is ready for JSON.

    `compare(results, baseline_results)` judges the results of the warm-up pass. An engine that fails is reported
    as such with its reason and leaves the field; the others go on.
    """
    rows: dict[str, dict[str, Any]] = {engine.name: {} for engine in engines}
    running: dict[str, EngineProcess] = {}
    passes: dict[str, list[Pass]] = {engine.name: [] for engine in engines}
    results: dict[str, list[Any]] = {}
    matmul_rates: list[float] = []

    def give_up(name: str, error: EngineError) -> None:
        rows[name] = {"error": str(error)}
        running.pop(name, None)
        say(f"{workload.name}: {name} failed: {error}\n{error.details}".rstrip())

    # Everything after the last load, one process at a time, so that no load or sweep disturbs a measured pass.
    settings: dict[str, Mapping[str, Any]] = {}
    try:
        for engine in engines:
            try:
                notes = prepare(engine, threads)
                settings[engine.name], sweep = tune(engine, workload, threads)
                process = EngineProcess(engine, threads)
                running[engine.name] = process
                process.set_calls(workload.calls)
                results[engine.name] = process.run(settings[engine.name], keep=True).results or []
                rows[engine.name] = {
                    "settings": dict(settings[engine.name]),
                    "sweep": sweep,
                    "notes": {**notes, **process.notes},
                    "load_seconds": process.load_seconds,
                    "loaded_mib": process.loaded.get("resident"),
                }
                say(f"{workload.name}: {engine.name} ready with {dict(settings[engine.name])}")
            except EngineError as error:
                give_up(engine.name, error)
        running[probe.name] = EngineProcess(probe, threads)
        running[probe.name].set_calls([None])
        for number in range(rounds):
            matmul_rates += running[probe.name].run(keep=True).results or []
            for engine in rotated(engines, number):
                if engine.name not in running:
                    continue
                try:
                    done = running[engine.name].run(settings[engine.name])
                except EngineError as error:
                    give_up(engine.name, error)
                    continue
                passes[engine.name].append(done)
                say(f"{workload.name}: round {number + 1}/{rounds} {engine.name} {done.seconds:.2f} s")
        matmul_rates += running[probe.name].run(keep=True).results or []
        for engine in engines:
            if engine.name in running:
                rows[engine.name]["peak_mib"] = running[engine.name].memory()["peak"]
    finally:
        for process in running.values():
            process.close()

    alive = [engine.name for engine in engines if "error" not in rows[engine.name]]
    if alive and baseline not in alive:
        baseline = alive[0]
    limits = [(before + after) / 2 for before, after in itertools.pairwise(matmul_rates)]  # one per round
    for name in alive:
        row = rows[name]
        seconds = [p.seconds for p in passes[name]]
        calls = [s for p in passes[name] for s in p.call_seconds]
        row["seconds"] = seconds
        row["cpu_seconds"] = [p.cpu_seconds for p in passes[name]]
        row["others"] = [p.others for p in passes[name]]
        row["per_second"] = summary([workload.items / s for s in seconds])
        row["call_seconds"] = {**summary(calls), "p95": sorted(calls)[int(0.95 * (len(calls) - 1))]}
        row["speed_ratio"] = summary([b.seconds / s for b, s in zip(passes[baseline], seconds, strict=True)])
        if workload.flops is not None:
            row["matmul_share"] = summary(
                [workload.flops / s / limit for s, limit in zip(seconds, limits, strict=True)]
            )
        if compare is not None:
            row["check"] = compare(results[name], results[baseline])
    return {
        "title": workload.title,
        "unit": workload.unit,
        "items": workload.items,
        "calls": len(workload.calls),
        "flops": workload.flops,
        "facts": dict(workload.facts),
        "baseline": baseline if alive else None,
        "matmul_flops_per_second": {**summary(matmul_rates), "values": matmul_rates},
        "engines": rows,
    }


def rotated(engines: Sequence[Engine], number: int) -> list[Engine]:
    """The engines in the order of this round: each round starts one further on."""
    start = number % len(engines) if engines else 0
    return [*engines[start:], *engines[:start]]


def measure_startup(
    programs: Mapping[str, str],
    *,
    rounds: int,
    threads: int,
    baseline: str,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Seconds from starting `python -c PROGRAM` to its first line of output, for several programs in turn.

    One unmeasured round first brings every file into the page cache: what is compared is work, not the disk.
    """
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    errors: dict[str, str] = {}
    names = list(programs)
    for number in range(rounds + 1):
        start = number % len(names)
        for name in [*names[start:], *names[:start]]:
            if name in errors:
                continue
            with thread_environment(threads):
                began = time.perf_counter()
                process = subprocess.Popen(
                    [sys.executable, "-c", programs[name]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            assert process.stdout is not None
            line = process.stdout.readline()
            took = time.perf_counter() - began
            _, complaint = process.communicate()
            if process.returncode != 0 or not line:
                last = complaint.strip().splitlines()[-1] if complaint.strip() else "no output"
                errors[name] = f"exit code {process.returncode}: {last}"
                say(f"startup: {name} failed: {errors[name]}")
            elif number > 0:
                seconds[name].append(took)
                say(f"startup: round {number}/{rounds} {name} {took:.2f} s")
    alive = [name for name in names if name not in errors]
    if alive and baseline not in alive:
        baseline = alive[0]
    rows: dict[str, dict[str, Any]] = {name: {"error": message} for name, message in errors.items()}
    for name in alive:
        ratios = [b / s for b, s in zip(seconds[baseline], seconds[name], strict=True)]
        rows[name] = {"seconds": seconds[name], **summary(seconds[name]), "speed_ratio": summary(ratios)}
    return {"baseline": baseline if alive else None, "engines": {name: rows[name] for name in names}}


def describe_machine(threads: int, packages: Sequence[str]) -> dict[str, Any]:
    """What a reader needs to judge the numbers: processor, cores, memory, threads, versions, how busy it was."""
    model = platform.processor() or platform.machine()
    memory = None
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
        memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20  # the first line is MemTotal, in KiB
    except (OSError, ValueError):
        pass
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": memory,
        "system": platform.system(),
        "threads": threads,
        "load_average": os.getloadavg()[0],
        "packages": versions,
    }
