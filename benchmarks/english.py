"""How the encoder `bertworks-en` came about, and its model card.

    python -m benchmarks.english add RUN --command "bertworks pretrain …" [--note TEXT]    a piece of its training is done
    python -m benchmarks.english card                                                      write the card anew

The encoder is trained in pieces, each of which goes on with the weights of the one before it. `add` notes what a piece cost and
reached so far (`benchmarks/results/english.json`; a run of the same name is noted anew), puts its weights into the package in
one byte a number, takes out what was measured with other weights (the results and their pages in docs/benchmarks), and writes
the card: README.md beside them, and docs/bertworks-en.md. Its words are those of `english_card.md`; what was measured comes
from that file and from those of `benchmarks.cloze`, `benchmarks.leanings` and `benchmarks.encoders`. Call it where the run was
started, and on the machine that made it; then `make results`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import cloze, encoders, leanings
from benchmarks.harness import describe_machine
from benchmarks.options import ROOT, command_line
from benchmarks.quality import told
from benchmarks.report import embedded, table, write_json
from bertworks.hub.resolve import ENGLISH, ENGLISH_DIRECTORY

RESULTS = ROOT / "benchmarks" / "results"
OUTPUT = RESULTS / "english.json"
TEMPLATE = Path(__file__).with_name("english_card.md")
DOCS = ROOT / "docs"
MEASURED_WITH = ("cloze", "encoders", "layers", "leanings")
HEADER = """---
license: apache-2.0
language: en
library_name: bertworks
pipeline_tag: fill-mask
---
"""


def piece(run: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What a run cost and reached up to its last checkpoint, which is what is shipped of one that is not over."""
    from bertworks.data.corpus import Corpus
    from bertworks.data.pretraining import split_documents
    from bertworks.train import state
    from bertworks.train.directory import CHECKPOINTS, CONFIG_FILE, is_finished
    from bertworks.train.log import HELD_OUT, read_metrics
    from bertworks.train.recipes import load_recipe

    recipe = load_recipe(run / CONFIG_FILE)
    saved = None if is_finished(run) else state.latest(run / CHECKPOINTS)
    rows = [row for row in read_metrics(run) if saved is None or row["step"] <= saved.step]
    steps = [row for row in rows if "tokens" in row]
    judged = [row for row in rows if row["step"] and f"{HELD_OUT}mlm_accuracy" in row]
    if recipe.run is None or not steps or not judged:
        sys.exit(f"{run} is no pretraining with masked tokens that was judged on held-out text at least once")
    figures = {name.removeprefix(HELD_OUT): value for name, value in judged[-1].items() if name.startswith(HELD_OUT)}
    corpus = Corpus.open(Path(recipe.run.corpus))
    _, held_out = split_documents(corpus, recipe.data.held_out_tokens)
    return {
        "run": run.resolve().name,
        "command": options.command,
        "note": options.note,
        "steps": steps[-1]["step"] if saved is None else saved.step,
        "tokens": steps[-1]["tokens"],
        "minutes": steps[-1]["seconds"] / 60,
        "precision": recipe.train.precision,
        "longest": recipe.data.longest,
        "corpus_tokens": corpus.num_tokens,
        "held_out_tokens": int(corpus.document_lengths()[held_out].sum()),
        "held_out": {"step": judged[-1]["step"], **figures},
        "machine": describe_machine(options.threads, ["bertworks", "torch"]),
    }


def _when(entry: Mapping[str, Any]) -> str:
    """Of which step a figure is, where a later one was kept."""
    step = entry["held_out"]["step"]
    return "" if step == entry["steps"] else f" (step {step:,})"


def training(report: Mapping[str, Any]) -> str:
    """What each piece cost and reached."""
    rows = [
        [
            str(number),
            f"{entry['minutes']:.0f}",
            f"{entry['steps']:,}",
            f"{entry['tokens'] / 1e6:.1f}",
            f"{entry['held_out']['mlm_accuracy']:.1%}" + _when(entry),
            f"{entry['held_out']['mlm_perplexity']:.1f}",
            entry["note"],
        ]
        for number, entry in enumerate(report["pieces"], start=1)
    ]
    pieces = report["pieces"]
    minutes, tokens = (sum(entry[name] for entry in pieces) for name in ("minutes", "tokens"))
    where = dict.fromkeys(
        f"{entry['machine']['threads']} threads of {entry['machine']['processor']} in {entry['precision']}"
        for entry in pieces
    )
    header = ["piece", "minutes", "steps", "million tokens", "masked accuracy", "perplexity", ""]
    return "\n".join(
        [
            (
                f"{minutes / 60:.1f} hours of {', then '.join(where)}, and {tokens / 1e6:.0f} million tokens, "
                f"{tokens / pieces[-1]['corpus_tokens']:.1f} times the text. Masked accuracy and perplexity are on the "
                "held-out documents, with 15 % of their tokens masked.\n"
            ),
            table(header, rows) + "\n",
            "```text\n" + "\n".join(entry["command"] for entry in pieces) + "\n```\n",
        ]
    )


