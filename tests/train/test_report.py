"""Logs and reports: lines that survive a crash, pages that stand alone, texts that are escaped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.errors import UsageError
from bertworks.page import curves
from bertworks.train.config import EvaluationConfig
from bertworks.train.figures import beats, in_words, steps
from bertworks.train.finish import held_out_figures
from bertworks.train.log import Metrics, TensorBoard, check_trackers, read_metrics
from bertworks.train.report import Summary, model_card, report
from bertworks.train.samples import Shown
from tests.reader import Reader


def summary(**changes: Any) -> Summary:
    given: dict[str, Any] = {
        "name": "a <b> run",
        "about": "About & so on",
        "task": "masked_lm",
        "numbers": [("1.0 M", "parameters")],
        "metrics": {"loss": 2.5, "mlm_accuracy": 0.5},
        "baseline": {"accuracy": 0.2},
        "data": [("corpus", "wiki"), ("documents", "3")],
        "settings": {
            "train": {"batch_tokens": 8},
            "run": None,
            "objective": {"kind": "masked_lm", "pairs": "none", "pair_weight": 1.0, "temperature": 2.0},
        },
        "lines": [
            {"step": 0, "held_out_loss": 5.0, "held_out_mlm_accuracy": 0.1},
            *({"step": n, "loss": 5.0 / n, "learning_rate": 1e-3, "tokens_per_second": 1000.0} for n in range(1, 9)),
            {"step": 8, "held_out_loss": 2.5, "held_out_mlm_accuracy": 0.5},
        ],
        "samples": [[Shown("The "), Shown("<river>", "wrong", 'in the text: "mill"', "<mill>"), Shown(" runs.")]],
        "samples_title": "Masks filled",
    }
    return Summary(**{**given, **changes})


def test_the_report_stands_alone_and_escapes() -> None:
    seen = Reader(report(summary()))
    assert seen.open == []
    assert (seen.fetched, seen.scripts) == ([], 0)
    for words in ("a <b> run", "<river>", "Loss", "Accuracy", "Tokens a second", "train.batch_tokens", "held out"):
        assert words in seen.text
    assert "<river> (<mill>)" in seen.text  # the text's own word beside the wrong one
    assert "objective.kind" in seen.text
    for words in ("temperature", "pair_weight"):  # of other objectives
        assert words not in seen.text


def test_a_report_of_nothing() -> None:
    seen = Reader(report(summary(lines=[], samples=[], metrics={})))
    assert seen.open == []
    assert "Masks filled" not in seen.text


@pytest.mark.parametrize(
    ("task", "embeddings", "words"),
    [
        ("masked_lm", False, "pipeline_tag: fill-mask"),
        ("causal_lm", False, "pipeline_tag: text-generation"),
        ("replaced_tokens", False, "library_name: transformers\ntags:"),
        ("distill", True, "library_name: sentence-transformers\npipeline_tag: sentence-similarity"),
    ],
)
def test_cards(task: str, embeddings: bool, words: str) -> None:
    card = model_card(summary(task=task, embeddings=embeddings))
    assert words in card
    assert "| mlm accuracy | 50.0% |" in card
    assert "| accuracy of guessing by word frequency | 20.0% |" in card
    assert "```python" in card
    assert '("a <b> run")' in card  # the directory's name, not a place to fill in


def test_curves() -> None:
    assert curves("Loss", {}) == ""
    assert curves("Loss", {"a": []}) == ""
    assert "<circle" in curves("Loss", {"a": [(1, 2.0)]})
    flat = curves("Loss", {"a": [(1, 3.0), (2, 3.0)]})
    assert "polyline" in flat
    strange = curves("Loss", {"a": [(1, 1.0), (2, float("nan")), (3, float("inf")), (4, 0.5)]})
    assert "nan" not in strange
    assert "inf" not in strange
    long = curves("Loss", {"a": [(step, 1.0 / step) for step in range(1, 5001)], "b": [(1, 1.0), (5000, 0.5)]})
    assert len(long) < 30_000
    assert "5,000" in long
    assert "<li>" in long  # two lines need a legend
    assert "40%" in curves("Accuracy", {"a": [(1, 0.0), (2, 1.0)]}, percent=True)


def test_figures_in_words() -> None:
    assert in_words({"loss": 5.91234, "mlm_accuracy": 0.1, "rtd_found": 0.25}) == (
        "loss 5.912, mlm accuracy 10.0%, rtd found 25.0%"
    )
    assert in_words({"f1_macro": 0.5, "exact_match": 0.25, "mcc": 0.5, "has_answer_f1": 1.0}) == (
        "f1 macro 50.0%, exact match 25.0%, mcc 0.5, has answer f1 100.0%"
    )
    assert [steps(1), steps(2000)] == ["1 step", "2,000 steps"]
    assert beats({"mlm_accuracy": 0.3}, {"accuracy": 0.2})
    assert not beats({"mlm_accuracy": 0.2}, {"accuracy": 0.2})
    assert beats({"loss": 1.0}, {})


# -- logs --------------------------------------------------------------------------------------------------------------


def test_a_resumed_log_drops_what_will_be_written_again(tmp_path: Path) -> None:
    log = Metrics(tmp_path, after=0)
    for step in (1, 2, 3):
        log.log(step, {"loss": 1.0 / step})
    log.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')  # the process was killed here
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 3]
    log = Metrics(tmp_path, after=2)
    log.log(3, {"loss": 9.0})
    log.close()
    assert [(line["step"], line["loss"]) for line in read_metrics(tmp_path)] == [(1, 1.0), (2, 0.5), (3, 9.0)]
    assert all(json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines())


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for after, logged in ((0, (1, 2, 3)), (2, (3, 4))):
        tracker = TensorBoard(tmp_path, after=after)
        for step in logged:
            tracker.log({"loss": float(step)}, step)
        tracker.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]


def test_trackers_are_checked() -> None:
    assert check_trackers(()) == ()
    with pytest.raises(UsageError, match="unknown tracker 'tensorbord'"):
        check_trackers(("tensorbord",))


def test_the_kept_weights_figures() -> None:
    lines: list[dict[str, Any]] = [
        {"step": 0, "held_out_loss": 0.1},  # the untrained model is never kept
        {"step": 1, "loss": 9.0},
        {"step": 2, "held_out_loss": 2.0, "held_out_mlm_accuracy": 0.3},
        {"step": 4, "loss": 8.0, "held_out_loss": 3.0, "held_out_mlm_accuracy": 0.4},
    ]
    assert held_out_figures(lines, EvaluationConfig()) == {"loss": 3.0, "mlm_accuracy": 0.4}
    assert held_out_figures(lines, EvaluationConfig(keep="best")) == {"loss": 2.0, "mlm_accuracy": 0.3}
    highest = EvaluationConfig(keep="best", metric="mlm_accuracy", goal="highest")
    assert held_out_figures(lines, highest)["mlm_accuracy"] == 0.4
    assert held_out_figures(lines[:2], EvaluationConfig()) == {}
