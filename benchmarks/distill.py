"""Half of MiniLM: a student of three layers, taught by the hidden states of the six-layer model, without labels.

    python -m benchmarks.distill --minutes 20 [--threads 2] [--write-docs]

The corpus (Wikipedia, novels, reviews; cut by MiniLM's own tokenizer) has no labelled text and nothing of STS-B. Judged:
Spearman's correlation on STS-B's dev set, of the teacher, of the student before training (every second layer of the
teacher) and after it; and texts a second on SST-2, teacher and student in turn, in one process with equal threads.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import describe_machine, matmul_probe
from benchmarks.judge import sst2_rows, stsb
from benchmarks.options import ROOT, add_places, command_line
from benchmarks.report import table, write_json
from benchmarks.studies import ENGLISH
from benchmarks.study import CACHE, run, run_to_end, spread

TEACHER, SIZE = "minilm", "3x384x12"
SETTINGS = (
    "data.sequence_length=32",  # sentences, which is what the model is used for
    "train.batch_tokens=2048",
    "train.optimizer.learning_rate=5e-4",
    "objective.sentence_weight=5",
)


def corpus_of_the_teacher(data: Path) -> Path:
    """The English corpus in the teacher's tokens, built the first time."""
    from bertworks.cli.main import main as bertworks

    place = CACHE / "corpora" / "en-minilm"
    if not (place / "manifest.json").exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        files = [str(data / "corpus" / f"{name}.txt.xz") for name in ENGLISH]
        run(bertworks, ["corpus", "build", *files, "--tokenizer", TEACHER, "-o", str(place), "-q"])
    return place


def speeds(models: dict[str, Any], texts: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Texts a second, the models in turn."""
    found: dict[str, list[float]] = {name: [] for name in models}
    for number in range(rounds + 1):
        for name, model in models.items():
            started = time.perf_counter()
            model.embed(texts)
            if number:  # the first round warms up
                found[name].append(len(texts) / (time.perf_counter() - started))
    return found


def train(corpus: Path, output: Path, seconds: float) -> dict[str, Any]:
    """The run of `bertworks distill`."""
    settings = (*SETTINGS, f"model.size={SIZE}", "train.evaluation.steps=1000000", "train.checkpoint_minutes=none")
    return run_to_end(
        command="distill",
        corpus=corpus,
        output=output,
        settings=settings,
        budget=seconds,
        teacher=TEACHER,
        seed=0,
        overwrite=True,
        track=(),
    )


def render(report: dict[str, Any]) -> str:
    teacher, student = report["similarity"]["teacher"], report["similarity"]["student"]
    rates = report["speeds"]
    ratios = [fast / slow for slow, fast in zip(rates["teacher"], rates["student"], strict=True)]
    rows = [
        [
            name,
            report["layers"][name],
            f"{report['similarity'][name]:.4f}",
            f"{report['similarity'][name] / teacher:.1%}",
            spread(rates.get(name, []), ".0f"),
        ]
        for name in ("teacher", "student before training", "student")
    ]
    machine, trained = report["machine"], report["run"]
    conditions = (
        f"`bertworks distill … --teacher {TEACHER} --size {SIZE}` for {report['minutes']:g} minutes "
        f"({trained['steps']:,} steps, {trained['tokens'] / 1e6:.1f} million tokens of unlabelled text), "
        f"{machine['threads']} threads of {machine['processor']}. The student keeps {student / teacher:.1%} of the "
        f"teacher's correlation and is {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) times as "
        f"fast. Matrix-multiply rate: {report['matmul'] / 1e9:.0f} GFLOP/s."
    )
    return "\n".join(
        [
            "# Benchmark: half of MiniLM\n",
            f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n",
            conditions + "\n",
            table(["", "layers", "STS-B Spearman", "of the teacher", "texts a second, SST-2"], rows) + "\n",
        ]
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distill", description="Half of MiniLM.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    add_places(parser, "distill")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    import torch

    import bertworks
    from bertworks import hub
    from bertworks.infer.loaded import LoadedModel
    from bertworks.objectives.student import init_student

    options = parse(arguments)
    torch.set_num_threads(options.threads)
    corpus = corpus_of_the_teacher(options.data)
    output = CACHE / "half-minilm"
    trained = train(corpus, output, 60 * options.minutes)
    loaded = hub.load(TEACHER)
    cut = LoadedModel(
        init_student(loaded.model, num_layers=3), loaded.tokenizer, window=loaded.window, settings=loaded.settings
    )
    models = {
        "teacher": bertworks.load(TEACHER),
        "student before training": cut,
        "student": bertworks.load(str(output)),
    }
    texts, _ = sst2_rows(options.data, "train")
    report = {
        "benchmark": "distill",
        "command": command_line("distill", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "torch", "numpy"]),
        "minutes": options.minutes,
        "settings": SETTINGS,
        "run": trained,
        "layers": {name: str(model.model.num_layers) for name, model in models.items()},
        "similarity": {name: stsb(model.embed, options.data)[0] for name, model in models.items()},
        "speeds": speeds({name: models[name] for name in ("teacher", "student")}, texts[:1000], options.rounds),
        "matmul": matmul_probe(options.threads)(None),
    }
    write_json(report, options.output)
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "distill.md").write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
