"""A whole fine-tuning run: labelled files and a pretrained model in, a finished directory out.

    check  ->  read, understand  ->  settle (task, defaults)  ->  [search]  ->  train, one seed after the other  ->  finish
                                      config.toml                   checkpoints/, metrics.jsonl     model, metrics.json …

`finetune` is a generator of events, so that a terminal, a notebook and a test can all follow it; nothing is printed
here. Everything that decides the result stands in `config.toml` before the first step is taken. A run that is killed at
any moment and resumed ends with the same weights as one that was not.
"""

from __future__ import annotations

import json
import threading
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertworks import hub, tasks
from bertworks.atomic import write_text
from bertworks.config import resolve, to_dict, to_toml
from bertworks.data.labelled.options import ReadOptions
from bertworks.errors import ConfigError, OutputError, UsageError, choice
from bertworks.finetune.baseline import baselines
from bertworks.finetune.config import FinetuneConfig, RunSection
from bertworks.finetune.data import RunData, read_data
from bertworks.finetune.defaults import suited, window_for
from bertworks.finetune.events import Event, Finished, Note, Planned, Understood
from bertworks.finetune.finish import finish
from bertworks.finetune.fit import TrainingData
from bertworks.finetune.fresh import open_model
from bertworks.finetune.frozen import check_frozen
from bertworks.finetune.report import warning
from bertworks.finetune.result import Baseline, Result
from bertworks.finetune.search import FOLDER, check_installed, search
from bertworks.finetune.seeds import Trained, Trainer, best_of, drop_candidates, read_outcome, seed_directories
from bertworks.finetune.words import WordModel, check_words, make_model
from bertworks.models.device import usable_device
from bertworks.models.word_config import WordStackConfig
from bertworks.tasks.base import Task, TaskName
from bertworks.tasks.run import usable
from bertworks.train.directory import CONFIG_FILE, begin, changes, check_output, is_finished, near, read_result
from bertworks.train.log import check_trackers
from bertworks.train.parallel import Parallel
from bertworks.train.state import weights_sha256

__all__ = ["Event", "FinetuneOptions", "RunData", "finetune"]

DEFAULT_MODEL = "minilm"
MAY_CHANGE = (
    "train.checkpoint_steps",
    "train.checkpoint_minutes",
    "train.log_steps",
    "run.train",
    "run.dev",
    "run.test",
    "run.data_sha256",
)
"""Settings that a resumed run may change: none of them changes a result. Files may move; the examples must be the same."""
TRAINS = (
    *(f"train.{name}" for name in ("epochs", "batch_size", "optimizer", "schedule", "clip_norm", "ema")),
    *(f"train.evaluation.{name}" for name in ("steps", "patience", "keep")),
    "method.",
)
"""Settings of a training that changes a model's weights."""
SEARCH_RESULT = "result.json"


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    """What is asked for. What is None is the default, or, for a run that is resumed, its own."""

    task: TaskName
    output: Path
    train: Path | None = None
    """A resumed run knows it."""
    dev: Path | None = None
    dev_fraction: float | None = None
    """The share of the training file to keep for evaluation, where there is no development file."""
    test: Path | None = None
    model: str | None = None
    """An alias, a directory or a Hub id."""
    read: ReadOptions = field(default_factory=ReadOptions)
    config: Path | None = None
    """A TOML file with settings."""
    settings: tuple[str, ...] = ()
    """`section.key=value`"""
    epochs: float | None = None
    seed: int | None = None
    seeds: int | None = None
    search: int | None = None
    frozen: bool = False
    resume: bool = False
    overwrite: bool = False
    device: str = "cpu"
    track: tuple[str, ...] | None = None
    """None = TensorBoard where it is installed."""

    @property
    def all_settings(self) -> tuple[str, ...]:
        """Those with an option of their own, too."""
        return (*self.settings, *([] if self.epochs is None else [f"train.epochs={self.epochs!r}"]))


