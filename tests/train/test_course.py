"""How a run's length is settled and what is said of it, worked by hand; the steps themselves are tested by the runs."""

from __future__ import annotations

import pytest
from torch import nn

from bertworks.train.config import EvaluationConfig, RunLength, TrainConfig
from bertworks.train.course import plan_of, timed_evaluation, with_evaluations, with_length
from bertworks.train.measure import Measured
from bertworks.train.parallel import Parallel

MEASURED = Measured(seconds=0.5, num_tokens=100.0)


def test_a_run_keeps_what_was_measured() -> None:
    run = with_length(RunLength(seed=3, steps=7), MEASURED, 2.0, every=None)
    assert run == RunLength(seed=3, steps=7, step_tokens=100.0, step_seconds=0.5, evaluation_seconds=2.0)


def test_a_budget_becomes_steps() -> None:
    run = with_length(RunLength(budget=100.0), MEASURED, 2.0, every=0)
    assert (run.steps, run.evaluation_steps) == (196, 0)  # 98 of 100 seconds, half a second each
    run = with_length(RunLength(budget=100.0), MEASURED, 2.0, every=None)
    assert (run.steps, run.evaluation_steps) == (176, 36)  # five evaluations are a tenth of the time


def test_what_was_settled_is_used_unless_the_settings_say_otherwise() -> None:
    run = RunLength(evaluation_steps=36)
    assert with_evaluations(TrainConfig(), run).evaluation.steps == 36
    said = TrainConfig(evaluation=EvaluationConfig(steps=5))
    assert with_evaluations(said, run) is said
    assert with_evaluations(TrainConfig(), RunLength()).evaluation.steps is None


@pytest.mark.parametrize(("evaluated", "seconds"), [(True, 0.75 * (20 * 0.5 + 4 * 2.0)), (False, 0.75 * 20 * 0.5)])
def test_a_plan_by_hand(evaluated: bool, seconds: float) -> None:
    run = RunLength(steps=20, step_tokens=100.0, step_seconds=0.5, evaluation_seconds=2.0)
    plan = plan_of(
        run,
        TrainConfig(evaluation=EvaluationConfig(steps=5)),
        nn.Linear(3, 4),
        first_step=5,
        batch_tokens=128,
        corpus_tokens=500,
        flops_per_token=6.0,
        evaluated=evaluated,
    )
    assert (plan.parameters, plan.steps, plan.first_step) == (16, 20, 5)
    assert (plan.tokens, plan.epochs, plan.flops) == (2000.0, 4.0, 12000.0)
    assert plan.tokens_per_second == 200.0
    assert plan.seconds == pytest.approx(seconds)


def test_a_plan_where_nothing_was_measured() -> None:
    plan = plan_of(
        RunLength(steps=20),
        TrainConfig(),
        nn.Linear(3, 4),
        first_step=0,
        batch_tokens=128,
        corpus_tokens=500,
        flops_per_token=6.0,
    )
    assert (plan.tokens, plan.seconds, plan.tokens_per_second) == (2560.0, None, None)


def test_an_evaluation_is_timed() -> None:
    figures, seconds = timed_evaluation(lambda: {"loss": 1.5}, Parallel())
    assert figures == {"loss": 1.5}
    assert seconds >= 0.0
