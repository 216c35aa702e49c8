"""Studies: the same pretraining with one choice changed at a time, at an equal budget, compared on the same held-out text.

    python -m benchmarks.study modern --seconds 180 --seeds 2 [--size 4x256x4] [--write-docs]
    python -m benchmarks.study roberta | ernie | recipes …

A study is a table of variants: a recipe and the settings that differ. Every run gets the same wall-clock budget, which
it turns into steps itself, and is judged in the same way whatever it was trained on:

    accuracy, loss   masked tokens (15 %) of held-out documents in pieces of 128 tokens
    bits a byte      the loss over the bytes of the masked text, which compares tokenizers too
    SST-2            dev accuracy of a logistic regression on the frozen mean-pooled last layer

Runs that are already in the JSON file are not repeated, so that a study can be done in pieces. Nothing else should run
on the machine meanwhile; the processor time a run really got is in the JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import describe_machine
from benchmarks.report import table, write_json

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "benchmarks" / ".cache" / "study"
LENGTH = 128
HELD_OUT_TOKENS = 131_072


@dataclass(frozen=True)
class TextCorpus:
    """Which files, cut by which tokenizer."""

    files: tuple[str, ...]
    training_files: tuple[str, ...]
    algorithm: str = "wordpiece"
    vocab_size: int = 30_522
    options: tuple[str, ...] = ()


ENGLISH = ("wiki-en-00", "wiki-en-01", "wiki-en-02", "wiki-en-03", "wiki-en-04", "novels-en-00", "reviews-en-00")
SAMPLE = ("wiki-en-00", "wiki-en-01", "novels-en-00", "reviews-en-00")
CORPORA = {
    "en": TextCorpus(ENGLISH, SAMPLE),
    "en-8k": TextCorpus(ENGLISH, SAMPLE, vocab_size=8192),
    "en-bytes": TextCorpus(ENGLISH, SAMPLE, "byte-bpe"),
    "zh": TextCorpus(("wiki-zh-00", "wiki-zh-01"), ("wiki-zh-00",), vocab_size=12_000),
    "sv": TextCorpus(("novels-sv-00",), ("novels-sv-00",), vocab_size=16_384, options=("--keep-accents",)),
}


@dataclass(frozen=True)
class Variant:
    """One row of a study."""

    name: str
    recipe: str
    settings: tuple[str, ...] = ()
    corpus: str = "en"


@dataclass(frozen=True)
class Study:
    title: str
    about: str
    variants: tuple[Variant, ...]


MODERN = Study(
    "what each choice of the recipe `modern` buys",
    "Every row is the recipe `modern` with one choice taken back; the last rows are whole other recipes.",
    (
        Variant("modern", "modern"),
        Variant("every layer sees the whole sequence", "modern", ("model.global_every=1",)),
        Variant("Muon instead of AdamW", "modern", ("train.optimizer.name=muon",)),
        Variant("LAMB instead of AdamW", "modern", ("train.optimizer.name=lamb", "train.optimizer.learning_rate=4e-3")),
        Variant("BERT's stack: post-norm, learned positions, biases, no gate", "modern", ("model.family=bert",)),
        Variant("dropout 0.1", "modern", ("model.dropout=0.1",)),
        Variant("mask rate 15 % throughout", "modern", ("objective.masking.rate=0.15",)),
        Variant("mask rate 30 % throughout", "modern", ("objective.masking.final_rate=0.3",)),
        Variant("linear decay instead of the trapezoid", "modern", ("train.schedule.name=linear",)),
        Variant("batches twice as large", "modern", ("train.batch_tokens=8192",)),
        Variant("batches half as large", "modern", ("train.batch_tokens=2048",)),
        Variant(
            "masks only instead of 80/10/10",
            "modern",
            ("objective.masking.mask_share=1.0", "objective.masking.random_share=0.0"),
        ),
        Variant("average of the weights (0.99)", "modern", ("train.ema=0.99",)),
        Variant("bert", "bert", ("data.long_sequence_length=none",)),
    ),
)
PLAIN = (
    "data.long_sequence_length=none",
    "data.short_prob=0",
    "train.batch_tokens=4096",
    "train.optimizer.learning_rate=1e-3",
)
ROBERTA = Study(
    "RoBERTa's five changes to BERT, one at a time",
    "The first row is BERT's way at this size; each further row changes one thing as RoBERTa did. Budgets are equal in time.",
    (
        Variant(
            "BERT's choices: static masks, NSP, 128 tokens, 8,192 pieces, batches of 4,096 tokens",
            "bert",
            (*PLAIN, "objective.masking.copies=1"),
            "en-8k",
        ),
        Variant("dynamic masks", "bert", (*PLAIN, "objective.masking.copies=none"), "en-8k"),
        Variant(
            "no next sentence prediction",
            "bert",
            (*PLAIN, "objective.masking.copies=1", "objective.pairs=none"),
            "en-8k",
        ),
        Variant(
            "sequences of 512 tokens (without NSP)",
            "bert",
            (*PLAIN, "objective.masking.copies=1", "objective.pairs=none", "data.sequence_length=512"),
            "en-8k",
        ),
        Variant("vocabulary of 30,522", "bert", (*PLAIN, "objective.masking.copies=1"), "en"),
        Variant(
            "batches of 16,384 tokens, learning rate doubled",
            "bert",
            (*PLAIN, "objective.masking.copies=1", "train.batch_tokens=16384", "train.optimizer.learning_rate=2e-3"),
            "en-8k",
        ),
        Variant(
            "all five, byte-level BPE",
            "roberta",
            ("data.sequence_length=512", "train.batch_tokens=16384", "train.optimizer.learning_rate=2e-3"),
            "en-bytes",
        ),
    ),
)
LEXICON = "objective.lexicon={titles-zh}"
ERNIE = Study(
    "ERNIE's entity masking against character masking, Chinese Wikipedia",
    "Masked entities: whole entries of the titles' lexicon are masked in held-out text, 15 % of the tokens in all; the "
    "share of their tokens that is guessed.",
    (
        Variant(
            "characters",
            "ernie",
            ("data.long_sequence_length=none", "objective.masking.unit=token", "objective.lexicon=none"),
            "zh",
        ),
        Variant("entities from titles", "ernie", ("data.long_sequence_length=none", LEXICON), "zh"),
        Variant(
            "phrases mined from the corpus",
            "ernie",
            ("data.long_sequence_length=none", "objective.lexicon=mined"),
            "zh",
        ),
    ),
)
RECIPES = Study(
    "every recipe on real text",
    "Each recipe as it is at this size and budget; held-out figures of its own losses before and after.",
    (
        *(Variant(name, name) for name in ("bert", "albert", "electra", "modern")),
        Variant("roberta", "roberta", corpus="en-bytes"),
        Variant("gpt", "gpt", corpus="en-bytes"),
        Variant("ernie", "ernie", (LEXICON,), "zh"),
        Variant("modern, Swedish", "modern", corpus="sv"),
    ),
)
STUDIES = {"modern": MODERN, "roberta": ROBERTA, "ernie": ERNIE, "recipes": RECIPES}


# --- running ----------------------------------------------------------------------------------------------------------


def corpus_directory(name: str, data: Path) -> Path:
    """The corpus `name`, built the first time."""
    from bertworks.cli.main import main as bertworks

    wanted, place = CORPORA[name], CACHE / "corpora" / name
    if not (place / "manifest.json").exists():
        tokenizer = CACHE / "tokenizers" / name
        place.parent.mkdir(parents=True, exist_ok=True)

        def paths(names: Iterable[str]) -> list[str]:
            return [str(data / "corpus" / f"{stem}.txt.xz") for stem in names]

        if not (tokenizer / "tokenizer.json").exists():
            size = ["--algorithm", wanted.algorithm, "--vocab-size", str(wanted.vocab_size), *wanted.options]
            run(bertworks, ["tokenizer", "train", *paths(wanted.training_files), *size, "-o", str(tokenizer), "-q"])
        run(bertworks, ["corpus", "build", *paths(wanted.files), "--tokenizer", str(tokenizer), "-o", str(place), "-q"])
    return place


def run(command: Any, arguments: list[str]) -> None:
    code = command(arguments)
    if code:
        sys.exit(code)


def train(variant: Variant, corpus: Path, output: Path, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One run; its own figures, and what it cost."""
    from bertworks.train.run import Finished, Note, Planned, RunOptions, pretrain

    titles = str(options.data / "corpus" / "titles-zh.txt.xz")
    settings = [setting.replace("{titles-zh}", titles) for setting in variant.settings]
    settings += [
        f"data.held_out_tokens={HELD_OUT_TOKENS}",
        f"model.size={options.size}",
        "train.evaluation.steps=1000000",
    ]
    settings += ["train.checkpoint_minutes=none"]
    started, processor = time.perf_counter(), time.process_time()
    result: dict[str, Any] = {}
    asked = RunOptions(
        corpus=corpus,
        output=output,
        recipe=variant.recipe,
        settings=tuple(settings),
        budget=options.seconds,
        seed=seed,
        overwrite=True,
        track=(),
    )
    for event in pretrain(asked):
        match event:
            case Note(text=text):
                print(f"  {text}", file=sys.stderr, flush=True)
            case Planned(plan=plan):
                result |= {"steps": plan.steps, "tokens": plan.tokens}
            case Finished(metrics=metrics, seconds=seconds):
                result |= {"metrics": dict(metrics), "seconds": seconds}
    wall = time.perf_counter() - started
    return {**result, "wall_seconds": wall, "processor_share": (time.process_time() - processor) / wall}


