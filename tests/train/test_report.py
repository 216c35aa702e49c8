"""Logs and reports: lines that survive a crash, pages that stand alone, texts that are escaped."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bertworks.errors import OutputError, UsageError
from bertworks.page import curves
from bertworks.train import log
from bertworks.train.figures import beats, has_turned, in_words, steps
from bertworks.train.finish import held_out_figures
from bertworks.train.log import Metrics, StepLog, check_trackers, open_trackers, read_metrics
from bertworks.train.loop import StepReport
from bertworks.train.report import Summary, model_card, report
from bertworks.train.samples import Shown
from bertworks.train.state import Progress, Saved
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
    ("task", "more", "words", "use"),
    [
        ("masked_lm", {"mask": "<mask>"}, "pipeline_tag: fill-mask", '.fill("Put a <mask> here.")'),
        ("causal_lm", {}, "pipeline_tag: text-generation", "AutoModelForCausalLM"),
        ("replaced_tokens", {}, "library_name: transformers\ntags:", ".embed("),
        ("distill", {"mask": "[MASK]"}, "pipeline_tag: fill-mask", '.fill("Put a [MASK] here.")'),
        (
            "distill",
            {"embeddings": True},
            "library_name: sentence-transformers\npipeline_tag: sentence-similarity",
            ".embed(",
        ),
    ],
)
def test_cards(task: str, more: dict[str, Any], words: str, use: str) -> None:
    card = model_card(summary(task=task, **more))
    assert words in card
    assert use in card
    assert ("[MASK]" in card) == (more.get("mask") == "[MASK]")
    assert "| mlm accuracy | 50.0% |" in card
    assert "| accuracy of guessing tokens by their frequency | 20.0% |" in card
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
    frequency = {"loss": 2.0, "accuracy": 0.2}
    assert beats({"loss": 9.0, "mlm_perplexity": 7.3, "mlm_accuracy": 0.2}, frequency)  # exp(2) is 7.39
    assert not beats({"loss": 1.0, "mlm_perplexity": 7.5, "mlm_accuracy": 0.3}, frequency)
    assert beats({"loss": 1.0}, {})


# -- logs --------------------------------------------------------------------------------------------------------------


def step_report(step: int, **more: Any) -> StepReport:
    return StepReport(
        step=step,
        total_steps=20,
        loss=1.0 / step,
        losses={"mlm": 1.0 / step},
        accuracy={"mlm": 0.5},
        learning_rate=1e-3,
        grad_norm=2.0,
        num_tokens=100,
        seconds=0.5,
        **more,
    )


def saved(report: StepReport | None, step: int = 0) -> Saved:
    plain = None if report is None else {k: v for k, v in asdict(report).items() if k != "checkpoint"}
    progress = Progress(step=step if report is None else report.step, total_steps=20)
    return Saved(path=Path("step"), progress=progress, settings={}, report=json.loads(json.dumps(plain)))


def step_log(output: Path | None, resumed: Saved | None = None, *, main: bool = True, **more: Any) -> StepLog:
    return StepLog(output, {"seed": 7}, lambda step: (100.0 * step, step / 8), main=main, saved=resumed, **more)


def test_a_log_survives_a_crash(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, [{"step": 0, "loss": 9.0}])
    metrics.log(1, {"loss": 1.0})
    metrics.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "lo')  # the process was killed here
    assert read_metrics(tmp_path) == [{"step": 0, "loss": 9.0}, {"step": 1, "loss": 1.0}]
    Metrics(tmp_path).close()
    assert read_metrics(tmp_path) == []


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full takes no byte: the error is ours, and closing does not hide it behind another one."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    metrics = Metrics(tmp_path)
    metrics.close()
    closed = False
    with contextlib.suppress(OSError), Path("/dev/full").open("a", encoding="utf-8") as full:
        monkeypatch.setattr(metrics, "_file", full)
        with pytest.raises(OutputError, match="cannot write /dev/full: No space left on device"):
            metrics.log(1, {"loss": 1.0})
        metrics.close()
        closed = True  # only the file itself may still complain, as it is left
    assert closed


def test_a_tracker_that_cannot_write(tmp_path: Path) -> None:
    class Full:
        def log(self, values: Any, step: int) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            raise OSError(28, "No space left on device")

    metrics = Metrics(tmp_path, trackers=[Full()])
    with pytest.raises(OutputError, match="Full cannot write: No space left on device"):
        metrics.log(1, {"loss": 1.0})
    metrics.close()
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 1.0}]


def test_lines_of_a_run(tmp_path: Path) -> None:
    log = step_log(tmp_path, every=2)
    log.evaluation(0, {"loss": 9.0})
    for step in (1, 2, 3, 5):
        assert log.step(step_report(step, evaluation={"loss": 4.0} if step == 3 else None)) == 200.0
    log.close()
    found = [(line["step"], line.get("loss"), line.get("held_out_loss")) for line in read_metrics(tmp_path)]
    assert found == [(0, None, 9.0), (1, 1.0, None), (2, 0.5, None), (3, None, 4.0)]
    line = read_metrics(tmp_path)[2]
    assert (line["mlm_accuracy"], line["tokens"], line["epoch"]) == (0.5, 200, 0.25)
    assert "mlm_loss" not in line  # it is the only one
    other = step_log(tmp_path, main=False, every=1)  # another process writes nothing
    other.step(step_report(4))
    other.close()
    assert len(read_metrics(tmp_path)) == 4
    nowhere = step_log(None, every=1)
    assert nowhere.step(step_report(1)) == 200.0
    nowhere.close()


@pytest.mark.parametrize("killed", ["before the line", "in the line", "after the line", "three steps later"])
def test_a_resumed_log_is_that_of_a_run_which_was_never_stopped(killed: str, tmp_path: Path) -> None:
    """The checkpoint of step 4, where an evaluation was, is whole; `metrics.jsonl` is as far as it came."""

    def report_at(step: int) -> StepReport:
        return step_report(step, evaluation={"loss": 0.1 * step} if step % 4 == 0 else None, events=("a word",))

    def write(output: Path, resumed: Saved | None, steps: range) -> None:
        log = step_log(output, resumed, every=3)
        for step in steps:
            log.step(report_at(step))
        log.close()

    write(tmp_path / "whole", None, range(1, 9))
    cut = tmp_path / "cut"
    write(cut, None, range(1, {"before the line": 4, "in the line": 5, "after the line": 5}.get(killed, 8)))
    file = cut / "metrics.jsonl"
    if killed == "in the line":
        file.write_text(file.read_text()[:-20])
    write(cut, saved(report_at(4)), range(5, 9))
    ours, theirs = (
        [{name: value for name, value in line.items() if name != "seconds"} for line in read_metrics(path)]
        for path in (cut, tmp_path / "whole")
    )
    assert ours == theirs
    assert [line["step"] for line in ours] == [1, 3, 4, 6, 8]


def test_a_checkpoint_without_its_report_is_resumed_too(tmp_path: Path) -> None:
    step_log(tmp_path, saved(None, step=4), every=1).close()
    assert read_metrics(tmp_path) == []


# -- trackers ----------------------------------------------------------------------------------------------------------


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    """Its own files, read by itself; what a resumed run writes again counts once."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for resumed, logged in ((None, (1, 2, 4)), (saved(step_report(2)), (3, 4))):
        log = step_log(tmp_path, resumed, every=1, track=("tensorboard",))
        for step in logged:
            log.step(step_report(step, evaluation={"loss": 4.0} if step == 4 else None))
        log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("loss")]
    assert found == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3)), (4, 0.25)]
    assert [(event.step, event.value) for event in events.Scalars("held_out_loss")] == [(4, 4.0)]


