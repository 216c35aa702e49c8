"""What a run is to do, settled before any work: options and stored settings in, one resolved recipe out, or an error.

When a directory is a run, and when it may be continued, is said in `bertworks.train.directory`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bertworks import hub
from bertworks.config import from_dict, override, to_dict, to_toml
from bertworks.data.corpus import Corpus
from bertworks.data.corpus.layout import MANIFEST, file_sha256
from bertworks.data.pretraining import Lexicon
from bertworks.errors import ConfigError, DataError, OutputError, UsageError
from bertworks.models.config import RecurrentConfig
from bertworks.text.tokenizer import Tokenizer
from bertworks.train import directory
from bertworks.train.directory import CONFIG_FILE
from bertworks.train.maskers import LEXICON_FILE
from bertworks.train.recipes import (
    CONTINUE_RECIPE,
    DEFAULT_RECIPE,
    DISTILL_RECIPE,
    ULMFIT_RECIPE,
    Recipe,
    RunSection,
    load_recipe,
)

MAY_CHANGE = ("train.checkpoint_steps", "train.checkpoint_minutes", "train.log_steps", "run.corpus", "about")
"""Settings that a resumed run may change: none of them changes a weight, unless weights are rolled back to a checkpoint."""
MODEL_WITH_START = ("model.generator_factor",)
"""Settings of the section [model] that are read when a model is gone on with: ELECTRA's generator may be new."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What is asked for."""

    corpus: Path
    output: Path
    command: Literal["pretrain", "distill"] = "pretrain"
    recipe: str | Path | None = None
    """A recipe's name or file; None = the default, or, for a run that is resumed, its own."""
    settings: tuple[str, ...] = ()
    """`section.key=value`"""
    budget: float | None = None
    """Seconds."""
    steps: int | None = None
    start: str | None = None
    """A model to go on with: alias, directory or Hub id."""
    teacher: str | None = None
    resume: bool = False
    overwrite: bool = False
    track: tuple[str, ...] | None = None
    """None = TensorBoard where it is installed."""
    seed: int | None = None
    device: str = "cpu"


def check(options: RunOptions) -> None:
    """Refuse options that cannot be, whatever lies in the output directory."""
    if options.budget is not None and options.steps is not None:
        raise UsageError("give --budget or --steps, not both")
    if options.start is not None:
        _check_shape(options, options.start)
    if not options.resume:
        _check_new(options)
    if not options.resume or options.recipe is not None:
        kind = _new_recipe(options).objective.kind
        if options.command == "distill" and kind != "distill":
            raise UsageError(
                f"nothing would be learnt from the teacher: the recipe {options.recipe} has objective.kind = {kind!r}; "
                "leave it out, or use bertworks pretrain"
            )


def _check_shape(options: RunOptions, start: str) -> None:
    """A model that is gone on with cannot be given another shape."""
    names = [setting.partition("=")[0].strip() for setting in options.settings]
    shaping = [name for name in names if name.startswith("model.") and name not in MODEL_WITH_START]
    if shaping:
        given = "--size" if shaping == ["model.size"] else f"--set {shaping[0]}"
        raise UsageError(
            f"{given} and --from exclude each other: a model that is gone on with keeps its shape ({start}); "
            "leave out one of them"
        )


def _check_new(options: RunOptions) -> None:
    """What a new run needs."""
    if options.budget is None and options.steps is None:
        raise UsageError("say how long to train: --budget 30m, or --steps 10000")
    if options.command == "distill" and options.teacher is None:
        raise UsageError("say what to learn from: --teacher MODEL")


def stored_recipe(options: RunOptions) -> Recipe | None:
    """The settings of the run that is there, if it is to be continued; None where a new one begins."""
    output = options.output
    if directory.check_output(
        output,
        resume=options.resume,
        overwrite=options.overwrite,
        commands=("pretrain", "distill"),
        left_over=(LEXICON_FILE,),
        needed=[str(options.corpus), *(name for name in (options.start, options.teacher) if name is not None)],
    ):
        stored = load_recipe(output / CONFIG_FILE)
        if stored.run is None or stored.run.steps is None:
            raise OutputError(f"{output / CONFIG_FILE} is not the settings of a run: its section [run] is missing")
        return stored
    if options.resume and options.budget is None and options.steps is None:
        raise UsageError(
            f"there is no run in {output}{directory.near(output)}; give --budget or --steps to begin one there"
        )
    return None


