"""Text to token ids in one array: our runtime against `tokenizers.encode_batch`, with the same tokenizer.json.

    python -m benchmarks.tokenize --rounds 3 --threads 2 [--megabytes 50] [--write-docs]

English, Swedish and Chinese text, each with a WordPiece and a byte-level BPE tokenizer that our trainers made from the
first megabytes of it. Every engine gets the same lists of paragraphs and ends with one int32 array of ids and one array
of lengths. The ids of the whole text are compared one by one. Offsets are compared on a part of it, since ours come from
`tokenizers` too, cut to leave out spaces; the peer's byte-level post-processor is asked to do the same (`trim_offsets`).
"""

from __future__ import annotations

import argparse
import lzma
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Workload, describe_machine, measure
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.process import Engine
from benchmarks.report import render, write_json, write_page

OURS, THEIRS = "bertworks", "tokenizers"
LANGUAGES = {"English": "wiki-en-*", "Swedish": "novels-sv-*", "Chinese": "wiki-zh-*"}
ALGORITHMS = ("wordpiece", "byte-bpe")
CALL_CHARACTERS = 1_000_000
TRAINING_BYTES = 10_000_000
OFFSET_CALLS = 2  # of a million characters each

Arrays = tuple[np.ndarray, np.ndarray]


def bertworks_engine(threads: int, directory: str) -> Callable[[list[str]], Arrays]:
    from bertworks.text import Tokenizer

    tokenizer = Tokenizer.from_directory(directory)
    if tokenizer.fast_path != "tokie":
        raise RuntimeError(f"the fast path does not apply: {tokenizer.fast_path}")
    return tokenizer.ids


def tokenizers_engine(threads: int, directory: str) -> Callable[[list[str]], Arrays]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(directory) / "tokenizer.json"))

    def engine(texts: list[str]) -> Arrays:
        rows = [row.ids for row in tokenizer.encode_batch(texts, add_special_tokens=False)]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths

    return engine


def paragraphs(paths: Sequence[Path], limit: int) -> Iterator[str]:
    """Lines with text, until `limit` bytes have been read."""
    read = 0
    for path in paths:
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                read += len(line.encode())
                if read > limit:
                    return
                if not line.isspace():
                    yield line.rstrip("\n")


def calls(texts: Iterator[str]) -> list[list[str]]:
    """The texts in lists of about a million characters."""
    result: list[list[str]] = [[]]
    characters = 0
    for text in texts:
        result[-1].append(text)
        characters += len(text)
        if characters >= CALL_CHARACTERS:
            result.append([])
            characters = 0
    return [call for call in result if call]


def train(texts: Iterator[str], algorithm: str, vocab_size: int, directory: Path) -> None:
    from bertworks.text.train import TrainerOptions, train_tokenizer

    train_tokenizer(texts, TrainerOptions.of(algorithm, vocab_size=vocab_size)).save(directory)


def compare(results: list[Any], baseline: list[Any]) -> dict[str, float]:
    """How many ids there are and how many of them differ from the baseline's."""
    different = 0
    for (ids, lengths), (expected, expected_lengths) in zip(results, baseline, strict=True):
        same_shape = np.array_equal(lengths, expected_lengths)
        different += int((ids != expected).sum()) if same_shape else len(expected)
    return {"ids": float(sum(len(ids) for ids, _ in results)), "different_ids": float(different)}


def different_offsets(directory: Path, texts: Sequence[str]) -> tuple[int, int]:
    """How many offsets were compared, and how many differ."""
    from tokenizers import Tokenizer as Backend
    from tokenizers.processors import ByteLevel

    from bertworks.text import Tokenizer

    peer = Backend.from_file(str(directory / "tokenizer.json"))
    ours = Tokenizer.from_directory(directory)
    if ours.kind == "BPE":
        peer.post_processor = ByteLevel(trim_offsets=True)
    compared = different = 0
    for mine, other in zip(
        ours.encode_batch(texts, special=False), peer.encode_batch(texts, add_special_tokens=False), strict=True
    ):
        expected = np.asarray(other.offsets, np.int64).reshape(-1, 2)
        compared += len(expected)
        different += int((np.asarray(mine.offsets) != expected).any(axis=1).sum())
    return compared, different


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tokenize", description="Text to token ids, ours and the peer's."
    )
    parser.add_argument("--megabytes", type=int, default=50, help="of text per language, at most (default 50)")
    parser.add_argument("--vocab-size", type=int, default=30_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    add_places(parser, "tokenize")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)

    report: dict[str, Any] = {
        "benchmark": "tokenize",
        "title": "text to token ids",
        "command": command_line("tokenize", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "tokie", "tokenizers", "numpy"]),
        "rounds": options.rounds,
        "workloads": {},
        "notes": [],
    }
    for language, pattern in LANGUAGES.items():
        paths = sorted((options.data / "corpus").glob(f"{pattern}.txt.xz"))
        if not paths:
            sys.exit(f"{options.data / 'corpus'} has no file {pattern}.txt.xz")
        work = calls(paragraphs(paths, options.megabytes * 1_000_000))
        characters = sum(len(text) for call in work for text in call)
        megabytes = sum(len(text.encode()) for call in work for text in call) / 1e6
        for algorithm in ALGORITHMS:
            with tempfile.TemporaryDirectory() as folder:
                train(paragraphs(paths, TRAINING_BYTES), algorithm, options.vocab_size, Path(folder))
                workload = Workload(
                    name=f"{language} {algorithm}",
                    title=f"{language}, {algorithm}, {megabytes:.0f} MB",
                    calls=work,
                    items=round(megabytes),
                    unit="MB",
                    facts={"megabytes": round(megabytes), "characters": characters, "tokens": options.vocab_size},
                )
                engines = [
                    Engine(name=name, factory=f"benchmarks.tokenize:{name}_engine", options={"directory": folder})
                    for name in (OURS, THEIRS)
                ]
                report["workloads"][workload.name] = measure(
                    engines,
                    workload,
                    rounds=options.rounds,
                    threads=options.threads,
                    baseline=THEIRS,
                    compare=compare,
                    say=say,
                )
                compared, different = different_offsets(Path(folder), list(chain(*work[:OFFSET_CALLS])))
                report["notes"].append(
                    f"{language}, {algorithm}: of {compared:,} offsets compared, {different:,} differ."
                )
    write_json(report, options.output)
    if options.write_docs:
        write_page(report, ROOT / "docs" / "benchmarks" / "tokenize.md")
    print(render(report))


if __name__ == "__main__":
    main()
