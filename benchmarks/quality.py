"""What fine-tuning reaches on real data: each row one command, typed as a user would, judged by its own `metrics.json`.

    python -m benchmarks.quality [NAMES…] [--seeds 3] [--write-docs]

A row that is in the JSON file already is not repeated, so that the table can be made in pieces; one whose model another
row begins with (RUNS) is, where that model is not there any more. The Swedish encoder is pretrained by the first row that
needs it (`--swedish-minutes`), with `bertworks pretrain` on novels.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.finetune import OURS
from benchmarks.harness import describe_machine
from benchmarks.judge import stsb
from benchmarks.options import ROOT, add_places, say, whole_command
from benchmarks.report import table, write_json
from benchmarks.study import CACHE as STUDIES
from benchmarks.study import corpus_directory, run

CACHE = ROOT / "benchmarks" / ".cache" / "quality"
RUNS = CACHE / "run"
THEIRS = "sentence-transformers"


@dataclass(frozen=True)
class Row:
    """One command, and which of its figures to show."""

    title: str
    command: str
    """After `bertworks finetune`; DATA is the folder of the data sets, and so are the other words in capitals below."""
    figures: tuple[str, ...]
    seeds: int | None = None
    """How many, where it is not the usual number: a head on frozen vectors has no seed."""


SWEDISH = "--train DATA/swedish-ner/train_corpus.txt --dev DATA/swedish-ner/test_corpus.txt --skip-bad-rows --epochs 3"
ROWS = {
    "trec": Row(
        "TREC, six classes of questions (latin-1)",
        "classify --train DATA/trec/train_5500.label --dev DATA/trec/TREC_10.label --encoding latin-1 --epochs 3",
        ("accuracy", "f1_macro"),
    ),
    "codah": Row(
        "CODAH, four endings, a tenth kept for dev",
        "choice --train DATA/codah/full_data.tsv --dev-fraction 0.1 --epochs 2",
        ("accuracy",),
    ),
    "squad1": Row(
        "SQuAD 1.1, 44 articles, another 24 for dev",
        "qa --train DATA/squad/train-v1.1-44articles.json --dev DATA/squad/dev-v1.1-24articles.json --epochs 1",
        ("exact_match", "f1"),
        seeds=1,
    ),
    "squad2": Row(
        "SQuAD 2.0, 17 articles, a fifth of the articles kept for dev, after SQuAD 1.1",
        "qa --train DATA/squad/dev-v2.0-17articles.json --dev-fraction 0.2 --model RUNS/squad1 --epochs 1",
        ("exact_match", "f1", "no_answer_accuracy"),
    ),
    "swedish-minilm": Row("Swedish NER, MiniLM (English)", f"tag {SWEDISH}", ("f1",)),
    "swedish-ours": Row(
        "Swedish NER, our Swedish encoder (4x256, 15 minutes of pretraining on novels)",
        f"tag {SWEDISH} --model SWEDISH",
        ("f1",),
    ),
    "chnsenticorp": Row(
        "ChnSentiCorp, Chinese ALBERT-tiny",
        "classify --train DATA/chnsenticorp/train.tsv --dev DATA/chnsenticorp/dev.tsv --model ALBERT --epochs 2",
        ("accuracy",),
    ),
    "sst2-2000": Row(
        "SST-2, the first 2,000 rows, frozen vectors and logistic regression, five folds",
        "classify --train CACHE/sst2-2000.tsv --dev DATA/sst2/dev.tsv --frozen",
        ("accuracy",),
        seeds=1,
    ),
    "counts": Row(
        "number of entities in a sentence (CoNLL-2003), Poisson, frozen vectors, scikit-learn's PoissonRegressor",
        "regress --train CACHE/counts-train.jsonl --dev CACHE/counts-dev.jsonl --frozen --set task.distribution=poisson "
        "--set frozen.reads=family",
        ("d2", "deviance"),
        seeds=1,
    ),
    "counts-head": Row(
        "the same frozen encoder, its pooler and the head trained by our own loop",
        "regress --train CACHE/counts-train.jsonl --dev CACHE/counts-dev.jsonl --set task.distribution=poisson "
        "--set method.freeze_layers=6 --learning-rate 3e-3 --epochs 10",
        ("d2", "deviance"),
        seeds=1,
    ),
    "counts-tuned": Row(
        "the same, fine-tuned",
        "regress --train CACHE/counts-train.jsonl --dev CACHE/counts-dev.jsonl --set task.distribution=poisson --epochs 1",
        ("d2", "deviance"),
        seeds=1,
    ),
    "similarity": Row(
        "STS-B, MiniLM trained further as an embedding model on its scored pairs",
        "similarity --train DATA/glue/STS-B/train.tsv --dev DATA/glue/STS-B/dev.tsv --epochs 2",
        ("spearman", "pearson"),
    ),
}


def places(command: str, data: Path, swedish_minutes: float) -> list[str]:
    """The command's words with every place in capitals found, and made where it is not there yet."""
    if "CACHE/sst2" in command:
        lines = (data / "sst2" / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
        (CACHE / "sst2-2000.tsv").write_text("".join(lines[:2000]), encoding="utf-8")
    if "CACHE/counts" in command:
        write_counts(data)
    found = {"DATA": str(data), "CACHE": str(CACHE), "RUNS": str(RUNS)}
    if "ALBERT" in command:
        from tests.weights import directory_of

        found["ALBERT"] = str(directory_of("minidata"))
    if "SWEDISH" in command:
        found["SWEDISH"] = str(swedish_encoder(data, swedish_minutes))
    words = shlex.split(command)
    for name, place in found.items():
        words = [word.replace(name, place) if word.startswith(name) else word for word in words]
    return words


def write_counts(data: Path) -> None:
    """How many entities each sentence of CoNLL-2003 has: a count that is real, and that a text's vector half knows."""
    from bertworks.data.labelled import read
    from bertworks.tasks.tags import spans_of

    for split in ("train", "dev"):
        examples: Any = read(data / "conll2003" / f"{split}.conll", "tag").examples
        with (CACHE / f"counts-{split}.jsonl").open("w", encoding="utf-8") as file:
            for example in examples:
                row = {"text": " ".join(example.words), "label": len(spans_of(example.tags, "iob1"))}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def swedish_encoder(data: Path, minutes: float) -> Path:
    """A small `modern` encoder of Swedish novels, made by our own commands."""
    from bertworks.cli.main import main as bertworks

    place = CACHE / f"swedish-{minutes:g}"
    if not (place / "metrics.json").exists():
        corpus = corpus_directory("sv", data)
        budget = ["--budget", f"{minutes:g}m", "--set", "train.batch_tokens=4096"]
        options = ["--recipe", "modern", "--size", "4x256x4", *budget, "-o", str(place), "--overwrite", "-q"]
        run(bertworks, ["pretrain", str(corpus), *options])
    return place


def finetuned(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row's command, run; its `metrics.json`, and how it was typed."""
    from bertworks.cli.main import main as bertworks

    row = ROWS[name]
    words = ["finetune", *places(row.command, options.data, options.swedish_minutes)]
    seeds = min(row.seeds or options.seeds, options.seeds)
    words += ["--seeds", str(seeds), "--threads", str(options.threads)]
    output = RUNS / name
    shutil.rmtree(output, ignore_errors=True)
    started = time.perf_counter()
    run(bertworks, [*words, "-o", str(output), "-q"])
    seconds = time.perf_counter() - started
    entry = {
        "command": f"bertworks finetune {row.command} --seeds {seeds} -o {name}",
        "wall_seconds": seconds,
        "machine": describe_machine(options.threads, ["bertworks", "torch", THEIRS]),
        "metrics": {**json.loads((output / "metrics.json").read_text(encoding="utf-8")), **typed(row.command)},
    }
    if name == "similarity":
        compared = {"MiniLM": "minilm", "trained further": output}
        entry["embeddings"] = {title: embeddings(model, options.data) for title, model in compared.items()}
    return entry


def in_order(names: Iterable[str], done: Mapping[str, Any]) -> list[str]:
    """The rows to run: those that are not done, each after the rows whose models it begins with."""
    found: dict[str, None] = {}
    for name in names:
        if name in done:
            continue
        for before in re.findall(r"RUNS/([\w-]+)", ROWS[name].command):
            if not (RUNS / before / "metrics.json").exists():
                found[before] = None
        found[name] = None
    return list(found)


def typed(command: str) -> dict[str, str]:
    """Training file and model as the command names them, without the places of this machine."""
    words = shlex.split(command)
    named = {"data": "--train", "model": "--model"}
    return {key: words[words.index(option) + 1] for key, option in named.items() if option in words}


def embeddings(model: str | Path, data: Path) -> dict[str, float]:
    """STS-B by the cosines of a model's vectors, as `bertworks` and as `sentence-transformers` compute them."""
    from sentence_transformers import SentenceTransformer

    import bertworks
    from bertworks.hub.resolve import resolve

    ours, our_vectors = stsb(bertworks.load(model).embed, data)
    theirs, their_vectors = stsb(SentenceTransformer(str(resolve(model)), device="cpu").encode, data)
    return {OURS: ours, THEIRS: theirs, "largest_difference": float(np.abs(our_vectors - their_vectors).max())}


def render(report: dict[str, Any]) -> str:
    rows, commands, folds = [], [], []
    for name, row in ROWS.items():
        entry = report["rows"].get(name)
        if entry is None:
            continue
        metrics = entry["metrics"]
        if unknown := set(row.figures) - metrics["metrics"].keys():
            raise SystemExit(
                f"{name} has no figure {', '.join(sorted(unknown))}; it has {', '.join(metrics['metrics'])}"
            )
        figures = ", ".join(
            f"{figure} {told(metrics['metrics'][figure], metrics.get('spread', {}).get(figure))}"
            for figure in row.figures
        )
        own = metrics["metric"]
        baseline = ", ".join(
            f"{simple} {values[own]:.3f}" for simple, values in metrics["baseline"].items() if own in values
        )
        examples = metrics["examples"]
        counts = f"{examples['train']:,} / {examples['dev']:,}"
        minutes = f"{metrics['seconds'] / 60:.1f}"
        rows.append([row.title, counts, figures, f"{own}: {baseline}", str(len(metrics["seeds"])), minutes])
        commands.append(entry["command"])
        if cross := metrics.get("cross_validation"):
            reached = f"{cross['metric']} {told(cross['mean'], cross['std'])}"
            folds.append(
                f"Cross-validation ({row.title}): {reached} over {len(cross['folds'])} folds of the training rows.\n"
            )
    compared = [part for entry in report["rows"].values() for part in embedding_table(entry.get("embeddings", {}))]
    header = ["", "train / dev", "reached (± between seeds)", "simple models", "seeds", "minutes"]
    return "\n".join(
        [
            "# Fine-tuning on real data\n",
            f"Written by `{report['command']}`; do not edit by hand.\n",
            (
                "The model is MiniLM (6 layers of 384) where no other is named. Every figure is on the dev examples, which "
                "also chose the weights that were kept; ± is the standard deviation between seeds.\n"
            ),
            table(header, rows) + "\n",
            *folds,
            *compared,
            "The commands, with DATA for the folder of the data sets:\n",
            "```text\n" + "\n".join(commands) + "\n```\n",
        ]
    )


def embedding_table(figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The embedding models in two programs; nothing where there are none."""
    if not figures:
        return []
    rows = [
        [title, f"{found[OURS]:.4f}", f"{found[THEIRS]:.4f}", f"{found['largest_difference']:.1e}"]
        for title, found in figures.items()
    ]
    header = ["STS-B, Spearman", OURS, THEIRS, "largest difference of a number in the vectors"]
    about = f"The embedding models opened by {THEIRS}; the model trained further is that of the best seed:\n"
    return [about, table(header, rows) + "\n"]


def told(value: float, spread: float | None) -> str:
    return f"{value:.3f}" + (f" ± {spread:.3f}" if spread is not None else "")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description="Fine-tuning on real data.")
    parser.add_argument("names", nargs="*", choices=[*ROWS, []], help="default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--swedish-minutes", type=float, default=15.0, help="pretraining of the Swedish encoder")
    add_places(parser, "quality")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    CACHE.mkdir(parents=True, exist_ok=True)
    STUDIES.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"benchmark": "quality", "rows": {}}
    if options.output.exists():
        report = json.loads(options.output.read_text(encoding="utf-8"))
    for name in in_order(options.names or ROWS, report["rows"]):
        say(name)
        report["rows"][name] = finetuned(name, options)
        report["command"] = whole_command("quality", arguments, report["rows"], ROWS)
        say(f"  {report['rows'][name]['metrics']['metrics']}")
        write_json(report, options.output)
    write_json(report, options.output)
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "quality.md").write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
