"""Which tokens of a text mattered for what a fine-tuned model said of it, by one of two methods (`attribution`).

What is explained depends on the task:

    classify, pair   the log-odds of a label: how much its score leads over all others together
    regress          the number (the logarithm of the rate, for counts)
    choice           the score of one option
    tag              the log-odds of a word's tag (with a CRF: before its neighbours have their say)
    qa               the score of the answer: the logits of its start and its end together
    similarity       the cosine, once for each of the two texts with the other one as it is

Exactly the sequence that was predicted from is explained. A text that is longer than the window is predicted from in
parts, and is not explained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertworks.data.labelled.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.errors import ModelError, UsageError, choice
from bertworks.infer.attribution import POINTS, Score, baseline_of, integrated_gradients, rollout_of
from bertworks.infer.predict import Predictor
from bertworks.infer.rows import Row
from bertworks.models.model import Model
from bertworks.models.word_config import WordStackConfig
from bertworks.nn.packed import Packed, max_per_sequence, mean_per_sequence
from bertworks.tasks.predictions import AnswerPrediction, ChoicePrediction, LabelPrediction, TagPrediction
from bertworks.tasks.similarity import Similarity
from bertworks.tasks.tagging import class_token_is_last
from bertworks.tasks.words import joined
from bertworks.text.encoding import Encoding

Method = Literal["integrated-gradients", "attention-rollout"]
METHODS: Mapping[str, str] = {
    "integrated-gradients": "Integrated gradients: what each token adds to or takes from the score; the contributions add "
    "up to the score minus that of a text of padding.",
    "attention-rollout": "Attention rollout: how much of each token reaches the place that the head reads, if attention "
    "were all that mixes tokens. It does not look at the score and knows no for or against.",
}


@dataclass(frozen=True)
class TokenWeight:
    """A token and what it is worth: characters `start:end` of text `part` (0 or 1; -1 for special tokens)."""

    text: str
    part: int
    start: int
    end: int
    value: float


@dataclass(frozen=True)
class Explanation:
    """One sequence that was explained."""

    method: str
    of: str
    """What is explained, in words."""
    texts: list[str]
    """What the tokens are of, by their `part`."""
    tokens: list[TokenWeight]
    output: float | None = None
    """Integrated gradients: the number that is explained …"""
    baseline: float | None = None
    """… the number where every word is the padding token …"""
    gap: float | None = None
    """… and how far the tokens' values are from adding up to the difference."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Question:
    """One sequence, the number that is asked about, and the places at which the head reads."""

    encoding: Encoding
    score: Score
    rows: list[int]
    of: str
    texts: list[str]
    part: int = 0
    """Which of them the encoding's first text is."""


def explain(
    predictor: Predictor,
    row: Row,
    *,
    method: str = "integrated-gradients",
    target: Any = None,
    points: int = POINTS,
) -> list[Explanation]:
    """One explanation, or for a similarity one for each text.

    target: what is explained instead of the prediction: a label, the number of an option, the number of a word (needed
            for tags), a pair (start, end) of characters of a context
    """
    choice(method, METHODS, "method")
    loaded = predictor.loaded
    if isinstance(loaded.model.config.body, WordStackConfig):
        raise ModelError(
            "which tokens mattered is known of models that read tokens; this one reads vectors of whole words"
        )
    example = predictor.examples([row])[0]
    found = []
    with torch.inference_mode(False):
        for question in _questions(predictor, example, target):
            encoding = question.encoding
            segments = [encoding.segments] if encoding.segments.any() else None
            packed = Packed.from_sequences([encoding.ids], segments).to(loaded.device)
            output = baseline = gap = None
            if method == "integrated-gradients":
                ids = np.where(encoding.special, encoding.ids, baseline_of(loaded.tokenizer)).astype(np.int64)
                integrated = integrated_gradients(
                    loaded.model,
                    packed,
                    question.score,
                    baseline_ids=torch.from_numpy(ids).to(loaded.device),
                    points=points,
                )
                values = integrated.values
                output, baseline, gap = integrated.output, integrated.baseline, integrated.gap
            else:
                values = rollout_of(loaded.model, packed, question.rows)
            tokens = _tokens(loaded.tokenizer.tokens(encoding.ids), example, question, values.tolist())
            found.append(Explanation(method, question.of, question.texts, tokens, output, baseline, gap))
    return found


