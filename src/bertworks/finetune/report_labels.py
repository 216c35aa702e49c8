"""The report's sections on labels and options: confusions, figures per label and per length, calibration, errors.

Why an error was made is shown word by word: a word is left out, and the probability of the wrong answer falls (the word
spoke for it) or rises (against). The idea is occlusion (Zeiler and Fergus 2014; Li et al. 2016, "Understanding neural
networks through representation erasure"). It says what the model looked at, not that looking there was wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import Any, cast

import numpy as np

from bertworks import page
from bertworks.data.labelled.examples import ChoiceExample, Place, TextExample
from bertworks.finetune.result import Result
from bertworks.page import Mark, bars, case, heat_map, marked, section, soft, table
from bertworks.tasks.classification import Classification, names_of
from bertworks.tasks.metrics.calibration import reliability
from bertworks.tasks.metrics.classification import confusion, per_label
from bertworks.tasks.predictions import ChoicePrediction, LabelPrediction

MAX_ERRORS = 12
MAX_WORDS = 60
"""Texts longer than this are shown around their beginning, and not explained word by word."""
MAX_CHARACTERS = 700
FEW, READABLE, MAX_MAP = 5, 12, 60
"""Up to so many labels the heat map stands beside the table; has numbers; is there at all."""
GROUPS = 5
WORD = re.compile(r"\S+")
TOO_FAINT = 0.02

Predict = Callable[[Sequence[Any]], Sequence[Any]]
"""Examples to predictions: what a word contributes is found out by leaving it out."""


def sections(result: Result, predict: Predict | None) -> list[str]:
    """For classify, pair and choice."""
    if isinstance(result.task, Classification):
        if result.task.multi_label:
            return _multi_label(result, result.task)
        return _classes(result, result.task, predict)
    return _choices(result, predict)


def groups_of(values: np.ndarray) -> Iterator[np.ndarray]:
    """Masks over the examples, from the small values to the large ones, about as many in each; equal values stay together."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, GROUPS + 1)[1:-1], method="lower"))
    groups = np.searchsorted(edges, values, side="left")
    for group in range(len(edges) + 1):
        own = groups == group
        if own.any():
            yield own


def by_length(lengths: Sequence[int], values: Sequence[float], title: str, *, unit: str = "words") -> str:
    """The mean of a figure in groups of equal size, from the shortest examples to the longest."""
    sizes, figures = np.asarray(lengths), np.asarray(values, np.float64)
    rows = []
    for own in groups_of(sizes):
        low, high = int(sizes[own].min()), int(sizes[own].max())
        name = f"{low} {unit if low != 1 else unit[:-1]}" if low == high else f"{low}–{high} {unit}"
        rows.append((f"{name} ({own.sum():,})", float(figures[own].mean())))
    return section(title, bars(rows)) if len(rows) > 1 else ""


def calibration(
    confidence: Sequence[float], right: Sequence[bool], *, what: str = "predictions", fitted: bool = True
) -> str:
    """Whether probabilities mean what they say; `fitted`: a temperature was, on the same examples."""
    found = reliability(confidence, right)
    bins = list(zip(found.confidence.tolist(), found.accuracy.tolist(), found.counts.tolist(), strict=True))
    return section(
        "Does its confidence mean what it says?",
        page.reliability("Share that is right, by confidence", bins),
        soft(
            f"On average the confidence of {what} is off by {100 * found.error:.1f} points "
            "(expected calibration error). On the dashed line it is exact; below it, the model is too sure."
            + (" It was brought near that line on these very examples; on others it is somewhat further off." * fitted)
        ),
    )


def place_of(place: Place) -> str:
    """`dev.tsv, line 12`"""
    name = place.path.rsplit("/", 1)[-1]
    return name if place.line is None else f"{name}, line {place.line}"


# -- one class per text ------------------------------------------------------------------------------------------------


def _classes(result: Result, task: Classification, predict: Predict | None) -> list[str]:
    examples = cast(Sequence[TextExample], result.examples)
    predictions = cast(Sequence[LabelPrediction], result.predictions)
    numbers = {label: number for number, label in enumerate(task.labels)}
    truth = np.array([numbers[str(example.label)] for example in examples])
    guess = np.array([numbers[cast(str, prediction.label)] for prediction in predictions])
    right = (truth == guess).tolist()
    confidence = [prediction.probability for prediction in predictions]
    lengths = [len(example.text.split()) + len((example.pair or "").split()) for example in examples]
    length_unit = "words"
    if np.mean(lengths) < np.mean([len(example.text) for example in examples]) / 20:  # a script without spaces
        lengths = [len(example.text) + len(example.pair or "") for example in examples]
        length_unit = "characters"
    beside = len(task.labels) <= FEW
    return [
        '<div class="columns">' if beside else "",
        section("What is taken for what", *_confusions(task.labels, truth, guess)),
        _label_table(task.labels, truth, guess),
        "</div>" if beside else "",
        '<div class="columns">',
        calibration(confidence, right),
        by_length(lengths, right, "Short texts and long ones: share that is right", unit=length_unit),
        "</div>",
        _errors(examples, predictions, right, predict),
    ]


