"""One training in memory and on the disk: it learns, keeps the best, stops early, and goes on exactly."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertworks.config import override
from bertworks.errors import UsageError
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.events import Begun, FitEvent, Fitted, Stepped, Stopped
from bertworks.finetune.fit import TrainingData, fit
from bertworks.tasks.classification import Classification
from bertworks.tasks.regression import Regression
from bertworks.tasks.run import evaluate_model
from bertworks.train.log import read_metrics
from bertworks.train.step import Outcome, Stepper
from tests.finetune.small import QUICK, examples, make_model
from tests.tasks.small import texts

TASK = Classification(labels=("quick", "still"))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(*settings: str) -> FinetuneConfig:
    return override(FinetuneConfig(), [*QUICK, *settings])


def data(train: int = 40, dev: int = 16) -> TrainingData:
    return TrainingData(examples(train), examples(dev, seed=1), window=32)


def events_of(*settings: str, given: TrainingData | None = None, **more: Any) -> list[FitEvent]:
    model, tokenizer = make_model()
    return list(fit(TASK, given or data(), model, tokenizer, config(*settings), **more))


def fitted(events: list[FitEvent]) -> Fitted:
    assert isinstance(events[-1], Fitted)
    return events[-1]


def same(ours: Fitted, theirs: Fitted) -> bool:
    pairs = zip(ours.model.named_parameters(), theirs.model.named_parameters(), strict=True)
    return all(a[0] == b[0] and torch.equal(a[1], b[1]) for a, b in pairs)


def test_it_learns() -> None:
    result = fitted(events_of("train.epochs=12"))
    assert result.figures["accuracy"] > 0.85
    assert result.evaluated is not None
    assert len(result.evaluated.predictions) == 16
    assert not result.model.training


def test_seeds_differ_and_a_seed_repeats() -> None:
    first, again, other = (fitted(events_of(seed=seed)) for seed in (0, 0, 1))
    assert same(first, again)
    assert not same(first, other)


def test_the_given_model_is_not_changed() -> None:
    model, tokenizer = make_model()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    list(fit(TASK, data(8, 4), model, tokenizer, config("train.epochs=1")))
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    assert not model.heads


def test_what_is_said_at_the_beginning() -> None:
    begun = next(event for event in events_of("method.freeze_layers=0") if isinstance(event, Begun))
    assert (begun.steps, begun.first_step, begun.num_examples, begun.num_units) == (10, 0, 40, 40)
    assert begun.evaluation_steps == 5
    assert 0 < begun.trained_parameters < begun.parameters


def test_long_texts_are_told() -> None:
    _, tokenizer = make_model()
    told = TrainingData(examples(8), window=6).cut(TASK, tokenizer)
    assert told is not None
    assert "of 8 training examples are longer than the window of 6 tokens" in told
    assert "read window by window when predicting" in told
    assert data().cut(TASK, tokenizer) is None


def test_the_best_weights_are_kept_with_their_predictions() -> None:
    events = events_of("train.epochs=6", "train.optimizer.learning_rate=6e-3")
    result = fitted(events)
    judged = [
        (event.report.evaluation["accuracy"], event.report.step)
        for event in events
        if isinstance(event, Stepped) and event.report.evaluation
    ]
    assert len(judged) == 6
    best = max(value for value, _ in judged)
    assert result.figures["accuracy"] == best
    assert result.best_step == next(step for value, step in judged if value == best)
    assert result.evaluated is not None
    anew = evaluate_model(result.task, result.model, data().dev, tokenizer=result.tokenizer, window=32)
    assert anew.predictions == result.evaluated.predictions
    assert anew.decision == result.evaluated.decision


def test_a_step_that_was_left_out_is_never_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are the step's before, which are not saved under it."""
    usual = Stepper.gradients

    def gradients(self: Stepper, step: int, *more: Any) -> Outcome:
        outcome = usual(self, step, *more)
        return replace(outcome, losses=dict.fromkeys(outcome.losses, math.nan)) if step == 9 else outcome

    monkeypatch.setattr(Stepper, "gradients", gradients)
    result = fitted(events_of("train.on_nonfinite=skip", "train.evaluation.steps=5"))
    assert result.best_step == 5
    assert result.evaluated is not None
    anew = evaluate_model(result.task, result.model, data().dev, tokenizer=result.tokenizer, window=32)
    assert anew.predictions == result.evaluated.predictions


