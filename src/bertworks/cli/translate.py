"""`bertworks translate train`: parallel texts to a translator; `run` is in `translate_run`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from bertworks.cli import training, translate_run
from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DeviceOption,
    JsonOption,
    QuietOption,
    ThreadsOption,
    prepare,
)
from bertworks.cli.console import duration, print_json, print_result
from bertworks.cli.training import (
    BudgetOption,
    OptionalSeed,
    OverwriteOption,
    ResumeOption,
    SettingsOption,
    StepsOption,
    TrackOption,
    TrainingProgress,
    short,
    speaks,
    trackers,
)
from bertworks.errors import UsageError

if TYPE_CHECKING:
    from bertworks.translate.run import Finished, Planned
    from bertworks.translate.settle import TranslateOptions

app = typer.Typer(help="Train a translator on parallel texts, and translate with it.", no_args_is_help=True)
app.command("run")(translate_run.run)

FILE_OPTIONS = ("--train", "--dev", "--test")


class FilesCommand(TyperCommand):
    """A command whose options for files take one or two of them: `--train source target`, or `--train pairs`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the option again before its second file."""
        spelled: list[str] = []
        option = ""
        for arg in args:
            if arg.startswith("-") and arg != "-":
                option = arg if arg in FILE_OPTIONS else ""
            elif option and len(spelled) > 1 and spelled[-1] != option:
                spelled.append(option)
            spelled.append(arg)
        return super().parse_args(ctx, spelled)


PairsOption = Annotated[
    list[str] | None,
    typer.Option(help="Two files, source and target, line by line; or one file of pairs.", metavar="FILE [FILE]"),
]


@app.command("train", cls=FilesCommand)
def train(
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory of the run.", metavar="RUN")],
    train: PairsOption = None,
    dev: PairsOption = None,
    test: PairsOption = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="transformer, rnn-attention, or the path of a TOML file.", show_default="transformer"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Of one file of pairs: the columns of source and target, such as 2,1 or en,de.", metavar="A,B"
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="The encoding of the texts, for instance latin-1.", show_default="utf-8")
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="How often each pair is seen.", metavar="X", show_default="the recipe's")
    ] = None,
    budget: BudgetOption = None,
    steps: StepsOption = None,
    settings: SettingsOption = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    track: TrackOption = None,
    seed: OptionalSeed = None,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a translator on parallel texts.

    One vocabulary for both languages is learnt from the training pairs; then the model, judged
    by the BLEU of the development pairs (without --dev, some of the
    training pairs). The result holds the model, its figures, translations,
    a report and a model card. Stopped with Ctrl-C it saves; --resume
    continues, and the result is the same.

    \b
    Examples:
      bertworks translate train --train train.en train.de --dev val.en val.de -o en-de
      bertworks translate train --train pairs.tsv --recipe rnn-attention --budget 30m -o en-fr
      bertworks translate train --train pairs.tsv --columns 2,1 --set model.positions=rotary -o fr-en
      bertworks translate train -o en-de --resume
    """
    lengths = {"--epochs": epochs, "--budget": budget, "--steps": steps}
    if len(given := [name for name, value in lengths.items() if value is not None]) > 1:
        raise UsageError(f"{' and '.join(given)} say different things; give one of {', '.join(lengths)}")
    prepare(seed=seed or 0, threads=threads)
    from bertworks.train.measure import parse_budget
    from bertworks.translate.settle import TranslateOptions

    own = {"data.columns": columns, "data.encoding": encoding, "train.epochs": epochs}
    options = TranslateOptions(
        output=output,
        train=tuple(train or ()),
        dev=tuple(dev or ()),
        test=tuple(test or ()),
        recipe=recipe,
        settings=(*(settings or ()), *(f"{name}={value}" for name, value in own.items() if value is not None)),
        steps=steps,
        budget=None if budget is None else parse_budget(budget),
        seed=seed,
        resume=resume,
        overwrite=overwrite,
        track=trackers(track),
        device=device,
    )
    follow(options, json=json, quiet=quiet)


def follow(options: TranslateOptions, *, json: bool, quiet: bool) -> None:
    """Run, and tell what happens."""
    from bertworks.train.directory import is_run
    from bertworks.translate import run as runs

    told = speaks()
    silent = quiet or json or not told
    results: list[Finished] = []

    def other(event: Any, progress: TrainingProgress) -> None:
        if isinstance(event, runs.Planned):
            if not silent:
                _tell_plan(event)
            progress.begin(event.plan)
        elif isinstance(event, runs.Finished):
            results.append(event)

    training.follow(
        lambda stop: runs.train_translator(options, stop=stop),
        other,
        begins=runs.Planned,
        again=shlex.join(["bertworks", "translate", "train", "-o", str(options.output)]),
        quiet=quiet or not told,
        silent=silent,
        judged="dev",
        resumes=options.resume and is_run(options.output),
    )
    for result in results if told else ():
        _tell_result(result, json=json)


def _tell_plan(event: Planned) -> None:
    from bertworks.train.figures import steps

    plan = event.plan
    for sentence in event.data:
        print_result(f"data       {sentence}")
    print_result(f"tokens     {short(plan.corpus_tokens)} in an epoch, one vocabulary of {event.vocab_size:,}")
    print_result(f"model      {event.model}, {short(plan.parameters)} parameters")
    if plan.tokens_per_second is not None:
        rate = plan.flops_per_second or 0.0
        print_result(f"speed      {plan.tokens_per_second:,.0f} tokens/s, {rate / 1e9:,.1f} GFLOP/s (measured)")
    print_result(f"training   {steps(plan.steps)} of {plan.batch_tokens:,.0f} tokens, {plan.epochs:.2f} epochs")
    training.tell_end(plan)


def _tell_result(result: Finished, *, json: bool) -> None:
    from bertworks.train.figures import in_words, steps
    from bertworks.translate.report import told

    content = result.result
    if json:
        print_json({"output": str(result.directory), "already_finished": result.already, **content})
        return
    if result.already:
        print_result(
            f"{result.directory}: this run is finished already, after {steps(content['steps'])}; nothing to do"
        )
        return
    print_result(f"{result.directory}: {steps(content['steps'])} in {duration(content['seconds'])}")
    print_result(f"dev: {in_words(content['metrics'])}")
    for sentence in told(content):
        print_result(sentence)
    if content.get("test"):
        print_result(f"test: {in_words(content['test'])}")
    print_result(f"report: {result.directory / 'report.html'}")
