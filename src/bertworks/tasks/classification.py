"""Which class a text or a pair of texts belongs to, or (multi-label) which classes.

A softmax over the classes, or an independent yes or no for each. On development examples a temperature is fitted, so
that the probabilities mean what they say, or a threshold per label.

Legend: N examples, B sequences of a batch (one per unit), C classes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from bertworks.data.labelled.examples import TextExample
from bertworks.errors import DataError, UsageError, choice
from bertworks.hub.families import new_head
from bertworks.models.config import HeadConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss
from bertworks.tasks.base import Chosen, Decision, TaskName, Units
from bertworks.tasks.metrics.calibration import fit_temperature, fit_thresholds, sigmoid, softmax
from bertworks.tasks.metrics.classification import accuracy, matthews, micro_f1, per_label
from bertworks.tasks.predictions import LabelPrediction
from bertworks.tasks.texts import averaged, data_error, encode_texts, logits_of, prepare_texts
from bertworks.text.tokenizer import Tokenizer

Arrays = Sequence[NDArray[np.float32]]

UNEVEN = 0.65
"""Where one class has at least this share, accuracy says little: best is what another figure says."""


@dataclass(frozen=True, kw_only=True)
class Classification:
    """One of several classes for each text or pair, or (multi-label) any number of them."""

    name: TaskName = "classify"
    labels: tuple[str, ...]
    multi_label: bool = False
    class_weights: tuple[float, ...] | None = None
    """How much a training example of each class counts; multi-label: how much a label that applies counts, beside one
    that does not."""
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        if len(self.labels) < 2 - self.multi_label:
            raise UsageError(_too_few(self.labels))

    @classmethod
    def for_examples(
        cls,
        name: TaskName,
        examples: Sequence[TextExample],
        dev: Sequence[TextExample] | None = None,
        *,
        class_weights: Literal["balanced"] | Sequence[float] | None = None,
        metric: str | None = None,
    ) -> Self:
        """The labels of the training examples, in the order of numbers or of the alphabet.

        metric: default accuracy; where one class has 65 % or more, Matthews correlation (two classes) or macro F1; for
                several labels per text micro F1
        """
        labelled = [example for example in examples if example.label is not None]
        multi = any(isinstance(example.label, tuple) for example in labelled)
        counts = Counter(label for example in labelled for label in names_of(example))
        labels = tuple(sorted(counts, key=_order(counts)))
        if examples and len(labels) < 2 - multi:
            raise DataError(_too_few(labels), path=examples[0].place.path)
        if metric is None:
            uneven = max(counts.values(), default=0) >= UNEVEN * len(labelled)
            metric = "f1_micro" if multi else "accuracy" if not uneven else "mcc" if len(labels) == 2 else "f1_macro"
        weights = _class_weights(class_weights, [counts[label] for label in labels], len(labelled), multi)
        task = cls(name=name, labels=labels, multi_label=multi, class_weights=weights, metric=metric)
        choice(metric, task._metrics, "metric")
        return task

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        weights = settings.get("class_weights")
        return cls(
            name=settings["task"],
            labels=tuple(settings["labels"]),
            multi_label=settings["multi_label"],
            class_weights=None if weights is None else tuple(weights),
            metric=settings["metric"],
        )

    def settings(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "labels": list(self.labels),
            "multi_label": self.multi_label,
            "class_weights": None if self.class_weights is None else list(self.class_weights),
            "metric": self.metric,
        }

    @property
    def whole_steps(self) -> bool:
        return False

    @property
    def weights(self) -> Mapping[str, float]:
        return {"classify": 1.0}

    @property
    def _metrics(self) -> tuple[str, ...]:
        if self.multi_label:
            return ("accuracy", "f1_micro", "f1_macro")
        return ("accuracy", "f1_macro", "mcc", *(["f1"] if len(self.labels) == 2 else []))

    def head(self, model: Model) -> HeadConfig:
        return new_head(model.config, "classify", len(self.labels))

    def check(self, examples: Sequence[TextExample]) -> None:
        known = set(self.labels)
        for example in examples:
            if example.label is None:
                raise data_error(example, "this example has no label")
            if isinstance(example.label, tuple) and not self.multi_label:
                raise data_error(example, "this example has a list of labels, the training examples have one each")
            for label in names_of(example):
                if label not in known:
                    there = ", ".join(self.labels[:20]) + (" …" if len(self.labels) > 20 else "")
                    raise data_error(example, f"unknown label {label!r}; the training examples have: {there}")

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer, *, window: int, training: bool) -> Units:
        targets = None
        if training:
            self.check(examples)
            found = self._truth(examples)
            targets = found.astype(np.float32) if self.multi_label else found
        return encode_texts(examples, tokenizer, window=window, whole=not training, targets=targets)

    def _truth(self, examples: Sequence[TextExample]) -> NDArray[Any]:
        """(N,) int64, or (N, C) bool for several labels; the examples must be labelled."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        if not self.multi_label:
            return np.array([numbers[names_of(example)[0]] for example in examples], np.int64)
        truth = np.zeros((len(examples), len(self.labels)), np.bool_)
        for row, example in enumerate(examples):
            truth[row, [numbers[label] for label in names_of(example)]] = True
        return truth

    # -- Objective -----------------------------------------------------------------------------------------------------

    def prepare(self, rows: Chosen, progress: float) -> Batch:
        return prepare_texts(rows, "classify")

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        logits = module.logits(batch.packed, "classify").float()  # (B, C)
        targets = batch.tensors["targets"]
        weight = None if self.class_weights is None else logits.new_tensor(self.class_weights)  # (C,)
        if self.multi_label:  # (B, C): the mean over the labels, so that its size does not grow with their number
            total = F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weight, reduction="sum")
            total = total / len(self.labels)
            correct = ((logits > 0) == (targets > 0.5)).all(dim=1).sum()
        else:
            total = F.cross_entropy(logits, targets, weight=weight, reduction="sum")
            correct = (logits.argmax(dim=-1) == targets).sum()
        return {"classify": Loss(sum=total, count=len(targets), correct=correct)}

    # -- after the model -----------------------------------------------------------------------------------------------

    def outputs(self, model: Model, batch: Batch) -> list[NDArray[np.float32]]:
        """Logits, (C,) each."""
        return logits_of(model, batch, "classify")

    def decide(self, examples: Sequence[TextExample], units: Units, outputs: Arrays) -> dict[str, Any]:
        """A temperature, or a threshold per label."""
        logits = averaged(units, outputs, len(examples))
        if self.multi_label:
            return {"thresholds": fit_thresholds(sigmoid(logits), self._truth(examples)).tolist()}
        return {"temperature": fit_temperature(logits, self._truth(examples))}

    def decode(
        self, examples: Sequence[TextExample], units: Units, outputs: Arrays, decision: Decision
    ) -> list[LabelPrediction]:
        if not examples:
            return []
        logits = averaged(units, outputs, len(examples))  # (N, C)
        if self.multi_label:
            probabilities = sigmoid(logits)
            chosen = probabilities >= np.array(decision.get("thresholds", 0.5))
        else:
            probabilities = softmax(logits, float(decision.get("temperature", 1.0)))
            best = logits.argmax(axis=1)
        predictions = []
        for row, values in enumerate(probabilities.tolist()):
            label: str | tuple[str, ...]
            if self.multi_label:
                label = tuple(name for name, given in zip(self.labels, chosen[row], strict=True) if given)
            else:
                label = self.labels[best[row]]
            predictions.append(LabelPrediction(label, dict(zip(self.labels, values, strict=True))))
        return predictions

    def measure(self, examples: Sequence[TextExample], predictions: Sequence[LabelPrediction]) -> dict[str, float]:
        """accuracy, f1_macro, mcc and, of two classes, f1 of the second.

        Of several labels per text: accuracy (all of them right), f1_micro, f1_macro.
        """
        self.check(examples)
        truth = self._truth(examples)
        given = self._truth([replace(e, label=p.label) for e, p in zip(examples, predictions, strict=True)])
        scores = per_label(truth, given, len(self.labels))
        figures = {"accuracy": accuracy(truth, given)}
        if self.multi_label:
            return figures | {"f1_micro": micro_f1(truth, given), "f1_macro": scores.macro_f1}
        figures |= {"f1_macro": scores.macro_f1, "mcc": matthews(truth, given)}
        return figures | ({"f1": float(scores.f1[1])} if len(self.labels) == 2 else {})

    def finish(self, model: Model) -> Self:
        return self


