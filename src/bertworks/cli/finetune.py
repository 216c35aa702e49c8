"""`bertworks finetune`: a labelled file to a trained, evaluated, explained model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli import training
from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DEFAULT_MODEL,
    DeviceOption,
    EncodingOption,
    JsonOption,
    QuietOption,
    ThreadsOption,
    prepare,
)
from bertworks.cli.console import duration, print_json, print_note, print_result
from bertworks.cli.labelled import (
    FirstOptionOption,
    HeaderOption,
    LabelColumnOption,
    LabelledFormatOption,
    LabelSeparatorOption,
    OptionColumnsOption,
    PairColumnOption,
    SkipBadRowsOption,
    TextColumnOption,
    columns,
)
from bertworks.cli.training import (
    OptionalSeed,
    OverwriteOption,
    ResumeOption,
    TrackOption,
    TrainingProgress,
    short,
    speaks,
    trackers,
)

if TYPE_CHECKING:
    from bertworks.finetune.config import FinetuneConfig
    from bertworks.finetune.events import Begun, Finished, Planned
    from bertworks.finetune.run import FinetuneOptions

SHOWN_LABELS = 12
SCHEMES = {"iob1": "IOB1", "iobes": "IOBES", "io": "labels alone"}
"""What the ways to write spans are called, where it is not the one that is learnt."""


def finetune(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="classify, pair, regress, choice, tag, qa or similarity.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory of the result.", metavar="DIR")],
    train: Annotated[
        Path | None, typer.Option(help="The labelled file to learn from; a resumed run knows it.", metavar="FILE")
    ] = None,
    dev: Annotated[
        Path | None, typer.Option(help="The labelled file to be judged by while training.", metavar="FILE")
    ] = None,
    dev_fraction: Annotated[
        float | None,
        typer.Option(
            help="Without --dev: the share of the training file to keep for that.", metavar="X", show_default="0.1"
        ),
    ] = None,
    max_examples: Annotated[
        int | None, typer.Option(help="Learn from the first N examples of the training file only.", metavar="N")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="A labelled file to be judged by once, at the end.", metavar="FILE")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="An alias, a model directory, a Hub id, or a new bilstm, bigru or birnn.",
            metavar="MODEL",
            show_default=DEFAULT_MODEL,
        ),
    ] = None,
    text_column: TextColumnOption = None,
    pair_column: PairColumnOption = None,
    label_column: LabelColumnOption = None,
    option_columns: OptionColumnsOption = None,
    first_option: FirstOptionOption = None,
    group_column: Annotated[
        str | None, typer.Option(help="Rows with the same value here are never on both sides of a split.")
    ] = None,
    encoding: EncodingOption = "utf-8",
    file_format: LabelledFormatOption = None,
    header: HeaderOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    multi_label: Annotated[
        bool, typer.Option("--multi-label", help="classify: a text may have several labels, or none.")
    ] = False,
    label_separator: LabelSeparatorOption = None,
    epochs: Annotated[
        float | None, typer.Option(help="How often each example is seen.", metavar="X", show_default="by size of data")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Examples in a step.", metavar="N", show_default="by size of data")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="The highest one.", metavar="X", show_default="by size of model")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after this many evaluations without a better one.", metavar="N")
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Rare classes count as much as frequent ones (class weights).")
    ] = False,
    crf: Annotated[
        bool, typer.Option("--crf", help="tag: choose the tags of a sentence together (conditional random field).")
    ] = False,
    vectors: Annotated[
        list[str] | None,
        typer.Option(
            help="For bilstm, bigru, birnn: word vectors beside the words, from a file or a model; repeatable.",
            metavar="SOURCE",
        ),
    ] = None,
    between: Annotated[
        list[str] | None,
        typer.Option(
            help="The same between the recurrent layers (TagLM); the last layer alone.",
            metavar="SOURCE",
        ),
    ] = None,
    unlabelled: Annotated[
        list[str] | None,
        typer.Option(help="tag, with these models: text to learn from without tags (CVT).", metavar="FILE"),
    ] = None,
    lora: Annotated[
        int | None, typer.Option(help="Train adapters of this rank; they are merged on save.", metavar="RANK", min=1)
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Train this many times; figures are means, with their spread.", metavar="N")
    ] = None,
    search: Annotated[
        int | None, typer.Option(help="Try this many settings first (needs optuna).", metavar="N")
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Train a scikit-learn model on the frozen model's vectors instead.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings.", metavar="FILE")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Override one setting, such as method.freeze_layers=4; repeat.", metavar="KEY=VALUE"
        ),
    ] = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    track: TrackOption = None,
    seed: OptionalSeed = None,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fine-tune a model on a labelled file, and write it as a Hugging Face directory.

    Files are read as they come: csv, tsv, jsonl, parquet, CoNLL columns,
    SQuAD's JSON, GLUE's and SWAG's own. What was understood is said before
    training. The result holds the model, its figures beside a simple
    baseline's, predictions, a report and a model card. Stopped with Ctrl-C
    it saves; --resume continues, and the result is the same.

    \b
    Examples:
      bertworks finetune classify --train train.csv --dev dev.csv -o sentiment
      bertworks finetune tag --train eng.train --dev eng.testa --epochs 1 -o names
      bertworks finetune tag --train eng.train --model bilstm --crf --vectors glove.txt -o names
      bertworks finetune pair --train train.tsv --dev dev.tsv --seeds 3 -o paraphrases
      bertworks finetune qa --train squad.json --dev-fraction 0.1 -o answers
      bertworks finetune regress --train counts.csv --set task.distribution=poisson -o counts
      bertworks finetune classify -o sentiment --resume
    """
    prepare(seed=seed or 0, threads=threads)
    from bertworks.data.labelled.options import ReadOptions
    from bertworks.errors import choice
    from bertworks.finetune.run import FinetuneOptions
    from bertworks.tasks import NAMES

    choice(task, NAMES, "task")
    own = {
        "data.max_examples": max_examples,
        "train.batch_size": batch_size,
        "train.optimizer.learning_rate": learning_rate,
        "train.evaluation.patience": patience,
        "task.class_weights": "balanced" if balanced else None,
        "method.lora_rank": lora,
        "task.crf": "true" if crf else None,
        "words.vectors": ",".join(vectors or ()) or None,
        "words.between": ",".join(between or ()) or None,
        "words.unlabelled": ",".join(unlabelled or ()) or None,
    }
    options = FinetuneOptions(
        task=task,  # type: ignore[arg-type]  # it was checked
        output=output,
        train=train,
        dev=dev,
        dev_fraction=dev_fraction,
        test=test,
        model=model,
        read=ReadOptions(
            text_column=text_column,
            pair_column=pair_column,
            label_column=label_column,
            option_columns=columns(option_columns),
            first_option=first_option,
            group_column=group_column,
            encoding=encoding,
            file_format=file_format,
            header=header,
            skip_bad_rows=skip_bad_rows,
            multi_label=label_separator or multi_label,
        ),
        config=config,
        settings=(*(settings or ()), *(f"{name}={value}" for name, value in own.items() if value is not None)),
        epochs=epochs,
        seed=seed,
        seeds=seeds,
        search=search,
        frozen=frozen,
        resume=resume,
        overwrite=overwrite,
        device=device,
        track=trackers(track),
    )
    follow(options, json=json, quiet=quiet)