def test_the_last_weights_where_they_are_wanted() -> None:
    events = events_of("train.epochs=4", "train.evaluation.keep=last")
    result = fitted(events)
    last = [event.report.evaluation for event in events if isinstance(event, Stepped)][-1]
    assert result.figures == last
    assert result.best_step is None


def test_stopping_early() -> None:
    events = events_of("train.epochs=20", "train.evaluation.patience=1", "train.optimizer.learning_rate=1e-6")
    result = fitted(events)
    assert result.steps < 100
    assert result.best_step is not None
    told = [words for event in events if isinstance(event, Stepped) for words in event.report.events]
    assert "stopped early: accuracy did not improve" in told[0]


def test_without_anything_to_be_judged_by() -> None:
    result = fitted(events_of(given=TrainingData(examples(16), window=32)))
    assert result.evaluated is None
    assert result.figures == result.decision == {}


def test_nothing_to_train_on() -> None:
    with pytest.raises(UsageError, match="no examples to train on"):
        events_of(given=TrainingData([], examples(4), window=32))


def test_scales_are_folded_into_the_model() -> None:
    numbers = [0.5 + 3.0 * index for index in range(8)]
    train = texts(tuple(numbers))
    task = Regression.for_examples("regress", train)
    model, tokenizer = make_model()
    *_, result = fit(
        task, TrainingData(train, train, window=40), model, tokenizer, config("train.evaluation.metric=r2")
    )
    assert isinstance(result, Fitted)
    assert (result.task.center, result.task.scale) == (0.0, 1.0)
    assert result.evaluated is not None
    anew = evaluate_model(result.task, result.model, train, tokenizer=result.tokenizer, window=40)
    for ours, theirs in zip(anew.predictions, result.evaluated.predictions, strict=True):
        assert ours.value == pytest.approx(theirs.value, abs=1e-4)


# -- stopping and going on ---------------------------------------------------------------------------------------------

METHODS = {
    "plain": (),
    "unfreezing": ("method.gradual_unfreezing=0.7",),
    "adapters": ("method.lora_rank=2",),
    "average": ("train.ema=0.9",),
    "layer rates": ("train.optimizer.layer_decay=0.8", "train.evaluation.patience=1"),
}


@pytest.mark.parametrize("method", METHODS)
def test_killed_after_any_step_and_resumed(method: str, tmp_path: Path) -> None:
    settings = (*METHODS[method], "train.checkpoint_steps=2", "train.batch_size=16")
    whole = fitted(events_of(*settings, directory=tmp_path / "whole"))
    lines = read_metrics(tmp_path / "whole")
    for killed in range(1, whole.steps + 1):
        directory = tmp_path / f"killed-{killed}"
        model, tokenizer = make_model()
        events = fit(TASK, data(), model, tokenizer, config(*settings), directory=directory)
        for event in events:
            if isinstance(event, Stepped) and event.report.step == killed:
                events.close()  # type: ignore[attr-defined]
        rest = fitted(events_of(*settings, directory=directory))
        assert same(rest, whole)
        assert rest.figures == whole.figures
        assert (rest.steps, rest.best_step) == (whole.steps, whole.best_step)
        assert rest.evaluated is not None
        assert whole.evaluated is not None
        assert rest.evaluated.predictions == whole.evaluated.predictions
        for ours, theirs in zip(read_metrics(directory), lines, strict=True):
            assert {**ours, "seconds": 0, "tokens_per_second": 0} == {**theirs, "seconds": 0, "tokens_per_second": 0}


def test_a_stop_saves(tmp_path: Path) -> None:
    whole = fitted(events_of(directory=tmp_path / "whole"))
    stop = threading.Event()
    model, tokenizer = make_model()
    seen = []
    for event in fit(TASK, data(), model, tokenizer, config(), directory=tmp_path / "run", stop=stop):
        seen.append(event)
        if isinstance(event, Stepped) and event.report.step == 3:
            stop.set()
    assert isinstance(seen[-1], Stopped)
    assert (seen[-1].step, seen[-1].total_steps) == (4, 10)
    rest = events_of(directory=tmp_path / "run")
    assert next(event.first_step for event in rest if isinstance(event, Begun)) == 4
    assert same(fitted(rest), whole)
