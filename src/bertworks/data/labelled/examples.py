"""What a labelled file holds, once it is read: one example per row, sentence, question or choice, with its place.

Every example carries the file and line that it came from, so that whatever is found wrong with it later (an unknown label,
an answer that is not in its context) can say where. Labels are kept as they are written; which number a label gets is
decided by the task, from the training examples.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """Where an example stands: a file (or what stands for one) and a line, row or question in it."""

    path: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExample:
    """A text, or two, with a label: classification, pairs, regression."""

    text: str
    pair: str | None = None
    label: str | float | tuple[str, ...] | None = None
    """A class name, a number (regression), several class names (multi-label, maybe none of them); None = not known."""
    group: str | None = None
    """The document or article that it belongs to; examples of one group never fall on both sides of a split."""
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceExample:
    """A beginning and its possible continuations, one of which is right (SWAG's form)."""

    text: str
    options: tuple[str, ...]
    """What may follow, at least two; each stands for the whole second text."""
    label: int | None = None
    """Number of the right option, counted from 0; None = not known."""
    group: str | None = None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedExample:
    """A sentence as words, each with a tag."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    """One per word, as written in the file (IOB1, BIO, IOBES or plain); None = not known."""
    text: str | None = None
    """The text that the words were taken from; None = there is none but the words, joined by spaces."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """With `text`: the first character of each word in it, and the one after its last."""
    group: str | None = None
    place: Place
    lines: tuple[int, ...] = field(default=(), compare=False)
    """The line of each word, where each has one of its own."""

    def place_of(self, word: int) -> Place:
        """Where a word stands, as exactly as is known."""
        return Place(self.place.path, self.lines[word]) if self.lines else self.place


class Answer(NamedTuple):
    """A text and the character where it starts in the context."""

    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionExample:
    """A question about a context (SQuAD's form)."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    """The allowed answers; () = the context does not answer it; None = not known."""
    group: str | None = None
    """The article's title."""
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityExample:
    """Texts that belong together: (text,), (anchor, positive), (anchor, positive, negative …), or a scored pair."""

    texts: tuple[str, ...]
    score: float | None = None
    """How similar the two texts are, on the file's own scale; None = no score: the second belongs to the first."""
    group: str | None = None
    place: Place


UNREAD = ("label", "tags", "offsets", "answers", "score", "group", "place", "lines", "id")
"""Fields of examples that are no text for a model to read."""

Example = TextExample | ChoiceExample | TaggedExample | QuestionExample | SimilarityExample
