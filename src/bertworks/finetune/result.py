"""Everything that is known when a fine-tuning is over: what `metrics.json`, the report and the model card are made of.

A run has one training per seed. Its figures are the means over the seeds, with their spread (the standard deviation
between seeds, with n - 1): on small data the seed alone moves accuracy by several points, and one lucky seed is no
result (Dodge et al. 2020). The saved model is one of them, the best on the development examples; its figures are in
`runs` and are the ones that its predictions give.

    figures of one training      name -> value, as `Task.measure` gives them: {"accuracy": 0.883, "f1": 0.871, …}
    baseline                     name of a simple model -> its figures, from `bertworks.finetune.baseline`
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertworks.data.labelled.examples import Example
from bertworks.tasks.base import Decision, Task

Figures = Mapping[str, float]
Baseline = Mapping[str, Figures]


@dataclass(frozen=True, kw_only=True)
class SeedRun:
    """One training."""

    seed: int
    figures: Figures
    """On the development examples, with the weights that were kept; {} where there are no such examples."""
    test: Figures = field(default_factory=dict)
    """On the test examples, where a test file was given."""
    lines: Sequence[Mapping[str, Any]] = ()
    """The lines of its `metrics.jsonl`: logged steps (`loss`, `learning_rate`, `epoch` …) and evaluations, whose names
    begin with `bertworks.train.log.HELD_OUT`."""
    steps: int = 0
    """Done, which is fewer than planned where it stopped early."""
    best_step: int | None = None
    """Whose weights were kept; None = the last one's."""
    seconds: float = 0.0
    frozen: Mapping[str, Any] = field(default_factory=dict)
    """Of a head on frozen vectors: its cross-validation, {"metric", "mean", "std", "folds", "strength", "strengths",
    "reads"}."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished run."""

    name: str
    """Of its directory."""
    task: Task[Any, Any]
    decision: Decision
    """What was settled on the development examples, for the saved model."""
    examples: Sequence[Example]
    """The development examples, in the file's order; each knows its place."""
    predictions: Sequence[Any]
    """Of the saved model, one for each of `examples` (`bertworks.tasks.predictions`)."""
    runs: Sequence[SeedRun]
    kept: int = 0
    """Which of `runs` the saved model and `predictions` are of."""
    baseline: Baseline = field(default_factory=dict)
    """What simple models reach on the same development examples."""
    model: str
    """What was fine-tuned, as the user named it: `minilm`, a directory, a Hub id."""
    described: str = ""
    """Its family and shape: `bert 6x384x12`."""
    parameters: int = 0
    trained_parameters: int = 0
    """Fewer than all where layers are frozen or adapters are trained."""
    data: str
    """The training file."""
    understood: Sequence[str] = ()
    """Sentences on what was read from which file, as they were printed before the training."""
    num_train: int = 0
    num_dev: int = 0
    num_test: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The resolved configuration, nested, as `config.toml` has it."""
    search: Sequence[Mapping[str, Any]] = ()
    """Trials of `--search`: {"number", "settings": {name: value}, "value", "state": "complete" or "failed"}."""
    seconds: float = 0.0
    """Of all trainings, the search included."""

    @property
    def figures(self) -> dict[str, float]:
        """Means over the seeds, on the development examples."""
        return means([run.figures for run in self.runs])

    @property
    def spread(self) -> dict[str, float]:
        """Standard deviations between the seeds; {} where there is one seed."""
        return spreads([run.figures for run in self.runs])

    @property
    def test(self) -> dict[str, float]:
        """Means over the seeds, on the test examples."""
        return means([run.test for run in self.runs])

    @property
    def test_spread(self) -> dict[str, float]:
        """Standard deviations between the seeds, on the test examples."""
        return spreads([run.test for run in self.runs])

    @property
    def best_baseline(self) -> tuple[str, float] | None:
        """The simple model that does best by the task's own metric, and its value there."""
        values = [
            (name, figures[self.task.metric]) for name, figures in self.baseline.items() if self.task.metric in figures
        ]
        return max(values, key=lambda entry: entry[1], default=None)

    def as_json(self) -> dict[str, Any]:
        """The object of `metrics.json`."""
        optional: dict[str, Any] = {
            "spread": self.spread,
            "test": self.test,
            "test_spread": self.test_spread,
            "search": list(self.search),
            "cross_validation": dict(self.runs[self.kept].frozen),
        }
        return {
            "task": self.task.name,
            "metric": self.task.metric,
            "metrics": self.figures,
            **{name: value for name, value in optional.items() if value},
            "baseline": {name: dict(figures) for name, figures in self.baseline.items()},
            "seeds": [run.seed for run in self.runs],
            "kept_seed": self.runs[self.kept].seed,
            "runs": [
                {
                    "seed": run.seed,
                    "metrics": dict(run.figures),
                    **({"test": dict(run.test)} if run.test else {}),
                    "steps": run.steps,
                    "seconds": round(run.seconds, 3),
                }
                for run in self.runs
            ],
            "data": self.data,
            "examples": {
                "train": self.num_train,
                "dev": self.num_dev,
                **({"test": self.num_test} if self.num_test else {}),
            },
            "model": self.model,
            "decision": json.loads(json.dumps(dict(self.decision))),
            "seconds": round(self.seconds, 3),
        }


def means(each: Sequence[Figures]) -> dict[str, float]:
    """Of each figure that every training has."""
    return {name: statistics.fmean(figures[name] for figures in each) for name in _common(each)}


def spreads(each: Sequence[Figures]) -> dict[str, float]:
    """Standard deviation of each figure between trainings; {} where there are fewer than two."""
    if len(each) < 2:
        return {}
    return {name: statistics.stdev(figures[name] for figures in each) for name in _common(each)}


def _common(each: Sequence[Figures]) -> list[str]:
    return [name for name in (each[0] if each else ()) if all(name in figures for figures in each)]
