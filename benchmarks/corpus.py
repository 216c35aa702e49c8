"""Text files to token ids on disk: `bertworks corpus build` against `datasets.map` with `group_texts`.

    python -m benchmarks.corpus --files 2 --rounds 3 --workers 2 [--memory] [--write-docs]

The peer does what the usual masked-LM recipe of `transformers` does: load lines of text, `map` a fast tokenizer over
them in batches, then `map` a function that joins the ids and cuts them into rows of 512, both with `num_proc` processes
and without caches of earlier runs. Both sides read the same files and use the same tokenizer; ours also splits
sentences and hashes everything. The peer's files are unpacked beforehand, ours are read compressed.

`--memory` measures the peak memory of our build (all its processes together, shared pages counted once) on two, four
and eight files of 25 MB.
"""

from __future__ import annotations

import argparse
import lzma
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.embed import default_model
from benchmarks.harness import describe_machine, summary
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.report import spread, table, write_json

OURS, THEIRS = "bertworks corpus build", "datasets.map + group_texts"
BLOCK_SIZE = 512
MEMORY_FILES = (2, 4, 8)

# A program of its own for each run: its time includes the start of its processes, its memory is its own.
PEER = """
import sys
from itertools import chain
import datasets
from transformers import AutoTokenizer

def main():
    model, output, workers, block, *files = sys.argv[1:]
    workers, block = int(workers), int(block)
    datasets.disable_progress_bars()
    lines = datasets.load_dataset("text", data_files=files, split="train", cache_dir=output)
    tokenizer = AutoTokenizer.from_pretrained(model)

    def tokenize(rows):
        return tokenizer(rows["text"], return_special_tokens_mask=True)

    def group_texts(rows):
        joined = {key: list(chain(*rows[key])) for key in rows}
        total = len(joined["input_ids"]) // block * block
        return {key: [value[at:at + block] for at in range(0, total, block)] for key, value in joined.items()}

    import time
    started = time.perf_counter()
    rows = lines.map(tokenize, batched=True, num_proc=workers, remove_columns=["text"])
    rows = rows.map(group_texts, batched=True, num_proc=workers)
    print("seconds", time.perf_counter() - started, "tokens", len(rows) * block)

if __name__ == "__main__":
    main()
"""


def run_ours(files: Sequence[Path], model: Path, output: Path, workers: int, python: str) -> list[str]:
    command = [python, "-m", "bertworks", "corpus", "build", *map(str, files), "--tokenizer", str(model)]
    return [*command, "-o", str(output / "corpus"), "--workers", str(workers), "--quiet"]


def run_theirs(files: Sequence[Path], model: Path, output: Path, workers: int, python: str) -> list[str]:
    return [python, "-c", PEER, str(model), str(output), str(workers), str(BLOCK_SIZE), *map(str, files)]


