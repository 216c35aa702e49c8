"""How a run's directory came to be, from the files that the run left in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertworks.train.directory import CONFIG_FILE, is_finished, is_run, read_result
from bertworks.train.figures import in_words
from bertworks.train.recipes import load_recipe


def how_made(directory: Path) -> dict[str, Any]:
    """The facts of a run, finished or not, by name; nothing where the directory is not one of a run."""
    if not is_run(directory):
        return {}
    recipe = load_recipe(directory / CONFIG_FILE)
    if recipe.run is None:
        return {}
    run = recipe.run
    facts: dict[str, Any] = {
        "made_by": f"bertworks {run.command}",
        "recipe": recipe.about or recipe.objective.kind,
        "corpus": run.corpus,
        "steps": run.steps,
        "from": run.start,
        "teacher": run.teacher,
        "seed": run.seed,
    }
    if is_finished(directory):
        facts["held_out_text"] = in_words(read_result(directory)["metrics"])
    elif run.command == "pretrain":
        facts["model"] = f"{recipe.model.family} {recipe.model.size}"
    return {name: value for name, value in facts.items() if value not in (None, "")}
