"""Studies: the same pretraining with one choice changed at a time, at an equal budget, compared on the same held-out text.

    python -m benchmarks.study modern --seconds 180 --seeds 2 [--size 4x256x4] [--write-docs]
    python -m benchmarks.study roberta | ernie | recipes …
    python -m benchmarks.study distill --teacher DIR …

A study is a table of variants: a recipe and the settings that differ. Every run gets the same time (`--seconds`, which it
turns into steps itself) or sees the same number of tokens (`--tokens`, which does not depend on what else the machine
does), and is judged in the same way whatever it was trained on:

    accuracy, loss   masked tokens (15 %) of held-out documents in pieces of 128 tokens
    bits a byte      the loss over the bytes of the masked text, which compares tokenizers too
    SST-2            dev accuracy of a logistic regression on the frozen mean-pooled last layer

Runs that are already in the JSON file are not repeated, so that a study can be done in pieces. With `--seconds` nothing
else should run on the same cores; the processor time a run really got is in the JSON file.
"""

from __future__ import annotations

import argparse
import json
import lzma
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
from benchmarks.options import ROOT, add_data, command_line, say
from benchmarks.report import table, write_json

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
    characters: int | None = None
    """Only so much of the beginning."""
    held_out: int = HELD_OUT_TOKENS


