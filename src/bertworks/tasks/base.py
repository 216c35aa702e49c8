"""What a task is: how labelled examples become sequences, what the loss is, what the model's outputs mean, how good they are.

The data's way:

    examples --encode--> Units --prepare--> Batch --losses--> Loss             (training: a task is an `Objective`)
                                                  --outputs--> arrays --decode--> predictions --measure--> figures

A *unit* is what training draws: one text, one window of a long text, one question with one window of its context, or all
options of one choice. It has one sequence or several, which always stay in the same batch. `Units` are plain arrays, made
once; a batch is cut from them by number, so that a step is a function of its number alone.

Whatever is decided from outputs on the development examples (a temperature, the no-answer threshold, thresholds of a
multi-label task) is a `Decision`: plain numbers, saved beside the model, given back to `decode`.

A task never touches files, never trains and never prints. Legend: U units, S sequences, T tokens of a packed batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertworks.data.labelled.options import TaskName as TaskName
from bertworks.models.config import HeadConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss
from bertworks.text.tokenizer import Tokenizer

Decision = Mapping[str, Any]
"""What was settled on development examples; values that JSON can hold."""

ExampleT = TypeVar("ExampleT", contravariant=True)
PredictionT = TypeVar("PredictionT")


@dataclass(frozen=True, kw_only=True)
class Units:
    """Encoded examples: U units of one or more sequences each, special tokens included."""

    ids: NDArray[np.int32]
    """(all tokens,): the sequences one after the other."""
    segments: NDArray[np.int32] | None
    """(all tokens,), or None where the model has no segments."""
    starts: NDArray[np.int64]
    """(S + 1,): where each sequence starts in `ids`, and the end of the last."""
    first: NDArray[np.int64]
    """(U + 1,): each unit's first sequence, and the number of sequences."""
    owners: NDArray[np.int64]
    """(U,): the number of the example that each unit came from, ascending: a long text has several units."""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What else the task needs, by name; the task knows their shapes."""
    num_cut: int = 0
    """How many examples lost a part of their text, since it is longer than the task reads."""

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def num_tokens(self) -> NDArray[np.int64]:
        """(U,): how many tokens each unit has, all its sequences together."""
        return self.starts[self.first[1:]] - self.starts[self.first[:-1]]


@dataclass(frozen=True)
class Chosen:
    """What `prepare` gets: some of the units."""

    units: Units
    numbers: NDArray[np.int64]


class Task(Protocol[ExampleT, PredictionT]):
    """What can be fine-tuned. Also an `Objective`: `prepare` takes `Chosen` units."""

    @property
    def name(self) -> TaskName: ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes or tags, in the order of the outputs; () where there are none."""
        ...

    @property
    def metric(self) -> str:
        """The figure of `measure` by which the best checkpoint is chosen; higher is better for every task."""
        ...

    @property
    def whole_steps(self) -> bool:
        """Whether a step's units must be in one batch, since they are compared with each other."""
        ...

    def head(self, model: Model) -> HeadConfig | None:
        """The head that `model` gets (`bertworks.tasks.attach` puts it there); None = the stack alone (similarity)."""
        ...

    def check(self, examples: Sequence[ExampleT]) -> None:
        """Raise a `DataError` with the place of the first example whose label is missing, unknown or impossible."""
        ...

    def encode(self, examples: Sequence[ExampleT], tokenizer: Tokenizer, *, window: int, training: bool) -> Units:
        """Sequences of at most `window` tokens. For training, examples must pass `check`; otherwise labels are not read."""
        ...

    # -- Objective -----------------------------------------------------------------------------------------------------

    @property
    def weights(self) -> Mapping[str, float]: ...

    def prepare(self, rows: Chosen, progress: float) -> Batch: ...

    def losses(self, module: Any, batch: Batch) -> dict[str, Loss]: ...

    # -- after the model -----------------------------------------------------------------------------------------------

    def outputs(self, model: Model, batch: Batch) -> list[NDArray[np.float32]]:
        """One array per unit of the batch, in its order: what `decode` needs of the model. No gradient.

        The model is in evaluation mode, and the batch on its device.
        """
        ...

    def decide(
        self, examples: Sequence[ExampleT], units: Units, outputs: Sequence[NDArray[np.float32]]
    ) -> dict[str, Any]:
        """Settle temperatures and thresholds on labelled development examples; {} where nothing is to settle."""
        ...

    def decode(
        self,
        examples: Sequence[ExampleT],
        units: Units,
        outputs: Sequence[NDArray[np.float32]],
        decision: Decision,
    ) -> list[PredictionT]:
        """One prediction per example (all its units together)."""
        ...

    def measure(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> dict[str, float]:
        """The official figures of the task, by name; values in their usual range (0 to 1, or -1 to 1)."""
        ...

    # -- after training ------------------------------------------------------------------------------------------------

    def finish(self, model: Model) -> Self:
        """Bake into the trained model what was kept outside of it, and give the task that goes with the finished one.

        Predictions stay what they were. Most tasks keep nothing outside: they return themselves.
        """
        ...

    def settings(self) -> dict[str, Any]:
        """What makes this task again (`bertworks.tasks.from_settings`), as JSON values; goes into `bertworks.json`.

        The entry "task" is its name.
        """
        ...


@dataclass(frozen=True)
class Evaluated(Generic[PredictionT]):
    """Predictions of a whole set of examples, and how good they are where the labels are known."""

    predictions: list[PredictionT]
    figures: dict[str, float]
    decision: Decision
