"""Where the numbers of a run go while it runs: `metrics.jsonl` always, and the trackers that were asked for.

A line of `metrics.jsonl` is one logged step (loss, learning rate, tokens a second …) or one evaluation (its names begin
with `held_out_`). A run that is resumed at step n drops the lines after n, which it will write again, and adds that of n
from the checkpoint where the process was killed between the two: whether a run was stopped in between cannot be seen in
the losses.

TensorBoard is written directly; MLflow and Weights & Biases go through `accelerate`'s trackers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bertworks.atomic import write_text
from bertworks.errors import OutputError, UsageError, choice
from bertworks.train.loop import StepReport, report_of
from bertworks.train.state import Saved

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
TRACKERS = ("tensorboard", "wandb", "mlflow")
HELD_OUT = "held_out_"
SMOOTHING = 0.8  # of the shown rate

Values = Mapping[str, float | int]


class Tracker(Protocol):
    """Someone who wants to know the numbers."""

    def log(self, values: Values, step: int) -> None: ...
    def close(self) -> None: ...


class Metrics:
    """The growing `metrics.jsonl` of a run, and whoever else listens."""

    def __init__(self, run: Path, kept: Sequence[Mapping[str, Any]] = (), *, trackers: Sequence[Tracker] = ()) -> None:
        """`kept`: the lines that it begins with, whatever there was before."""
        self._trackers = trackers
        path = run / METRICS_FILE
        try:
            write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from error

    def log(self, step: int, values: Values) -> None:
        """Add one line."""
        try:
            self._file.write(json.dumps({"step": step, **values}) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())  # a checkpoint that survives a power cut must find the lines before it
        except OSError as error:
            raise OutputError(f"cannot write {self._file.name}: {error.strerror or error}") from error
        for tracker in self._trackers:
            try:
                tracker.log(values, step)
            except OSError as error:
                raise OutputError(f"{type(tracker).__name__} cannot write: {error.strerror or error}") from error

    def close(self) -> None:
        """Every line is on the disk already; what could not be written was told when it was logged."""
        with contextlib.suppress(OSError):
            self._file.close()
        for tracker in self._trackers:
            with contextlib.suppress(OSError):
                tracker.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`; a last line that was cut off by a crash is left out."""
    path = run / METRICS_FILE
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if not isinstance(line, dict) or not isinstance(line.get("step"), int):
            break
        lines.append(line)
    return lines


class StepLog:
    """The reports of a training to the lines of `metrics.jsonl`; only the main process writes."""

    def __init__(
        self,
        output: Path | None,
        settings: Mapping[str, Any],
        seen: Callable[[int], tuple[float, float]],
        *,
        every: int,
        main: bool,
        saved: Saved | None,
        track: Sequence[str] = (),
    ) -> None:
        """`settings` are for the trackers; `seen` says how many tokens and epochs so many steps are; a line every so
        many steps; `saved` is the checkpoint that is resumed. Without an `output` nothing is written."""
        self.every = every
        self.seen = seen
        self.metrics: Metrics | None = None
        self.tokens, self.seconds, self.rate = 0, 0.0, 0.0
        self.started = time.monotonic()
        if output is None:
            return
        lines = [] if saved is None else [line for line in read_metrics(output) if line["step"] <= saved.step]
        self.started -= lines[-1].get("seconds", 0.0) if lines else 0.0
        if not main:
            return
        output.mkdir(parents=True, exist_ok=True)
        trackers = open_trackers(track, output, settings, after=0 if saved is None else saved.step)
        self.metrics = Metrics(output, lines, trackers=trackers)
        last = None if saved is None else report_of(saved)
        if last is not None and not any(line["step"] == last.step for line in lines):
            self.step(last)

    def step(self, report: StepReport) -> float:
        """Log a step where it is due; returns the tokens a second of the last few steps."""
        self.tokens, self.seconds = self.tokens + report.num_tokens, self.seconds + report.seconds
        rate = report.num_tokens / max(report.seconds, 1e-9)
        self.rate = rate if not self.rate else SMOOTHING * self.rate + (1 - SMOOTHING) * rate
        values: dict[str, Any] = {}
        if _is_due(report.step, self.every, report.total_steps):
            average = self.tokens / max(self.seconds, 1e-9)
            self.tokens, self.seconds = 0, 0.0
            tokens, epochs = self.seen(report.step)
            several = len(report.losses) > 1
            values |= {
                "loss": report.loss,
                **({f"{name}_loss": value for name, value in report.losses.items()} if several else {}),
                **{f"{name}_accuracy": value for name, value in report.accuracy.items()},
                "learning_rate": report.learning_rate,
                "gradient_norm": report.grad_norm,
                "epoch": round(epochs, 4),
                "tokens": round(tokens),
                "tokens_per_second": round(average, 1),
            }
        # One line for both, so that none can be there without the other.
        values |= {f"{HELD_OUT}{name}": value for name, value in (report.evaluation or {}).items()}
        if values:
            self._write(report.step, values)
        return self.rate

    def evaluation(self, step: int, figures: Mapping[str, float]) -> None:
        """Log what the held-out text says."""
        self._write(step, {f"{HELD_OUT}{name}": value for name, value in figures.items()})

    def _write(self, step: int, values: dict[str, Any]) -> None:
        if self.metrics is not None:
            self.metrics.log(step, {**values, "seconds": round(time.monotonic() - self.started, 3)})

    def close(self) -> None:
        if self.metrics is not None:
            self.metrics.close()


