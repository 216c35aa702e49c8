"""How a translator's directory came to be, from the files that the run left in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertworks.config import resolve
from bertworks.train.directory import CONFIG_FILE, is_finished, read_result
from bertworks.train.figures import in_words
from bertworks.translate.assemble import describe
from bertworks.translate.config import TranslationConfig


def how_made(directory: Path) -> dict[str, Any]:
    """The facts of a run, finished or not, by name."""
    config = resolve(TranslationConfig, directory / CONFIG_FILE)
    run = config.run
    if run is None:
        return {}
    facts: dict[str, Any] = {
        "made_by": "bertworks translate train",
        "recipe": config.about or describe(config.model),
        "data": list(run.train),
        "steps": run.steps,
        "seed": run.seed,
    }
    if is_finished(directory):
        facts["development_pairs"] = in_words(read_result(directory)["metrics"])
    return facts
