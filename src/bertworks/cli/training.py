"""What all commands that train share: their options, a run's events told to the user, and its orderly stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from bertworks.cli.common import StoppedError
from bertworks.cli.console import StageProgress, duration, print_note, print_result

if TYPE_CHECKING:
    from bertworks.train.events import Stepped
    from bertworks.train.plan import Plan

MEASURING, TRAINING = "measuring", "training"

SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override one setting, such as train.batch_tokens=4096; repeat.", metavar="KEY=VALUE"),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Continue after the last checkpoint, exactly as if it had never stopped.")
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Delete the run that is there, and start anew.")]
BudgetOption = Annotated[
    str | None, typer.Option(help="Train for this long: 90s, 30m, 2h30m. Turned into steps once.", metavar="TIME")
]
StepsOption = Annotated[int | None, typer.Option(help="Train for this many steps.", min=1, metavar="N")]
TrackOption = Annotated[
    str | None,
    typer.Option(
        help="Who else gets the numbers: tensorboard, wandb, mlflow, several with commas, or none.",
        show_default="tensorboard, where it is installed",
    ),
]
OptionalSeed = Annotated[
    int | None,
    typer.Option("--seed", help="Where random numbers start.", min=0, max=2**63 - 1, metavar="N", show_default="0"),
]


def trackers(text: str | None) -> tuple[str, ...] | None:
    """`--track` as names; None where it was not given."""
    if text is None:
        return None
    return tuple(name for name in (part.strip() for part in text.split(",")) if name and name != "none")


class Steps(Protocol):
    """How long a training is."""

    @property
    def first_step(self) -> int: ...
    @property
    def steps(self) -> int: ...


class TrainingProgress(StageProgress):
    """Steps, loss and tokens a second; evaluations and what else happens as lines of their own.

    A run may have several trainings (`parts`); the share that is done and the time left are of all of them.
    """

    def __init__(self, *, quiet: bool, judged: str = "held-out") -> None:
        super().__init__(quiet=quiet)
        self._judged = judged
        self._first: float | None = None
        self._part, self._parts, self._title = 0, 1, ""
        self._stage = MEASURING

    def begin(self, training: Steps, *, part: int = 0, parts: int = 1, title: str = "") -> None:
        """A training begins. How fast the run is, is counted from the end of its first step on."""
        self._part, self._parts = part, parts
        self._title = f"{title}, " if title else ""
        share = self._share(training.first_step, training.steps)
        detail = f"{self._title}step {training.first_step:,} of {training.steps:,}"
        self.update(TRAINING, share, detail, first=share if self._first is None else self._first)

    def show(self, event: Stepped) -> None:
        """Show how far the training is."""
        from bertworks.train.figures import in_words

        report = event.report
        detail = (
            f"{self._title}step {report.step:,} of {report.total_steps:,}, loss {event.loss:.3f}, "
            f"{event.rate:,.0f} tokens/s"
        )
        share = self._share(report.step, report.total_steps)
        if self._first is None:  # before it a checkpoint was loaded, and it is slower than the others
            self._first, self._started = share, time.monotonic()
        self.update(TRAINING, share, detail, first=self._first)
        for words in report.events:
            self.note(f"{self._title}step {report.step:,}: {words}")
        if report.evaluation:
            self.note(f"{self._title}step {report.step:,}: {self._judged} {in_words(report.evaluation)}")

    def _share(self, step: int, steps: int) -> float:
        return (self._part + step / max(steps, 1)) / self._parts


def tell_end(plan: Plan) -> None:
    """Where a run goes on, and when it will be done, as far as that is known."""
    if plan.first_step:
        print_result(f"resumed    after step {plan.first_step:,}")
    if plan.seconds is not None:
        end = time.strftime("%H:%M", time.localtime(time.time() + plan.seconds))
        left = " left" if plan.first_step else ""
        print_result(f"expected   {duration(plan.seconds)}{left}, done at about {end}")


def follow(
    run: Callable[[threading.Event], Iterator[Any]],
    other: Callable[[Any, TrainingProgress], None],
    *,
    begins: type,
    again: str,
    quiet: bool,
    silent: bool,
    judged: str = "held-out",
    resumes: bool = False,
) -> None:
    """Run, and tell what happens. A stop by the user saves first and says how to go on.

    other:   what to do with the events that not every run has; called beside the bar
    begins:  the event from which on a stop finds something to save
    again:   the command that goes on
    silent:  no progress; `quiet`: no notes either
    resumes: a run that is there goes on: what a stop before `begins` finds is kept
    """
    from bertworks.train.events import Note, Stepped, Stopped

    progress = TrainingProgress(quiet=silent, judged=judged)
    early = f"nothing new was done yet, and nothing is lost; continue with: {again} --resume"
    with _stopping(early if resumes else "training had not begun, nothing was kept") as stop, progress:
        for event in run(stop.event):
            if isinstance(event, begins):
                stop.can_save = True
            if isinstance(event, Stepped):
                progress.show(event)
            elif isinstance(event, Stopped):
                kept = (
                    f"step {event.step:,} of {event.total_steps:,} is saved" if event.step else "before the first step"
                )
                raise StoppedError(f"{kept}; continue with: {again} --resume")
            else:
                with progress.aside():
                    if isinstance(event, Note):
                        print_note(event.text, quiet=quiet)
                    else:
                        other(event, progress)


def speaks() -> bool:
    """Whether this process tells the user anything: one of several does."""
    return int(os.environ.get("RANK", "0")) == 0


def short(number: float) -> str:
    """`22.7 M`"""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}"


class _Stop:
    """Turns Ctrl-C and SIGTERM into a request; a second one is an order."""

    def __init__(self, early: str) -> None:
        """`early`: what to say as long as there is nothing to save."""
        self.event = threading.Event()
        self.can_save = False
        self._early = early

    def handle(self, number: int, frame: FrameType | None) -> None:
        if not self.can_save:
            raise StoppedError(self._early)
        if self.event.is_set():
            raise StoppedError("at once, without saving; the last checkpoint is kept")
        self.event.set()


@contextmanager
def _stopping(early: str) -> Iterator[_Stop]:
    stop = _Stop(early)
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield stop
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before: dict[signal.Signals, Any] = {}
    try:
        for number in numbers:
            before[number] = signal.signal(number, stop.handle)
        yield stop
    finally:
        for number in before:
            signal.signal(number, before[number])