def judge(directory: Path, corpus_path: Path, data: Path) -> dict[str, float]:
    """The figures that compare runs of different recipes; empty where there is no masked-LM head."""
    import torch

    from bertworks import hub
    from bertworks.data.corpus import Corpus
    from bertworks.data.pretraining import Lexicon, Masker, MaskingConfig, SinglePieces, split_documents
    from bertworks.objectives import MaskedLM
    from bertworks.train.feed import evaluation_batches

    loaded = hub.load(directory)
    found: dict[str, float] = {}
    corpus = Corpus.open(corpus_path)
    tokenizer = corpus.tokenizer()
    model = loaded.model.eval()
    if "mlm" in model.heads:
        _, held_out = split_documents(corpus, HELD_OUT_TOKENS)
        source = SinglePieces(corpus, tokenizer, LENGTH, documents=held_out)
        maskings: dict[str, tuple[MaskingConfig, Any]] = {"": (MaskingConfig(rate=0.15, copies=1), None)}
        if corpus_path.name == "zh":
            lexicon = Lexicon.from_file(data / "corpus" / "titles-zh.txt.xz", tokenizer)
            maskings["entity_"] = (MaskingConfig(rate=0.15, unit="lexicon", copies=1), lexicon)
        num_bytes = np.array([len(tokenizer.token(i).removeprefix("##").encode()) for i in range(tokenizer.vocab_size)])
        for prefix, (masking, lexicon) in maskings.items():
            objective = MaskedLM(Masker(masking, tokenizer, lexicon=lexicon))
            loss = correct = count = size = 0.0
            with torch.inference_mode():
                for batch in evaluation_batches(source, objective, rank=0, world=1):
                    one = objective.losses(model, batch)["mlm"]
                    loss, count = loss + float(one.sum), count + one.count
                    correct += float(one.correct) if one.correct is not None else 0.0
                    size += float(num_bytes[batch.tensors["targets"].numpy()].sum())
            found |= {f"{prefix}accuracy": correct / count, f"{prefix}loss": loss / count}
            found[f"{prefix}bits_per_byte"] = loss / np.log(2) / size
    if corpus_path.name.startswith("en"):
        found["sst2"] = sst2(directory, data)
    return found


