"""What a run came to: means, spreads and the object of metrics.json, by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bertworks.finetune.result import Result, SeedRun, means, spreads
from bertworks.tasks.classification import Classification


def result(**changes: Any) -> Result:
    runs = [
        SeedRun(seed=3, figures={"accuracy": 0.5, "f1": 0.4}, test={"accuracy": 0.3}, steps=7, seconds=1.5),
        SeedRun(seed=4, figures={"accuracy": 0.7, "f1": 0.8}, test={"accuracy": 0.5}, steps=9, seconds=2.5),
    ]
    given: dict[str, Any] = {
        "name": "run",
        "task": Classification(labels=("no", "yes")),
        "decision": {"temperature": 1.25},
        "examples": [],
        "predictions": [],
        "runs": runs,
        "kept": 1,
        "baseline": {"majority": {"accuracy": 0.6}, "words": {"accuracy": 0.65, "f1": 0.1}, "odd": {}},
        "model": "minilm",
        "data": "train.csv",
        "num_train": 10,
        "num_dev": 4,
        "num_test": 2,
        "seconds": 4.0,
    }
    return Result(**{**given, **changes})


def test_means_and_spreads_by_hand() -> None:
    each = [{"a": 1.0, "b": 5.0}, {"a": 2.0}, {"a": 6.0, "b": 7.0}]
    assert means(each) == {"a": 3.0}  # what not every training has, has no mean
    assert spreads(each) == {"a": pytest.approx(7**0.5)}  # (4 + 1 + 9) / 2
    assert spreads(each[:1]) == {}
    assert means([]) == spreads([]) == {}


def test_metrics_json() -> None:
    told = json.loads(json.dumps(result().as_json()))
    assert told["task"] == "classify"
    assert told["metric"] == "accuracy"
    assert told["metrics"] == pytest.approx({"accuracy": 0.6, "f1": 0.6})
    assert told["spread"] == pytest.approx({"accuracy": 0.02**0.5, "f1": 0.08**0.5})
    assert told["test"] == pytest.approx({"accuracy": 0.4})
    assert (told["seeds"], told["kept_seed"]) == ([3, 4], 4)
    assert told["runs"][0] == {
        "seed": 3,
        "metrics": {"accuracy": 0.5, "f1": 0.4},
        "test": {"accuracy": 0.3},
        "steps": 7,
        "seconds": 1.5,
    }
    assert told["examples"] == {"train": 10, "dev": 4, "test": 2}
    assert told["decision"] == {"temperature": 1.25}
    for name in ("data", "model", "seconds", "baseline"):
        assert name in told


def test_one_seed_has_no_spread() -> None:
    one = result(runs=[SeedRun(seed=0, figures={"accuracy": 0.5})], kept=0, num_test=0)
    assert one.figures == {"accuracy": 0.5}
    told = one.as_json()
    assert "spread" not in told
    assert "test" not in told
    assert told["examples"] == {"train": 10, "dev": 4}


def test_the_best_baseline() -> None:
    assert result().best_baseline == ("words", 0.65)
    assert result(baseline={"odd": {}}).best_baseline is None
