"""What a run is to do, settled before any work: options and stored settings in, one resolved recipe out, or an error.

A directory with a `config.toml` is a run. It is continued only when that is asked for, and only with the settings that
it was started with; those that change no weight may differ.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from bertworks.atomic import write_text
from bertworks.config import override, to_dict, to_toml
from bertworks.data.corpus import Corpus
from bertworks.data.corpus.layout import MANIFEST, file_sha256
from bertworks.data.pretraining import Lexicon
from bertworks.errors import DataError, OutputError, UsageError, did_you_mean
from bertworks.text.tokenizer import Tokenizer
from bertworks.train import state
from bertworks.train.assemble import LEXICON_FILE
from bertworks.train.finish import METRICS
from bertworks.train.recipes import CONTINUE_RECIPE, DEFAULT_RECIPE, DISTILL_RECIPE, Recipe, RunSection, load_recipe

CONFIG_FILE = "config.toml"
CHECKPOINTS = "checkpoints"
MAY_CHANGE = ("train.checkpoint_steps", "train.checkpoint_minutes", "train.log_steps", "run.corpus", "about")
"""Settings that a resumed run may change: none of them changes a weight."""
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
    if options.resume and options.overwrite:
        raise UsageError("--resume and --overwrite exclude each other: continue the run, or delete it")
    if options.budget is not None and options.steps is not None:
        raise UsageError("give --budget or --steps, not both")
    names = [setting.partition("=")[0].strip() for setting in options.settings]
    shaping = [name for name in names if name.startswith("model.") and name not in MODEL_WITH_START]
    if options.start is not None and shaping:
        given = "--size" if shaping == ["model.size"] else f"--set {shaping[0]}"
        raise UsageError(
            f"{given} and --from exclude each other: a model that is gone on with keeps its shape ({options.start}); "
            "leave out one of them"
        )
    if not options.resume:
        _check_new(options)
    if not options.resume or options.recipe is not None:
        _new_recipe(options)


def _check_new(options: RunOptions) -> None:
    """What a new run needs."""
    if options.budget is None and options.steps is None:
        raise UsageError("say how long to train: --budget 30m, or --steps 10000")
    if options.command == "distill" and options.teacher is None:
        raise UsageError("say what to learn from: --teacher MODEL")


def stored_recipe(options: RunOptions) -> Recipe | None:
    """The settings of the run that is there, if it is to be continued; None where a new one begins."""
    output = options.output
    there = output / CONFIG_FILE
    if output.exists() and not output.is_dir():
        raise OutputError(f"{output} is a file; give a directory for the run")
    if options.overwrite and there.exists():
        return None  # it is deleted when the new one is ready to begin
    if there.exists():
        if not options.resume:
            finished = "is finished" if (output / METRICS).exists() else "can be continued with --resume"
            raise OutputError(
                f"there is a run in {output} already, which {finished}; choose another directory or --overwrite"
            )
        stored = load_recipe(there)
        if stored.run is None or stored.run.steps is None:
            raise OutputError(f"{there} is not the settings of a run: its section [run] is missing")
        return stored
    if output.is_dir() and any(path.name != LEXICON_FILE for path in output.iterdir()):
        raise OutputError(f"{output} is not empty and holds no run; choose another directory")
    if options.resume and options.budget is None and options.steps is None:
        raise UsageError(f"there is no run in {output}{_near(output)}; give --budget or --steps to begin one there")
    return None


def _near(output: Path) -> str:
    """A run beside `output` with a name like it, as a suggestion."""
    beside = output.absolute().parent
    runs = [path.name for path in beside.iterdir() if (path / CONFIG_FILE).is_file()] if beside.is_dir() else []
    return did_you_mean(output.name, runs)


def _delete_run(output: Path) -> None:
    """Delete a run: its settings last, so that what is left of an interrupted deletion is still seen to be a run."""
    for path in sorted(output.iterdir(), key=lambda path: path.name == CONFIG_FILE):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def open_corpus(directory: Path) -> Corpus:
    """The corpus, which must have something in it."""
    corpus = Corpus.open(directory)
    if corpus.num_documents == 0 or corpus.num_tokens == 0:
        raise DataError("is empty: there is nothing to train on", path=directory)
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
    usual = CONTINUE_RECIPE if options.start is not None else DEFAULT_RECIPE
    name = options.recipe or (DISTILL_RECIPE if options.command == "distill" else usual)
    return replace(load_recipe(name, options.settings), run=None)


def changes(stored: Recipe, asked: Recipe, output: Path) -> list[str]:
    """Which settings differ without changing a result; an error names those that would change it."""
    found = state.differences(to_dict(stored), to_dict(asked))
    harmless = [line for line in found if line.split(":", 1)[0] in MAY_CHANGE]
    refused = [line for line in found if line not in harmless]
    if refused:
        longer = any(line.startswith(("run.steps:", "run.budget:")) for line in refused)
        more = f" (to train a finished model for longer: --from {output})" if longer else ""
        raise UsageError(
            f"the run was started with other settings ({'; '.join(refused)}); resume it as it was started, "
            f"or begin another one in another directory{more}"
        )
    return [line for line in harmless if not line.startswith("run.corpus:")]


def write_config(output: Path, recipe: Recipe, lexicon: Lexicon | None, tokenizer: Tokenizer) -> None:
    """Write down what the run is, which is what makes a directory a run. One that is there is deleted."""
    try:
        if (output / CONFIG_FILE).exists():
            _delete_run(output)
        output.mkdir(parents=True, exist_ok=True)
        if lexicon is not None:
            lexicon.save(output / LEXICON_FILE, tokenizer)
        write_text(output / CONFIG_FILE, to_toml(recipe))
    except OSError as error:
        raise OutputError(f"cannot write the run to {output}: {error.strerror or error}") from error