ENGLISH = ("wiki-en-00", "wiki-en-01", "wiki-en-02", "wiki-en-03", "wiki-en-04", "novels-en-00", "reviews-en-00")
SAMPLE = ("wiki-en-00", "wiki-en-01", "novels-en-00", "reviews-en-00")
CORPORA = {
    "en": TextCorpus(ENGLISH, SAMPLE),
    "en-8k": TextCorpus(ENGLISH, SAMPLE, vocab_size=8192),
    "en-8k-part": TextCorpus(("wiki-en-07",), SAMPLE, vocab_size=8192, characters=400_000, held_out=32_768),
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
    taught: bool = False
    """A student of `--teacher`."""


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
    "The first row is BERT's way at this size; each further row changes one thing as RoBERTa did. In so short a training no "
    "text is seen twice, and masks that are drawn once or anew cannot differ but by chance: that row shows how large chance "
    "is. The last two rows are therefore of a corpus so small that it is read about four times; it has held-out text of its "
    "own, and they compare with each other only.",
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
        Variant("small corpus, static masks", "bert", (*PLAIN, "objective.masking.copies=1"), "en-8k-part"),
        Variant("small corpus, dynamic masks", "bert", (*PLAIN, "objective.masking.copies=none"), "en-8k-part"),
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
SMALL = ("train.batch_tokens=4096", "train.optimizer.learning_rate=1e-3")
RECIPES = Study(
    "every recipe on real text",
    "Each recipe with batches of 4,096 tokens and a learning rate of 0.001, as its default ones are for larger budgets; "
    "its own figures on held-out text, at the start and at the end.",
    (
        *(Variant(name, name, SMALL) for name in ("bert", "albert", "electra", "modern")),
        Variant("roberta", "roberta", SMALL, "en-bytes"),
        Variant("gpt", "gpt", SMALL, "en-bytes"),
        Variant("ernie, Chinese", "ernie", (*SMALL, LEXICON), "zh"),
        Variant("modern, Swedish", "modern", SMALL, "sv"),
    ),
)
STUDENT = (
    "model.size=half",
    "train.batch_tokens=4096",
    "train.optimizer.learning_rate=1e-3",
)
DISTILL = Study(
    "a student with and without its teacher",
    "The teacher is a `modern` model of this size that was pretrained for twenty minutes; every student has half its layers.",
    (
        Variant("DistilBERT's three losses: soft targets, masked tokens, cosine", "distill", STUDENT, taught=True),
        Variant(
            "the same student, masked tokens alone",
            "distill",
            (*STUDENT, "objective.soft_weight=0", "objective.cosine_weight=0"),
            taught=True,
        ),
        Variant("`modern` of the student's shape, from nothing", "modern", ("model.size=2x256x4",)),
    ),
)
STUDIES = {"modern": MODERN, "roberta": ROBERTA, "ernie": ERNIE, "recipes": RECIPES, "distill": DISTILL}


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


def batch_tokens(variant: Variant) -> int:
    """Tokens in a step of the variant."""
    from bertworks.config import override
    from bertworks.train.recipes import load_recipe

    settings = [setting for setting in variant.settings if setting.startswith("train.batch_tokens=")]
    return override(load_recipe(variant.recipe), settings).train.batch_tokens


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


def judge(directory: Path, corpus_path: Path, data: Path) -> dict[str, float]:
    """The figures that compare runs of different recipes; empty where there is no masked-LM head."""
    import torch

    from bertworks import hub
    from bertworks.data.corpus import Corpus
    from bertworks.data.pretraining import Lexicon, Masker, MaskingConfig, SinglePieces, split_documents
    from bertworks.objectives.masked_lm import MaskedLM
    from bertworks.train.feed import evaluation_batches

    loaded = hub.load(directory)
    found: dict[str, float] = {}
    corpus = Corpus.open(corpus_path)
    tokenizer = corpus.tokenizer()
    model = loaded.model.eval()
    if "mlm" in model.heads:
        _, held_out = split_documents(corpus, CORPORA[corpus_path.name].held_out)
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


def sst2_rows(data: Path, name: str) -> tuple[list[str], list[int]]:
    """The texts and labels of `train` or `dev`."""
    lines = (data / "sst2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.rsplit("\t", 1) for line in lines]
    return [text for text, _ in rows], [int(label) for _, label in rows]


def sst2(directory: Path, data: Path) -> float:
    """Dev accuracy of a logistic regression on frozen vectors."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    import bertworks

    model = bertworks.load(str(directory))
    splits = []
    for name in ("train", "dev"):
        texts, labels = sst2_rows(data, name)
        splits.append((model.embed(texts, pooling="mean"), labels))
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
    from bertworks.train.figures import shown, words

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
            before = entries[0]["first_metrics"]
            figures = entries[0]["metrics"].items()
            cells.append(
                ", ".join(f"{words(key)} {shown(key, before[key])} → {shown(key, value)}" for key, value in figures)
            )
        rows.append(cells)
    header = [
        "",
        "million tokens",
        "steps",
        *(COLUMNS[key][0] for key in columns),
        *(["its own figures"] if own else []),
    ]
    machine = report["machine"]
    budget = f"{report['tokens']:,} tokens" if report["tokens"] else f"{report['seconds']:.0f} seconds"
    conditions = (
        f"{budget} a run, {report['seeds']} seeds (mean, and the range in brackets), size "
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
    parser.add_argument("--tokens", type=int, help="a run sees, instead of --seconds")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--size", default="4x256x4")
    parser.add_argument("--threads", type=int, default=2)
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
    report: dict[str, Any] = {
        "study": options.study,
        "title": study.title,
        "about": study.about,
        "command": command_line("study", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "torch", "numpy"]),
        "seconds": None if options.tokens else options.seconds,
        "tokens": options.tokens,
        "seeds": options.seeds,
        "size": options.size,
        "runs": [],
    }
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if all(before[key] == report[key] for key in ("seconds", "tokens", "size")):
            report["runs"] = before["runs"]
    done = {(entry["variant"], entry["seed"]) for entry in report["runs"]}
    for seed in range(options.seeds):
        for variant in study.variants:
            if (variant.name, seed) in done:
                continue
            if options.only and not any(variant.name.startswith(start) for start in options.only):
                continue
            say(f"{variant.name}, seed {seed}")
            corpus = corpus_directory(variant.corpus, options.data)
            output = CACHE / "run"
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
            judged = judge(output, corpus, options.data)
            entry = {"variant": variant.name, "seed": seed, "settings": variant.settings, **entry, "judged": judged}
            report["runs"].append(entry)
            say(f"  {judged} {entry['metrics']} {entry['steps']} steps")
            write_json(report, path)
    if options.write_docs:
        page = ROOT / "docs" / "benchmarks" / f"study_{options.study}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
