"""Translators of both recipes, trained on the processor and judged by `sacrebleu`: greedy against beam search.

    python -m benchmarks.translate transformer rnn-attention luong fra-eng [--budget 43m] [--threads 2] [--write-docs]

Each row is a run of `bertworks translate train`, whose directory stays in benchmarks/.cache/translate: a run that is
finished is not repeated, one that was stopped goes on. Another recipe, budget, number of threads or text is another run, and
rows in the JSON file whose recipe or text has changed since are left out.

Multi30k's rows (English to German) are judged by test2016, which no training has seen; fra-eng (English to French) by the
pairs that the run itself kept apart, no source sentence of which is among the training pairs. Translations are scored by
`sacrebleu` with its default settings; our scorer must agree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import describe_machine
from benchmarks.keys import content_of, key_of
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.process import thread_environment
from benchmarks.report import table, write_json

CACHE = ROOT / "benchmarks" / ".cache" / "translate"
MULTI30K = "multi30k"
BEAM = 5
ABOUT = (
    "BLEU is that of `sacrebleu` with its default settings (cased, 13a, one reference). Multi30k: English to German, 29,000 "
    "training pairs, 1,000 test sentences. fra-eng: English to French, judged by pairs whose source sentences the "
    "training has not seen; the checkpoint was chosen by these pairs too, so that its figure is a development figure."
)


@dataclass(frozen=True)
class Row:
    """One run."""

    title: str
    data: str
    recipe: str
    settings: tuple[str, ...] = ()


ROWS = {
    "transformer": Row("Transformer, sinusoidal positions", MULTI30K, "transformer"),
    "rnn-attention": Row("GRU, Bahdanau's attention", MULTI30K, "rnn-attention"),
    "luong": Row("GRU, Luong's attention", MULTI30K, "rnn-attention", ("model.attention=luong",)),
    "learned": Row("Transformer, learned positions", MULTI30K, "transformer", ("model.positions=learned",)),
    "relative": Row("Transformer, relative positions", MULTI30K, "transformer", ("model.positions=relative",)),
    "rotary": Row("Transformer, rotary positions", MULTI30K, "transformer", ("model.positions=rotary",)),
    "fra-eng": Row("Transformer, English to French", "fra-eng", "transformer"),
}


def files_of(row: Row, data: Path) -> list[str]:
    """The options for a run's files."""
    if row.data != MULTI30K:
        return ["--train", str(data / row.data / "pairs.tsv")]
    folder = data / MULTI30K
    return [
        *("--train", str(folder / "train.en"), str(folder / "train.de")),
        *("--dev", str(folder / "val.en"), str(folder / "val.de")),
    ]


def key(row: Row, data: Path, budget: str | None, threads: int) -> str:
    """What decides a run: the recipe as it is now, the pairs, the time."""
    from bertworks.config import to_toml
    from bertworks.translate.config import load_recipe

    texts = [content_of(part) for part in files_of(row, data) if not part.startswith("--")]
    return key_of(to_toml(load_recipe(row.recipe, row.settings)), texts, budget, threads)


def still_valid(rows: dict[str, Any], data: Path) -> dict[str, Any]:
    """The rows of an earlier call whose recipe and text are what they were."""
    return {
        name: each
        for name, each in rows.items()
        if name in ROWS and each.get("key") == key(ROWS[name], data, each.get("budget"), each.get("threads", 0))
    }


def train(name: str, row: Row, options: argparse.Namespace) -> Path:
    """The run's directory, finished."""
    output = CACHE / f"{name}-{key(row, options.data, options.budget, options.threads)}"
    if not (output / "metrics.json").exists():
        command = [sys.executable, "-m", "bertworks", "translate", "train", "-o", str(output)]
        if (output / "config.toml").exists():
            command.append("--resume")
        else:
            command += [*files_of(row, options.data), "--recipe", row.recipe]
            command += [part for setting in row.settings for part in ("--set", setting)]
            command += ["--budget", options.budget] if options.budget else []
        say(f"{name}: training")
        with thread_environment(options.threads):
            subprocess.run([*command, "--track", "none"], check=True)
    return output