def finetune(options: FinetuneOptions, *, stop: threading.Event | None = None) -> Iterator[Event]:
    """Fine-tune, or continue, as `options` say. Setting `stop` saves after the step in hand and ends with `Stopped`."""
    track = check_trackers(options.track, resumed=options.output if options.resume else None)
    device = usable_device(options.device)
    stored, config = _settled(options)
    run = _run(config)
    if run.search and not run.searched:
        check_installed()
    if stored is not None:
        if changed := changes(to_dict(stored), to_dict(config), MAY_CHANGE):
            yield Note(f"changed, which changes no result: {'; '.join(changed)}")
        if is_finished(options.output):
            yield _already(options.output)
            return
    elif options.resume:
        yield Note(f"there is no run in {options.output} yet: a new one begins")
    if run.frozen:
        check_frozen(run.task, crf=bool(config.task.crf))
    words = check_words(config, run)
    data = read_data(run, config.data)
    if stored is not None and data.sha256 != _run(stored).data_sha256:
        raise UsageError(
            f"the run in {options.output} was started with other examples than {run.train} and its companions hold now; "
            "resume it with the same files, or begin another run in another directory"
        )
    yield Understood(sentences=data.understood)
    num_understood = len(data.understood)
    over_words: WordModel | None = None
    if words:
        over_words = make_model(config, run, data.train, options.output, str(device))
        if stored is not None and over_words.sha256 != run.words_sha256:
            raise UsageError(
                f"the run in {options.output} was started with other word vectors or other text without labels than "
                f"{', '.join(config.words.files)} hold now; bring the old ones back, or begin another run in another directory"
            )
        yield Understood(sentences=over_words.described)
        run = replace(run, words_sha256=over_words.sha256)
        loaded, fresh = over_words.loaded, True
    else:
        loaded, fresh = open_model(run.model, data.train, config.fresh)
        if isinstance(loaded.model.config.body, WordStackConfig):
            raise UsageError(
                f"{run.model} is a model over words, which knows only the words it was trained with; train a new one: "
                "--model bilstm"
            )
    model_sha256 = "" if fresh else weights_sha256(loaded.model)
    if stored is not None and run.model_sha256 not in ("", model_sha256):
        raise UsageError(
            f"the run in {options.output} was started with other weights than {run.model} holds now; bring the old ones back, "
            "or begin another run in another directory"
        )
    if fresh and run.frozen:
        raise UsageError(f"--frozen reads the vectors of a model that has learnt something; {run.model} is a new one")
    task = make_task(config, data, loaded, over_words)
    data_sha256 = data.sha256
    data = judgeable(task, data, skip=config.data.skip_bad_rows)
    if run.search and not data.dev:
        raise UsageError("--search chooses by the development examples, and there are none: give some with --dev")
    if more := data.understood[num_understood:]:
        yield Understood(sentences=more)
    if stored is None:
        suitable = suited(task, len(data.train), loaded.model, config, fresh=fresh)
        config = resolve(FinetuneConfig, options.config, options.all_settings, base=suitable)
        run = replace(run, data_sha256=data_sha256, model_sha256=model_sha256)
        config = replace(config, run=run, data=suitable.data)
        _check_metric(config, task)
    parallel = Parallel(device=device, precision=config.train.precision)
    try:
        window = window_for(run.task, loaded.model, loaded.window, config.data.max_length)
        trainer = Trainer(
            task=task,
            data=TrainingData(
                data.train, data.dev, window=window, unlabelled=over_words.unlabelled if over_words is not None else ()
            ),
            test=data.test,
            model=loaded.model,
            tokenizer=loaded.tokenizer,
            parallel=parallel,
            fresh=fresh,
            track=track,
            stop=stop,
        )
        if told := trainer.check(config):
            yield Note(told)
        if run.frozen and (useless := [name for name in _named_settings(options) if name.startswith(TRAINS)]):
            yield Note(f"--frozen trains no weights of the model: nothing comes of {', '.join(useless)}")
        if run.frozen and run.seeds > 1:
            yield Note(
                "--frozen: a seed settles the folds only, so that the spread between seeds tells next to nothing"
            )
        baseline = _baseline(task, data, config)
        _check_figures(config, baseline)
        if stored is None and parallel.main:
            begin(options.output, {CONFIG_FILE: to_toml(config)})
        parallel.barrier()
        yield from _Run(options.output, config, data, trainer, baseline).events()
    finally:
        parallel.close()


