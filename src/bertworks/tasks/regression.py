"""A number for each text or pair of texts.

    gaussian   squared error; the targets are brought to mean 0 and deviation 1 while training
    poisson    counts: the output is the logarithm of the rate, as in Poisson regression

Mean and deviation of the targets are folded into the output layer by `finish`, so that the saved model predicts on the
file's own scale. An output layer without a bias (GPT's) cannot hold a mean: there the targets are only scaled.

Legend: N examples, B sequences of a batch (one per unit).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from bertworks.data.labelled.examples import TextExample
from bertworks.errors import choice
from bertworks.hub.families import new_head
from bertworks.models.config import HeadConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss
from bertworks.tasks.base import Chosen, Decision, TaskName, Units
from bertworks.tasks.metrics.numbers import mean_absolute_error, mean_squared_error, poisson_deviance, r_squared
from bertworks.tasks.metrics.ranking import pearson, spearman
from bertworks.tasks.predictions import NumberPrediction
from bertworks.tasks.texts import averaged, data_error, encode_texts, logits_of, prepare_texts
from bertworks.text.tokenizer import Tokenizer

Arrays = Sequence[NDArray[np.float32]]
LARGEST_LOG_RATE = 30.0
"""A rate beyond e^30 is no count; without a bound an untrained model could give one that is infinite, or 0."""

Distribution = Literal["gaussian", "poisson"]


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A number for each text or pair."""

    name: TaskName = "regress"
    distribution: Distribution = "gaussian"
    center: float = 0.0
    """Gaussian: mean of the training targets. Poisson: logarithm of their mean. 0 once folded into the model."""
    scale: float = 1.0
    """Gaussian: standard deviation of the training targets; 1 once folded into the model."""
    metric: str = "pearson"

    @classmethod
    def for_examples(
        cls,
        name: TaskName,
        examples: Sequence[TextExample],
        dev: Sequence[TextExample] | None = None,
        *,
        distribution: Distribution = "gaussian",
        metric: str | None = None,
    ) -> Self:
        """metric: default pearson; for counts d2, the explained share of the Poisson deviance."""
        choice(distribution, ("gaussian", "poisson"), "distribution")
        task = cls(name=name, distribution=distribution)
        task.check(examples)
        metric = metric or ("d2" if distribution == "poisson" else "pearson")
        choice(metric, task._metrics, "metric")
        values = np.array([example.label for example in examples], np.float64)
        center, scale = (float(values.mean()), float(values.std())) if len(values) else (0.0, 1.0)
        if distribution == "poisson":
            center, scale = math.log(max(center, 1e-6)), 1.0
        return replace(task, center=center, scale=scale or 1.0, metric=metric)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        fields = ("distribution", "center", "scale", "metric")
        return cls(name=settings["task"], **{field: settings[field] for field in fields})

    def settings(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "distribution": self.distribution,
            "center": self.center,
            "scale": self.scale,
            "metric": self.metric,
        }

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def whole_steps(self) -> bool:
        return False

    @property
    def weights(self) -> Mapping[str, float]:
        return {"regress": 1.0}

    @property
    def _metrics(self) -> tuple[str, ...]:
        return ("d2", "spearman") if self.distribution == "poisson" else ("pearson", "spearman", "r2")

    def head(self, model: Model) -> HeadConfig:
        return new_head(model.config, "regress", 1)

    def check(self, examples: Sequence[TextExample]) -> None:
        for example in examples:
            value = example.label
            if value is None:
                raise data_error(example, "this example has no label")
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise data_error(example, f"the label {value!r} is not a number, which regression needs")
            if self.distribution == "poisson" and value < 0:
                raise data_error(example, f"the label {value!r} is negative, but counts (Poisson) are at least 0")

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer, *, window: int, training: bool) -> Units:
        targets = None
        if training:
            self.check(examples)
            targets = np.array([example.label for example in examples], np.float64)
        return encode_texts(examples, tokenizer, window=window, whole=not training, targets=targets)

    def _outside(self, head: HeadConfig) -> tuple[float, float]:
        """What the head's output is multiplied by, and what is added to it."""
        if head.bias:
            return self.scale, self.center
        return (1.0 if self.distribution == "poisson" else math.hypot(self.center, self.scale)), 0.0

    # -- Objective -----------------------------------------------------------------------------------------------------

    def prepare(self, rows: Chosen, progress: float) -> Batch:
        return prepare_texts(rows, "regress")

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        output = module.logits(batch.packed, "regress").float()[:, 0]  # (B,)
        targets = batch.tensors["targets"]  # (B,) float64: large numbers must not lose their differences
        scale, center = self._outside(module.head("regress").config)
        if self.distribution == "poisson":
            rate = output * scale + center
            total = F.poisson_nll_loss(rate, targets.float(), log_input=True, full=False, reduction="sum")
        else:
            total = F.mse_loss(output, ((targets - center) / scale).float(), reduction="sum")
        return {"regress": Loss(sum=total, count=len(targets))}

    # -- after the model -----------------------------------------------------------------------------------------------

    def outputs(self, model: Model, batch: Batch) -> list[NDArray[np.float32]]:
        """(1,) each: the number, or the logarithm of the rate."""
        scale, center = self._outside(model.head("regress").config)
        return [row * np.float32(scale) + np.float32(center) for row in logits_of(model, batch, "regress")]

    def decide(self, examples: Sequence[TextExample], units: Units, outputs: Arrays) -> dict[str, Any]:
        return {}

    def decode(
        self, examples: Sequence[TextExample], units: Units, outputs: Arrays, decision: Decision
    ) -> list[NumberPrediction]:
        if not examples:
            return []
        values = averaged(units, outputs, len(examples))[:, 0]
        if self.distribution == "poisson":
            values = np.exp(np.clip(values, -LARGEST_LOG_RATE, LARGEST_LOG_RATE))
        return [NumberPrediction(value) for value in values.tolist()]

    def measure(self, examples: Sequence[TextExample], predictions: Sequence[NumberPrediction]) -> dict[str, float]:
        """pearson, spearman, r2, rmse, mae; of counts d2 (explained share of the deviance), deviance, spearman, mae."""
        self.check(examples)
        truth = np.array([example.label for example in examples], np.float64)
        given = np.array([prediction.value for prediction in predictions], np.float64)
        if self.distribution == "poisson":
            deviance = poisson_deviance(truth, given)
            constant = len(np.unique(truth)) < 2  # nothing is there to explain
            of_mean = 0.0 if constant else poisson_deviance(truth, np.full(len(truth), truth.mean()))
            return {
                "d2": float(deviance == 0) if constant else 1.0 - deviance / of_mean,
                "deviance": deviance,
                "spearman": spearman(truth, given),
                "mae": mean_absolute_error(truth, given),
            }
        return {
            "pearson": pearson(truth, given),
            "spearman": spearman(truth, given),
            "r2": r_squared(truth, given),
            "rmse": math.sqrt(mean_squared_error(truth, given)),
            "mae": mean_absolute_error(truth, given),
        }

    def finish(self, model: Model) -> Self:
        """Fold scale and mean into the output layer: the model then gives the number (or the logarithm of the rate)."""
        head = model.head("regress")
        assert head.output is not None
        scale, center = self._outside(head.config)
        with torch.no_grad():
            head.output.weight.mul_(scale)
            if head.output.bias is not None:
                head.output.bias.mul_(scale).add_(center)
        return replace(self, center=0.0, scale=1.0)
