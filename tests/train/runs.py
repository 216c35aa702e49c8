"""What the tests of runs share: tiny corpora of each kind of tokenizer, and runs of a few steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertworks.data.corpus import CorpusOptions, LocalEngine, build_corpus
from bertworks.train.log import read_metrics
from bertworks.train.run import Event, Finished, RunOptions, Stepped, pretrain
from tests.data.corpus_helpers import many, tokenizer_directory, write_documents

SMALL = ("model.size=2x24x3", "train.batch_tokens=512", "train.log_steps=1", "train.optimizer.learning_rate=2e-3")


def make_corpus(folder: Path, kind: str, documents: int = 60) -> Path:
    """A corpus of a few documents; `kind` is a tiny tokenizer's."""
    tokenizer = tokenizer_directory(folder / f"tokenizer-{kind}", kind)
    texts = write_documents(folder / f"{kind}.txt", many(documents))
    build_corpus([str(texts)], tokenizer, folder / kind, CorpusOptions(), engine=LocalEngine(1))
    return folder / kind


def run(corpus: Path, output: Path, *settings: str, steps: int | None = 3, **more: Any) -> list[Event]:
    """All events of a short run."""
    more = {"track": (), "recipe": "modern", **more}
    small = [setting for setting in SMALL if not (more.get("start") and setting.startswith("model."))]
    options = RunOptions(corpus=corpus, output=output, settings=(*small, *settings), steps=steps, **more)
    return list(pretrain(options))


def finished(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def losses(events: list[Event]) -> list[float]:
    return [event.loss for event in events if isinstance(event, Stepped)]


def timeless(output: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl` without what depends on the clock."""
    times = ("seconds", "tokens_per_second")
    return [{name: value for name, value in line.items() if name not in times} for line in read_metrics(output)]
