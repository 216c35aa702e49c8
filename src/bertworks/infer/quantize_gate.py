"""What int8 costs on the user's own rows, and the gate that refuses too great a loss.

    1. the model in fp32 on the rows: its figure (accuracy, F1, Spearman …) and its outputs
    2. every linear layer in int8: the figure may fall by `max_drop` points; the vectors of an embedding model may turn
       as far as a cosine of `min_cosine`
    3. where that is too much: each layer alone in int8, its damage how far the outputs move; the worst ones go back to
       fp32, twice as many at each try, up to `max_float_layers`
    4. where it is still too much: an error that names the layers that cost most

Figures are compared on all rows, damages on some of them: 24 layers are 24 passes.

Legend: U units, as a task counts its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.labelled.examples import Example, SimilarityExample
from bertworks.errors import ModelError, UsageError
from bertworks.infer.predict import Predictor
from bertworks.infer.quantize import TABLE, Switch, is_int8, round_table
from bertworks.models.model import Model
from bertworks.tasks.base import Task
from bertworks.tasks.run import outputs_of
from bertworks.tasks.similarity import Similarity

Progress = Callable[[str, float], None]
"""Called with what is being done and how much of it is done, 0 to 1."""

MAX_DROP = 0.5
MIN_COSINE = 0.98
DAMAGE_ROWS = 256
NAMED = 5
"""How many of the worst layers an error names."""


class PrecisionError(ModelError):
    """A model loses too much in int8."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What int8 costs on some rows."""

    rows: int
    metric: str | None
    """The task's figure; None where the rows have no labels."""
    fp32: float | None
    int8: float | None
    worst_cosine: float | None
    """Of an embedding model: the least cosine between a text's vectors in fp32 and in int8."""

    @property
    def drop(self) -> float:
        """How far the figure falls, in points (hundredths); below 0 where it rises."""
        return 0.0 if self.fp32 is None or self.int8 is None else 100 * (self.fp32 - self.int8)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def problem(self, max_drop: float, min_cosine: float) -> str | None:
        """What is too much, in one clause; None where nothing is."""
        if self.fp32 is not None and self.int8 is not None and not self.drop <= max_drop:  # nor NaN
            figures = f"{100 * self.fp32:.2f} -> {100 * self.int8:.2f}"
            return f"int8 costs {self.drop:.2f} points of {self.metric} ({figures}), more than --max-drop {max_drop:g}"
        if self.worst_cosine is not None and not self.worst_cosine >= min_cosine:
            return (
                f"int8 turns a vector to a cosine of {self.worst_cosine:.4f} to the one in fp32, "
                f"less than --min-cosine {min_cosine:g}"
            )
        return None


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """A model that passed, now in int8."""

    loss: Loss
    num_layers: int
    float_layers: tuple[str, ...]
    """Linear layers that stayed in fp32."""
    damages: tuple[tuple[str, float], ...]
    """How far each layer alone in int8 moves the outputs, the worst first; empty where nobody had to know."""


def quantize_measured(
    predictor: Predictor,
    examples: Sequence[Example],
    *,
    max_drop: float = MAX_DROP,
    min_cosine: float = MIN_COSINE,
    max_float_layers: int | None = None,
    progress: Progress | None = None,
) -> Quantized:
    """Put the predictor's model into int8, in place; or raise a `PrecisionError`, and the model is as it was.

    max_float_layers: how many linear layers may stay in fp32; default a quarter of them
    """
    if not examples:
        raise UsageError("there are no rows to measure what int8 costs")
    loaded = predictor.loaded
    if is_int8(loaded.model):
        raise UsageError("this model is in int8 already; quantize the one that it was made of")
    switch = Switch(loaded.model)
    table = loaded.model.get_parameter(TABLE)
    exact = table.data
    allowed = len(switch.layers) // 4 if max_float_layers is None else max_float_layers
    try:
        found = _search(
            switch, predictor, examples, max_drop, min_cosine, allowed, progress or (lambda what, done: None)
        )
    except BaseException:
        switch.to_int8(())
        table.data = exact
        raise
    loaded.precision = "int8"
    return found


