"""Encoders side by side: each fine-tuned by the same commands on the same nine sets, several seeds.

    python -m benchmarks.encoders bertworks-en=DIR minilm [--sets sst2 conll …] [--seeds 3] [--options "--epochs 2"]

Every figure is one `bertworks finetune`, typed as a user would, judged on the development file (which also chose the weights
that were kept). What is in the JSON file already is not repeated, so that the table can be made in pieces. The published
figures that stand beside these on the results page are in `published.json`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import describe_machine
from benchmarks.options import ROOT, add_models, add_places, command_line, name_and_place, say
from benchmarks.quality import Row, told, typed
from benchmarks.report import table, write_json
from benchmarks.study import run

CACHE = ROOT / "benchmarks" / ".cache" / "encoders"
SETS = {
    "sst2": Row(
        "SST-2 (67,349 rows)",
        "classify --train DATA/glue/SST-2/train.tsv --dev DATA/glue/SST-2/dev.tsv --epochs 2",
        ("accuracy",),
    ),
    "cola": Row("CoLA", "classify --train DATA/glue/CoLA/train.tsv --dev DATA/glue/CoLA/dev.tsv --epochs 3", ("mcc",)),
    "mrpc": Row("MRPC", "pair --train DATA/glue/MRPC/train.tsv --dev DATA/glue/MRPC/dev.tsv --epochs 4", ("accuracy",)),
    "stsb": Row(
        "STS-B", "regress --train DATA/glue/STS-B/train.tsv --dev DATA/glue/STS-B/dev.tsv --epochs 4", ("spearman",)
    ),
    "trec": Row(
        "TREC",
        "classify --train DATA/trec/train_5500.label --dev DATA/trec/TREC_10.label --encoding latin-1 --epochs 3",
        ("accuracy",),
    ),
    "codah": Row("CODAH", "choice --train DATA/codah/full_data.tsv --dev-fraction 0.1 --epochs 3", ("accuracy",)),
    "conll": Row(
        "CoNLL-2003", "tag --train DATA/conll2003/train.conll --dev DATA/conll2003/dev.conll --epochs 3", ("f1",)
    ),
    "squad1": Row(
        "SQuAD 1.1 (a tenth of it)",
        "qa --train DATA/squad/train-v1.1-44articles.json --dev DATA/squad/dev-v1.1-24articles.json --epochs 2",
        ("f1",),
    ),
    "squad2": Row(
        "SQuAD 2.0 (17 articles)",
        "qa --train DATA/squad/dev-v2.0-17articles.json --dev-fraction 0.2 --epochs 2",
        ("f1",),
    ),
}


def finetuned(name: str, model: str, options: argparse.Namespace) -> dict[str, Any]:
    """The set's command with this model, run; its `metrics.json`, and how it was typed."""
    from bertworks.cli.main import main as bertworks

    row = SETS[name]
    more = [*shlex.split(options.options), "--seeds", str(options.seeds)]
    words = [
        word.replace("DATA", str(options.data)) if word.startswith("DATA") else word
        for word in shlex.split(row.command)
    ]
    output = CACHE / name
    shutil.rmtree(output, ignore_errors=True)
    started = time.perf_counter()
    run(
        bertworks,
        ["finetune", *words, "--model", model, *more, "--threads", str(options.threads), "-o", str(output), "-q"],
    )
    command = f"{row.command} --model {Path(model).name}"
    return {
        "command": f"bertworks finetune {command} {shlex.join(more)} -o {name}",
        "wall_seconds": time.perf_counter() - started,
        "metrics": {**json.loads((output / "metrics.json").read_text(encoding="utf-8")), **typed(command)},
    }


def figure(name: str, entry: Mapping[str, Any]) -> tuple[float, float | None]:
    """Mean and spread of the set's figure."""
    (metric,) = SETS[name].figures
    return entry["metrics"]["metrics"][metric], entry["metrics"].get("spread", {}).get(metric)


def render(report: Mapping[str, Any]) -> str:
    rows, commands = [], []
    for model, entry in report["models"].items():
        cells = [model, f"{entry['parameters'] / 1e6:.1f} M"]
        for name in SETS:
            found = entry["sets"].get(name)
            cells.append("" if found is None else told(*figure(name, found)))
            commands += [] if found is None else [found["command"]]
        rows.append(cells)
    header = ["", "weights", *(f"{row.title}, {row.figures[0]}" for row in SETS.values())]
    machine = report["machine"]
    return "\n".join(
        [
            "# Benchmark: encoders, fine-tuned\n",
            f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n",
            "Means over the seeds on the development examples, ± the standard deviation between seeds.\n",
            table(header, rows) + "\n",
            "The commands, with DATA for the folder of the data sets:\n",
            "```text\n" + "\n".join(commands) + "\n```\n",
        ]
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encoders", description="Encoders, fine-tuned.")
    add_models(parser)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--options", default="", metavar="TEXT", help='for every `finetune`, e.g. "--learning-rate 3e-4"'
    )
    add_places(parser, "encoders")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    from bertworks import hub

    options = parse(arguments)
    CACHE.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"benchmark": "encoders", "models": {}}
    if options.output.exists():
        report = json.loads(options.output.read_text(encoding="utf-8"))
    report["command"] = command_line("encoders", arguments)
    report["machine"] = describe_machine(options.threads, ["bertworks", "torch"])
    for given in options.models:
        title, model = name_and_place(given)
        if title not in report["models"]:
            weights = sum(parameter.numel() for parameter in hub.load(model).model.parameters())
            report["models"][title] = {"parameters": weights, "sets": {}}
        for name in options.sets:
            if name not in report["models"][title]["sets"]:
                say(f"{title}: {name}")
                report["models"][title]["sets"][name] = finetuned(name, model, options)
                say(f"  {figure(name, report['models'][title]['sets'][name])}")
                write_json(report, options.output)
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "encoders.md").write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
