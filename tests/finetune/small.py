"""What the tests of fine-tuning share: a tiny model on the disk, small labelled files that can be learnt, short runs."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bertworks import hub
from bertworks.data.labelled.examples import Place, TextExample
from bertworks.finetune.events import Event, Finished, Stepped
from bertworks.finetune.run import FinetuneOptions, finetune
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer
from tests.tasks import small

NOUNS = ("river", "mill", "market", "geese", "daughter", "miller")
QUICK = (
    "train.log_steps=1",
    "train.batch_size=8",
    "train.epochs=2",
    "train.optimizer.learning_rate=2e-3",
    "train.checkpoint_minutes=none",
)


@functools.cache
def _made(family: str, layers: int) -> tuple[Model, Tokenizer]:
    torch.manual_seed(3)
    name = "n_layer" if "gpt" in family else "num_hidden_layers"
    return small.make_model(family, **{name: layers})


def make_model(family: str = "bert", layers: int = 2) -> tuple[Model, Tokenizer]:
    """A tiny random model with dropout, so that a resumed training must draw the same masks."""
    model, tokenizer = _made(family, layers)
    return copy.deepcopy(model), tokenizer


def rows(count: int, *, seed: int = 0) -> list[tuple[str, str]]:
    """Sentences and labels; the label is told by one word, at any place."""
    random = torch.Generator().manual_seed(seed)
    found = []
    for number in range(count):
        order = torch.randperm(len(NOUNS), generator=random).tolist()
        words = [NOUNS[index] for index in order[: 2 + number % 4]]
        kind = "walks" if number % 2 else "runs"
        words.insert(int(torch.randint(0, len(words) + 1, (1,), generator=random)), kind)
        found.append((" ".join(words), "still" if kind == "walks" else "quick"))
    return found


def examples(count: int, *, seed: int = 0) -> list[TextExample]:
    return [
        TextExample(text=text, label=label, place=Place("rows", number + 1))
        for number, (text, label) in enumerate(rows(count, seed=seed))
    ]


def write_csv(path: Path, table: Sequence[tuple[str, str]]) -> Path:
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in table), encoding="utf-8")
    return path


def write_model(directory: Path, family: str = "bert") -> Path:
    hub.save(*make_model(family), directory)
    return directory


def make_files(folder: Path) -> dict[str, Path]:
    """A model, and files for training and evaluation."""
    return {
        "model": write_model(folder / "model"),
        "train": write_csv(folder / "train.csv", rows(40)),
        "dev": write_csv(folder / "dev.csv", rows(16, seed=1)),
    }


def options(files: dict[str, Path], output: Path, *settings: str, **more: Any) -> FinetuneOptions:
    given = {"task": "classify", "train": files["train"], "dev": files["dev"], "track": (), **more}
    return FinetuneOptions(output=output, model=str(files["model"]), settings=(*QUICK, *settings), **given)


def run(files: dict[str, Path], output: Path, *settings: str, **more: Any) -> list[Event]:
    return list(finetune(options(files, output, *settings, **more)))


def finished(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished), events[-1]
    return events[-1]


def losses(events: Sequence[Event]) -> list[float]:
    return [event.loss for event in events if isinstance(event, Stepped)]


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return dict(hub.load(directory).model.named_parameters())


def assert_same_run(ours: Path, theirs: Path) -> None:
    """Two finished directories hold the same weights, predictions and figures, to the last bit."""
    first, second = weights(ours), weights(theirs)
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name
    for name in ("predictions.jsonl", "bertworks.json"):
        assert (ours / name).read_text() == (theirs / name).read_text(), name
    told = []
    for directory in (ours, theirs):
        result = json.loads((directory / "metrics.json").read_text())
        runs = [{key: value for key, value in each.items() if key != "seconds"} for each in result.pop("runs")]
        told.append(({key: value for key, value in result.items() if key != "seconds"}, runs))
    assert told[0] == told[1]
