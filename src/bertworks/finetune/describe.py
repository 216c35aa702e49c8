"""How a fine-tuned directory came to be, from the files that the run left in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertworks.config import resolve
from bertworks.finetune.config import FinetuneConfig
from bertworks.train.directory import CONFIG_FILE, is_finished, read_result
from bertworks.train.figures import in_words


def how_made(directory: Path) -> dict[str, Any]:
    """The facts of a run, finished or not, by name."""
    config = resolve(FinetuneConfig, directory / CONFIG_FILE)
    run = config.run
    if run is None:
        return {}
    facts: dict[str, Any] = {
        "made_by": f"bertworks {run.command} {run.task}",
        "data": run.train,
        "from": run.model,
        "seeds": list(range(run.seed, run.seed + run.seeds)),
    }
    if is_finished(directory):
        result = read_result(directory)
        facts["development_data"] = in_words(result["metrics"], result.get("spread"))
    return facts
