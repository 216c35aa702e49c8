"""Decoding: Bertworks against `transformers`' `generate`, with the same weights, in fp32.

    python -m benchmarks.decode [--threads 2] [--rounds 5] [--model RUN] [--workloads greedy beam gpt single] [--write-docs]

Workloads: `greedy` and `beam` (width 4) translate sentences in batches of 64 and 16, `single` one sentence per call, `gpt`
continues prompts in batches of 32. The models are random: a translator of the size that Multi30k can fill, and a small GPT-2.
What they write means nothing, so each sentence ends where its German translation in Multi30k's test set does, in words; sources
are as long as the English ones, and random otherwise. With `--model RUN` a trained translator is measured instead (one of
`bertworks translate train`, or any of Marian's with a `tokenizer.json`): on the sentences themselves, which end where it ends
them.

Both engines must write the same tokens; a share below 1 is told in the table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decode_engines import Task
from benchmarks.harness import Workload, describe_machine, measure
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.process import Engine
from benchmarks.report import render, write_json, write_page

ENGINES = ("bertworks", "transformers")
BASELINE = "transformers"
WORKLOADS = ("greedy", "beam", "gpt", "single")
BATCH_SIZES = {"greedy": 64, "beam": 16, "gpt": 32, "single": 1}
BEAMS = {"greedy": 1, "beam": 4, "gpt": 1, "single": 1}
PROMPT_WORDS = 32
"""The longest prompt of `gpt`; the shortest has 8."""


def read_pairs(data: Path, rows: int) -> list[tuple[str, str]]:
    """English sentences of Multi30k's test set and their German translations."""
    sides = []
    for language in ("en", "de"):
        path = data / "multi30k" / f"test2016.{language}"
        if not path.exists():
            sys.exit(
                f"{path} does not exist; give the directory that holds multi30k/test2016.{language} with --data DIR"
            )
        sides.append(path.read_text(encoding="utf-8").splitlines()[:rows])
    if len(sides[0]) < rows:
        sys.exit(f"--rows {rows}: Multi30k's test set has only {len(sides[0])} sentences")
    return list(zip(*sides, strict=True))


def random_task(pairs: Sequence[tuple[str, str]], *, prompts: bool) -> Task:
    """Ids drawn at random, as many as the sentences have words; prompts have other lengths and longer continuations."""
    generator = np.random.default_rng(0)
    inputs, limits = [], []
    for source, target in pairs:
        length = int(generator.integers(8, PROMPT_WORDS + 1)) if prompts else len(source.split())
        ids = generator.integers(10, 7900, length).tolist()
        inputs.append(ids if prompts else [*ids, 0])
        limits.append((3 if prompts else 1) * len(target.split()))
    return Task(inputs, limits)


def real_task(model: Path, pairs: Sequence[tuple[str, str]]) -> Task:
    """The sentences in the model's own tokens, with room to end by themselves."""
    from bertworks.infer.translate import longest_target
    from bertworks.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_directory(model)
    inputs = [tokenizer.encode(source).ids.tolist() for source, _ in pairs]
    return Task(inputs, [longest_target(len(row)) for row in inputs])


def compare(results: list[Any], reference: list[Any]) -> dict[str, float]:
    """How many of the texts are the same, token for token."""
    ours, theirs = ([row for call in some for row in call] for some in (results, reference))
    return {"same": sum(a == b for a, b in zip(ours, theirs, strict=True)) / max(len(ours), 1)}


def split(task: Task) -> list[Task]:
    return [Task([row], [limit]) for row, limit in zip(task.inputs, task.limits, strict=True)]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decode", description="Speed of writing texts, ours and transformers'."
    )
    parser.add_argument("--rows", type=int, default=512, help="sentences (default 512); a quarter of them for gpt")
    parser.add_argument("--single-rows", type=int, default=32, help="sentences translated one per call (default 32)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--model", type=Path, help="a trained translator (default: random weights)")
    parser.add_argument("--cache", type=Path, default=ROOT / "benchmarks" / ".cache" / "decode", help="random models")
    add_places(parser, "decode")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    pairs = read_pairs(options.data, options.rows)
    report: dict[str, Any] = {
        "benchmark": "decode",
        "title": "writing texts (greedy and beam search, fp32)",
        "command": command_line("decode", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "transformers", "torch"]),
        "rounds": options.rounds,
        "workloads": {},
    }
    for name in options.workloads:
        prompts = name == "gpt"
        trained = options.model if not prompts else None
        model = trained or options.cache / ("gpt" if prompts else "translator")
        chosen = pairs[: {"gpt": options.rows // 4, "single": options.single_rows}.get(name, options.rows)]
        task = random_task(chosen, prompts=prompts) if trained is None else real_task(model, chosen)
        settings = {"model": str(model), "beam": BEAMS[name], "batch_size": BATCH_SIZES[name]}
        engines = [
            Engine(
                name=engine,
                factory=f"benchmarks.decode_engines:{engine}",
                options=settings,
                prepare=None if trained else "benchmarks.decode_engines:prepare_random",
            )
            for engine in ENGINES
        ]
        title = {
            "greedy": "Greedy translation, batches of 64",
            "beam": "Translation with a beam of 4, batches of 16",
            "gpt": "GPT: greedy continuation, batches of 32",
            "single": "Greedy translation, one sentence per call",
        }[name]
        facts = {
            "sentences": len(chosen),
            "tokens read": sum(map(len, task.inputs)),
            "in the longest": max(map(len, task.inputs)),
            "tokens written at most": sum(task.limits),
        }
        calls = split(task) if name == "single" else [task]
        workload = Workload(name=name, title=title, calls=calls, items=len(chosen), unit="sentences", facts=facts)
        report["workloads"][name] = measure(
            engines,
            workload,
            rounds=options.rounds,
            threads=options.threads,
            baseline=BASELINE,
            compare=compare,
            say=say,
        )
    which = "a trained translator" if options.model else "random weights, sentences that end where Multi30k's do"
    report["notes"] = [f"Both engines load the same directory ({which}) and decode the same batches."]
    write_json(report, options.output)
    if options.write_docs:
        write_page(report, ROOT / "docs" / "benchmarks" / "decode.md")
    print(render(report))


if __name__ == "__main__":
    main()
