"""Which of several continuations is the right one (SWAG, Zellers et al. 2018; any number of options).

Each option stands with the text as a pair and gets one number from the head; a softmax over the options of one example
says which is meant, as in Devlin et al. 2019, section 4.4. A pair that is longer than the window is cut, the longer
text first.

Legend: N examples, U units (an example's options together), B sequences (all options of a batch), K the most options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.data.labelled.examples import ChoiceExample
from bertworks.errors import choice
from bertworks.hub.families import new_head
from bertworks.models.config import HeadConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss
from bertworks.tasks.base import Chosen, Decision, TaskName, Units
from bertworks.tasks.metrics.calibration import fit_temperature, softmax
from bertworks.tasks.predictions import ChoicePrediction
from bertworks.tasks.texts import data_error, text_runs
from bertworks.tasks.units import (
    cut_pairs,
    frame_pairs,
    pack_units,
    room_for,
    sequences_of,
    units_of,
    units_per_sequence,
)
from bertworks.text.tokenizer import Tokenizer

Arrays = Sequence[NDArray[np.float32]]
NOWHERE = -1e4
"""A logit so low that its probability is 0 at every allowed temperature, yet not infinite: 0 times it is 0."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of several options for each text."""

    name: TaskName = "choice"
    metric: str = "accuracy"

    @classmethod
    def for_examples(
        cls,
        name: TaskName,
        examples: Sequence[ChoiceExample],
        dev: Sequence[ChoiceExample] | None = None,
        *,
        metric: str | None = None,
    ) -> Self:
        """There is nothing to learn from the examples; examples may differ in their number of options."""
        return cls(name=name, metric=choice(metric or "accuracy", ("accuracy",), "metric"))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        return cls(name=settings["task"], metric=settings["metric"])

    def settings(self) -> dict[str, Any]:
        return {"task": self.name, "metric": self.metric}

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def whole_steps(self) -> bool:
        return False

    @property
    def weights(self) -> Mapping[str, float]:
        return {"choice": 1.0}

    def head(self, model: Model) -> HeadConfig:
        return new_head(model.config, "choice", 1)

    def check(self, examples: Sequence[ChoiceExample]) -> None:
        for example in examples:
            self._check_options(example)
            if example.label is None:
                raise data_error(example, "this example does not say which option is right")
            if not 0 <= example.label < len(example.options):
                last = len(example.options) - 1
                raise data_error(
                    example, f"the right option is said to be {example.label}; there are options 0 to {last}"
                )

    def _check_options(self, example: ChoiceExample) -> None:
        if len(example.options) < 2:
            raise data_error(example, f"this example has {len(example.options)} options; a choice needs at least two")

    def encode(self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer, *, window: int, training: bool) -> Units:
        arrays = {}
        if training:
            self.check(examples)
            arrays["targets"] = np.array([example.label for example in examples], np.int64)
        for example in examples:
            self._check_options(example)
        counts = np.array([len(example.options) for example in examples], np.int64)
        texts = text_runs(tokenizer, [example.text for example in examples])
        first = texts.take(np.repeat(texts.starts, counts), np.repeat(texts.lengths, counts))  # once per option
        second = text_runs(tokenizer, [option for example in examples for option in example.options])
        room = room_for(tokenizer.template, window, pair=True, least=2)
        sequences = frame_pairs(tokenizer.template, *cut_pairs(first, second, room))
        owners = np.arange(len(examples))
        longer = np.repeat(owners, counts)[first.lengths + second.lengths > room]
        return units_of(sequences, owners, per_unit=counts, arrays=arrays, num_cut=len(np.unique(longer)))

    # -- Objective -----------------------------------------------------------------------------------------------------

    def prepare(self, rows: Chosen, progress: float) -> Batch:
        units, sequences = rows.units, sequences_of(rows)
        unit = units_per_sequence(rows)  # (B,)
        option = sequences - units.first[rows.numbers[unit]]  # (B,)
        order = np.argsort(units.starts[sequences + 1] - units.starts[sequences], kind="stable")
        empty = torch.full((len(rows.numbers), int(option.max(initial=0)) + 1), -torch.inf)
        tensors = {
            "unit": torch.from_numpy(unit[order]),
            "option": torch.from_numpy(option[order]),
            "empty": empty,  # (U, K)
        }
        targets = units.arrays.get("targets")
        if targets is not None:
            tensors["targets"] = torch.from_numpy(targets[rows.numbers])
        count = 0 if targets is None else len(rows.numbers)
        return Batch(packed=pack_units(rows, sequences[order]), counts={"choice": count}, tensors=tensors)

    def _table(self, model: Model, batch: Batch) -> Tensor:
        """(U, K): the options' logits, minus infinity where a unit has fewer."""
        logits = model.logits(batch.packed, "choice").float()[:, 0]  # (B,)
        tensors = batch.tensors
        return tensors["empty"].index_put((tensors["unit"], tensors["option"]), logits)

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        table, targets = self._table(module, batch), batch.tensors["targets"]
        return {
            "choice": Loss(
                sum=F.cross_entropy(table, targets, reduction="sum"),
                count=len(targets),
                correct=(table.argmax(dim=-1) == targets).sum(),
            )
        }

    # -- after the model -----------------------------------------------------------------------------------------------

    def outputs(self, model: Model, batch: Batch) -> list[NDArray[np.float32]]:
        """Logits, (options of the unit,) each."""
        table = self._table(model, batch).cpu().numpy()
        return [row[np.isfinite(row)] for row in table]

    def decide(self, examples: Sequence[ChoiceExample], units: Units, outputs: Arrays) -> dict[str, Any]:
        """A temperature."""
        most = max((len(row) for row in outputs), default=0)
        table = np.full((len(outputs), most), NOWHERE)
        for number, row in enumerate(outputs):
            table[number, : len(row)] = row
        return {"temperature": fit_temperature(table, np.array([example.label for example in examples], np.int64))}

    def decode(
        self, examples: Sequence[ChoiceExample], units: Units, outputs: Arrays, decision: Decision
    ) -> list[ChoicePrediction]:
        temperature = float(decision.get("temperature", 1.0))
        return [ChoicePrediction(int(row.argmax()), tuple(softmax(row, temperature).tolist())) for row in outputs]

    def measure(self, examples: Sequence[ChoiceExample], predictions: Sequence[ChoicePrediction]) -> dict[str, float]:
        """accuracy."""
        self.check(examples)
        right = [example.label == prediction.option for example, prediction in zip(examples, predictions, strict=True)]
        return {"accuracy": float(np.mean(right)) if right else 0.0}

    def finish(self, model: Model) -> Self:
        return self
