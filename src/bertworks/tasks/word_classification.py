"""Classification with a stack over words in place of one over tokens (`bertworks.models.words`).

A text's words are found by the rules of `bertworks.tasks.words`; a text is never cut into windows. The head reads the last
states, the maximum and the mean side by side. Everything else is `Classification`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bertworks.data.labelled.examples import TextExample
from bertworks.objectives.base import Batch
from bertworks.tasks.base import Chosen, TaskName, Units
from bertworks.tasks.classification import Classification
from bertworks.tasks.texts import data_error, prepare_texts
from bertworks.tasks.word_inputs import WordInputs
from bertworks.tasks.words import split_words
from bertworks.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class WordClassification(Classification):
    """Classes of texts, for a stack over words."""

    inputs: WordInputs = field(default_factory=WordInputs)

    @classmethod
    def for_examples(
        cls,
        name: TaskName,
        examples: Sequence[TextExample],
        dev: Sequence[TextExample] | None = None,
        *,
        inputs: WordInputs | None = None,
        **options: Any,
    ) -> Self:
        return replace(super().for_examples(name, examples, dev, **options), inputs=inputs or WordInputs())

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        return replace(super().from_settings(settings), inputs=WordInputs.from_settings(settings["inputs"]))

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "inputs": self.inputs.settings()}

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer, *, window: int, training: bool) -> Units:
        """One unit per text."""
        arrays = {}
        if training:
            self.check(examples)
            found = self._truth(examples)
            arrays["targets"] = found.astype(np.float32) if self.multi_label else found
        return self.inputs.units([words_of(example) for example in examples], tokenizer, arrays)

    def prepare(self, rows: Chosen, progress: float) -> Batch:
        return prepare_texts(rows, "classify", self.inputs.pack(rows))


def words_of(example: TextExample) -> list[str]:
    """A text's words; the empty word where it has none."""
    if example.pair is not None:
        raise data_error(example, "a model over words reads one text, and this example has two")
    return [example.text[start:end] for start, end in split_words(example.text)] or [""]
