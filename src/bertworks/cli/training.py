"""What `bertworks pretrain` and `bertworks distill` share: a run's events told to the user, and its orderly stop."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import StoppedError
from bertworks.cli.console import StageProgress, duration, print_json, print_note, print_result

if TYPE_CHECKING:
    from bertworks.train.plan import Plan
    from bertworks.train.run import Planned, RunOptions, Stepped

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


def follow(options: RunOptions, *, json: bool, quiet: bool) -> None:
    """Run, and tell what happens. A stop by the user saves first and says how to go on."""
    from bertworks.train import run
    from bertworks.train.figures import beats, in_words, steps

    if int(os.environ.get("RANK", "0")) > 0:  # one of several processes speaks
        quiet, json = True, False
    say_nothing = quiet or json
    result: run.Finished | None = None
    progress = TrainingProgress(quiet=say_nothing)
    with _stopping() as stop, progress:
        for event in run.pretrain(options, stop=stop.event):
            if isinstance(event, run.Note):
                with progress.aside():
                    print_note(event.text, quiet=quiet)
            elif isinstance(event, run.Planned):
                stop.can_save = True
                with progress.aside():
                    _tell_plan(event, quiet=say_nothing)
                    progress.begin(event.plan)
            elif isinstance(event, run.Stepped):
                progress.show(event)
            elif isinstance(event, run.Stopped):
                command = shlex.join(["bertworks", options.command, str(options.corpus), "-o", str(options.output)])
                raise StoppedError(
                    f"step {event.step:,} of {event.total_steps:,} is saved; continue with: {command} --resume"
                )
            elif isinstance(event, run.Finished):
                result = event
    if result is None or (quiet and not json):
        return
    if json:
        print_json(
            {
                "output": str(result.directory),
                "already_finished": result.already,
                "steps": result.steps,
                "seconds": round(result.seconds, 3),
                "metrics": dict(result.metrics),
                "baseline": dict(result.baseline),
            }
        )
        return
    if result.already:
        print_result(f"{result.directory}: this run is finished already, after {steps(result.steps)}; nothing to do")
        return
    print_result(f"{result.directory}: {steps(result.steps)} in {duration(result.seconds)}")
    if result.metrics:
        print_result(f"held-out text: {in_words(result.metrics)}")
    print_result(f"report: {result.directory / 'report.html'}")
    if not beats(result.metrics, result.baseline):
        print_note("the model has not learnt more than how frequent words are yet: give it a larger budget")


def _tell_plan(event: Planned, *, quiet: bool) -> None:
    if quiet:
        return
    from bertworks.train.figures import in_words, steps

    plan = event.plan
    print_result(f"model      {event.model}, {_short(plan.parameters)} parameters")
    print_result(f"corpus     {event.corpus}")
    if plan.tokens_per_second is not None and plan.seconds is not None:
        rate = plan.flops_per_second or 0.0
        print_result(f"speed      {plan.tokens_per_second:,.0f} tokens/s, {rate / 1e9:,.1f} GFLOP/s (measured)")
    print_result(
        f"training   {steps(plan.steps)} of {plan.batch_tokens:,.0f} tokens: {_short(plan.tokens)} tokens, "
        f"{plan.epochs:.2f} epochs, {plan.flops:.2e} FLOPs ({_short(plan.flops_per_token)} a token)"
    )
    if event.baseline:
        print_result(f"baseline   guessing by word frequency alone: {in_words(event.baseline)} on held-out text")
    if event.teacher:
        print_result(f"teacher    {in_words(event.teacher)} on held-out text")
    if plan.first_step:
        print_result(f"resumed    after step {plan.first_step:,}")
    if plan.seconds is not None:
        end = time.strftime("%H:%M", time.localtime(time.time() + plan.seconds))
        left = " left" if plan.first_step else ""
        print_result(f"expected   {duration(plan.seconds)}{left}, done at about {end}")


def _short(number: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}"


class TrainingProgress(StageProgress):
    """Steps, loss and tokens a second; evaluations and what else happens as lines of their own."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._first = 0
        self._stage = MEASURING

    def begin(self, plan: Plan) -> None:
        """The time left counts from here."""
        self._first = plan.first_step
        share = plan.first_step / max(plan.steps, 1)
        self.update(TRAINING, share, f"step {plan.first_step:,} of {plan.steps:,}", first=share)

    def show(self, event: Stepped) -> None:
        """Show how far the training is."""
        from bertworks.train.figures import in_words

        report = event.report
        total = max(report.total_steps, 1)
        detail = f"step {report.step:,} of {report.total_steps:,}, loss {event.loss:.3f}, {event.rate:,.0f} tokens/s"
        self.update(TRAINING, report.step / total, detail, first=self._first / total)
        for words in report.events:
            self.note(f"step {report.step:,}: {words}")
        if report.evaluation:
            self.note(f"step {report.step:,}: held-out {in_words(report.evaluation)}")


class _Stop:
    """Turns Ctrl-C and SIGTERM into a request; a second one is an order."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.can_save = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        if not self.can_save:
            raise StoppedError("training had not begun, nothing was kept")
        if self.event.is_set():
            raise StoppedError("at once, without saving; the last checkpoint is kept")
        self.event.set()


@contextmanager
def _stopping() -> Iterator[_Stop]:
    stop = _Stop()
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
