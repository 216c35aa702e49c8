"""From files to examples: read, split where there is no development file, and fingerprinted.

The fingerprint is of the examples, not of the files: it says whether a resumed run would see the same rows, whatever the
files are called now and whatever was said about how to read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from bertworks.data.labelled.examples import UNREAD, Example, SimilarityExample, TextExample
from bertworks.data.labelled.options import LabelledData
from bertworks.data.labelled.read import read
from bertworks.data.labelled.split import split
from bertworks.errors import DataError, UsageError, first_few
from bertworks.finetune.config import DataSection, RunSection
from bertworks.finetune.defaults import DEV_FRACTION
from bertworks.tasks.classification import names_of


@dataclass(frozen=True, kw_only=True)
class RunData:
    """What a run is trained on and judged by."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    understood: tuple[str, ...]
    """Sentences on how the files were read."""
    split: bool
    """Whether the development examples are a part of the training file."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Of the training file (`LabelledData.columns`)."""

    @property
    def sha256(self) -> str:
        """Of all examples, in their order."""
        digest = hashlib.sha256()
        for part in (self.train, self.dev, self.test):
            for example in part:
                digest.update(repr(_content(example)).encode("utf-8", "surrogatepass"))
            digest.update(b"|")
        return digest.hexdigest()


def read_data(run: RunSection, section: DataSection) -> RunData:
    """The examples of a run. Problems are told with file and line."""
    if run.dev is not None and section.dev_fraction is not None:
        raise UsageError("give --dev or --dev-fraction, not both")
    read_files: dict[str, LabelledData] = {}
    options = section.options
    for name, path in (("train", run.train), ("dev", run.dev), ("test", run.test)):
        if path is not None:
            read_files[name] = read(Path(path), run.task, options)
            options = replace(options, remembered=read_files["train"].columns)
    understood = [line for found in read_files.values() for line in _told(found)]
    train, dev = read_files["train"].examples, read_files["dev"].examples if "dev" in read_files else []
    if section.max_examples is not None and section.max_examples < len(train):
        understood.append(f"of {run.train} only the first {section.max_examples:,} of {len(train):,} examples are used")
        train = train[: section.max_examples]
    splits = run.dev is None and any(_can_be_judged(example) for example in train)
    if splits:
        fraction = section.dev_fraction or DEV_FRACTION
        groups = {example.group for example in train}
        if len(groups) == 1 and groups != {None} and section.group_column is None:
            understood.append(f"{run.train} is one document: the evaluation examples are taken from within it")
            train = [replace(example, group=None) for example in train]
        try:
            train, dev = split(train, fraction, run.seed)
        except DataError as error:
            raise DataError(f"{error}; give a file with --dev", path=run.train) from error
        understood.append(
            f"{len(dev):,} of {len(train) + len(dev):,} examples ({len(dev) / (len(train) + len(dev)):.0%}) are kept for "
            f"evaluation, {len(train):,} are trained on"
        )
    if absent := _absent(train, dev):
        understood.append(f"no evaluation example has the label {absent}: nothing is said of how well it is told")
    test = read_files["test"].examples if "test" in read_files else []
    trained = {_read_of(example) for example in train}
    for name, examples in (("evaluation", dev), ("test", test)):
        if known := sum(_read_of(example) in trained for example in examples):
            understood.append(f"{known:,} of {len(examples):,} {name} examples are trained on as well, word for word")
    return RunData(
        train=train,
        dev=dev,
        test=test,
        understood=tuple(understood),
        split=splits,
        columns=read_files["train"].columns,
    )


def _absent(train: Iterable[Example], dev: Iterable[Example]) -> str:
    """Labels of training examples that no evaluation example has, where there are any of these: `a, b, c and 4 more`."""
    known, judged = (
        {name for each in examples if isinstance(each, TextExample) and _has_classes(each) for name in names_of(each)}
        for examples in (train, dev)
    )
    absent = sorted(known - judged) if judged else []
    return first_few(absent)


def _has_classes(example: TextExample) -> bool:
    return isinstance(example.label, str | tuple)


def _can_be_judged(example: Example) -> bool:
    """Single texts teach similarity, but nobody knows what they are similar to."""
    return not isinstance(example, SimilarityExample) or len(example.texts) > 1


def _told(found: LabelledData) -> Iterable[str]:
    """How a file was read; of the rows that were left out the first is told there, the next few here."""
    yield from found.understood
    for error in found.bad[1:]:
        yield f"left out as well: {error}"


def _read_of(example: Example) -> tuple[Any, ...]:
    """What a model reads of an example."""
    return tuple(getattr(example, f.name) for f in fields(example) if f.name not in UNREAD)


def _content(example: Example) -> tuple[Any, ...]:
    """Everything but where it stands."""
    return tuple(getattr(example, f.name) for f in fields(example) if f.name not in ("place", "lines"))
