"""What a task says about one example, once the model's outputs are decoded: plain values, no arrays.

`as_json` gives what one line of `predictions.jsonl` holds. Probabilities are those after calibration, where the
task's decision has one. Offsets count characters of the original text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LabelPrediction:
    """A class, or (multi-label) all that apply, maybe none."""

    label: str | tuple[str, ...]
    probabilities: Mapping[str, float]
    """Of every class. They add up to 1 where exactly one class is right; multi-label ones are independent."""

    @property
    def probability(self) -> float:
        """How sure the prediction is; of several labels (or none), the least sure decision about one of them."""
        if isinstance(self.label, str):
            return self.probabilities[self.label]
        return min(p if name in self.label else 1.0 - p for name, p in self.probabilities.items())

    def as_json(self) -> dict[str, Any]:
        label = self.label if isinstance(self.label, str) else list(self.label)
        return {"label": label, "probabilities": dict(self.probabilities)}


@dataclass(frozen=True, slots=True)
class NumberPrediction:
    """A number on the scale of the training file; a rate for counts."""

    value: float

    def as_json(self) -> dict[str, Any]:
        return {"value": self.value}


@dataclass(frozen=True, slots=True)
class ChoicePrediction:
    """One of several options, counted from 0."""

    option: int
    probabilities: tuple[float, ...]
    """One per option."""

    def as_json(self) -> dict[str, Any]:
        return {"option": self.option, "probabilities": list(self.probabilities)}


@dataclass(frozen=True, slots=True)
class SpanPrediction:
    """A named part of a text: characters `start:end`, words `first_word` up to but not including `stop_word`."""

    label: str
    start: int
    end: int
    text: str
    probability: float
    first_word: int
    stop_word: int

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """A tag per word, and the spans that the tags make."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    """One per word: of the tag that was chosen."""
    spans: tuple[SpanPrediction, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "tags": list(self.tags),
            "probabilities": list(self.probabilities),
            "spans": [span.as_json() for span in self.spans],
        }


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible answer: characters `start:end` of the context."""

    text: str
    start: int
    end: int
    probability: float

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class AnswerPrediction:
    """The answer to one question; an empty text (start = end = 0) says that the context does not answer it."""

    id: str
    text: str
    start: int
    end: int
    probability: float
    """Of this answer; of there being none, where the text is empty."""
    no_answer_probability: float
    candidates: tuple[Candidate, ...]
    """The best ones, the most likely first, whether or not the question is taken to be answered."""

    def as_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "candidates"}
        return plain | {"candidates": [candidate.as_json() for candidate in self.candidates]}


@dataclass(frozen=True, slots=True)
class SimilarityPrediction:
    """How similar an example's first two texts are, as the cosine of their vectors."""

    similarity: float
    rank: int | None = None
    """For pairs without a score: the place of the second text among all candidates of the set that are not right for the
    first text themselves, by their similarity to it; 1 = the nearest."""

    def as_json(self) -> dict[str, Any]:
        return {"similarity": self.similarity} | ({} if self.rank is None else {"rank": self.rank})


Prediction = (
    LabelPrediction | NumberPrediction | ChoicePrediction | TagPrediction | AnswerPrediction | SimilarityPrediction
)
