"""Two hundred cloze questions: what a masked language model knows of facts, grammar, idioms and agreement.

    python -m benchmarks.cloze MODEL… [--corpus FILE…] [--write-docs]

The questions were written for this project, 50 of each kind, and frozen before any model of it was trained: their file must
have the SHA-256 below. A question has one [MASK] and a list of accepted words in lower case. It is answered by `fill` as a
user would call it: accuracy@1 is how often the most probable token is an accepted word, accuracy@5 how often one of
the five most probable is. Capital letters do not matter.

A word that the tokenizer cuts into several pieces cannot be given by one mask and **counts as wrong**; how many questions
have no answer of one piece is reported beside the accuracy. Two yardsticks: *chance* draws five different tokens of the
vocabulary, the *unigram* model always gives the five most frequent words of a corpus.

Models that are in the JSON file already keep their rows; a model that is named again is asked again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.asked import ask_models
from benchmarks.harness import describe_machine
from benchmarks.options import ROOT, add_models, add_places, command_line
from benchmarks.report import table

QUESTIONS = Path(__file__).with_name("cloze_questions.jsonl")
SHA256 = "0164b59d481bba3ac40de702fa6fc2b80000b2e132876c7bdb719ecc2f93d872"
KINDS = ("fact", "grammar", "idiom", "agreement")
TOP = 5
ALL = "all"
WORD = re.compile(r"[^\W_]+")
CORPUS = "wiki-en-00.txt.xz"


@dataclass(frozen=True)
class Question:
    kind: str
    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Answered:
    """A question, the words that were given for it (the best first), and its accepted words of one piece."""

    question: Question
    given: tuple[str, ...]
    reachable: int

    @property
    def rank(self) -> int | None:
        """The place of the first accepted word, from 1."""
        found = (place for place, word in enumerate(self.given, start=1) if word in self.question.answers)
        return next(found, None)


def read_questions(path: Path = QUESTIONS, sha256: str | None = SHA256) -> list[Question]:
    """The questions, which must be the frozen ones."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        sys.exit(f"{path.name} is not the frozen set: its SHA-256 is {found}, it should be {sha256}")
    rows = [json.loads(line) for line in content.decode("utf-8").splitlines()]
    return [Question(row["kind"], row["text"], tuple(row["answers"])) for row in rows]


def ask(model: Any, questions: Sequence[Question]) -> list[Answered]:
    """What `model.fill` gives for each."""
    found = []
    for question in questions:
        (candidates,) = model.fill(question.text, top_k=TOP)
        given = tuple(candidate.token.lower() for candidate in candidates)
        scored = model.fill(question.text, targets=question.answers)
        found.append(Answered(question, given, sum(score.num_tokens == 1 for score in scored)))
    return found


def accuracies(answered: Sequence[Answered]) -> dict[str, dict[str, float]]:
    """accuracy@1 and @5 of every kind and of all."""
    return {
        kind: {f"@{top}": sum((each.rank or top + 1) <= top for each in chosen) / len(chosen) for top in (1, TOP)}
        for kind, chosen in by_kind(answered).items()
    }


def by_kind(answered: Sequence[Answered]) -> dict[str, list[Answered]]:
    kinds = {kind: [each for each in answered if each.question.kind == kind] for kind in KINDS}
    return {kind: chosen for kind, chosen in kinds.items() if chosen} | {ALL: list(answered)}


def chance(answered: Sequence[Answered], vocab_size: int) -> dict[str, dict[str, float]]:
    """The expected accuracies of drawing different tokens at random."""

    def hit(reachable: int, top: int) -> float:
        return 1 - math.comb(vocab_size - reachable, top) / math.comb(vocab_size, top)

    return {
        kind: {f"@{top}": sum(hit(each.reachable, top) for each in chosen) / len(chosen) for top in (1, TOP)}
        for kind, chosen in by_kind(answered).items()
    }


