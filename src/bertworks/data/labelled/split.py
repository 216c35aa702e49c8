"""Development examples out of the training file, where there is no file of their own.

Examples of one group (a document, an article, a video) never fall on both sides: questions about the same paragraph on
both would make a model look better than it is. Where no group is named, questions about one context and texts that belong to
one anchor make a group. Without groups each label keeps its share. Which examples are taken is a function of the seed, the
examples' number, and their groups or labels, so that a later run takes the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

from bertworks.data.labelled.examples import ChoiceExample, Example, QuestionExample, SimilarityExample, TextExample
from bertworks.data.pretraining.draw import Stream, permutation
from bertworks.errors import DataError, UsageError

ExampleT = TypeVar("ExampleT", bound=Example)


def split(examples: Sequence[ExampleT], fraction: float, seed: int) -> tuple[list[ExampleT], list[ExampleT]]:
    """(training, development) examples, each in the order of the file; at least one example or group on either side."""
    if not 0 < fraction < 1:
        raise UsageError(f"the development fraction must be between 0 and 1, not {fraction}")
    if len(examples) < 2:
        raise DataError(f"{len(examples)} example cannot be split into training and development examples")
    target = min(max(round(len(examples) * fraction), 1), len(examples) - 1)
    order = [int(number) for number in permutation(Stream.HELD_OUT, seed, 0, len(examples))]
    groups = _groups(examples)
    taken = _by_label(examples, target, order) if groups is None else _by_group(groups, target, order)
    train = [example for number, example in enumerate(examples) if number not in taken]
    return train, [example for number, example in enumerate(examples) if number in taken]


def _groups(examples: Sequence[Example]) -> list[str | None] | None:
    """What each example stays together with, by the file's word or by what it is about; None where nothing ties any two."""
    if any(example.group is not None for example in examples):
        return [_about(example) if example.group is None else example.group for example in examples]
    groups = [_about(example) for example in examples]
    named = [group for group in groups if group is not None]
    return groups if 1 < len(set(named)) < len(named) else None


def _about(example: Example) -> str | None:
    """The context of a question, the anchor of texts that belong together."""
    if isinstance(example, QuestionExample):
        return example.context
    return example.texts[0] if isinstance(example, SimilarityExample) else None


def _by_group(groups: Sequence[str | None], target: int, order: Sequence[int]) -> set[int]:
    """Whole groups, in random order, as long as they bring the number of examples nearer to the target."""
    members: dict[Hashable, list[int]] = {}
    for number in order:  # the order of the groups is that of their first members
        group = groups[number]
        members.setdefault(number if group is None else group, []).append(number)
    if len(members) < 2:
        message = (
            f"all examples belong to one group ({next(iter(members))}), which cannot be split; give development "
            "examples in a file of their own, or name another group column"
        )
        raise DataError(message)
    taken: set[int] = set()
    num_groups = 0
    for numbers in members.values():
        if num_groups == len(members) - 1 and num_groups > 0:  # one stays for training
            break
        if abs(len(taken) + len(numbers) - target) < abs(len(taken) - target):
            taken.update(numbers)
            num_groups += 1
    smallest = min(members.values(), key=len)
    return taken or set(smallest)


def _by_label(examples: Sequence[Example], target: int, order: Sequence[int]) -> set[int]:
    """Of each label its share: whole examples first, then those with the largest remainder (Hamilton's method).

    A rare label would often get none, and nothing would be known of it: where there are examples enough, each that has two
    gets one.
    """
    kinds = [_kind(example) for example in examples]
    sizes = Counter(kinds[number] for number in order)  # in random order, which decides between equal remainders
    shares = {kind: size * target / len(examples) for kind, size in sizes.items()}
    several = [kind for kind, size in sizes.items() if size > 1]
    least = dict.fromkeys(several, 1) if len(several) <= target else {}
    quota = {kind: max(int(share), least.get(kind, 0)) for kind, share in shares.items()}
    while sum(quota.values()) > target:  # which the labels pay that have most more than their share
        quota[max(quota, key=lambda kind: (quota[kind] > least.get(kind, 0), quota[kind] - shares[kind]))] -= 1
    by_remainder = sorted(shares, key=lambda kind: quota[kind] - shares[kind])
    for kind in by_remainder[: target - sum(quota.values())]:
        quota[kind] += 1
    taken: set[int] = set()
    for number in order:
        if quota[kinds[number]] > 0:
            quota[kinds[number]] -= 1
            taken.add(number)
    return taken


def _kind(example: Example) -> Hashable:
    """What keeps its share in a split: the class; nothing where there are no classes (numbers, tags, similarity)."""
    if isinstance(example, TextExample) and not isinstance(example.label, float):
        return example.label
    if isinstance(example, QuestionExample):
        return bool(example.answers)
    if isinstance(example, ChoiceExample):
        return example.label
    return None
