"""What `bertworks pretrain` and `bertworks distill` share: from options as typed to a run, and what is told of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertworks.cli import training
from bertworks.cli.common import prepare
from bertworks.cli.console import duration, print_json, print_note, print_result
from bertworks.cli.training import TrainingProgress, short, speaks, trackers

if TYPE_CHECKING:
    from bertworks.train.run import Finished, Planned, RunOptions

WORTH_TELLING = 2.0
"""Where bf16 multiplies so many times as fast, a run in fp32 is told of it."""


def begin(
    command: Literal["pretrain", "distill"],
    corpus: Path,
    output: Path,
    *,
    size: str | None,
    settings: Sequence[str] | None,
    budget: str | None,
    track: str | None,
    seed: int | None,
    threads: int | None,
    json: bool,
    quiet: bool,
    **same: Any,
) -> None:
    """Run `command` with what was typed; `same`: options that `RunOptions` knows by the same name and in the same form."""
    prepare(seed=seed or 0, threads=threads)
    from bertworks.train.measure import parse_budget
    from bertworks.train.run import RunOptions

    options = RunOptions(
        command=command,
        corpus=corpus,
        output=output,
        settings=(*(settings or ()), *([f"model.size={size}"] if size else ())),
        budget=None if budget is None else parse_budget(budget),
        track=trackers(track),
        seed=seed,
        **same,
    )
    follow(options, json=json, quiet=quiet)


def follow(options: RunOptions, *, json: bool, quiet: bool) -> None:
    """Run, and tell what happens."""
    from bertworks.train import run
    from bertworks.train.directory import is_run

    told = speaks()
    silent = quiet or json or not told
    results: list[Finished] = []

    def other(event: Any, progress: TrainingProgress) -> None:
        if isinstance(event, run.Planned):
            _tell_plan(event, quiet=silent)
            if event.plan.tokens_per_second is not None and not silent and options.device == "cpu":
                _tell_of_bf16(event.recipe.train.precision)
            progress.begin(event.plan)
        elif isinstance(event, run.Finished):
            results.append(event)

    training.follow(
        lambda stop: run.pretrain(options, stop=stop),
        other,
        begins=run.Planned,
        again=shlex.join(["bertworks", options.command, str(options.corpus), "-o", str(options.output)]),
        quiet=quiet or not told,
        silent=silent,
        resumes=options.resume and is_run(options.output),
    )
    for result in results if told else ():
        _tell_result(result, json=json, quiet=quiet)


def _tell_result(result: Finished, *, json: bool, quiet: bool) -> None:
    from bertworks.train.figures import beats, has_turned, in_words, steps
    from bertworks.train.log import read_metrics

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
        missing = "more text" if has_turned(read_metrics(result.directory)) else "a larger budget"
        print_note(f"the model has not learnt more than how frequent words are yet: give it {missing}", quiet=quiet)


def _tell_plan(event: Planned, *, quiet: bool) -> None:
    if quiet:
        return
    from bertworks.train.figures import in_words, steps

    plan = event.plan
    print_result(f"model      {event.model}, {short(plan.parameters)} parameters")
    print_result(f"corpus     {event.corpus}")
    if event.recipe.run is not None and event.recipe.run.vector_tokens:
        print_result(f"vectors    the first ones from skip-gram over {event.recipe.run.vector_tokens:,} tokens")
    if plan.tokens_per_second is not None and plan.seconds is not None:
        rate = plan.flops_per_second or 0.0
        print_result(f"speed      {plan.tokens_per_second:,.0f} tokens/s, {rate / 1e9:,.1f} GFLOP/s (measured)")
    print_result(
        f"training   {steps(plan.steps)} of {plan.batch_tokens:,.0f} tokens: {short(plan.tokens)} tokens, "
        f"{plan.epochs:.2f} epochs, {plan.flops:.2e} FLOPs ({short(plan.flops_per_token)} a token)"
    )
    if event.baseline:
        print_result(f"baseline   guessing by word frequency alone: {in_words(event.baseline)} on held-out text")
    if event.teacher:
        print_result(f"teacher    {in_words(event.teacher)} on held-out text")
    training.tell_end(plan)


def _tell_of_bf16(precision: str) -> None:
    """To a new run in fp32, on a processor that could do more."""
    from bertworks.train.measure import gain_of_bf16

    if precision == "fp32" and (gain := gain_of_bf16()) > WORTH_TELLING:
        print_note(
            f"this processor multiplies bf16 {gain:.1f} times as fast as fp32; --set train.precision=bf16 uses it, and "
            "keeps the weights in fp32"
        )