# -- what is to be done ------------------------------------------------------------------------------------------------


def _settled(options: FinetuneOptions) -> tuple[FinetuneConfig | None, FinetuneConfig]:
    """The settings of the run that is continued, if one is, and those that are asked for.

    Of a new run these are not all yet: what suits the data is known when the data is.
    """
    choice(options.task, tasks.NAMES, "task")
    output = options.output
    needed = [str(given) for given in (options.model, options.train, options.dev, options.test) if given is not None]
    if check_output(output, resume=options.resume, overwrite=options.overwrite, commands=("finetune",), needed=needed):
        stored = resolve(FinetuneConfig, output / CONFIG_FILE)
        if stored.run is None:
            raise OutputError(f"{output / CONFIG_FILE} is not the settings of a run: its section [run] is missing")
        return stored, _with_options(stored, stored.run, options)
    if options.train is None:
        missing = f"there is no run in {output}{near(output)}; " if options.resume else ""
        raise UsageError(f"{missing}say what to train on: --train FILE")
    run = RunSection(task=options.task, model=DEFAULT_MODEL, train=str(options.train), pinned=_pinned(options))
    return None, _with_options(FinetuneConfig(), run, options)


def _with_options(base: FinetuneConfig, run: RunSection, options: FinetuneOptions) -> FinetuneConfig:
    """`base` with what the options say."""
    config = resolve(FinetuneConfig, options.config, options.all_settings, base=replace(base, run=None))
    data = config.data.with_options(options.read)
    if options.dev_fraction is not None:
        data = replace(data, dev_fraction=options.dev_fraction)
    paths = {"train": options.train, "dev": options.dev, "test": options.test}
    said: dict[str, Any] = {name: str(path) for name, path in paths.items() if path is not None}
    numbers = {"seed": options.seed, "seeds": options.seeds, "search": options.search, "model": options.model}
    said |= {name: value for name, value in numbers.items() if value is not None}
    asked = replace(run, task=options.task, frozen=options.frozen or run.frozen, **said)
    if asked.seeds < 1:
        raise UsageError(f"--seeds must be at least 1, not {asked.seeds}")
    if asked.search < 0:
        raise UsageError(f"--search must be at least 0, not {asked.search}")
    if asked.frozen and asked.search:
        raise UsageError("--frozen and --search exclude each other: there are no settings of the training to search")
    return replace(config, data=data, run=asked)


def _named_settings(options: FinetuneOptions) -> list[str]:
    """The names of the settings on the command line."""
    return [setting.partition("=")[0].strip() for setting in options.all_settings]


