"""Studies: the same pretraining with one choice changed at a time, at an equal budget, compared on the same held-out text.

    python -m benchmarks.study modern --seconds 180 --seeds 2 [--size 4x256x4] [--write-docs]
    python -m benchmarks.study roberta | ernie | recipes | sizes | depth …
    python -m benchmarks.study distill --teacher DIR …

A study is a table of variants: a recipe and the settings that differ. Every run gets the same time (`--seconds`, which it
turns into steps itself) or sees the same number of tokens (`--tokens`, which does not depend on what else the machine
does), and is judged in the same way (`judge`). The tables are in `studies`.

Runs that are already in the JSON file, with the same recipe, settings and threads, are not repeated, so that a study can
be done in pieces. With `--seconds` nothing else should run on the same cores; the processor time a run really got is
in the JSON file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import shutil
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import describe_machine
from benchmarks.judge import by_frequency, judge
from benchmarks.options import ROOT, add_data, command_line, say
from benchmarks.report import table, write_json
from benchmarks.studies import CORPORA, STUDIES, Variant

CACHE = ROOT / "benchmarks" / ".cache" / "study"

# --- running ----------------------------------------------------------------------------------------------------------


def corpus_directory(name: str, data: Path) -> Path:
    """The corpus `name`, built the first time."""
    from bertworks.cli.main import main as bertworks

    wanted, place = CORPORA[name], CACHE / "corpora" / name
    if not (place / "manifest.json").exists():
        tokenizer = CACHE / "tokenizers" / name.removesuffix("-part")
        place.parent.mkdir(parents=True, exist_ok=True)

        def paths(names: Iterable[str]) -> list[str]:
            return [str(data / "corpus" / f"{stem}.txt.xz") for stem in names]

        if not (tokenizer / "tokenizer.json").exists():
            size = ["--algorithm", wanted.algorithm, "--vocab-size", str(wanted.vocab_size), *wanted.options]
            run(bertworks, ["tokenizer", "train", *paths(wanted.training_files), *size, "-o", str(tokenizer), "-q"])
        files = paths(wanted.files)
        if wanted.characters is not None:
            files = [str(beginning(Path(file), wanted.characters)) for file in files]
        run(bertworks, ["corpus", "build", *files, "--tokenizer", str(tokenizer), "-o", str(place), "-q"])
    return place


def beginning(file: Path, characters: int) -> Path:
    """A file with the first `characters` of a compressed one."""
    part = CACHE / f"{file.name.removesuffix('.txt.xz')}-{characters}.txt"
    with lzma.open(file, "rt", encoding="utf-8") as source:
        part.write_text(source.read(characters), encoding="utf-8")
    return part


def run(command: Any, arguments: list[str]) -> None:
    code = command(arguments)
    if code:
        sys.exit(code)


def train(
    variant: Variant,
    corpus: Path,
    output: Path,
    *,
    data: Path,
    size: str,
    seed: int,
    seconds: float | None = None,
    tokens: int | None = None,
    teacher: Path | None = None,
) -> dict[str, Any]:
    """One run of so many seconds or tokens; its own figures, and what it cost."""
    titles = str(data / "corpus" / "titles-zh.txt.xz")
    settings = [
        f"data.held_out_tokens={CORPORA[variant.corpus].held_out}",
        f"model.size={size}",
        "train.evaluation.steps=1000000",
        "train.checkpoint_minutes=none",
        *(setting.replace("{titles-zh}", titles) for setting in variant.settings),
    ]
    started, processor = time.perf_counter(), time.process_time()
    result = run_to_end(
        command="distill" if variant.taught else "pretrain",
        corpus=corpus,
        output=output,
        recipe=None if variant.taught else variant.recipe,
        teacher=str(teacher) if variant.taught else None,
        settings=tuple(settings),
        budget=None if tokens else seconds,
        steps=tokens // batch_tokens(variant) if tokens else None,
        seed=seed,
        overwrite=True,
        track=(),
    )
    wall = time.perf_counter() - started
    return {**result, "wall_seconds": wall, "processor_share": (time.process_time() - processor) / wall}


def half(teacher: Path) -> str:
    """The size of a student of half the layers."""
    from bertworks import hub
    from bertworks.train.start import half_of

    return str(half_of(hub.load(teacher).model))


def batch_tokens(variant: Variant) -> int:
    """Tokens in a step of the variant."""
    from bertworks.config import override
    from bertworks.train.recipes import load_recipe

    settings = [setting for setting in variant.settings if setting.startswith("train.batch_tokens=")]
    return override(load_recipe(variant.recipe), settings).train.batch_tokens


def key(variant: Variant, threads: int, teacher: Path | None) -> str:
    """What tells whether a run that was done before is this one: recipe, settings, corpus, threads, teacher."""
    from bertworks.config import override, to_toml
    from bertworks.train.recipes import load_recipe

    said = [setting for setting in variant.settings if not setting.startswith("objective.lexicon=")]
    text = to_toml(override(load_recipe(variant.recipe), said)) + repr((variant.settings, variant.corpus, threads))
    if variant.taught and teacher is not None:
        text += hashlib.sha256((teacher / "model.safetensors").read_bytes()).hexdigest()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_to_end(**options: Any) -> dict[str, Any]:
    """A run of `pretrain` or `distill` with these `RunOptions`; what it planned and reached."""
    from bertworks.train.run import Finished, Note, Planned, RunOptions, pretrain

    result: dict[str, Any] = {}
    for event in pretrain(RunOptions(**options)):
        match event:
            case Note(text=text):
                say(f"  {text}")
            case Planned(plan=plan):
                result |= {"steps": plan.steps, "tokens": plan.tokens}
            case Finished(directory=directory, metrics=metrics, seconds=seconds):
                result |= {"metrics": dict(metrics), "seconds": seconds, "first_metrics": first_metrics(directory)}
    return result


def first_metrics(run: Path) -> dict[str, float]:
    """The figures on held-out text before the first step."""
    from bertworks.train.log import HELD_OUT, read_metrics

    first = read_metrics(run)[0]
    return {name.removeprefix(HELD_OUT): value for name, value in first.items() if name.startswith(HELD_OUT)}


# --- telling ----------------------------------------------------------------------------------------------------------

COLUMNS = {
    "accuracy": ("masked accuracy", ".1%"),
    "entity_accuracy": ("masked entities", ".1%"),
    "loss": ("loss", ".3f"),
    "bits_per_byte": ("bits a byte", ".3f"),
    "sst2": ("SST-2, frozen", ".1%"),
}


def render(report: dict[str, Any]) -> str:
    from bertworks.train.figures import shown, words

    rows = []
    runs: dict[str, list[dict[str, Any]]] = {}
    for entry in report["runs"]:
        runs.setdefault(entry["variant"], []).append(entry)
    columns = [key for key in COLUMNS if any(key in entry["judged"] for entry in report["runs"])]
    own = not columns or report["study"] == "recipes"
    for name, entries in runs.items():
        cells = [
            name,
            f"{statistics.mean(entry['tokens'] for entry in entries) / 1e6:.2f}",
            str(entries[0]["steps"]),
            f"{statistics.mean(entry['wall_seconds'] * entry['processor_share'] for entry in entries):.0f}",
        ]
        for key in columns:
            values = [entry["judged"][key] for entry in entries if key in entry["judged"]]
            cells.append(spread(values, COLUMNS[key][1]))
        if own:
            before = entries[0]["first_metrics"]
            figures = entries[0]["metrics"].items()
            cells.append(
                ", ".join(f"{words(key)} {shown(key, before[key])} → {shown(key, value)}" for key, value in figures)
            )
        rows.append(cells)
    for name, figures in report["by_frequency"].items():
        cells = [f"word frequency alone, corpus `{name}`", "", "", ""]
        cells += [spread([figures[key]] if key in figures else [], COLUMNS[key][1]) for key in columns]
        rows.append([*cells, *([""] if own else [])])
    header = [
        "",
        "million tokens",
        "steps",
        "processor seconds",
        *(COLUMNS[key][0] for key in columns),
        *(["its own figures"] if own else []),
    ]
    machine = report["machine"]
    counts = {len(entries) for entries in runs.values()}
    seeds = " or ".join(str(count) for count in sorted(counts))
    budget = f"{report['tokens']:,} tokens" if report["tokens"] else f"{report['seconds']:.0f} seconds"
    size = "" if report["study"] in ("sizes", "depth") else f" size {report['size']},"
    precision = "" if report.get("precision", "fp32") == "fp32" else f" {report['precision']},"
    conditions = (
        f"{budget} a run, {seeds} seed{'' if counts == {1} else 's'} (mean, and the range in brackets),{size}{precision} "
        f"{machine['threads']} thread{'s' if machine['threads'] > 1 else ''} of {machine['processor']}."
    )
    return "\n".join(
        [
            f"# Study: {report['title']}\n",
            f"Written by `{report['command']}`; do not edit by hand.\n",
            f"{report['about']} {conditions}\n",
            table(header, rows) + "\n",
        ]
    )


def spread(values: Sequence[float], form: str) -> str:
    if not values:
        return ""
    mean = f"{statistics.mean(values):{form}}"
    return mean if len(values) == 1 else f"{mean} ({min(values):{form}}–{max(values):{form}})"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.study", description="Pretraining, one choice at a time."
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--seconds", type=float, default=180.0, help="a run (default 180)")
    parser.add_argument("--tokens", type=int, help="a run sees, instead of --seconds")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--size", default="4x256x4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only the variants whose names start so")
    parser.add_argument("--teacher", type=Path, metavar="DIR", help="of the study `distill`")
    add_data(parser)
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/study_STUDY.json")
    parser.add_argument("--write-docs", action="store_true", help="also write docs/benchmarks/study_STUDY.md")
    options = parser.parse_args(arguments)
    if options.study == "distill" and options.teacher is None:
        parser.error("the study `distill` needs --teacher, a directory that `pretrain` or `equal_time` made")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    import torch

    options = parse(arguments)
    torch.set_num_threads(options.threads)
    study = STUDIES[options.study]
    path = options.output or ROOT / "benchmarks" / "results" / f"study_{options.study}.json"
    command = command_line("study", arguments)
    report: dict[str, Any] = {
        "study": options.study,
        "title": study.title,
        "about": study.about,
        "machine": describe_machine(options.threads, ["bertworks", "torch", "numpy"]),
        "seconds": None if options.tokens else options.seconds,
        "tokens": options.tokens,
        "seeds": options.seeds,
        "size": options.size,
        "precision": options.precision,
        "by_frequency": {},
        "runs": [],
    }
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        before.setdefault("precision", "fp32")
        if all(before[key] == report[key] for key in ("seconds", "tokens", "size", "precision")):
            report |= {name: before[name] for name in ("by_frequency", "runs")}
    variants = study.variants
    if options.teacher is not None:
        size = half(options.teacher)
        variants = tuple(
            replace(variant, settings=tuple(text.replace("{half}", size) for text in variant.settings))
            for variant in variants
        )
    if options.precision != "fp32":
        wanted = f"train.precision={options.precision}"
        variants = tuple(replace(variant, settings=(*variant.settings, wanted)) for variant in variants)
    keys = {variant.name: key(variant, options.threads, options.teacher) for variant in variants}
    report["runs"] = [entry for entry in report["runs"] if keys.get(entry["variant"]) == entry["key"]]
    done = {(entry["variant"], entry["seed"]) for entry in report["runs"]}
    for seed in range(options.seeds):
        for variant in variants:
            if (variant.name, seed) in done:
                continue
            if options.only and not any(variant.name.startswith(start) for start in options.only):
                continue
            say(f"{variant.name}, seed {seed}")
            corpus = corpus_directory(variant.corpus, options.data)
            output = CACHE / f"run-{options.study}"
            shutil.rmtree(output, ignore_errors=True)
            entry = train(
                variant,
                corpus,
                output,
                data=options.data,
                size=options.size,
                seed=seed,
                seconds=options.seconds,
                tokens=options.tokens,
                teacher=options.teacher,
            )
            judging = corpus_directory(CORPORA[variant.corpus].judged_on or variant.corpus, options.data)
            judged = judge(output, judging, options.data)
            if "accuracy" in judged and judging.name not in report["by_frequency"]:
                report["by_frequency"][judging.name] = by_frequency(judging)
            named = {"variant": variant.name, "key": keys[variant.name], "seed": seed, "settings": variant.settings}
            entry = {**named, **entry, "judged": judged, "command": command}
            report["runs"].append(entry)
            report["command"] = "; ".join(dict.fromkeys(entry["command"] for entry in report["runs"]))
            say(f"  {judged} {entry['metrics']} {entry['steps']} steps")
            write_json(report, path)
    if options.write_docs:
        page = ROOT / "docs" / "benchmarks" / f"study_{options.study}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