def _too_few(labels: Sequence[str]) -> str:
    there = f"only: {labels[0]}" if labels else "none"
    return f"classification needs at least two different labels; there is {there} (one is enough with --multi-label)"


def names_of(example: TextExample) -> tuple[str, ...]:
    """An example's labels, however many there may be."""
    return example.label if isinstance(example.label, tuple) else (str(example.label),)


def _order(labels: Mapping[str, int]) -> Any:
    """Numbers by their value where all labels are numbers, else the alphabet."""
    try:
        numbers = {label: float(label) for label in labels}
    except ValueError:
        return None
    return lambda label: (numbers[label], label)


def _class_weights(
    asked: Literal["balanced"] | Sequence[float] | None, counts: Sequence[int], total: int, multi: bool
) -> tuple[float, ...] | None:
    if asked is None:
        return None
    if asked == "balanced":  # their mean over the training examples is 1, which leaves the loss its size
        return tuple(max(total - n, 1) / n if multi else total / (len(counts) * n) for n in counts)
    weights = tuple(float(weight) for weight in asked)
    if len(weights) != len(counts) or not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise UsageError(
            f"class_weights has the values {list(weights)}; it must have a number of at least 0 for each of "
            f"{len(counts)} labels, or be 'balanced'"
        )
    return weights
