"""A task's examples through a model: encode, compute in batches of near-equal lengths, decode, measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertworks.data.labelled.notes import explained
from bertworks.errors import DataError
from bertworks.models.batches import default_batch_tokens, over_batches
from bertworks.models.model import Model
from bertworks.tasks.base import Chosen, Decision, Evaluated, Task, Units
from bertworks.text.tokenizer import Tokenizer

ExampleT = TypeVar("ExampleT")
PredictionT = TypeVar("PredictionT")

Progress = Callable[[int, int], None]
"""Called with the number of units done and their total."""


def outputs_of(
    task: Task[Any, Any],
    model: Model,
    units: Units,
    *,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> list[NDArray[np.float32]]:
    """One array per unit: what `Task.decode` needs. The model runs where its weights are, in evaluation mode.

    What shares a batch changes nothing, so `batch_tokens` is a matter of speed and memory alone.
    """
    device = model.body.embeddings.tokens.weight.device
    found: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(units)

    def compute(numbers: NDArray[np.int64]) -> None:
        batch = task.prepare(Chosen(units, numbers), 1.0).to(device)
        for number, output in zip(numbers.tolist(), task.outputs(model, batch), strict=True):
            found[number] = output

    was_training = model.training
    model.eval()
    try:
        budget = batch_tokens or default_batch_tokens(device)
        for done in over_batches(compute, units.num_tokens, budget=budget, device=device):
            if progress is not None:
                progress(done, len(units))
    finally:
        model.train(was_training)
    return found


def usable(
    task: Task[ExampleT, Any], examples: Sequence[ExampleT], *, skip: bool
) -> tuple[list[ExampleT], list[DataError]]:
    """Examples that the task can judge, and what is wrong with the others (a label that training has not shown).

    Unless `skip`, the first of these is raised, with its place.
    """
    kept: list[ExampleT] = []
    errors: list[DataError] = []
    for example in examples:
        try:
            task.check([example])
        except DataError as error:
            if not skip:
                raise explained(error) from error.__cause__
            errors.append(error)
        else:
            kept.append(example)
    if errors and not kept:
        raise DataError(f"none of the {len(examples):,} examples can be judged, the first: {errors[0]}")
    task.check(kept)  # what is wrong between them
    return kept, errors


def predict_examples(
    task: Task[ExampleT, PredictionT],
    model: Model,
    examples: Sequence[ExampleT],
    *,
    tokenizer: Tokenizer,
    window: int,
    decision: Decision,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> list[PredictionT]:
    """One prediction per example; labels are not needed and not looked at."""
    units = task.encode(examples, tokenizer, window=window, training=False)
    outputs = outputs_of(task, model, units, batch_tokens=batch_tokens, progress=progress)
    return task.decode(examples, units, outputs, decision)


def evaluate_model(
    task: Task[ExampleT, PredictionT],
    model: Model,
    examples: Sequence[ExampleT],
    *,
    tokenizer: Tokenizer | None = None,
    window: int | None = None,
    units: Units | None = None,
    decision: Decision | None = None,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Evaluated[PredictionT]:
    """Predictions and figures of labelled examples.

    units:    the examples as `Task.encode` made them with training=False; else `tokenizer` and `window` are needed
    decision: what was settled earlier; None = settle it on these very examples (the development set)
    """
    if units is None:
        if tokenizer is None or window is None:
            raise TypeError("evaluate_model needs the units, or a tokenizer and a window to make them")
        units = task.encode(examples, tokenizer, window=window, training=False)
    outputs = outputs_of(task, model, units, batch_tokens=batch_tokens, progress=progress)
    settled = task.decide(examples, units, outputs) if decision is None else decision
    predictions = task.decode(examples, units, outputs, settled)
    return Evaluated(predictions, task.measure(examples, predictions), settled)