@pytest.mark.parametrize(("name", "their_class"), [("wandb", "WandBTracker"), ("mlflow", "MLflowTracker")])
def test_trackers_of_accelerate_get_the_numbers(
    name: str, their_class: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = pytest.importorskip("accelerate.tracking")
    told: list[Any] = []

    class Fake:
        def __init__(self, run_name: str) -> None:
            told.append(run_name)

        def start(self) -> None:
            told.append("start")

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            told.append(values)

        def log(self, values: dict[str, Any], step: int) -> None:
            told.append((step, values["loss"]))

        def finish(self) -> None:
            told.append("finish")

    monkeypatch.setattr(tracking, their_class, Fake)
    (tmp_path / "my-run").mkdir()
    log = step_log(tmp_path / "my-run", every=1, track=(name,))
    log.step(step_report(2))
    log.close()
    assert told == ["my-run", "start", {"seed": 7}, (2, 0.5), "finish"]
    assert open_trackers((), tmp_path, {}, after=0) == []


def test_trackers_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_trackers(()) == ()
    with pytest.raises(UsageError, match="unknown tracker 'tensorbord'"):
        check_trackers(("tensorbord",))
    there = {"wandb", "tensorboard", "accelerate"}
    monkeypatch.setattr(log, "installed", there.__contains__)
    assert check_trackers(None) == ("tensorboard",)
    assert check_trackers(None, resumed=tmp_path) == ("tensorboard",)  # nothing has begun
    (tmp_path / "metrics.jsonl").touch()
    assert check_trackers(None, resumed=tmp_path) == ()  # it was begun with --track none
    (tmp_path / "tensorboard").mkdir()
    assert check_trackers(None, resumed=tmp_path) == ("tensorboard",)
    assert check_trackers(("wandb", "tensorboard")) == ("wandb", "tensorboard")
    with pytest.raises(UsageError, match="'mlflow' is not installed; pip install mlflow"):
        check_trackers(("mlflow",))
    there.remove("accelerate")
    with pytest.raises(UsageError, match="'wandb' needs accelerate"):
        check_trackers(("wandb",))
    there.remove("tensorboard")
    assert check_trackers(None) == ()


def test_the_kept_weights_figures() -> None:
    lines: list[dict[str, Any]] = [
        {"step": 0, "held_out_loss": 0.1},  # the untrained model is never kept
        {"step": 1, "loss": 9.0},
        {"step": 2, "held_out_loss": 2.0, "held_out_mlm_accuracy": 0.3},
        {"step": 4, "loss": 8.0, "held_out_loss": 3.0, "held_out_mlm_accuracy": 0.4},
    ]
    assert held_out_figures(lines, kept=4) == {"loss": 3.0, "mlm_accuracy": 0.4}
    assert held_out_figures(lines, kept=5) == {"loss": 3.0, "mlm_accuracy": 0.4}
    assert held_out_figures(lines, kept=2) == {"loss": 2.0, "mlm_accuracy": 0.3}  # the best was kept
    assert held_out_figures(lines, kept=1) == {}


def test_a_loss_that_has_turned() -> None:
    def lines(*losses: float) -> list[dict[str, float]]:
        return [
            {"step": 0, "held_out_loss": 7.0},
            {"step": 1, "loss": 1.0},
            *({"held_out_loss": loss} for loss in losses),
        ]

    assert has_turned(lines(6.2, 6.06, 6.17))
    assert not has_turned(lines(6.2, 6.06, 6.061))
    assert not has_turned([{"step": 1, "loss": 3.0}])