def _tokens(names: list[str], example: Example, question: _Question, values: list[float]) -> list[TokenWeight]:
    encoding = question.encoding
    tokens = []
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        part, (start, end) = int(encoding.sequences[place]), encoding.offsets[place].tolist()
        if part >= 0:
            part += question.part
            if isinstance(example, TaggedExample):  # its offsets are within the word
                offsets = example.offsets if example.offsets is not None else joined(example.words)[1]
                first = offsets[int(encoding.words[place])][0]
                start, end = first + start, first + end
        tokens.append(TokenWeight(name, part, start, end, value))
    return tokens


# -- what is asked about, task by task ---------------------------------------------------------------------------------


def _questions(predictor: Predictor, example: Example, target: Any) -> list[_Question]:
    if isinstance(example, TextExample):
        return [_about_text(predictor, example, target)]
    if isinstance(example, ChoiceExample):
        return [_about_option(predictor, example, target)]
    if isinstance(example, TaggedExample):
        return [_about_word(predictor, example, target)]
    if isinstance(example, QuestionExample):
        return [_about_answer(predictor, example, target)]
    return _about_similarity(predictor, example)


def _about_text(predictor: Predictor, example: TextExample, target: Any) -> _Question:
    model = predictor.loaded.model
    encoding = predictor.loaded.tokenizer.encode(example.text, example.pair)
    _check(predictor, example, [encoding])
    texts = [example.text] if example.pair is None else [example.text, example.pair]
    if not predictor.labels:
        rows = _read(model, "regress", encoding)
        return _Question(encoding, lambda batch: model.logits(batch, "regress")[:, 0], rows, "the number", texts)
    if target is None:
        said = predictor.predict_examples([example])[0]
        assert isinstance(said, LabelPrediction)
        target = (
            said.label if isinstance(said.label, str) else max(said.probabilities, key=said.probabilities.__getitem__)
        )
    label = predictor.labels.index(choice(str(target), predictor.labels, "label"))

    def score(batch: Packed) -> Tensor:
        logits = model.logits(batch, "classify")
        return logits[:, label] if predictor.multi_label else _log_odds(logits, label)

    return _Question(encoding, score, _read(model, "classify", encoding), f"the log-odds of the label {target}", texts)


def _about_option(predictor: Predictor, example: ChoiceExample, target: Any) -> _Question:
    model, tokenizer = predictor.loaded.model, predictor.loaded.tokenizer
    encodings = [tokenizer.encode(example.text, option) for option in example.options]
    _check(predictor, example, encodings)
    if target is None:
        said = predictor.predict_examples([example])[0]
        assert isinstance(said, ChoicePrediction)
        target = said.option
    number = _number(target, len(encodings), "option")
    encoding = encodings[number]
    return _Question(
        encoding,
        lambda batch: model.logits(batch, "choice")[:, 0],
        _read(model, "choice", encoding),
        f"the score of option {number + 1}",
        [example.text, example.options[number]],
    )


def _about_word(predictor: Predictor, example: TaggedExample, target: Any) -> _Question:
    model, tokenizer = predictor.loaded.model, predictor.loaded.tokenizer
    if target is None:
        raise UsageError("which word's tag is to be explained? Give its number, from 0, as the target")
    word = _number(target, len(example.words), "word")
    encoding = tokenizer.encode_words(example.words)
    _check(predictor, example, [encoding])
    said = predictor.predict_examples([example])[0]
    assert isinstance(said, TagPrediction)
    label = predictor.labels.index(said.tags[word])
    own = np.flatnonzero((encoding.words == word) & ~encoding.special)
    place = int(own[-1 if class_token_is_last(tokenizer) else 0])

    def score(batch: Packed) -> Tensor:
        return _log_odds(_at(model, "tag", batch, [place]), label)

    of = f"the log-odds of the tag {said.tags[word]} for the word {example.words[word]}"
    text = example.text if example.text is not None else joined(example.words)[0]
    return _Question(encoding, score, [place], of, [text])


