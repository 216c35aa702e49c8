"""Settings that suit the data: more epochs for few examples, evaluations at epochs' ends and never too dear."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bertworks.finetune.config import MethodSection
from bertworks.finetune.defaults import epochs_for, evaluation_every, learning_rate_for, suited, window_for
from bertworks.tasks.classification import Classification
from bertworks.tasks.tagging import Tagging
from tests.finetune.small import make_model
from tests.tasks import word_models


def test_by_hand() -> None:
    task = Classification(labels=("a", "b"), metric="mcc")
    model, _ = make_model(layers=5)
    few, many = (suited(task, count, model) for count in (200, 7000))
    assert (few.train.epochs, few.train.batch_size) == (10.0, 16)
    assert (many.train.epochs, many.train.batch_size) == (3.0, 32)
    assert many.train.optimizer.learning_rate == 1e-4
    assert many.train.optimizer.betas == (0.9, 0.999)
    assert many.train.schedule.warmup == 0.1
    evaluation = many.train.evaluation
    assert (evaluation.metric, evaluation.goal, evaluation.keep) == ("mcc", "highest", "best")
    assert epochs_for("qa", 5000) == 2.0


def test_new_taggers_take_many_small_steps() -> None:
    task = Tagging(labels=("O", "B-X", "I-X"), scheme="bio")
    model, _ = word_models.make_model([("the", "mill")])
    sizes = [suited(task, count, model).train.batch_size for count in (36, 500, 2000, 20_000)]
    assert sizes == [4, 8, 16, 32]


def test_adapters_and_heads_learn_faster() -> None:
    model, _ = make_model(layers=5)
    for count in (100, 5000):
        assert learning_rate_for(model, MethodSection(lora_rank=4), "classify", count) == 5e-4
        assert learning_rate_for(model, MethodSection(freeze_layers=5), "classify", count) == 5e-4  # all of them
    assert learning_rate_for(model, MethodSection(freeze_layers=4), "classify", 5000) == 1e-4


def test_few_examples_take_larger_steps() -> None:
    model, _ = make_model(layers=5)
    rates = [learning_rate_for(model, MethodSection(), "classify", count) for count in (199, 999, 1000)]
    assert rates == [2e-4, 2e-4, 1e-4]
    assert learning_rate_for(model, MethodSection(), "tag", 5000) == 2e-4
    assert learning_rate_for(model, MethodSection(), "similarity", 40) == 5e-5  # it has no new head


def test_windows() -> None:
    model, _ = make_model()
    places = model.num_positions
    assert window_for("classify", model, 60, None) == 60
    assert window_for("classify", model, 60, 32) == 32
    assert window_for("tag", model, 512, 512) == places
    assert window_for("qa", model, 60, None) == min(384, places)


def test_evaluations_by_hand() -> None:
    cheap = {"train_tokens": 1000, "dev_tokens": 100}
    assert evaluation_every(217, 651, **cheap) == 217  # each epoch's end
    assert evaluation_every(4000, 8000, **cheap) == 1000
    # Evaluating costs a third of training: half the time of 3 × 1000 tokens is that of 4500 evaluated ones.
    assert evaluation_every(10, 30, train_tokens=1000, dev_tokens=1500) == 10
    assert evaluation_every(10, 30, train_tokens=1000, dev_tokens=2200) == 15
    assert evaluation_every(10, 30, train_tokens=1000, dev_tokens=3000) == 30


@given(steps=st.integers(1, 5000), epochs=st.floats(0.1, 20), train=st.integers(1, 10**7), dev=st.integers(1, 10**7))
def test_evaluations_are_never_too_dear(steps: int, epochs: float, train: int, dev: int) -> None:
    total = max(1, round(epochs * steps))
    every = evaluation_every(steps, total, train_tokens=train, dev_tokens=dev)
    assert 1 <= every <= total
    cost = (total // every) * dev / 3
    assert total // every == 1 or cost <= 0.51 * train * total / steps