def frequent_words(texts: Iterable[str]) -> tuple[list[str], int]:
    """The most frequent words in lower case, and how many words there were."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(WORD.findall(text.lower()))
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return order[:TOP], counts.total()


def unigram(questions: Sequence[Question], words: Sequence[str]) -> dict[str, dict[str, float]]:
    return accuracies([Answered(question, tuple(words), len(question.answers)) for question in questions])


def measure(name: str, model: Any, questions: Sequence[Question]) -> dict[str, Any]:
    """The row of one model."""
    answered = ask(model, questions)
    vocab_size = model.tokenizer.vocab_size
    return {
        "model": name,
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "vocab_size": vocab_size,
        "accuracy": accuracies(answered),
        "chance": chance(answered, vocab_size),
        "out_of_reach": sum(each.reachable == 0 for each in answered),
        "answers": [list(each.given) for each in answered],
    }


def render(report: Mapping[str, Any]) -> str:
    kinds = [kind for kind in (*KINDS, ALL) if kind in report["unigram"]["accuracy"]]
    header = ["", *(f"{kind} {at}" for kind in kinds for at in ("@1", f"@{TOP}")), "no answer of one piece"]

    def row(title: str, accuracy: Mapping[str, Mapping[str, float]], beyond: str, form: str = ".1%") -> list[str]:
        return [title, *(f"{accuracy[kind][at]:{form}}" for kind in kinds for at in ("@1", f"@{TOP}")), beyond]

    rows = [row(name, each["accuracy"], str(each["out_of_reach"])) for name, each in report["models"].items()]
    widest = max((each["vocab_size"] for each in report["models"].values()), default=0)
    named = [each for each in report["models"].values() if each["vocab_size"] == widest][:1]
    rows.append(row("the five most frequent words", report["unigram"]["accuracy"], ""))
    rows += [row(f"chance ({each['vocab_size']:,} tokens)", each["chance"], "", ".2%") for each in named]
    words = ", ".join(f"*{word}*" for word in report["unigram"]["words"])
    return "\n".join(
        [
            "# Benchmark: 200 cloze questions\n",
            f"Written by `{report['command']}` on {report['machine']['date'][:10]}; do not edit by hand.\n",
            (
                f"{report['questions']['count']} questions, written and frozen before any training (SHA-256 "
                f"`{report['questions']['sha256'][:16]}…`), each with one mask: facts, grammar, idioms and agreement. "
                f"@1: the most probable token is an accepted word; @{TOP}: one of the {TOP} most probable is. Where no "
                "accepted word is a single token of the model, the question counts as wrong; the last column counts "
                f"them. The most frequent words of {report['unigram']['corpus']} are {words}.\n"
            ),
            table(header, rows) + "\n",
        ]
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cloze", description="200 cloze questions.")
    add_models(parser)
    parser.add_argument("--corpus", nargs="+", type=Path, metavar="FILE", help=f"default: DATA/corpus/{CORPUS}")
    parser.add_argument("--threads", type=int, default=2)
    add_places(parser, "cloze")
    options = parser.parse_args(arguments)
    options.corpus = options.corpus or [options.data / "corpus" / CORPUS]
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    import torch

    from bertworks.data.readers import TextFiles

    options = parse(arguments)
    torch.set_num_threads(options.threads)
    questions = read_questions()
    words, count = frequent_words(TextFiles(options.corpus).texts())
    corpus = ", ".join(path.name for path in options.corpus)
    report: dict[str, Any] = {
        "benchmark": "cloze",
        "command": command_line("cloze", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "torch"]),
        "questions": {"file": QUESTIONS.name, "sha256": SHA256, "count": len(questions)},
        "unigram": {"corpus": corpus, "num_words": count, "words": words, "accuracy": unigram(questions, words)},
        "models": {},
    }
    ask_models(report, options, lambda name, model: measure(name, model, questions), lambda row: row["accuracy"][ALL])
    if options.write_docs:
        page = ROOT / "docs" / "benchmarks" / "cloze.md"
        page.write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