def _confusions(labels: Sequence[str], truth: np.ndarray, guess: np.ndarray) -> list[str]:
    counts = confusion(truth, guess, len(labels))
    parts = []
    if len(labels) <= MAX_MAP:
        parts.append(heat_map(labels, counts.tolist(), numbers=len(labels) <= READABLE))
    if len(labels) > 3:
        wrong = counts.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:8]
        pairs = [(labels[place // len(labels)], labels[place % len(labels)], wrong.flat[place]) for place in order]
        rows = [(true, taken, f"{count:,}") for true, taken, count in pairs if count]
        if rows:
            parts.append(table(rows, header=["most often mixed up", "taken for", "times"], numbers=True))
    return parts


def _label_table(labels: Sequence[str], truth: np.ndarray, guess: np.ndarray) -> str:
    scores = per_label(truth, guess, len(labels) if truth.ndim == 1 else None)
    rows = [
        (
            label,
            f"{scores.precision[number]:.1%}",
            f"{scores.recall[number]:.1%}",
            f"{scores.f1[number]:.1%}",
            f"{scores.support[number]:,}",
            f"{scores.predicted[number]:,}",
        )
        for number, label in enumerate(labels)
        if scores.support[number] or scores.predicted[number]
    ]
    return section(
        "Label by label",
        table(rows, header=["", "precision", "recall", "F1", "rows", "said"], numbers=True),
        soft("Precision: how many of those that it said are right. Recall: how many of those in the rows it found."),
    )


def _errors(
    examples: Sequence[TextExample],
    predictions: Sequence[LabelPrediction],
    right: Sequence[bool],
    predict: Predict | None,
) -> str:
    wrong = sorted(
        (number for number, fine in enumerate(right) if not fine), key=lambda number: -predictions[number].probability
    )
    if not wrong:
        return section("Errors", "<p>There are none.</p>")
    cases = []
    for number in wrong[:MAX_ERRORS]:
        example, prediction = examples[number], predictions[number]
        guess, true = cast(str, prediction.label), str(example.label)
        first, second = _explained(example, guess, prediction, predict)
        body = [f"<p>{first}</p>"] + ([f"<p>{second}</p>"] if example.pair is not None else [])
        head = [
            (f"said {guess}, {prediction.probability:.0%} sure", "guess"),
            (f"is {true} ({prediction.probabilities[true]:.0%})", "truth"),
        ]
        cases.append(case(head, *body, place=place_of(example.place)))
    shown = f"{len(wrong):,} of {len(examples):,} are wrong; these are the ones it was surest of."
    legend = (
        " Orange words speak for the wrong label, green ones against it: so much does its probability change without them."
        if predict is not None
        else ""
    )
    return section("Most confident errors", soft(shown + legend), *cases)


def _explained(
    example: TextExample, label: str, prediction: LabelPrediction, predict: Predict | None
) -> tuple[str, str]:
    """Both texts, each word shaded by what it contributes to the label."""
    texts = (example.text, example.pair or "")
    found = [[match.span() for match in WORD.finditer(text)] for text in texts]
    if predict is None or sum(map(len, found)) > MAX_WORDS or sum(map(len, found)) < 2:
        return shortened(texts[0]), shortened(texts[1])
    variants, words = [], []
    for which, spans in enumerate(found):
        for start, end in spans:
            without = (texts[which][:start] + texts[which][end:]).replace("  ", " ")
            changed = replace(example, text=without) if which == 0 else replace(example, pair=without)
            variants.append(replace(changed, label=None))
            words.append((which, start, end))
    before = prediction.probabilities[label]
    changes = [before - cast(LabelPrediction, other).probabilities[label] for other in predict(variants)]
    first, second = (
        marked(text, [weigh(s, e, c) for (w, s, e), c in zip(words, changes, strict=True) if w == which])
        for which, text in enumerate(texts)
    )
    return first, second


def weigh(start: int, end: int, change: float) -> Mark:
    """A word that changes a probability by so much."""
    if abs(change) < TOO_FAINT:
        return Mark(0, 0, "")
    kind = "for" if change > 0 else "against"
    return Mark(start, end, kind, f"{100 * change:+.0f} points", min(1.0, 0.15 + 1.5 * abs(change)))


def shortened(text: str) -> str:
    """The beginning of a text, as HTML."""
    return escape(text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS].rsplit(" ", 1)[0] + " …")


# -- several labels per text -------------------------------------------------------------------------------------------


def _multi_label(result: Result, task: Classification) -> list[str]:
    examples = cast(Sequence[TextExample], result.examples)
    predictions = cast(Sequence[LabelPrediction], result.predictions)

    def table_of(rows: Sequence[Any]) -> np.ndarray:
        return np.array([[label in row for label in task.labels] for row in rows], np.bool_)

    labels = [names_of(example) for example in examples]
    truth = table_of(labels)
    guess = table_of([prediction.label for prediction in predictions])
    shares = [[prediction.probabilities[label] for label in task.labels] for prediction in predictions]
    confidence = np.where(guess, shares, 1 - np.array(shares))
    wrong = np.flatnonzero((truth != guess).any(axis=1))
    surest = np.where(truth != guess, confidence, 0.0).max(axis=1)
    cases = []
    for number in wrong[np.argsort(-surest[wrong], kind="stable")][:MAX_ERRORS].tolist():
        example, prediction = examples[number], predictions[number]
        extra = [label for label in prediction.label if label not in labels[number]]
        missed = [label for label in labels[number] if label not in prediction.label]
        head = [(f"said {label}, {prediction.probabilities[label]:.0%}", "guess") for label in extra]
        head += [(f"missed {label}, {prediction.probabilities[label]:.0%}", "truth") for label in missed]
        cases.append(case(head, f"<p>{shortened(example.text)}</p>", place=place_of(example.place)))
    told = (
        f"{len(wrong):,} of {len(examples):,} texts have at least one wrong label; these are the ones it was surest of."
    )
    return [
        _label_table(task.labels, truth, guess),
        '<div class="columns">',
        calibration(
            confidence.ravel().tolist(), (truth == guess).ravel().tolist(), what="single decisions", fitted=False
        ),
        by_length(
            [len(example.text.split()) for example in examples],
            (truth == guess).all(axis=1).tolist(),
            "Short texts and long ones: all labels right",
        ),
        "</div>",
        section("Most confident errors", soft(told), *cases) if cases else section("Errors", "<p>There are none.</p>"),
    ]


# -- options -----------------------------------------------------------------------------------------------------------


def _choices(result: Result, predict: Predict | None) -> list[str]:
    examples = cast(Sequence[ChoiceExample], result.examples)
    predictions = cast(Sequence[ChoicePrediction], result.predictions)
    right = [example.label == prediction.option for example, prediction in zip(examples, predictions, strict=True)]
    sure = [prediction.probabilities[prediction.option] for prediction in predictions]
    most = max(len(example.options) for example in examples)
    places = [
        (
            f"option {place + 1}",
            f"{sum(example.label == place for example in examples):,}",
            f"{sum(prediction.option == place for prediction in predictions):,}",
        )
        for place in range(most)
    ]
    wrong = sorted((number for number, fine in enumerate(right) if not fine), key=lambda number: -sure[number])
    cases = []
    for number in wrong[:MAX_ERRORS]:
        example, prediction = examples[number], predictions[number]
        items = []
        for place, option in enumerate(example.options):
            kind = "truth" if place == example.label else "guess" if place == prediction.option else ""
            note = f" <small>{prediction.probabilities[place]:.0%}</small>"
            items.append(f'<li class="{kind}">{shortened(option)}{note}</li>')
        head = [
            (f"said {prediction.option + 1}, {sure[number]:.0%} sure", "guess"),
            (f"is {cast(int, example.label) + 1}", "truth"),
        ]
        listed = f'<ol class="options">{"".join(items)}</ol>'
        cases.append(case(head, f"<p>{shortened(example.text)}</p>", listed, place=place_of(example.place)))
    told = f"{len(wrong):,} of {len(examples):,} are wrong; these are the ones it was surest of."
    return [
        '<div class="columns">',
        calibration(sure, right),
        by_length(
            [len(example.text.split()) + max(len(o.split()) for o in example.options) for example in examples],
            right,
            "Short texts and long ones: share that is right",
        ),
        "</div>",
        section("Where the right option stands", table(places, header=["", "is right", "was chosen"], numbers=True)),
        section("Most confident errors", soft(told), *cases) if cases else section("Errors", "<p>There are none.</p>"),
    ]
