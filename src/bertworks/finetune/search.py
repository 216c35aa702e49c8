"""`--search N`: N trials of the few settings that matter, with Optuna's tree-structured Parzen estimator (Bergstra 2011).

    learning rate   a quarter to four times the default, on a logarithmic scale
    epochs          fewer and more than the default
    batch size      8 to 64
    layer decay     how much slower lower layers learn

What the user has set is not searched. The first trial is the defaults themselves, so that the search never ends below
them. A trial is an ordinary training; the best one becomes the run's first seed, and further seeds repeat its settings.

Optuna keeps no state on the disk: its proposals are a function of the seed and of the trials so far. A search that was
stopped asks again for the trials that are over, tells their values, and goes on as if nothing had been.

All trials are judged by the same development examples, so the best one's figure is a little too good; the mean over
further seeds, or a test file, says more. Left out: stopping bad trials early, which with a falling learning rate judges
them before they are themselves.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Collection, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertworks.atomic import write_text
from bertworks.config import override
from bertworks.errors import UsageError
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.events import Event, Note
from bertworks.finetune.seeds import Trained, Trainer, best_of, drop_candidates
from bertworks.train.directory import CHECKPOINTS
from bertworks.train.loop import NonFiniteError

FOLDER = "search"
TRIAL, FAILED = "trial.json", "failed.txt"
LEARNING_RATE, EPOCHS, BATCH_SIZE, LAYER_DECAY = (
    "train.optimizer.learning_rate",
    "train.epochs",
    "train.batch_size",
    "train.optimizer.layer_decay",
)
SEARCHED = (LEARNING_RATE, EPOCHS, BATCH_SIZE, LAYER_DECAY)
BATCH_SIZES = (8, 16, 32, 64)
LAYER_DECAYS = (1.0, 0.95, 0.9, 0.8)
Settings = dict[str, float | int]


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What a search came to."""

    config: FinetuneConfig
    best: Trained
    trials: list[dict[str, Any]]
    """As `bertworks.finetune.result.Result.search` has them."""


def check_installed() -> Any:
    """Optuna, or an error that says how to get it."""
    try:
        import optuna
    except ImportError as error:
        raise UsageError("--search needs the package optuna; install it with: pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def search(
    trainer: Trainer, config: FinetuneConfig, *, trials: int, seed: int, pinned: Collection[str], output: Path
) -> Generator[Event, None, Searched | None]:
    """Run the trials that are left and return the best; None where it was stopped. `pinned`: settings to leave alone."""
    optuna = check_installed()
    evaluation = config.train.evaluation
    study = optuna.create_study(
        direction="minimize" if evaluation.goal == "lowest" else "maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(4, trials // 3)),
    )
    searched = [name for name in SEARCHED if name not in pinned]
    if not searched:
        raise UsageError(f"--search has nothing to search: {', '.join(SEARCHED)} are all set")
    usual = {name: value for name, value in _values(config).items() if name in searched}
    study.enqueue_trial(usual)
    over: list[Trained] = []
    found: list[dict[str, Any]] = []
    for number in range(trials):
        directory = output / FOLDER / str(number)
        trial = study.ask()
        settings = _proposed(trial, usual)
        _remember(directory, settings)
        tried = _applied(config, settings)
        entry: dict[str, Any] = {"number": number, "settings": settings, "value": None, "state": "failed"}
        if not (directory / FAILED).exists():
            title = f"trial {number + 1} of {trials}: {in_words(settings)}"
            try:
                trained = yield from trainer.train(tried, seed=seed, directory=directory, title=title, part=number)
            except NonFiniteError as error:
                write_text(directory / FAILED, f"{error}\n")
                shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)
                yield Note(f"trial {number + 1} failed: {error}")
            else:
                if trained is None:
                    return None
                value = trained.run.figures.get(evaluation.metric, math.nan)
                entry |= {"value": value, "state": "complete"}
                over = drop_candidates([*over, trained], best_of([*over, trained], evaluation))
        if entry["state"] == "complete" and math.isfinite(entry["value"]):
            study.tell(trial, entry["value"])
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        found.append(entry)
    if not over:
        raise UsageError(f"all {trials} trials failed; set a lower train.optimizer.learning_rate, which is then kept")
    best = over[best_of(over, evaluation)]
    chosen = next(entry for entry in found if output / FOLDER / str(entry["number"]) == best.directory)
    return Searched(config=_applied(config, chosen["settings"]), best=best, trials=found)


def in_words(settings: Settings) -> str:
    """`learning rate 5e-05, epochs 3, batch size 32, layer decay 1`"""
    return ", ".join(f"{name.rsplit('.', 1)[1].replace('_', ' ')} {value:g}" for name, value in settings.items())


def _applied(config: FinetuneConfig, settings: Settings) -> FinetuneConfig:
    return override(config, [f"{name}={value!r}" for name, value in settings.items()])


def _values(config: FinetuneConfig) -> Settings:
    train = config.train
    return {
        LEARNING_RATE: train.optimizer.learning_rate,
        EPOCHS: train.epochs,
        BATCH_SIZE: train.batch_size,
        LAYER_DECAY: train.optimizer.layer_decay,
    }


def _proposed(trial: Any, usual: Settings) -> Settings:
    """The next settings to try."""
    settings: Settings = {}
    for name, value in usual.items():
        if name == LEARNING_RATE:
            drawn = trial.suggest_float(name, value / 4, value * 4, log=True)
            settings[name] = float(f"{drawn:.3g}")
        elif name == EPOCHS:
            settings[name] = trial.suggest_categorical(name, _around(value))
        else:
            choices = BATCH_SIZES if name == BATCH_SIZE else LAYER_DECAYS
            settings[name] = trial.suggest_categorical(name, sorted({*choices, value}))
    return settings


def _around(epochs: float) -> list[float]:
    """About two thirds, the same, 1.7 times and 2.5 times as many."""
    return sorted({epochs, *(max(1.0, float(round(epochs * factor))) for factor in (0.67, 1.67, 2.5))})


def _remember(directory: Path, settings: Settings) -> None:
    """Write down a trial's settings, or see that they are those of the trial that is there."""
    path = directory / TRIAL
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(settings) + "\n")
    elif json.loads(path.read_text(encoding="utf-8")) != settings:
        raise UsageError(
            f"{path} has other settings than the search proposes now: it was begun with another version of optuna; "
            "resume it with that one, or begin another run in another directory"
        )
