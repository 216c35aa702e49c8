"""The search for settings: the defaults first, what the user set untouched, killed anywhere it goes on as it would have."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from bertworks.config import resolve
from bertworks.errors import UsageError
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.events import Begun, Fitted, Note
from bertworks.finetune.run import finetune
from bertworks.finetune.search import in_words
from tests.finetune.small import assert_same_run, finished, make_files, options, run

pytest.importorskip("optuna")
FREE = ("train.log_steps=1", "train.checkpoint_minutes=none", "train.checkpoint_steps=3")
TRIALS = 3


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def whole(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "run"
    run(files, output, search=TRIALS, seeds=2)
    return output


def test_what_a_search_leaves(whole: Path) -> None:
    result = json.loads((whole / "metrics.json").read_text())
    trials = result["search"]
    assert [trial["number"] for trial in trials] == list(range(TRIALS))
    assert all(set(trial["settings"]) == {"train.optimizer.layer_decay"} for trial in trials)  # all else is set
    assert trials[0]["settings"] == {"train.optimizer.layer_decay": 1.0}  # the default
    best = max(trials, key=lambda trial: trial["value"])
    stored = resolve(FinetuneConfig, whole / "config.toml")
    assert stored.train.optimizer.layer_decay == best["settings"]["train.optimizer.layer_decay"]
    assert stored.run is not None
    assert stored.run.searched
    assert result["runs"][0]["metrics"]["accuracy"] == best["value"]  # the best trial is the first seed
    assert result["seeds"] == [0, 1]
    assert not list(whole.rglob("candidate"))
    assert not list(whole.rglob("checkpoints"))


def test_killed_anywhere_and_resumed(files: dict[str, Path], whole: Path, tmp_path: Path) -> None:
    for number in (3, 13, 14, 27, 41, 50, 54):
        output = tmp_path / f"killed-{number}"
        events = finetune(options(files, output, search=TRIALS, seeds=2))
        for count, _ in enumerate(events):
            if count == number:
                events.close()  # type: ignore[attr-defined]
        if not (output / "metrics.json").exists():
            finished(list(finetune(options(files, output, resume=True))))
        assert_same_run(output, whole)


def test_everything_is_searched_where_nothing_is_set(files: dict[str, Path], tmp_path: Path) -> None:
    given = options(files, tmp_path / "run", search=2)
    events = list(finetune(type(given)(**{**vars(given), "settings": FREE})))
    titles = [event.title for event in events if isinstance(event, Begun)]
    assert titles[0] == "trial 1 of 2: learning rate 0.0002, epochs 10, batch size 16, layer decay 1"
    assert titles[1] != titles[0]
    assert len([event for event in events if isinstance(event, Fitted)]) == 2  # the best trial is not trained again
    assert in_words(dict(finished(events).chosen)) in [title.partition(": ")[2] for title in titles]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["seeds"] == [0]


def test_a_trial_that_fails(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bertworks.finetune import seeds
    from bertworks.train.loop import NonFiniteError

    real, calls = seeds.fit, []

    def fit(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise NonFiniteError("step 1: the loss is nan")
        yield from real(*arguments, **named)

    monkeypatch.setattr(seeds, "fit", fit)
    events = run(files, tmp_path / "run", search=3)
    assert "trial 2 failed: step 1: the loss is nan" in [event.text for event in events if isinstance(event, Note)]
    states = [trial["state"] for trial in json.loads((tmp_path / "run" / "metrics.json").read_text())["search"]]
    assert states == ["complete", "failed", "complete"]


def test_without_optuna(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match="--search needs the package optuna; install it with: pip install optuna"):
        run(files, tmp_path / "run", search=2)
    assert not (tmp_path / "run").exists()


def test_nothing_to_search(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--search has nothing to search"):
        run(files, tmp_path / "run", "train.optimizer.layer_decay=0.9", search=2)


def test_in_words() -> None:
    told = in_words({"train.optimizer.learning_rate": 3e-5, "train.epochs": 3.0, "train.batch_size": 32})
    assert told == "learning rate 3e-05, epochs 3, batch size 32"