def open_corpus(path: Path) -> Corpus:
    """The corpus, which must have something in it."""
    corpus = Corpus.open(path)
    if corpus.num_documents == 0 or corpus.num_tokens == 0:
        raise DataError("is empty: there is nothing to train on", path=path)
    return corpus


def resolve(options: RunOptions, stored: Recipe | None, corpus: Corpus) -> Recipe:
    """The recipe of this run with its own section; an error where it cannot be continued with what is asked for."""
    fingerprint = file_sha256(corpus.directory / MANIFEST)
    if stored is not None:
        run = stored.run
        assert run is not None
        if run.corpus_sha256 != fingerprint:
            raise UsageError(
                f"the run in {options.output} was started with the corpus {run.corpus}, and {corpus.directory} is "
                "another one, or was built anew; resume with that corpus, or begin another run in another directory"
            )
        base = override(stored, options.settings) if options.recipe is None else _new_recipe(options)
        if run.start is not None:
            _check_shape(options, run.start)
            base = replace(base, model=stored.model)  # it is that of the model which was gone on with
        asked = replace(
            run,
            command=options.command,
            corpus=str(corpus.directory),
            corpus_sha256=fingerprint,
            seed=run.seed if options.seed is None else options.seed,
            steps=run.steps if options.steps is None else options.steps,
            budget=run.budget if options.budget is None else options.budget,
            start=run.start if options.start is None else options.start,
            teacher=run.teacher if options.teacher is None else options.teacher,
        )
        return replace(base, run=asked)
    _check_new(options)
    run = RunSection(
        command=options.command,
        corpus=str(corpus.directory),
        corpus_sha256=fingerprint,
        seed=options.seed or 0,
        steps=options.steps,
        budget=options.budget,
        start=options.start,
        teacher=options.teacher,
    )
    return replace(_new_recipe(options), run=run)


def _new_recipe(options: RunOptions) -> Recipe:
    if options.recipe in (CONTINUE_RECIPE, ULMFIT_RECIPE) and options.start is None:
        raise UsageError(f"the recipe {options.recipe} goes on with a model that is there: give it with --from MODEL")
    return replace(load_recipe(options.recipe or _usual_recipe(options), options.settings), run=None)


def _usual_recipe(options: RunOptions) -> str:
    if options.command == "distill":
        return DISTILL_RECIPE
    if options.start is None:
        return DEFAULT_RECIPE
    body = hub.load(options.start).model.config.body
    return ULMFIT_RECIPE if isinstance(body, RecurrentConfig) else CONTINUE_RECIPE


def changes(stored: Recipe, asked: Recipe, output: Path) -> list[str]:
    """Which settings differ without changing a result; an error names those that would change it."""
    assert stored.run is not None
    assert asked.run is not None
    longer = (stored.run.steps, stored.run.budget) != (asked.run.steps, asked.run.budget)
    more = f" (to train a finished model for longer: --from {output})" if longer else ""
    found = directory.changes(to_dict(stored), to_dict(asked), MAY_CHANGE, more)
    return [line for line in found if not line.startswith("run.corpus:")]


def changes_of_checkpoint(settings: Mapping[str, Any], asked: Recipe) -> None:
    """An error where the checkpoint was made with settings that would have led to other weights.

    A setting that an earlier version did not know yet was, in effect, at its default.
    """
    with contextlib.suppress(ConfigError):  # one that is no longer known is named as a change
        settings = to_dict(from_dict(Recipe, settings))
    directory.changes(settings, to_dict(asked), MAY_CHANGE)


def write_config(output: Path, recipe: Recipe, lexicon: Lexicon | None, tokenizer: Tokenizer) -> None:
    """Write down what the run is, which is what makes a directory a run. One that is there is deleted."""
    files = {CONFIG_FILE: to_toml(recipe)}
    if lexicon is not None:
        files[LEXICON_FILE] = lexicon.to_text(tokenizer)
    directory.begin(output, files)
