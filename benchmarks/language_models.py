"""Language models of four kinds at equal time, and what a classifier gains from one: the way to ULMFiT, step by step.

    python -m benchmarks.language_models [--budget 10m] [--task-budget 2m] [--epochs 5] [--seeds 3] [--threads 2] [--write-docs]

Perplexity: a simple RNN, an LSTM, a GRU and a GPT are pretrained for `--budget` each on one corpus, and judged by the same
held-out text, every token predicted from those before it in its piece of 128. The baseline guesses by frequency.

SST-2: an LSTM that nobody has pretrained, the LSTM of the first table, the same after it has read the task's texts for
`--task-budget` (ULMFiT's second step, Howard & Ruder 2018), and the GPT of the first table, each fine-tuned for `--epochs`.
The baseline is the best of those that `bertworks finetune` tells.

Every row is a command of ours, and its directory stays in benchmarks/.cache/language_models: what is finished is not repeated,
what was stopped goes on, and other settings, budgets or texts are other runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import describe_machine
from benchmarks.judge import sst2_rows
from benchmarks.keys import content_of, key_of
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.report import table, write_json
from benchmarks.study import corpus_directory, run, spread

CACHE = ROOT / "benchmarks" / ".cache" / "language_models"
CORPUS = "en-8k"
SIZES = {"rnn": "2x256", "lstm": "2x256", "gru": "2x256", "gpt": "4x256x4"}
PIECES = "data.sequence_length=128"
TITLES = {"rnn": "simple RNN", "lstm": "LSTM", "gru": "GRU", "gpt": "GPT"}
CLASSIFIERS = {
    "scratch": "BiLSTM, nothing pretrained",
    "pretrained": "the LSTM above",
    "ulmfit": "the LSTM above, after the task's texts",
    "gpt": "the GPT above",
}


def made(name: str, command: Sequence[str], *parts: Any) -> tuple[Path, dict[str, Any]]:
    """The directory and `metrics.json` of a command that `parts` decide beside its own words; run, or what is left of it."""
    from bertworks.cli.main import main as bertworks

    place = CACHE / f"{name}-{key_of(tuple(command), *parts)}"
    if not (place / "metrics.json").exists():
        say(f"{name}: {' '.join(command)}")
        place.parent.mkdir(parents=True, exist_ok=True)
        run(bertworks, [*command, "--resume", "--track", "none", "-o", str(place), "-q"])
    metrics: dict[str, Any] = json.loads((place / "metrics.json").read_text(encoding="utf-8"))
    return place, metrics


def pretrained(
    recipe: str, corpus: Path, budget: str, threads: int, *, start: Path | None = None
) -> tuple[Path, dict[str, Any]]:
    """A language model, new or gone on with, and its figures."""
    from bertworks import hub
    from bertworks.config import to_toml
    from bertworks.train.recipes import load_recipe

    shape = ["--size", SIZES[recipe]] if start is None else ["--from", str(start)]
    command = ["pretrain", str(corpus), "--recipe", recipe, *shape, "--set", PIECES, "--budget", budget]
    command += ["--threads", str(threads)]
    text = content_of(str(corpus / "manifest.json"))
    place, metrics = made(recipe, command, to_toml(load_recipe(recipe)), text)
    model = hub.load(place).model
    return place, {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "perplexity": metrics["metrics"]["lm_perplexity"],
        "accuracy": metrics["metrics"]["lm_accuracy"],
        "baseline_loss": metrics["baseline"]["loss"],
        **{name: metrics[name] for name in ("model", "steps", "tokens", "seconds")},
    }


def texts_of_the_task(data: Path, model: Path) -> Path:
    """A corpus of SST-2's training texts, in the model's tokens."""
    from bertworks.cli.main import main as bertworks

    texts, _ = sst2_rows(data, "train")
    folder = CACHE / f"texts-{key_of(texts, content_of(str(model / 'tokenizer.json')))}"
    if not (folder / "corpus" / "manifest.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
        built = ["--document", "row", "--tokenizer", str(model), "-o", str(folder / "corpus"), "-q"]
        run(bertworks, ["corpus", "build", str(folder / "texts.txt"), *built])
    return folder / "corpus"


def classifier(name: str, model: str, options: argparse.Namespace) -> dict[str, Any]:
    """A classifier of SST-2, and how good it is with each seed."""
    files = [str(options.data / "sst2" / f"{split}.tsv") for split in ("train", "dev")]
    command = ["finetune", "classify", "--train", files[0], "--dev", files[1], "--model", model]
    command += ["--epochs", f"{options.epochs:g}", "--seeds", str(options.seeds), "--threads", str(options.threads)]
    _, metrics = made(name, command, [content_of(file) for file in files])
    return {
        "accuracy": [each["metrics"]["accuracy"] for each in metrics["runs"]],
        "seconds": [each["seconds"] for each in metrics["runs"]],
        "baseline": max(figures["accuracy"] for figures in metrics["baseline"].values()),
    }


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """All rows of both tables."""
    corpus = corpus_directory(CORPUS, options.data)
    models: dict[str, Any] = {}
    places: dict[str, Path] = {}
    for name in SIZES:
        places[name], models[name] = pretrained(name, corpus, options.budget, options.threads)
        say(f"{name}: {models[name]}")
    texts = texts_of_the_task(options.data, places["lstm"])
    adapted, step = pretrained("ulmfit", texts, options.task_budget, options.threads, start=places["lstm"])
    starts = {"scratch": "bilstm", "pretrained": str(places["lstm"]), "ulmfit": str(adapted), "gpt": str(places["gpt"])}
    classifiers = {name: classifier(name, model, options) for name, model in starts.items()}
    before = {"scratch": 0.0, "pretrained": models["lstm"]["seconds"], "gpt": models["gpt"]["seconds"]}
    before["ulmfit"] = before["pretrained"] + step["seconds"]
    for name, found in classifiers.items():
        found["pretraining_seconds"] = before[name]
        say(f"{name}: {found}")
    sentences = len(sst2_rows(options.data, "train")[0])
    return {"models": models, "ulmfit_step": step, "classifiers": classifiers, "sentences": sentences}


def render(report: dict[str, Any]) -> str:
    from math import exp

    machine = report["machine"]
    models = [
        [
            TITLES[name],
            each["model"],
            f"{each['parameters'] / 1e6:.1f} M",
            f"{each['tokens'] / 1e6:.2f}",
            f"{each['seconds'] / 60:.1f}",
            f"{each['perplexity']:.1f}",
            f"{each['accuracy']:.1%}",
        ]
        for name, each in report["models"].items()
    ]
    guess = exp(next(iter(report["models"].values()))["baseline_loss"])
    classifiers = [
        [
            CLASSIFIERS[name],
            f"{each['pretraining_seconds'] / 60:.1f}",
            f"{sum(each['seconds']) / len(each['seconds']) / 60:.1f}",
            spread(each["accuracy"], ".1%"),
        ]
        for name, each in report["classifiers"].items()
    ]
    base = max(each["baseline"] for each in report["classifiers"].values())
    step = report["ulmfit_step"]
    return "\n".join(
        [
            "# Benchmark: language models, and a classifier on one\n",
            f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n",
            f"{machine['threads']} thread(s) of {machine['processor']}.\n",
            "## Held-out perplexity at equal time\n",
            (
                f"{report['budget']} of training each, measuring and evaluations included, one seed, the recipes' own settings "
                "but for pieces of 128 tokens; a vocabulary of 8,192, the same text held out. Guessing by frequency has a "
                f"perplexity of {guess:.0f}.\n"
            ),
            table(
                ["", "model", "parameters", "million tokens", "minutes", "perplexity", "right tokens"],
                models,
            ),
            "\n## SST-2\n",
            (
                f"{report['sentences']:,} sentences, {report['epochs']:g} epochs, accuracy on the development sentences, which "
                f"also chose the best epoch: mean over the seeds, and range. The task's texts were read for "
                f"{report['task_budget']} (perplexity there: {step['perplexity']:.1f}). The best baseline of `bertworks "
                f"finetune` reaches {base:.1%}.\n"
            ),
            table(["classifier", "minutes of pretraining", "minutes of fine-tuning a seed", "accuracy"], classifiers)
            + "\n",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language_models", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--budget", default="10m", help="each language model (default 10m)")
    parser.add_argument("--task-budget", default="2m", help="of ULMFiT's second step (default 2m)")
    parser.add_argument("--epochs", type=float, default=5, help="each classifier (default 5)")
    parser.add_argument("--seeds", type=int, default=3, help="each classifier (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    add_places(parser, "language_models")
    options = parser.parse_args(arguments)
    report = {
        "benchmark": "language_models",
        "command": command_line("language_models", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "torch"]),
        **{name: getattr(options, name) for name in ("budget", "task_budget", "epochs", "seeds")},
        **measured(options),
    }
    write_json(report, options.output)
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "language_models.md").write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