def _is_due(step: int, every: int, total_steps: int) -> bool:
    return step % every == 0 or step in (1, total_steps)


# -- trackers ----------------------------------------------------------------------------------------------------------


def check_trackers(names: Sequence[str] | None, *, resumed: Path | None = None) -> tuple[str, ...]:
    """The names of trackers, or an error where one is unknown or not installed; None = TensorBoard where it is, unless
    the run that goes on, in `resumed`, has been without it."""
    if names is None:
        without = (
            resumed is not None and any(resumed.rglob(METRICS_FILE)) and not any(resumed.rglob(TENSORBOARD_FOLDER))
        )
        return ("tensorboard",) if installed("tensorboard") and not without else ()
    for name in names:
        choice(name, TRACKERS, "tracker")
        if not installed(name):
            raise UsageError(f"the tracker {name!r} is not installed; pip install {name}, or leave it out of --track")
        if name != "tensorboard" and not installed("accelerate"):
            raise UsageError(f"the tracker {name!r} needs accelerate; pip install accelerate")
    return tuple(names)


def installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def open_trackers(names: Sequence[str], run: Path, settings: Mapping[str, Any], *, after: int) -> list[Tracker]:
    """Start the trackers; `settings` are what they show as the run's configuration."""
    return [
        TensorBoard(run / TENSORBOARD_FOLDER, after=after)
        if name == "tensorboard"
        else AccelerateTracker(name, run.name, settings)
        for name in names
    ]


class TensorBoard:
    """Event files, to be seen with `tensorboard --logdir RUN`."""

    def __init__(self, directory: Path, *, after: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # What another process wrote of the steps that are done again does not count.
        self._writer = SummaryWriter(str(directory), purge_step=after + 1 if after else 0)

    def log(self, values: Values, step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class AccelerateTracker:
    """Weights & Biases or MLflow, as `accelerate` drives them."""

    def __init__(self, name: str, run_name: str, settings: Mapping[str, Any]) -> None:
        from accelerate import PartialState
        from accelerate.tracking import MLflowTracker, WandBTracker

        PartialState()  # the trackers ask it which process is the first
        self._tracker = WandBTracker(run_name) if name == "wandb" else MLflowTracker(run_name)
        self._tracker.start()
        self._tracker.store_init_configuration(dict(settings))

    def log(self, values: Values, step: int) -> None:
        self._tracker.log(dict(values), step=step)

    def close(self) -> None:
        self._tracker.finish()