def follow(options: FinetuneOptions, *, json: bool, quiet: bool) -> None:
    """Run, and tell what happens."""
    from bertworks.finetune import events, run
    from bertworks.train.directory import is_run

    told = speaks()
    silent = quiet or json or not told
    resumes = options.resume and is_run(options.output)
    results: list[Finished] = []
    plans: list[Planned] = []

    def other(event: Any, progress: TrainingProgress) -> None:
        if isinstance(event, events.Understood):
            for sentence in event.sentences if not silent else ():
                print_result(f"data       {sentence}")
        elif isinstance(event, events.Planned):
            plans.append(event)
            if not silent:
                _tell_plan(event)
        elif isinstance(event, events.Begun):
            if not silent:
                _tell_training(event, plans[-1], resumes=resumes)
            progress.begin(event, part=event.part, parts=plans[-1].parts, title=event.title.partition(":")[0])
        elif isinstance(event, events.Finished):
            results.append(event)

    training.follow(
        lambda stop: run.finetune(options, stop=stop),
        other,
        begins=events.Begun,
        again=shlex.join(["bertworks", "finetune", options.task, "-o", str(options.output)]),
        quiet=quiet or not told,
        silent=silent,
        judged="dev",
        resumes=resumes,
    )
    for result in results if told else ():
        _tell_result(result, json=json, quiet=quiet)


