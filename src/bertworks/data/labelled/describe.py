"""What is in a file, in a sentence or two: how many rows, which labels, how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from bertworks.data.labelled.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.errors import first_few

SHOWN_LABELS = 10

ExampleT = TypeVar("ExampleT")


def describe(examples: Sequence[Example]) -> list[str]:
    """Facts about the examples, which are all of one kind (except texts among sentences of words)."""
    said: list[str] = []
    if texts := _only(examples, TextExample):
        said += _texts(texts)
    if tagged := _only(examples, TaggedExample):
        said += _tagged(tagged)
    if choices := _only(examples, ChoiceExample):
        said += _choices(choices)
    if questions := _only(examples, QuestionExample):
        said += _questions(questions)
    if similar := _only(examples, SimilarityExample):
        said += _similar(similar)
    return said


def _only(examples: Sequence[Example], kind: type[ExampleT]) -> list[ExampleT]:
    return [example for example in examples if isinstance(example, kind)]


def _texts(examples: Sequence[TextExample]) -> list[str]:
    said = [f"{len(examples):,} rows"]
    labels = [example.label for example in examples if example.label is not None]
    if not labels:
        return [*said, "no labels"]
    numbers = [label for label in labels if isinstance(label, float)]
    if numbers:
        said.append(f"numbers from {min(numbers):g} to {max(numbers):g}, mean {sum(numbers) / len(numbers):.4g}")
    sets = [label for label in labels if isinstance(label, tuple)]
    if sets:
        said.append(f"{sum(map(len, sets)) / len(sets):.2g} labels a row")
        if without := sum(not label for label in sets):
            said.append(f"{without:,} rows without any")
    names = [label for label in labels if isinstance(label, str)] + [name for label in sets for name in label]
    if names:
        said.append(f"labels {listed(names)}")
    if len(labels) < len(examples):
        said.append(f"{len(examples) - len(labels):,} rows without a label")
    return said


def _tagged(examples: Sequence[TaggedExample]) -> list[str]:
    said = [f"{len(examples):,} sentences", f"{sum(len(example.words) for example in examples):,} words"]
    documents = {example.group for example in examples if example.group is not None}
    if documents:
        said.append(f"{len(documents):,} documents")
    tags = [tag for example in examples for tag in example.tags or ()]
    return [*said, f"tags {listed(tags)}" if tags else "no tags"]


def _choices(examples: Sequence[ChoiceExample]) -> list[str]:
    counts = sorted({len(example.options) for example in examples})
    options = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    labels = [str(example.label) for example in examples if example.label is not None]
    right = f"the right one is number {listed(labels)} (from 0)" if labels else "no labels"
    return [f"{len(examples):,} rows of {options} options", right]


def _questions(examples: Sequence[QuestionExample]) -> list[str]:
    contexts = len({example.context for example in examples})
    said = [f"{len(examples):,} questions about {contexts:,} contexts"]
    if groups := {example.group for example in examples if example.group is not None}:
        said.append(f"{len(groups):,} articles")
    if all(example.answers is None for example in examples):
        return [*said, "no answers"]
    return [*said, f"{sum(example.answers == () for example in examples):,} without an answer"]


def _similar(examples: Sequence[SimilarityExample]) -> list[str]:
    said = [f"{len(examples):,} rows of {listed_sizes(examples)}"]
    scores = [example.score for example in examples if example.score is not None]
    if scores:
        said.append(f"scores from {min(scores):g} to {max(scores):g}, mean {sum(scores) / len(scores):.4g}")
    return said


def listed_sizes(examples: Sequence[SimilarityExample]) -> str:
    """`2 texts`, or `3 to 8 texts`."""
    sizes = sorted({len(example.texts) for example in examples})
    return f"{sizes[0]} text{'s' * (sizes[0] > 1)}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} texts"


def listed(labels: Sequence[str]) -> str:
    """The labels with their counts: all in order of name, or the most frequent where they are many."""
    counts = Counter(labels)
    ordered = counts.most_common() if len(counts) > SHOWN_LABELS else sorted(counts.items())
    return first_few([f"{name} ({count:,})" for name, count in ordered], SHOWN_LABELS)
