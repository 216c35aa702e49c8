"""What a translation run is to do, settled before any work: options and stored settings in, resolved settings out, or an error.

When a directory is a run, and when it may be continued, is said in `bertworks.train.directory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertworks.config import override, resolve, to_dict
from bertworks.errors import OutputError, UsageError
from bertworks.train import directory
from bertworks.train.directory import CONFIG_FILE
from bertworks.translate.config import DEFAULT_RECIPE, RunSection, TranslationConfig, load_recipe

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
"""Written when a run begins: it is made once."""
MAY_CHANGE = (
    "train.checkpoint_steps",
    "train.checkpoint_minutes",
    "train.log_steps",
    "run.train",
    "run.dev",
    "run.test",
    "about",
)
"""Settings that a resumed run may change: none of them changes a result. Files may move; the pairs must be the same."""


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """What is asked for. What is None or empty is the recipe's, or, for a run that is resumed, its own."""

    output: Path
    train: tuple[str, ...] = ()
    """Two files, source and target, or one of pairs."""
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    """To be judged by once, at the end."""
    recipe: str | Path | None = None
    """A recipe's name or file."""
    settings: tuple[str, ...] = ()
    """`section.key=value`"""
    steps: int | None = None
    budget: float | None = None
    """Seconds."""
    seed: int | None = None
    resume: bool = False
    overwrite: bool = False
    track: tuple[str, ...] | None = None
    """None = TensorBoard where it is installed."""
    device: str = "cpu"


def settled(options: TranslateOptions) -> tuple[TranslationConfig | None, TranslationConfig]:
    """The settings of the run that is continued, if one is, and those that are asked for."""
    if options.budget is not None and options.steps is not None:
        raise UsageError("give --budget or --steps, not both")
    output = options.output
    if directory.check_output(
        output,
        resume=options.resume,
        overwrite=options.overwrite,
        commands=("translate",),
        left_over=TOKENIZER_FILES,
        needed=[*options.train, *options.dev, *options.test],
    ):
        stored = resolve(TranslationConfig, output / CONFIG_FILE)
        if stored.run is None or stored.run.steps is None:
            raise OutputError(f"{output / CONFIG_FILE} is not the settings of a run: its section [run] is missing")
        base = override(stored, options.settings) if options.recipe is None else _new(options)
        return stored, replace(base, run=_asked(stored.run, options))
    if not options.train:
        missing = f"there is no run in {output}{directory.near(output)}; " if options.resume else ""
        raise UsageError(
            f"{missing}say what to train on: --train SOURCE TARGET, two files line by line, or --train PAIRS, one file"
        )
    return None, replace(_new(options), run=_asked(RunSection(train=options.train), options))


def _new(options: TranslateOptions) -> TranslationConfig:
    return load_recipe(options.recipe or DEFAULT_RECIPE, options.settings)


def _asked(run: RunSection, options: TranslateOptions) -> RunSection:
    said: dict[str, Any] = {name: getattr(options, name) for name in ("train", "dev", "test") if getattr(options, name)}
    numbers = {"seed": options.seed, "steps": options.steps, "budget": options.budget}
    said |= {name: value for name, value in numbers.items() if value is not None}
    return replace(run, **said)


def changes(stored: Mapping[str, Any], asked: TranslationConfig) -> list[str]:
    """Which settings differ without changing a result; an error names those that would change it."""
    found = directory.changes(stored, to_dict(asked), MAY_CHANGE)
    return [line for line in found if not line.startswith("run.")]