def _tell_plan(event: Planned) -> None:
    from bertworks.errors import first_few
    from bertworks.finetune.baseline import TITLES
    from bertworks.train.figures import in_words

    task, config = event.task, event.config
    if task.labels:
        print_result(f"labels     {len(task.labels)}: {first_few(task.labels, SHOWN_LABELS)}")
    print_result(f"model      {event.model}")
    if isinstance(scheme := getattr(task, "scheme", None), str) and scheme not in ("bio", "plain"):
        print_result(f"tags       written as {SCHEMES[scheme]}, learnt and predicted as BIO")
    print_result(f"settings   {_settings(config)}")
    for name, figures in event.baseline.items():
        print_result(f"baseline   {TITLES.get(name, name)}: {in_words(figures)}")


def _settings(config: FinetuneConfig) -> str:
    from bertworks.train.figures import words

    if config.run is not None and config.run.frozen:
        of = "of words" if config.run.task == "tag" else f"({config.frozen.reads})"
        return f"a linear head on frozen vectors {of}, {config.frozen.folds}-fold cross-validation"
    train = config.train
    epochs = f"{train.epochs:g} epoch{'' if train.epochs == 1 else 's'}"
    return (
        f"batches of {train.batch_size}, {epochs}, learning rate {train.optimizer.learning_rate:g}, "
        f"best by {words(train.evaluation.metric)}"
    )


def _tell_training(event: Begun, plan: Planned, *, resumes: bool) -> None:
    title = f"{event.title}: " if event.title else ""
    part = "" if event.trained_parameters == event.parameters else f"{short(event.trained_parameters)} of "
    windows = "" if event.num_units == event.num_examples else f" in {event.num_units:,} windows"
    judged = f", evaluation every {event.evaluation_steps:,}" if event.evaluation_steps else ", no evaluation"
    frozen = plan.config.run is not None and plan.config.run.frozen
    steps = "" if frozen else f", {event.steps:,} step{'s' * (event.steps != 1)}{judged}"
    print_result(
        f"training   {title}{part}{short(event.parameters)} parameters, {event.num_examples:,} examples{windows}{steps}"
    )
    if event.first_step:
        print_result(f"resumed    after step {event.first_step:,}")
    elif resumes and event.part == 0 and not frozen:
        print_result("resumed    there was no checkpoint yet: from the first step")


def _tell_result(result: Finished, *, json: bool, quiet: bool) -> None:
    from bertworks.train.figures import in_words

    if json:
        optional = {"spread": result.spread, "test": result.test, "test_spread": result.test_spread}
        print_json(
            {
                "output": str(result.directory),
                "already_finished": result.already,
                "metric": result.metric,
                "metrics": dict(result.figures),
                **{name: dict(value) for name, value in optional.items() if value},
                "baseline": {name: dict(figures) for name, figures in result.baseline.items()},
                **({"cross_validation": dict(result.cross_validation)} if result.cross_validation else {}),
                **({"chosen": dict(result.chosen)} if result.chosen else {}),
                "warnings": [] if result.doubt is None else [result.doubt],
                "seeds": list(result.seeds),
                "seconds": round(result.seconds, 3),
            }
        )
        return
    count = len(result.seeds)
    if result.already:
        print_result(f"{result.directory}: this run is finished already; nothing to do")
    else:
        print_result(
            f"{result.directory}: {f'{count} seeds' if count > 1 else 'trained'} in {duration(result.seconds)}"
        )
    if result.chosen:
        from bertworks.finetune.search import in_words as settings_in_words

        print_result(f"best settings: {settings_in_words(dict(result.chosen))}")
    if crossed := result.cross_validation:
        name = str(crossed["metric"])
        told = in_words({name: crossed["mean"]}, {name: crossed["std"]})
        print_result(f"cross-validation ({len(crossed['folds'])} folds of the training examples): {told}")
    if result.figures:
        print_result(f"dev: {in_words(result.figures, result.spread)}")
    if result.test:
        print_result(f"test: {in_words(result.test, result.test_spread)}")
    print_result(f"report: {result.directory / 'report.html'}")
    if result.doubt is not None:
        print_note(result.doubt, quiet=quiet)