def _search(
    switch: Switch,
    predictor: Predictor,
    examples: Sequence[Example],
    max_drop: float,
    min_cosine: float,
    allowed: int,
    tell: Progress,
) -> Quantized:
    """All layers in int8, or all but as many of the worst as it takes."""
    tell("fp32", 0.0)
    names = list(switch.layers)
    rows = MeasuredRows(predictor, examples)
    round_table(switch.model)

    def loss_without(float_layers: Sequence[str]) -> Loss:
        switch.to_int8([name for name in names if name not in float_layers])
        return rows.loss()

    tell("int8", 0.0)
    loss = loss_without(())
    if loss.problem(max_drop, min_cosine) is None:
        return Quantized(loss=loss, num_layers=len(names), float_layers=(), damages=())
    damages = _damages(switch, predictor, examples[:DAMAGE_ROWS], tell)
    worst = [name for name, _ in damages]
    count = 1
    while count <= allowed:
        tell(f"{count} in fp32", 0.0)
        better = loss_without(worst[:count])
        if better.problem(max_drop, min_cosine) is None:
            return Quantized(
                loss=better, num_layers=len(names), float_layers=tuple(worst[:count]), damages=tuple(damages)
            )
        count = allowed if count < allowed < 2 * count else 2 * count
    tried = f", even with the {allowed} worst in fp32" if allowed else ""
    raise PrecisionError(
        f"{loss.problem(max_drop, min_cosine)}{tried}; the layers that cost most are "
        f"{', '.join(worst[:NAMED])}; nothing was written: allow more, or stay with fp32"
    )


class MeasuredRows:
    """The rows as the task reads them, and what a model in fp32 says of them, both made once.

    full: what computes in fp32, where it is not the predictor's model (a graph, say)
    """

    def __init__(
        self,
        predictor: Predictor,
        examples: Sequence[Example],
        *,
        full: Model | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        self.predictor = predictor
        self.examples = examples
        self.batch_tokens = batch_tokens or predictor.loaded.runner.batch_tokens
        self.task: Task[Any, Any] = predictor.task
        self.is_vectors = isinstance(predictor.task, Similarity)
        if not self.is_vectors:
            self.task, self.examples = predictor.judged(examples)
        self.units = self.task.encode(
            self.examples, predictor.loaded.tokenizer, window=predictor.window, training=False
        )
        self.metric: str | None = None
        self.expected = self.outputs(full)
        self.fp32 = self.figure(self.expected)

    def outputs(self, model: Model | None = None) -> list[NDArray[np.float32]]:
        """One array per unit, of the predictor's model as it is now, or of another."""
        model = self.predictor.loaded.model if model is None else model
        return outputs_of(self.task, model, self.units, batch_tokens=self.batch_tokens)

    def figure(self, outputs: Sequence[NDArray[np.float32]]) -> float | None:
        """The task's figure; None for texts without pairs, which have vectors but nothing to be right about."""
        if any(isinstance(one, SimilarityExample) and len(one.texts) < 2 for one in self.examples):
            return None
        predictions = self.task.decode(self.examples, self.units, outputs, self.predictor.decision)
        figures = self.task.measure(self.examples, predictions)
        self.metric = self.task.metric if self.task.metric in figures else next(iter(figures))
        return figures[self.metric]

    def loss(self, model: Model | None = None) -> Loss:
        """What that model, or the predictor's as it is now, loses."""
        outputs = self.outputs(model)
        return Loss(
            rows=len(self.examples),
            metric=self.metric,
            fp32=self.fp32,
            int8=self.figure(outputs),
            worst_cosine=_worst_cosine(self.expected, outputs) if self.is_vectors else None,
        )


def _damages(
    switch: Switch, predictor: Predictor, examples: Sequence[Example], tell: Progress
) -> list[tuple[str, float]]:
    """The worst layer first: the squared distance of the outputs with that layer alone in int8, over their own square."""
    switch.to_int8(())
    rows = MeasuredRows(predictor, examples)
    expected = np.concatenate([output.ravel() for output in rows.expected]).astype(np.float64)
    found = []
    for number, name in enumerate(switch.layers):
        tell("layers", number / len(switch.layers))
        switch.to_int8((name,))
        outputs = np.concatenate([output.ravel() for output in rows.outputs()])
        found.append((name, float(((outputs - expected) ** 2).sum() / max((expected**2).sum(), 1e-30))))
    return sorted(found, key=lambda item: -item[1])


def _worst_cosine(expected: Sequence[NDArray[np.float32]], outputs: Sequence[NDArray[np.float32]]) -> float:
    first, second = np.concatenate(expected).astype(np.float64), np.concatenate(outputs).astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return float(((first * second).sum(axis=1) / np.maximum(lengths, 1e-12)).min())
