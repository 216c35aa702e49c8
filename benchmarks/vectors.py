"""Word vectors: Bertworks against gensim, words a second and how good the vectors are, in one run.

    python -m benchmarks.vectors --files 2 --epochs 5 --threads 2 --rounds 2 [--algorithms skipgram cbow] [--write-docs]
    python -m benchmarks.vectors --only-scores --score-seeds 3 --files 1 --threads 1 [--algorithms …] [--write-docs]

Both learn from the same words (files of English Wikipedia, small letters, words that occur five times or more), with the
same dimensions, window, negative words, subsampling and epochs. A pass is a whole training: reading and counting are
done before, and vectors start anew. gensim gets the quicker of its two ways to be fed (lists in memory, or a file that
its threads read themselves), found on a sample. Bertworks runs twice: with `threads` threads without locks
(`--hogwild`), as gensim does, and in order on one thread, which gives the same vectors in every run. GloVe and Bernoulli
embeddings, which gensim has not, are measured beside them.

The scores are those of the vectors of the unmeasured first pass: analogies (Google), Spearman's correlation on
WordSim-353 and SimLex-999, all by our own evaluation, on the rows whose words have vectors. They differ from seed to
seed: with `--score-seeds` every engine is trained that often, and the table has the mean and the range. `--only-scores`
measures no speed: it puts the scores of these algorithms into the JSON file that is there, with the command that made
them, and leaves the rest of it as it was. With one thread there is no hogwild to score.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Workload, describe_machine, measure
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.process import Engine
from benchmarks.report import render, table, write_json, write_page
from benchmarks.study import spread

OURS, IN_ORDER, THEIRS = "bertworks, hogwild", "bertworks, in order", "gensim"
ALGORITHMS = ("skipgram", "cbow", "glove", "bernoulli")
OF_BOTH = ("skipgram", "cbow")
SETS = ("questions-words.txt", "wordsim353.tsv", "simlex999.txt")
MEASURES = {
    "questions-words.txt": ("analogies", ".1%"),
    "semantic": ("semantic", ".1%"),
    "syntactic": ("syntactic", ".1%"),
    "wordsim353.tsv": ("WordSim-353", ".3f"),
    "simlex999.txt": ("SimLex-999", ".3f"),
}
SAMPLE_LINES = 5000
MIN_COUNT = 5
RATES = {"skipgram": 0.025, "cbow": 0.05, "glove": 0.05, "bernoulli": 0.05}

Call = dict[str, Any]  # path, algorithm, dim, epochs, window, seed
Result = tuple[list[str], np.ndarray]
Scores = dict[str, dict[str, list[float]]]  # engine, measure: a value per seed


# --- engines: each turns a call into (words, vectors) -----------------------------------------------------------------


def bertworks_engine(threads: int, hogwild: bool) -> Callable[[Call], Result]:
    from bertworks.vectors import TextOptions, TrainingOptions, VectorsConfig
    from bertworks.vectors.reading import encode
    from bertworks.vectors.train import learnt

    @functools.cache
    def read(path: str) -> Any:
        place = Path(tempfile.mkdtemp(prefix="bertworks-", dir=Path(path).parent))  # removed with the text
        with Path(path).open(encoding="utf-8") as lines:
            return encode(lines, TextOptions(split="spaces", min_count=MIN_COUNT), place)

    def engine(call: Call) -> Result:
        corpus = read(call["path"])
        options = TrainingOptions(
            algorithm=call["algorithm"],
            dim=call["dim"],
            epochs=call["epochs"],
            window=call["window"],
            learning_rate=RATES[call["algorithm"]],
            seed=call["seed"],
            hogwild=hogwild,
            threads=threads if hogwild else 1,
        )
        result = learnt(corpus, VectorsConfig(training=options).settled().training)
        return corpus.words, result.matrix

    return engine


def gensim_engine(threads: int) -> Callable[..., Result]:
    from gensim.models import Word2Vec

    @functools.cache
    def prepared(path: str, algorithm: str, dim: int, window: int, epochs: int) -> tuple[Any, list[list[str]]]:
        with Path(path).open(encoding="utf-8") as lines:
            sentences = [line.split() for line in lines]
        model = Word2Vec(
            vector_size=dim,
            window=window,
            epochs=epochs,
            sg=int(algorithm == "skipgram"),
            negative=5,
            sample=1e-3,
            alpha=RATES[algorithm],
            min_count=MIN_COUNT,
            workers=threads,
        )
        model.build_vocab(sentences)
        return model, sentences

    def engine(call: Call, from_file: bool = False) -> Result:
        key = (call["path"], call["algorithm"], call["dim"], call["window"], call["epochs"])
        model, sentences = prepared(*key)
        model.seed, model.random = call["seed"], np.random.RandomState(call["seed"])
        model.wv.vectors = np.zeros((0, call["dim"]), np.float32)  # else `init_weights` keeps those of the last pass
        model.init_weights()
        feed = {"corpus_file": call["path"], "total_words": model.corpus_total_words} if from_file else {}
        if not from_file:
            feed = {"corpus_iterable": sentences, "total_examples": model.corpus_count}
        model.train(**feed, epochs=call["epochs"])
        return list(model.wv.index_to_key), np.array(model.wv.vectors)

    return engine


# --- the text and the scores ------------------------------------------------------------------------------------------


def write_words(paths: Sequence[Path], target: Path, most: int | None = None) -> tuple[int, int]:
    """All texts as words between spaces, a text a line; the number of words, and of lines."""
    from bertworks.data.readers import TextFiles
    from bertworks.vectors.options import TextOptions
    from bertworks.vectors.splitting import splitter

    split = splitter(TextOptions())
    words = lines = 0
    with target.open("w", encoding="utf-8") as file:
        for text in TextFiles(paths).texts():
            found = split(text)
            if found:
                file.write(" ".join(found) + "\n")
                words, lines = words + len(found), lines + 1
            if most is not None and lines == most:
                break
    return words, lines


def scores(result: Result, folder: Path) -> dict[str, float]:
    """Every set's value."""
    from bertworks.vectors import WordVectors
    from bertworks.vectors.evaluate import read_set, score

    vectors = WordVectors(*result)
    found: dict[str, float] = {}
    for name in SETS:
        got = score(vectors, read_set(folder / name))
        found[name] = got.value or 0.0
        found |= {part: got.parts[part] for part in ("semantic", "syntactic") if part in got.parts}
    return found


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.vectors", description="Word vectors, ours and gensim's."
    )
    parser.add_argument(
        "--files", type=int, default=2, help="files of English Wikipedia, 4 million words each (default 2)"
    )
    parser.add_argument("--lines", type=int, help="only so many lines of text, for a quick look")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--score-seeds", type=int, default=1, help="trainings of each engine for the scores (default 1)"
    )
    parser.add_argument("--only-scores", action="store_true", help="no speed; the scores go into the file of --output")
    add_places(parser, "vectors")
    options = parser.parse_args(arguments)
    if options.score_seeds < 1:
        parser.error(f"--score-seeds must be at least 1, not {options.score_seeds}")
    if options.only_scores and not options.output.exists():
        parser.error(f"--only-scores: {options.output} does not exist; measure the speed first, without it")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    paths = sorted((options.data / "corpus").glob("wiki-en-*.txt.xz"))[: options.files]
    if len(paths) < options.files:
        sys.exit(f"--files {options.files}: {options.data / 'corpus'} has only {len(paths)} files wiki-en-*.txt.xz")
    command = command_line("vectors", arguments)
    machine = describe_machine(options.threads, ["bertworks", "gensim", "numba", "numpy"])
    report: dict[str, Any] = {
        "benchmark": "vectors",
        "title": f"word vectors of {options.dim} numbers, {options.epochs} epochs",
        "command": command,
        "machine": machine,
        "rounds": options.rounds,
        "workloads": {},
        "notes": [],
        "scores": {},
        "scored": {},
    }
    if options.only_scores:
        report = json.loads(options.output.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        text, sample = Path(name) / "text.txt", Path(name) / "sample.txt"
        words, lines = write_words(paths, text, options.lines)
        write_words(paths, sample, SAMPLE_LINES)
        say(f"{words:,} words in {lines:,} texts")
        scored = {"command": command, "machine": machine, "files": options.files, "words": words}
        for algorithm in options.algorithms:
            if options.only_scores:
                found = score_seeds(algorithm, text, range(options.score_seeds), options)
            else:
                report["workloads"][algorithm], found = measure_algorithm(algorithm, text, sample, words, options)
            report["scores"][algorithm] = found
            report["scored"][algorithm] = {**scored, "seeds": list(range(options.score_seeds))}
    report["notes"] = score_notes(report)
    write_json(report, options.output)
    if options.write_docs:
        write_page(report, ROOT / "docs" / "benchmarks" / "vectors.md")
    print(render(report))


def call_of(algorithm: str, text: Path, options: argparse.Namespace) -> Call:
    """A training with the seed 0. GloVe's usual epochs and window are multiples of the others'."""
    epochs, window = (
        (5 * options.epochs, 2 * options.window) if algorithm == "glove" else (options.epochs, options.window)
    )
    path = str(text)
    return {"path": path, "algorithm": algorithm, "dim": options.dim, "epochs": epochs, "window": window, "seed": 0}


def score_seeds(algorithm: str, text: Path, seeds: Sequence[int], options: argparse.Namespace) -> Scores:
    """Train every engine with each seed, in this process; the scores of the vectors."""
    made = {OURS: bertworks_engine(options.threads, hogwild=True)} if options.threads > 1 else {}
    made[IN_ORDER] = bertworks_engine(options.threads, hogwild=False)
    if algorithm in OF_BOTH:
        made[THEIRS] = gensim_engine(options.threads)
    found: Scores = {name: {} for name in made}
    for seed in seeds:
        for name, engine in made.items():
            add_scores(found[name], engine({**call_of(algorithm, text, options), "seed": seed}), options)
            say(f"{algorithm}, seed {seed}: {name} {[f'{values[-1]:.4f}' for values in found[name].values()]}")
    return found


def add_scores(found: dict[str, list[float]], result: Result, options: argparse.Namespace) -> None:
    """One training's scores to those of other seeds."""
    for name, value in scores(result, options.data / "wordvectors").items():
        found.setdefault(name, []).append(value)


def measure_algorithm(
    algorithm: str, text: Path, sample: Path, words: int, options: argparse.Namespace
) -> tuple[dict[str, Any], Scores]:
    """The speed of every engine that has this algorithm, and the scores of their vectors."""
    factory = "benchmarks.vectors:bertworks_engine"
    engines = [
        Engine(name=OURS, factory=factory, options={"hogwild": True}),
        Engine(name=IN_ORDER, factory=factory, options={"hogwild": False}),
    ]
    if algorithm in OF_BOTH:
        candidates = [{"from_file": False}, {"from_file": True}]
        engines.append(Engine(name=THEIRS, factory="benchmarks.vectors:gensim_engine", candidates=candidates))
    call = call_of(algorithm, text, options)
    results: list[Result] = []

    def keep(result: list[Any], baseline: list[Any]) -> dict[str, float]:
        results.append(result[0])
        return {}

    epochs = call["epochs"]
    workload = Workload(
        name=algorithm,
        title=f"{algorithm}, {words / 1e6:.1f} million words of English Wikipedia, {epochs} epochs",
        calls=[call],
        items=words * epochs,
        unit="words",
        sample=[{**call, "path": str(sample), "epochs": 1}],
        facts={"million words": round(words / 1e6, 1), "dimensions": options.dim, "words on each side": call["window"]},
    )
    measured = measure(
        engines, workload, rounds=options.rounds, threads=options.threads, baseline=THEIRS, compare=keep, say=say
    )
    alive = [engine.name for engine in engines if "error" not in measured["engines"][engine.name]]
    found: Scores = {}
    for engine, result in zip(alive, results, strict=True):
        measured["engines"][engine].pop("check", None)
        add_scores(found.setdefault(engine, {}), result, options)
        say(f"{algorithm}: {engine} {found[engine]}")
    if options.score_seeds > 1:
        for engine, more in score_seeds(algorithm, text, range(1, options.score_seeds), options).items():
            for name, values in found.get(engine, {}).items():
                values += more[name]
    return measured, found


def score_notes(report: dict[str, Any]) -> list[str]:
    """A table for the scores of each command, below what they are of."""
    commands: dict[str, list[str]] = {}
    for algorithm in report["scores"]:
        commands.setdefault(report["scored"][algorithm]["command"], []).append(algorithm)
    notes = []
    for command, algorithms in commands.items():
        scored = report["scored"][algorithms[0]]
        machine, seeds = scored["machine"], len(scored["seeds"])
        trained = (
            "trained once (one seed)" if seeds == 1 else f"{seeds} seeds: their mean, the smallest and the largest"
        )
        of = f"{scored['words'] / 1e6:.1f} million words ({scored['files']} file{'s' * (scored['files'] > 1)})"
        by = f"`{command}` on {machine['date'][:10]}, {machine['processor']}, threads: {machine['threads']}"
        notes.append(f"Scores of vectors of {of}, {trained}. By {by}.")
        notes.append(score_table({algorithm: report["scores"][algorithm] for algorithm in algorithms}))
    return notes


def score_table(found: dict[str, Scores]) -> str:
    """One row per algorithm and engine."""
    rows = []
    for algorithm, engines in found.items():
        for engine, values in engines.items():
            cells = [spread(values.get(name, []), form) for name, (_, form) in MEASURES.items()]
            rows.append([f"{algorithm}, {engine}", *cells])
    return table(["vectors", *(title for title, _ in MEASURES.values())], rows)


if __name__ == "__main__":
    main()
