"""Tokenizer training: Bertworks against `tokenizers`' trainers, on the same text with the same pipeline.

    python -m benchmarks.train_tokenizer --rounds 3 --threads 2 [--files 4] [--vocab-size 30000] [--memory]
    [--write-docs]

Every engine reads the compressed files itself. Bertworks counts words in one process, `tokenizers` in `threads`
threads. Reported beside the time: whether the merges of BPE are identical, how many tokens a word of held-out text
needs with either WordPiece, and (`--memory`) the peak memory on two, four and eight files, with and without a bound
on the words held.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.harness import Workload, describe_machine, measure
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.process import Engine, EngineProcess
from benchmarks.report import render, table, write_json, write_page

OURS, THEIRS = "bertworks", "tokenizers"
ALGORITHMS = ("bpe", "byte-bpe", "wordpiece")
MEMORY_FILES = (2, 4, 8)
BOUND = 100_000  # words, in the memory table

Call = tuple[list[str], str, int]  # files, algorithm, vocabulary size


def read(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                yield line.rstrip("\n")


# --- engines: each turns a call into (vocabulary by id, merges) -------------------------------------------------


def bertworks_engine(threads: int, max_words: int | None = None) -> Callable[[Call], tuple[list[str], list[Any]]]:
    from bertworks.text.train import TrainerOptions, count_words, learn, learn_bpe, learn_wordpiece

    for learner in (learn_bpe, learn_wordpiece):  # compile, or load what was compiled before
        learner({"ab": 2}, vocab_size=4)

    def engine(call: Call) -> tuple[list[str], list[Any]]:
        files, algorithm, vocab_size = call
        options = TrainerOptions.of(algorithm, vocab_size=vocab_size, min_frequency=1)
        learnt = learn(count_words(read(files), options, max_words=max_words), options)
        return list(learnt.vocab), learnt.merges

    return engine


def tokenizers_engine(threads: int) -> Callable[[Call], tuple[list[str], list[Any]]]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    from bertworks.text.train import TrainerOptions
    from bertworks.text.train.pipeline import build_normalizer, build_pre_tokenizer

    def engine(call: Call) -> tuple[list[str], list[Any]]:
        files, algorithm, vocab_size = call
        options = TrainerOptions.of(algorithm, vocab_size=vocab_size)
        common = {"vocab_size": vocab_size, "special_tokens": options.special_tokens, "show_progress": False}
        if algorithm == "wordpiece":
            tokenizer, trainer = Tokenizer(models.WordPiece(unk_token="[UNK]")), trainers.WordPieceTrainer(**common)
        else:
            alphabet = pre_tokenizers.ByteLevel.alphabet() if algorithm == "byte-bpe" else []
            tokenizer, trainer = Tokenizer(models.BPE()), trainers.BpeTrainer(initial_alphabet=alphabet, **common)
        normalizer = build_normalizer(options)
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = build_pre_tokenizer(options)
        tokenizer.train_from_iterator(read(files), trainer)
        model = json.loads(tokenizer.to_str())["model"]
        return sorted(model["vocab"], key=model["vocab"].__getitem__), [tuple(m) for m in model.get("merges", [])]

    return engine


# --- what is compared -------------------------------------------------------------------------------------------------


def tokens_per_word(vocab: list[str], word_counts: dict[str, int]) -> float:
    """Held-out fertility of a WordPiece vocabulary."""
    from tokenizers.models import WordPiece

    model = WordPiece({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]")
    tokens = sum(count * len(model.tokenize(word)) for word, count in word_counts.items())
    return tokens / sum(word_counts.values())


def memory_rows(files: list[str], vocab_size: int, threads: int) -> list[list[str]]:
    """Peak memory of one BPE training per number of files, each in a process of its own."""
    engines = [
        Engine(name=OURS, factory="benchmarks.train_tokenizer:bertworks_engine"),
        Engine(
            name=f"{OURS}, at most {BOUND:,} words",
            factory="benchmarks.train_tokenizer:bertworks_engine",
            options={"max_words": BOUND},
        ),
        Engine(name=THEIRS, factory="benchmarks.train_tokenizer:tokenizers_engine"),
    ]
    rows = []
    for engine in engines:
        cells = [engine.name]
        for count in MEMORY_FILES:
            with EngineProcess(engine, threads) as process:
                process.set_calls([(files[:count], "bpe", vocab_size)])
                process.run()
                cells.append(f"{process.memory()['peak']:.0f}")
        rows.append(cells)
    return rows


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.train_tokenizer", description="Tokenizer training, ours and the peer's."
    )
    parser.add_argument("--files", type=int, default=4, help="files of English Wikipedia, 25 MB each (default 4)")
    parser.add_argument("--vocab-size", type=int, default=30_000)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="also measure peak memory at 50, 100 and 200 MB")
    add_places(parser, "train_tokenizer")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    paths = sorted((options.data / "corpus").glob("wiki-en-*.txt.xz"))
    if len(paths) <= options.files:
        sys.exit(
            f"--files {options.files}: {options.data / 'corpus'} has only {len(paths)} files wiki-en-*.txt.xz, "
            "and one is held out"
        )
    files, held_out = [str(path) for path in paths[: options.files]], str(paths[options.files])
    characters = sum(map(len, read(files)))

    report: dict[str, Any] = {
        "benchmark": "train_tokenizer",
        "title": f"training tokenizers with {options.vocab_size:,} tokens",
        "command": command_line("train_tokenizer", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "tokenizers", "numba", "numpy"]),
        "rounds": options.rounds,
        "workloads": {},
        "notes": [],
    }
    engines = [Engine(name=name, factory=f"benchmarks.train_tokenizer:{name}_engine") for name in (OURS, THEIRS)]
    for algorithm in options.algorithms:
        results: list[tuple[list[str], list[Any]]] = []

        def keep(result: list[Any], baseline: list[Any], results: list[Any] = results) -> dict[str, float]:
            results.append(result[0])
            return {}

        workload = Workload(
            name=algorithm,
            title=f"{algorithm}, {characters / 1e6:.0f} million characters of English Wikipedia",
            calls=[(files, algorithm, options.vocab_size)],
            items=characters // 1_000_000,
            unit="million characters",
            facts={"million characters": characters // 1_000_000, "tokens": options.vocab_size},
        )
        measured = measure(
            engines, workload, rounds=options.rounds, threads=options.threads, baseline=THEIRS, compare=keep, say=say
        )
        for row in measured["engines"].values():
            row.pop("check", None)  # judged below
        report["workloads"][algorithm] = measured
        if len(results) == len(engines):
            report["notes"].append(judge(algorithm, *results, held_out=held_out))
    if "wordpiece" in report["workloads"] and "bpe" in report["workloads"]:
        # Not interleaved, so processor time is compared, which other work on the machine disturbs less.
        seconds = [report["workloads"][name]["engines"][OURS]["cpu_seconds"] for name in ("wordpiece", "bpe")]
        ratios = sorted(one / other for one, other in zip(*seconds, strict=True))
        report["wordpiece_over_bpe"] = ratios
        report["notes"].append(
            f"Our WordPiece took {ratios[0]:.2f} to {ratios[-1]:.2f} times the processor time of our BPE."
        )
    if options.memory:
        rows = memory_rows([str(path) for path in paths], options.vocab_size, options.threads)
        header = ["peak memory of BPE, MiB", *(f"{25 * count} MB" for count in MEMORY_FILES)]
        report["memory_mib"] = rows
        report["notes"].append(table(header, rows))
    write_json(report, options.output)
    if options.write_docs:
        write_page(report, ROOT / "docs" / "benchmarks" / "train_tokenizer.md")
    print(render(report))


def judge(
    algorithm: str, ours: tuple[list[str], list[Any]], theirs: tuple[list[str], list[Any]], *, held_out: str
) -> str:
    """One sentence: identical merges, or tokens per word."""
    if algorithm != "wordpiece":
        same = "identical" if ours == theirs else "NOT identical"
        return f"{algorithm}: vocabulary and {len(ours[1]):,} merges of both are {same}."
    from bertworks.text.train import TrainerOptions, count_words

    words = count_words(read([held_out]), TrainerOptions.of("wordpiece"))
    one, other = tokens_per_word(ours[0], words), tokens_per_word(theirs[0], words)
    return (
        f"wordpiece: tokens a held-out word {one:.4f} (ours, by likelihood) and {other:.4f} (`tokenizers`, by count), "
        f"ratio {one / other:.3f}; {len(set(ours[0]) & set(theirs[0])):,} tokens in common."
    )


if __name__ == "__main__":
    main()
