"""Word vectors: Bertworks against gensim, words a second and how good the vectors are, in one run.

    python -m benchmarks.vectors --files 2 --epochs 5 --threads 2 --rounds 2 [--algorithms skipgram cbow] [--write-docs]

Both learn from the same words (files of English Wikipedia, small letters, words that occur five times or more), with the
same dimensions, window, negative words, subsampling and epochs. A pass is a whole training: reading and counting are
done before, and vectors start anew. gensim gets the quicker of its two ways to be fed (lists in memory, or a file that
its threads read themselves), found on a sample. Bertworks runs twice: with `threads` threads without locks
(`--hogwild`), as gensim does, and in order on one thread, which gives the same vectors in every run. GloVe and Bernoulli
embeddings, which gensim has not, are measured beside them.

The scores are those of the vectors of the unmeasured first pass: analogies (Google), Spearman's correlation on
WordSim-353 and SimLex-999, all by our own evaluation, on the rows whose words have vectors.
"""

from __future__ import annotations

import argparse
import functools
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

OURS, IN_ORDER, THEIRS = "bertworks, hogwild", "bertworks, in order", "gensim"
ALGORITHMS = ("skipgram", "cbow", "glove", "bernoulli")
SETS = ("questions-words.txt", "wordsim353.tsv", "simlex999.txt")
SAMPLE_LINES = 5000
MIN_COUNT = 5
RATES = {"skipgram": 0.025, "cbow": 0.05, "glove": 0.05, "bernoulli": 0.05}

Call = dict[str, Any]  # path, algorithm, dim, epochs, window
Result = tuple[list[str], np.ndarray]


# --- engines: each turns a call into (words, vectors) -----------------------------------------------------------------


def bertworks_engine(threads: int, hogwild: bool) -> Callable[[Call], Result]:
    from bertworks.vectors import TextOptions, TrainingOptions, VectorsConfig
    from bertworks.vectors.reading import encode
    from bertworks.vectors.train import learnt

    folder = Path(tempfile.mkdtemp(prefix="bertworks-"))

    @functools.cache
    def read(path: str) -> Any:
        place = folder / str(abs(hash(path)))
        place.mkdir()
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
            seed=1,
        )
        model.build_vocab(sentences)
        return model, sentences

    def engine(call: Call, from_file: bool = False) -> Result:
        key = (call["path"], call["algorithm"], call["dim"], call["window"], call["epochs"])
        model, sentences = prepared(*key)
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
    add_places(parser, "vectors")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    paths = sorted((options.data / "corpus").glob("wiki-en-*.txt.xz"))[: options.files]
    if len(paths) < options.files:
        sys.exit(f"--files {options.files}: {options.data / 'corpus'} has only {len(paths)} files wiki-en-*.txt.xz")
    report: dict[str, Any] = {
        "benchmark": "vectors",
        "title": f"word vectors of {options.dim} numbers, {options.epochs} epochs",
        "command": command_line("vectors", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "gensim", "numba", "numpy"]),
        "rounds": options.rounds,
        "workloads": {},
        "notes": [],
        "scores": {},
    }
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        text, sample = Path(name) / "text.txt", Path(name) / "sample.txt"
        words, lines = write_words(paths, text, options.lines)
        write_words(paths, sample, SAMPLE_LINES)
        say(f"{words:,} words in {lines:,} texts")
        for algorithm in options.algorithms:
            measured, found = measure_algorithm(algorithm, text, sample, words, options)
            report["workloads"][algorithm] = measured
            report["scores"][algorithm] = found
    report["notes"].append(score_table(report["scores"]))
    write_json(report, options.output)
    if options.write_docs:
        write_page(report, ROOT / "docs" / "benchmarks" / "vectors.md")
    print(render(report))


def measure_algorithm(
    algorithm: str, text: Path, sample: Path, words: int, options: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """The speed of every engine that has this algorithm, and the scores of their vectors."""
    factory = "benchmarks.vectors:bertworks_engine"
    engines = [
        Engine(name=OURS, factory=factory, options={"hogwild": True}),
        Engine(name=IN_ORDER, factory=factory, options={"hogwild": False}),
    ]
    if algorithm in ("skipgram", "cbow"):
        candidates = [{"from_file": False}, {"from_file": True}]
        engines.append(Engine(name=THEIRS, factory="benchmarks.vectors:gensim_engine", candidates=candidates))
    # GloVe's usual epochs and window are these multiples of the others'.
    epochs, window = (
        (5 * options.epochs, 2 * options.window) if algorithm == "glove" else (options.epochs, options.window)
    )
    call = {"path": str(text), "algorithm": algorithm, "dim": options.dim, "epochs": epochs, "window": window}
    results: list[Result] = []

    def keep(result: list[Any], baseline: list[Any]) -> dict[str, float]:
        results.append(result[0])
        return {}

    workload = Workload(
        name=algorithm,
        title=f"{algorithm}, {words / 1e6:.1f} million words of English Wikipedia, {epochs} epochs",
        calls=[call],
        items=words * epochs,
        unit="words",
        sample=[{**call, "path": str(sample), "epochs": 1}],
        facts={"million words": round(words / 1e6, 1), "dimensions": options.dim, "words on each side": window},
    )
    measured = measure(
        engines, workload, rounds=options.rounds, threads=options.threads, baseline=THEIRS, compare=keep, say=say
    )
    alive = [engine.name for engine in engines if "error" not in measured["engines"][engine.name]]
    found = {}
    for engine, result in zip(alive, results, strict=True):
        measured["engines"][engine].pop("check", None)
        found[engine] = scores(result, options.data / "wordvectors")
        say(f"{algorithm}: {engine} {found[engine]}")
    return measured, found


def score_table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """One row per algorithm and engine."""
    names = ("questions-words.txt", "semantic", "syntactic", "wordsim353.tsv", "simlex999.txt")
    header = ["vectors", "analogies", "semantic", "syntactic", "WordSim-353", "SimLex-999"]
    rows = []
    for algorithm, engines in found.items():
        for engine, values in engines.items():
            shares = [f"{values.get(name, 0):.1%}" for name in names[:3]]
            rows.append([f"{algorithm}, {engine}", *shares, *(f"{values[name]:.3f}" for name in names[3:])])
    return table(header, rows)


if __name__ == "__main__":
    main()