def _about_answer(predictor: Predictor, example: QuestionExample, target: Any) -> _Question:
    model, tokenizer = predictor.loaded.model, predictor.loaded.tokenizer
    encoding = tokenizer.encode(example.question, example.context)
    null = _check(predictor, example, [encoding])["null"]
    if target is None:
        said = predictor.predict_examples([example])[0]
        assert isinstance(said, AnswerPrediction)
        target = (said.start, said.end)
    if not (isinstance(target, list | tuple) and len(target) == 2 and all(isinstance(place, int) for place in target)):
        raise UsageError(f"the target is {target!r}; an answer is a pair of characters of the context, (start, end)")
    start, end = target
    inside = (encoding.sequences == 1) & (encoding.offsets[:, 0] < end) & (encoding.offsets[:, 1] > start)
    places = np.flatnonzero(inside)
    if start < end and not len(places):
        raise UsageError(f"there is no token of the context between characters {start} and {end}")
    first, last = (int(places[0]), int(places[-1])) if len(places) else (int(null[0]), int(null[0]))

    def score(batch: Packed) -> Tensor:
        logits = _at(model, "qa", batch, [first, last])  # (2 B, 2)
        return logits[0::2, 0] + logits[1::2, 1]

    of = f"the score of the answer {example.context[start:end]}" if len(places) else "the score of no answer"
    return _Question(encoding, score, sorted({first, last}), of, [example.question, example.context])


def _about_similarity(predictor: Predictor, example: SimilarityExample) -> list[_Question]:
    loaded, task = predictor.loaded, predictor.task
    assert isinstance(task, Similarity)
    pooling = task.pooling
    encodings = [loaded.tokenizer.encode(text) for text in example.texts[:2]]
    _check(predictor, example, encodings)

    def vectors(batch: Packed) -> Tensor:
        rows = batch.layout.first() if pooling == "cls" else None
        hidden = loaded.model.body(batch, rows=rows).last.float()
        if pooling == "cls":
            return hidden
        return (mean_per_sequence if pooling == "mean" else max_per_sequence)(hidden, batch.layout)

    def score_to(other: Encoding) -> Score:
        with torch.no_grad():
            fixed = vectors(Packed.from_sequences([other.ids]).to(loaded.device))
        return lambda batch: F.cosine_similarity(vectors(batch), fixed)

    names = ("first", "second")
    return [
        _Question(
            encoding,
            score_to(encodings[1 - part]),
            [0] if pooling == "cls" else list(range(len(encoding))),
            f"the similarity, by the words of the {names[part]} text",
            list(example.texts[:2]),
            part,
        )
        for part, encoding in enumerate(encodings)
    ]


def _log_odds(logits: Tensor, label: int) -> Tensor:
    """(B, C) -> (B,): the logit of one class minus that of all others together."""
    others = torch.cat([logits[:, :label], logits[:, label + 1 :]], dim=1)
    return logits[:, label] - torch.logsumexp(others, dim=1)


def _at(model: Model, task: str, batch: Packed, places: list[int]) -> Tensor:
    """The logits at the same places of every sequence: (B · places, C)."""
    starts = torch.tensor(batch.layout.starts)[:, None]  # (B, 1)
    index = (starts + torch.tensor(places)).flatten().to(batch.input_ids.device)
    return model.logits(batch, task, rows=batch.layout.rows(index))


def _read(model: Model, task: str, encoding: Encoding) -> list[int]:
    """The places of a sequence that a head reads."""
    reads = model.head(task).config.reads
    places: dict[str, Callable[[], list[int]]] = {
        "first": lambda: [0],
        "pooled": lambda: [0],
        "last": lambda: [len(encoding) - 1],
    }
    return places.get(reads, lambda: list(range(len(encoding))))()


def _number(target: Any, count: int, what: str) -> int:
    if not isinstance(target, int) or isinstance(target, bool) or not 0 <= target < count:
        raise UsageError(f"the target is {target!r}; it must be the number of one {what} of {count}, counted from 0")
    return target


def _check(predictor: Predictor, example: Example, encodings: list[Encoding]) -> Mapping[str, Any]:
    """That the task reads these very sequences, whole; returns its arrays."""
    if not all(len(encoding) for encoding in encodings):
        raise UsageError("the text is empty: there is nothing to explain")
    units = predictor.task.encode([example], predictor.loaded.tokenizer, window=predictor.window, training=False)
    bounds = units.starts
    same = len(bounds) - 1 == len(encodings) and all(
        np.array_equal(units.ids[bounds[number] : bounds[number + 1]], encoding.ids)
        for number, encoding in enumerate(encodings)
    )
    if not same:
        longest = max(map(len, encodings))
        raise UsageError(
            f"the text has {longest} tokens, and the model reads {predictor.window} at once: "
            "which tokens mattered is shown for texts that it reads whole; shorten it"
        )
    return units.arrays