def timed(command: Sequence[str]) -> tuple[float, str]:
    """Seconds from start to end, and the output."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{shlex.join(command[:3])} … failed:\n{done.stderr[-2000:]}")
    return seconds, done.stdout


def peak_memory(command: Sequence[str]) -> float:
    """The highest memory of a process and its children together in MiB, shared pages counted once, looked at often."""
    import psutil

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    peak = 0.0
    watched = psutil.Process(process.pid)
    finished = threading.Event()
    threading.Thread(target=lambda: (process.wait(), finished.set())).start()
    while not finished.wait(0.05):
        total = 0
        try:
            for member in (watched, *watched.children(recursive=True)):
                total += member.memory_full_info().pss
        except psutil.Error:
            continue
        peak = max(peak, total / 2**20)
    return peak


def unpacked(paths: Sequence[Path], folder: Path) -> list[Path]:
    files = []
    for path in paths:
        files.append(folder / path.stem)
        with lzma.open(path, "rb") as source, files[-1].open("wb") as target:
            shutil.copyfileobj(source, target)
    return files


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.corpus", description="Corpus building, ours and the peer's."
    )
    parser.add_argument("--files", type=int, default=2, help="files of English Wikipedia, 25 MB each (default 2)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="also measure our peak memory at 50, 100 and 200 MB")
    add_places(parser, "corpus")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace, paths: list[Path], say: Callable[[str], None]) -> dict[str, Any]:
    model = default_model()
    seconds: dict[str, list[float]] = {OURS: [], THEIRS: []}
    map_seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        texts = unpacked(paths, Path(folder))
        text_bytes = sum(path.stat().st_size for path in texts)
        for number in range(options.rounds):
            for name in (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS):
                output = Path(folder) / "output"
                output.mkdir()
                if name == OURS:
                    taken, _ = timed(run_ours(paths, model, output, options.workers, sys.executable))
                    disk = corpus_facts(output / "corpus")
                else:
                    taken, said = timed(run_theirs(texts, model, output, options.workers, sys.executable))
                    map_seconds.append(float(said.split()[1]))
                    peer_bytes = sum(path.stat().st_size for path in output.rglob("*.arrow"))
                shutil.rmtree(output)
                seconds[name].append(taken)
                say(f"round {number + 1}/{options.rounds} {name}: {taken:.1f} s")
    ratios = [theirs / ours for theirs, ours in zip(seconds[THEIRS], seconds[OURS], strict=True)]
    map_ratios = [theirs / ours for theirs, ours in zip(map_seconds, seconds[OURS], strict=True)]
    return {
        "text_bytes": text_bytes,
        "seconds": seconds,
        "map_seconds": map_seconds,
        "megabytes_per_second": {
            name: summary([text_bytes / 1e6 / taken for taken in values]) for name, values in seconds.items()
        },
        "speed_ratio": summary(ratios),
        "speed_ratio_maps_only": summary(map_ratios),
        "disk": {**disk, "peer_bytes": peer_bytes},
    }


def corpus_facts(directory: Path) -> dict[str, float]:
    from bertworks.data.corpus import Corpus

    corpus = Corpus.open(directory)
    return {
        "tokens": corpus.num_tokens,
        "bytes": corpus.num_bytes,
        "bytes_per_token": corpus.num_bytes / corpus.num_tokens,
        "all_files_bytes_per_token": sum(p.stat().st_size for p in directory.rglob("*") if p.is_file())
        / corpus.num_tokens,
    }


def render(report: dict[str, Any]) -> str:
    measured, machine = report["measured"], report["machine"]
    rate, disk = measured["megabytes_per_second"], measured["disk"]
    maps_only = measured["speed_ratio_maps_only"]
    versions = ", ".join(f"{name} {value}" for name, value in machine["packages"].items())
    where = f"{machine['processor']}, {machine['cores']} cores"
    rows = [
        [OURS, spread(rate[OURS], 1), spread(measured["speed_ratio"], 1), f"{disk['bytes_per_token']:.3f}"],
        [THEIRS, spread(rate[THEIRS], 1), "1", f"{disk['peer_bytes'] / disk['tokens']:.1f}"],
    ]
    parts = [
        "# Benchmark: building a corpus\n",
        f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n",
        f"{measured['text_bytes'] / 1e6:.0f} MB of English Wikipedia, {disk['tokens']:,} tokens. {versions}; {where}.\n",
        f"{report['workers']} processes each, {report['rounds']} rounds in turn, from the start of Python to its end.\n",
        table(["", "MB of text/s", "speed", "bytes a token on disk"], rows) + "\n",
        f"Against its two calls of `map` alone, without loading the text: {spread(maps_only, 1)} times as fast.\n",
        "The peer's bytes on disk are those of all its Arrow files.\n",
    ]
    if report.get("memory_mib"):
        header = ["peak memory of all processes, MiB", *(f"{25 * count} MB" for count in MEMORY_FILES)]
        parts.append(table(header, [[OURS, *(f"{value:.0f}" for value in report["memory_mib"])]]) + "\n")
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    paths = sorted((options.data / "corpus").glob("wiki-en-*.txt.xz"))
    if len(paths) < options.files:
        sys.exit(f"--files {options.files}: {options.data / 'corpus'} has only {len(paths)} files wiki-en-*.txt.xz")

    report: dict[str, Any] = {
        "benchmark": "corpus",
        "command": command_line("corpus", arguments),
        "machine": describe_machine(options.workers, ["bertworks", "tokie", "tokenizers", "datasets", "transformers"]),
        "rounds": options.rounds,
        "workers": options.workers,
        "measured": measure(options, paths[: options.files], say),
    }
    if options.memory:
        report["memory_mib"] = []
        for count in MEMORY_FILES:
            with tempfile.TemporaryDirectory() as folder:
                command = run_ours(paths[:count], default_model(), Path(folder), options.workers, sys.executable)
                report["memory_mib"].append(peak_memory(command))
                say(f"{25 * count} MB: {report['memory_mib'][-1]:.0f} MiB")
    write_json(report, options.output)
    if options.write_docs:
        page = ROOT / "docs" / "benchmarks" / "corpus.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
