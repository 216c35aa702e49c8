"""Tagging with a stack over words in place of one over tokens (`bertworks.models.words`), and cross-view training of it.

One token is one word here, a sentence is never cut into windows, and the words' letters and vectors come with them
(`bertworks.tasks.word_inputs`). Everything else is `Tagging`'s.

**Cross-view training** (Clark et al. 2018, "Semi-Supervised Sequence Modeling with Cross-View Training") learns from text
without tags. Four further heads see a part of the sentence only: the words up to this one, from this one on, those before
it, those after it. On unlabelled sentences each of them learns to say what the tagger says, which sees everything and is
not changed by it (no gradient, no dropout); the first recurrent layer below them learns to be of use from every side. A
step has labelled and unlabelled sentences, each with a loss and a count of their own:

    loss = mean over labelled words of -log p(tag)
         + views * mean over unlabelled words and heads of cross-entropy(what the tagger says, what the head says)

With a CRF, what the tagger says of a word is its marginal distribution. The heads are dropped from the finished model.
Unlike in the paper, labelled and unlabelled sentences do not take turns but share their steps, and the heads' losses are
averaged, not added up: in one step, four losses about a tagger that knows nothing yet would drown the one that teaches it.
Left out: several tasks at once.

Legend: T words of the batch, C tags.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertworks.data.labelled.examples import TaggedExample
from bertworks.data.pretraining.flat import ranges
from bertworks.models.config import HeadConfig, Task
from bertworks.models.model import Model
from bertworks.models.words import one_sided
from bertworks.objectives.base import Batch, Loss
from bertworks.tasks.base import Chosen, Units
from bertworks.tasks.tagging import CONTINUED, Tagging, continued
from bertworks.tasks.word_inputs import WordInputs
from bertworks.text.tokenizer import Tokenizer

VIEWS: dict[str, Task] = {
    "forward": "view_forward",
    "backward": "view_backward",
    "future": "view_future",
    "past": "view_past",
}
"""The partial views, and the heads that read them."""


@dataclass(frozen=True, kw_only=True)
class WordTagging(Tagging):
    """Words with tags, for a stack over words."""

    inputs: WordInputs = field(default_factory=WordInputs)
    views: float = 0.0
    """How much the loss of the partial views counts; 0 = there are none."""

    @classmethod
    def for_examples(
        cls,
        name: str,
        examples: Sequence[TaggedExample],
        *,
        inputs: WordInputs | None = None,
        views: float = 0.0,
        **options: Any,
    ) -> Self:
        found = super().for_examples(name, examples, **options)
        return replace(found, inputs=inputs or WordInputs(), views=views)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        plain = super().from_settings({key: value for key, value in settings.items() if key != "inputs"})
        return replace(plain, inputs=WordInputs.from_settings(settings["inputs"]))

    def settings(self) -> dict[str, Any]:
        plain = replace(self, inputs=WordInputs())  # what is open cannot be written
        return {**super(WordTagging, plain).settings(), "inputs": self.inputs.settings()}

    @property
    def weights(self) -> Mapping[str, float]:
        return {"tag": 1.0, "views": self.views} if self.views else {"tag": 1.0}

    def more_heads(self, model: Model) -> tuple[HeadConfig, ...]:
        """The heads of the partial views; a hidden layer each, as in the paper."""
        if not self.views:
            return ()
        size = model.hidden_size // 2
        return tuple(
            HeadConfig(
                task=name, reads="tokens", num_labels=len(self.labels), transform_size=size, transform_act="relu"
            )
            for name in VIEWS.values()
        )

    def finish(self, model: Model) -> Self:
        model.set_heads([head for head in model.config.heads if head.task == "tag"], model.config.labels)
        return replace(self, views=0.0)

    # -- units and batches ---------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[TaggedExample], tokenizer: Tokenizer, *, window: int, training: bool) -> Units:
        """Arrays: the inputs', and `targets` (words,) for training."""
        if training:
            self.check(examples)
        targets = {"targets": self._targets(examples)} if training else {}
        return self.inputs.units([example.words for example in examples], tokenizer, targets)

    def prepare(self, rows: Chosen, progress: float) -> Batch:
        """Units with targets count for the tagger, those without for the views."""
        packed = self.inputs.pack(rows)
        total = packed.layout.total
        targets = rows.units.arrays.get("targets")
        counts = {"tag": total, "views": 0} if targets is not None or not self.views else {"tag": 0, "views": total}
        tensors = {CONTINUED: continued(rows)}
        if targets is not None:
            chosen = ranges(rows.units.starts[rows.numbers], np.array(packed.layout.lengths, np.int64))
            tensors["targets"] = torch.from_numpy(targets[chosen])
        return Batch(
            packed=packed,
            counts={name: counts[name] for name in self.weights},
            rows=packed.layout.rows(torch.arange(total)),
            tensors=tensors,
        )

    # -- losses --------------------------------------------------------------------------------------------------------

    def losses(self, module: Any, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        if "targets" in batch.tensors:
            nothing = {"views": Loss(sum=torch.zeros((), device=batch.packed.input_ids.device), count=0)}
            return {**super().losses(module, batch), **(nothing if self.views else {})}
        total = self._views_loss(module, batch)
        return {"tag": Loss(sum=total.new_zeros(()), count=0), "views": Loss(sum=total, count=batch.num_tokens)}

    def _views_loss(self, model: Model, batch: Batch) -> Tensor:
        """Summed over words, averaged over views."""
        packed = batch.packed
        with torch.no_grad(), _without_dropout(model):
            taught = self.probabilities(model, batch)  # (T, C)
        first = model.body(packed, layers=(1,)).last  # (T, 2 P)
        total = first.new_zeros((), dtype=torch.float32)
        for view, hidden in one_sided(first, packed.layout).items():
            scores = model.apply_head(VIEWS[view], hidden, packed.layout).float()  # (T, C)
            total = total - (taught * F.log_softmax(scores, dim=1)).sum()
        return total / len(VIEWS)


@contextlib.contextmanager
def _without_dropout(model: Model) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