def judge(row: Row, run: Path, data: Path, threads: int) -> dict[str, Any]:
    """BLEU and speed of both searches on the row's test sentences."""
    import sacrebleu
    import torch

    from bertworks.infer.decode import Beam, Greedy
    from bertworks.infer.translate import Translator
    from bertworks.tasks.metrics.bleu import corpus_bleu

    torch.set_num_threads(threads)
    if row.data == MULTI30K:
        sources, references = (
            (data / MULTI30K / f"test2016.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")
        )
    else:
        rows = [json.loads(line) for line in (run / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
        sources, references = [each["source"] for each in rows], [each["reference"] for each in rows]
    translator = Translator.load(run)
    translator.translate(sources[:64], Greedy())  # to warm up
    found: dict[str, Any] = {"sentences": len(sources)}
    for name, strategy in (("greedy", Greedy()), (f"beam {BEAM}", Beam(width=BEAM))):
        started = time.perf_counter()
        texts = [each.text for each in translator.translate(sources, strategy)]
        seconds = time.perf_counter() - started
        theirs = sacrebleu.corpus_bleu(texts, [references]).score
        ours = corpus_bleu(texts, references).score
        assert abs(ours - theirs) < 1e-6, f"our BLEU {ours} is not sacrebleu's {theirs}"
        found[name] = {"bleu": theirs, "sentences_per_second": len(sources) / seconds}
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    found |= {"model": metrics["model"], "train_seconds": metrics["seconds"], "steps": metrics["steps"]}
    found["parameters"] = sum(parameter.numel() for parameter in translator.model.parameters())
    return found


def commands(rows: dict[str, Any]) -> str:
    """What made the rows: a call for each budget and number of threads."""
    calls: dict[tuple[str | None, int], list[str]] = {}
    for name, each in rows.items():
        calls.setdefault((each["budget"], each["threads"]), []).append(name)
    return " && ".join(
        command_line("translate", [*names, *(["--budget", budget] if budget else []), "--threads", str(threads)])
        for (budget, threads), names in calls.items()
    )


def page(report: dict[str, Any]) -> str:
    """The results as a page of markdown."""
    machine = report["machine"]
    rows = []
    for name, each in report["rows"].items():
        greedy, beam = each["greedy"], each[f"beam {BEAM}"]
        rows.append(
            [
                ROWS[name].title,
                "test2016" if ROWS[name].data == MULTI30K else "kept apart",
                f"{each['parameters'] / 1e6:.1f} M",
                each["budget"] or "epochs",
                f"{each['train_seconds'] / 60:.0f} min",
                f"{each['steps']:,}",
                f"{greedy['bleu']:.2f}",
                f"{beam['bleu']:.2f}",
                f"{greedy['sentences_per_second']:.0f}",
                f"{beam['sentences_per_second']:.0f}",
            ]
        )
    header = ["model", "judged by", "parameters", "budget", "training", "steps", "BLEU, greedy", f"BLEU, beam {BEAM}"]
    header += ["sentences/s, greedy", f"sentences/s, beam {BEAM}"]
    return "\n".join(
        [
            "# Benchmark: translation\n",
            f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n",
            f"Machine: {machine['processor']}, {machine['cores']} cores; the threads of each run are in its command.\n",
            f"{ABOUT}\n",
            table(header, rows),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.translate", description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", nargs="+", choices=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--budget", help="how long each run trains; without it, the recipe's epochs")
    parser.add_argument("--threads", type=int, default=2)
    add_places(parser, "translate")
    options = parser.parse_args(arguments)
    before = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {"rows": {}}
    report: dict[str, Any] = {
        "machine": describe_machine(options.threads, ["torch", "sacrebleu"]),
        "rows": still_valid(before["rows"], options.data),
    }
    for name in options.rows:
        run = train(name, ROWS[name], options)
        asked = {"budget": options.budget, "threads": options.threads}
        asked["key"] = key(ROWS[name], options.data, **asked)
        report["rows"][name] = {**asked, **judge(ROWS[name], run, options.data, options.threads)}
        say(f"{name}: {report['rows'][name]}")
        report["rows"] = {name: report["rows"][name] for name in ROWS if name in report["rows"]}
        report["command"] = commands(report["rows"])
        write_json(report, options.output)
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "translate.md").write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    main()