def sst2(directory: Path, data: Path) -> float:
    """Dev accuracy of a logistic regression on frozen vectors."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    import bertworks

    model = bertworks.load(str(directory))
    splits = []
    for name in ("train", "dev"):
        lines = (data / "sst2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        rows = [line.rsplit("\t", 1) for line in lines if "\t" in line]
        rows = [row for row in rows if row[1] in ("0", "1")]
        splits.append((model.embed([text for text, _ in rows], pooling="mean"), [label for _, label in rows]))
    scaler = StandardScaler().fit(splits[0][0])
    head = LogisticRegression(max_iter=2000, C=0.1).fit(scaler.transform(splits[0][0]), splits[0][1])
    return float(head.score(scaler.transform(splits[1][0]), splits[1][1]))


# --- telling ----------------------------------------------------------------------------------------------------------

COLUMNS = {
    "accuracy": ("masked accuracy", ".1%"),
    "entity_accuracy": ("masked entities", ".1%"),
    "loss": ("loss", ".3f"),
    "bits_per_byte": ("bits a byte", ".3f"),
    "sst2": ("SST-2, frozen", ".1%"),
}


def render(report: dict[str, Any]) -> str:
    rows = []
    runs: dict[str, list[dict[str, Any]]] = {}
    for entry in report["runs"]:
        runs.setdefault(entry["variant"], []).append(entry)
    columns = [key for key in COLUMNS if any(key in entry["judged"] for entry in report["runs"])]
    own = not columns or report["study"] == "recipes"
    for name, entries in runs.items():
        cells = [name, f"{statistics.mean(e['tokens'] for e in entries) / 1e6:.2f}", str(entries[0]["steps"])]
        for key in columns:
            values = [entry["judged"][key] for entry in entries if key in entry["judged"]]
            cells.append(spread(values, COLUMNS[key][1]))
        if own:
            cells.append(", ".join(f"{key} {value:.4g}" for key, value in entries[0]["metrics"].items()))
        rows.append(cells)
    header = [
        "",
        "million tokens",
        "steps",
        *(COLUMNS[key][0] for key in columns),
        *(["its own figures"] if own else []),
    ]
    machine = report["machine"]
    conditions = (
        f"{report['seconds']:.0f} seconds a run, {report['seeds']} seeds (mean, and the range in brackets), size "
        f"{report['size']}, {machine['threads']} threads of {machine['processor']}."
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
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--size", default="4x256x4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only the variants whose names start so")
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("BERTWORKS_DATA", ROOT.parent / "shared" / "data"))
    )
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/study_STUDY.json")
    parser.add_argument("--write-docs", action="store_true", help="also write docs/benchmarks/study_STUDY.md")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    import torch

    options = parse(arguments)
    torch.set_num_threads(options.threads)
    study = STUDIES[options.study]
    path = options.output or ROOT / "benchmarks" / "results" / f"study_{options.study}.json"
    shown = sys.argv[1:] if arguments is None else list(arguments)
    report: dict[str, Any] = {
        "study": options.study,
        "title": study.title,
        "about": study.about,
        "command": shlex.join(["python", "-m", "benchmarks.study", *shown]),
        "machine": describe_machine(options.threads, ["bertworks", "torch", "numpy"]),
        "seconds": options.seconds,
        "seeds": options.seeds,
        "size": options.size,
        "runs": [],
    }
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if all(before[key] == report[key] for key in ("seconds", "size")):
            report["runs"] = before["runs"]
    done = {(entry["variant"], entry["seed"]) for entry in report["runs"]}
    for seed in range(options.seeds):
        for variant in study.variants:
            if (variant.name, seed) in done:
                continue
            if options.only and not any(variant.name.startswith(start) for start in options.only):
                continue
            print(f"{variant.name}, seed {seed}", file=sys.stderr, flush=True)
            corpus = corpus_directory(variant.corpus, options.data)
            output = CACHE / "run"
            shutil.rmtree(output, ignore_errors=True)
            entry = train(variant, corpus, output, options, seed)
            judged = judge(output, corpus, options.data)
            entry = {"variant": variant.name, "seed": seed, "settings": variant.settings, **entry, "judged": judged}
            report["runs"].append(entry)
            print(f"  {judged} {entry['metrics']} {entry['steps']} steps", file=sys.stderr, flush=True)
            write_json(report, path)
    if options.write_docs:
        page = ROOT / "docs" / "benchmarks" / f"study_{options.study}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