def _pinned(options: FinetuneOptions) -> tuple[str, ...]:
    """The names of the settings that the user has chosen, in the file or on the command line."""
    names = _named_settings(options)
    if options.config is not None:
        try:
            names += _names(tomllib.loads(options.config.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read the settings {options.config}: {error}") from error
    return tuple(dict.fromkeys(name for name in names if not name.startswith("run.")))


def _names(table: Mapping[str, Any], path: str = "") -> list[str]:
    names = []
    for key, value in table.items():
        names += _names(value, f"{path}{key}.") if isinstance(value, Mapping) else [f"{path}{key}"]
    return names


def _run(config: FinetuneConfig) -> RunSection:
    assert config.run is not None
    return config.run


def make_task(
    config: FinetuneConfig, data: RunData, loaded: hub.Loaded, words: WordModel | None = None
) -> Task[Any, Any]:
    """The task, which knows the labels."""
    run = _run(config)
    options = config.task.options(run.task)
    if run.task == "similarity" and loaded.settings is not None:
        options = {"pooling": loaded.settings.pooling, "normalize": loaded.settings.normalize, **options}
    if words is not None:
        options |= words.options(config.words, run.task)
    examples: Sequence[Any] = data.train
    if data.split and run.task in ("classify", "pair", "tag"):
        examples = [*data.train, *data.dev]  # a rare label may have fallen to the other side of the split
    return tasks.for_examples(run.task, examples, dev=data.dev or None, **options)


def judgeable(task: Task[Any, Any], data: RunData, *, skip: bool) -> RunData:
    """Development and test examples that the task can judge: a label that training has not shown is an error with its place,
    or, where the user asked for that, an example less."""
    parts: dict[str, list[Any]] = {}
    told: list[str] = []
    for name, examples in (("development", data.dev), ("test", data.test)):
        parts[name], errors = usable(task, examples, skip=skip)
        if errors:
            told.append(f"{len(errors):,} {name} examples left out, the first: {errors[0]}")
    return replace(data, dev=parts["development"], test=parts["test"], understood=(*data.understood, *told))


def _baseline(task: Task[Any, Any], data: RunData, config: FinetuneConfig) -> Baseline:
    """What simple models reach; their figures have the names that the evaluations' will have."""
    return baselines(task, data.train, data.dev, seed=_run(config).seed)


def _check_metric(config: FinetuneConfig, task: Task[Any, Any]) -> None:
    """The best checkpoint is chosen by the figure that the task is judged by, everywhere."""
    metric = config.train.evaluation.metric
    if metric != task.metric:
        own = "" if "metric" in task.settings() else f", and {task.name!r} has no other"
        raise ConfigError(
            f"train.evaluation.metric is {metric!r}; it is {task.metric!r}, by task.metric{own}: set that"
        )


def _check_figures(config: FinetuneConfig, baseline: Baseline) -> None:
    """What the training is to be judged by must be among the figures of these examples, which simple models show."""
    metric = config.train.evaluation.metric
    for figures in baseline.values():
        if metric not in figures:
            raise ConfigError(
                f"task.metric is {metric!r}, which these development examples do not give; they give: {', '.join(figures)}"
            )


# -- the run -----------------------------------------------------------------------------------------------------------


class _Run:
    """The parts of one run, once they are all there."""

    def __init__(
        self, output: Path, config: FinetuneConfig, data: RunData, trainer: Trainer, baseline: Baseline
    ) -> None:
        self.output, self.config, self.data, self.trainer = output, config, data, trainer
        self.baseline = baseline
        self.run = _run(config)
        self.trials: list[dict[str, Any]] = []
        self.ready: dict[int, Trained] = {}
        """By seed: trainings that the search has done already."""

    def events(self) -> Iterator[Event]:
        """From the plan to the finished directory."""
        run = self.run
        several = run.seeds + run.search > 1
        yield Planned(
            task=self.trainer.task,
            model=f"{run.model} ({self.trainer.model.config.describe()})",
            config=self.config,
            baseline=self.baseline,
            parts=run.search + run.seeds - bool(run.search),
        )
        if run.search and not (yield from self._search()):
            return
        trained: list[Trained] = []
        directories = seed_directories(self.output, run.seed, run.seeds)
        for number, (seed, directory) in enumerate(directories):
            title = f"seed {seed} ({number + 1} of {run.seeds})" if run.seeds > 1 else ""
            done = self.ready.get(seed)
            if done is None:
                part = run.search + number - bool(run.search)
                done = yield from self.trainer.train(
                    self.config, seed=seed, directory=directory, title=title, part=part, keep=several
                )
            if done is None:
                return
            trained.append(done)
            if several:
                trained = drop_candidates(trained, best_of(trained, self.config.train.evaluation))
        yield from self._finish(trained)

    def _search(self) -> Generator[Event, None, bool]:
        """Find settings, or read which were found; False where it was stopped."""
        path = self.output / FOLDER / SEARCH_RESULT
        if not self.run.searched:
            found = yield from search(
                self.trainer,
                self.config,
                trials=self.run.search,
                seed=self.run.seed,
                pinned=self.run.pinned,
                output=self.output,
            )
            if found is None:
                return False
            self.run = replace(self.run, searched=True)
            self.config = replace(found.config, run=self.run)
            self.trials, self.ready = found.trials, {self.run.seed: found.best}
            if self.trainer.parallel.main:
                result = {"best": found.best.directory.name, "trials": found.trials}
                write_text(path, json.dumps(result, indent=1) + "\n")
                write_text(self.output / CONFIG_FILE, to_toml(self.config))  # from here on the search is over
            self.trainer.parallel.barrier()
            return True
        result = json.loads(path.read_text(encoding="utf-8"))
        best = read_outcome(self.output / FOLDER / result["best"])
        assert best is not None, "the best trial is over"
        self.trials, self.ready = result["trials"], {self.run.seed: best}
        return True

    def _finish(self, trained: Sequence[Trained]) -> Iterator[Event]:
        """Make the directory a model; one process does."""
        best = best_of(trained, self.config.train.evaluation)
        kept = self.trainer.kept(trained[best])
        evaluated = kept.evaluated
        result = Result(
            name=self.output.resolve().name,
            task=kept.task,
            decision={} if evaluated is None else evaluated.decision,
            examples=self.data.dev,
            predictions=[] if evaluated is None else evaluated.predictions,
            runs=[each.run for each in trained],
            kept=best,
            baseline=self.baseline,
            model=self.run.model,
            described=kept.model.config.describe(),
            parameters=trained[best].parameters,
            trained_parameters=trained[best].trained_parameters,
            data=self.run.train,
            understood=self.data.understood,
            num_train=len(self.data.train),
            num_dev=len(self.data.dev),
            num_test=len(self.data.test),
            settings=to_dict(self.config),
            search=self.trials,
            seconds=sum(each.run.seconds for each in trained) + self._trial_seconds(trained),
        )
        if self.trainer.parallel.main:
            finish(result, kept, self.output, window=self.trainer.data.window, columns=self.data.columns)
            yield Finished(
                directory=self.output,
                metric=kept.task.metric,
                figures=result.figures,
                spread=result.spread,
                test=result.test,
                test_spread=result.test_spread,
                baseline=self.baseline,
                cross_validation=result.runs[best].frozen,
                doubt=warning(result),
                chosen=self._chosen(),
                seeds=[run.seed for run in result.runs],
                seconds=result.seconds,
            )
        self.trainer.parallel.barrier()

    def _chosen(self) -> Mapping[str, float]:
        """The settings of the trial that became the first seed."""
        found = self.ready.get(self.run.seed)
        settings = {str(entry["number"]): entry["settings"] for entry in self.trials}
        return {} if found is None else settings[found.directory.name]

    def _trial_seconds(self, trained: Sequence[Trained]) -> float:
        """Of the trials that are not among the seeds."""
        counted = {each.directory for each in trained}
        directories = [self.output / FOLDER / str(entry["number"]) for entry in self.trials]
        outcomes = [read_outcome(directory) for directory in directories if directory not in counted]
        return sum(outcome.run.seconds for outcome in outcomes if outcome is not None)


def _already(output: Path) -> Finished:
    result = read_result(output)
    return Finished(
        directory=output,
        metric=str(result.get("metric", "")),
        figures=result["metrics"],
        spread=result.get("spread", {}),
        test=result.get("test", {}),
        test_spread=result.get("test_spread", {}),
        baseline=result.get("baseline", {}),
        cross_validation=result.get("cross_validation", {}),
        seeds=result.get("seeds", []),
        seconds=result["seconds"],
        already=True,
    )