def weights() -> str:
    """What the package holds, as a hash."""
    found = sorted(ENGLISH_DIRECTORY.glob("*.safetensors"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in found)).hexdigest()


def forget_older() -> None:
    """Take out what other programs measured with weights that are no longer there, with their pages."""
    for name in MEASURED_WITH:
        report, path, page = _load(name), RESULTS / f"{name}.json", DOCS / "benchmarks" / f"{name}.md"
        if report is None or report["models"].pop(ENGLISH, None) is None:
            continue
        if report["models"]:
            write_json(report, path)
            page.write_text(importlib.import_module(f"benchmarks.{name}").render(report), encoding="utf-8")
        else:
            path.unlink()
            page.unlink(missing_ok=True)


def _load(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _only_ours(report: Any) -> Any:
    """A report of several models, with this one alone; None where it is not in it."""
    found = None if report is None else report["models"].get(ENGLISH)
    return None if found is None else {**report, "models": {ENGLISH: found}}


def finetuned(sets: Mapping[str, Any]) -> str:
    rows = [
        [row.title, row.figures[0], told(*encoders.figure(name, sets[name]))]
        for name, row in encoders.SETS.items()
        if name in sets
    ]
    about = "On the development examples, mean ± standard deviation over the seeds.\n"
    return about + "\n" + table(["set", "measure", "reached"], rows)


def card(report: Mapping[str, Any]) -> str:
    """The model card, without its header."""
    asked, judged, leaning = (_only_ours(_load(name)) for name in ("cloze", "encoders", "leanings"))
    parts = {
        "training": training(report),
        "cloze": None if asked is None else "".join(embedded(cloze.render(asked), 3)),
        "finetuned": None if judged is None else finetuned(judged["models"][ENGLISH]["sets"]),
        "leanings": None if leaning is None else "".join(embedded(leanings.render(leaning), 3)),
    }
    last, config = report["pieces"][-1], json.loads((ENGLISH_DIRECTORY / "config.json").read_text(encoding="utf-8"))
    numbers = {
        "layers": config["num_hidden_layers"],
        "width": config["hidden_size"],
        "every": config["global_attn_every_n_layers"],
        "each_side": config["local_attention"] // 2,
        "vocabulary": config["vocab_size"],
        "window": config["max_position_embeddings"],
        "longest": max(entry["longest"] for entry in report["pieces"]),
        "corpus_tokens": last["corpus_tokens"],
        "held_out_tokens": last["held_out_tokens"],
    }
    parts |= {name: f"{number:,}" for name, number in numbers.items()}
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", "Not measured yet." if part is None else part.strip())
    return text


def render(report: Mapping[str, Any]) -> str:
    """The part of the results page."""
    return training(report)


def write_card(report: Mapping[str, Any]) -> None:
    text = card(report)
    (ENGLISH_DIRECTORY / "README.md").write_text(HEADER + "\n" + text, encoding="utf-8")
    (DOCS / f"{ENGLISH}.md").write_text(text, encoding="utf-8")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.english", description=f"How {ENGLISH} came about.")
    commands = parser.add_subparsers(dest="what", required=True)
    add = commands.add_parser("add", help="a piece of its training is done")
    add.add_argument("run", type=Path, metavar="RUN", help="of `bertworks pretrain`; it need not be over")
    add.add_argument("--command", required=True, metavar="TEXT", help="how the run was typed")
    add.add_argument("--threads", type=int, default=2, help="that the run had")
    add.add_argument("--note", default="", metavar="TEXT", help="what the piece was for")
    commands.add_parser("card", help="write the card anew")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    from bertworks.cli.main import main as bertworks

    options = parse(arguments)
    report: dict[str, Any] = {"benchmark": "english", "pieces": []}
    if OUTPUT.exists():
        report = json.loads(OUTPUT.read_text(encoding="utf-8"))
    if options.what == "add":
        entry = piece(options.run, options)  # before anything is changed
        if bertworks(["convert", str(options.run), str(ENGLISH_DIRECTORY), "--dtype", "int8", "--overwrite"]):
            sys.exit(1)
        if piece(options.run, options)["steps"] != entry["steps"]:
            sys.exit(f"{options.run} has written a checkpoint in the meantime: call it again")
        shipped = weights()
        if shipped != report.get("weights"):
            forget_older()
        report["weights"] = shipped
        report["pieces"] = [other for other in report["pieces"] if other["run"] != entry["run"]] + [entry]
        report["command"] = command_line("english", arguments)
        report["machine"] = entry["machine"]
        write_json(report, OUTPUT)
    if not report["pieces"]:
        sys.exit("no piece of the training is noted yet: `python -m benchmarks.english add RUN --command TEXT`")
    write_card(report)


if __name__ == "__main__":
    main()
