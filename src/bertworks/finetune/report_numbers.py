"""The report's sections on numbers and similarities: predicted against true, where the differences are, the largest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import cast

import numpy as np

from bertworks.data.labelled.examples import SimilarityExample, TextExample
from bertworks.finetune.report_labels import MAX_ERRORS, MAX_WORDS, WORD, Predict, groups_of, place_of, shortened, weigh
from bertworks.finetune.result import Result
from bertworks.page import bars, case, marked, scatter, section, soft, table
from bertworks.tasks.metrics.ranking import ranks
from bertworks.tasks.predictions import NumberPrediction, SimilarityPrediction

MAX_POINTS = 800


def sections(result: Result, predict: Predict | None) -> list[str]:
    """For regress and similarity."""
    if result.task.name == "regress":
        return _numbers(result, predict)
    examples = cast(Sequence[SimilarityExample], result.examples)
    if examples[0].score is not None:
        return _scored(examples, cast(Sequence[SimilarityPrediction], result.predictions))
    return _ranked(examples, cast(Sequence[SimilarityPrediction], result.predictions))


def _span(values: np.ndarray) -> str:
    """`1.5–2.8 (120)`: from where to where a group reaches, and how many it has."""
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    return f"{low if low == high else f'{low}–{high}'} ({len(values):,})"


def _points(xs: Sequence[float], ys: Sequence[float], texts: Sequence[str]) -> list[tuple[float, float, str]]:
    chosen = range(0, len(xs), max(1, -(-len(xs) // MAX_POINTS)))
    return [(xs[n], ys[n], f"{xs[n]:.3g} → {ys[n]:.3g}: {texts[n][:120]}") for n in chosen]


# -- regress -----------------------------------------------------------------------------------------------------------


def _numbers(result: Result, predict: Predict | None) -> list[str]:
    examples = cast(Sequence[TextExample], result.examples)
    truth = np.array([cast(float, example.label) for example in examples], np.float64)
    guess = np.array([cast(NumberPrediction, prediction).value for prediction in result.predictions], np.float64)
    texts = [example.text for example in examples]
    lengths = np.array([len(example.text.split()) + len((example.pair or "").split()) for example in examples])
    scale = float(truth.std()) or 1.0
    cases = []
    for number in np.argsort(-np.abs(guess - truth), kind="stable")[:MAX_ERRORS].tolist():
        example = examples[number]
        first, second = _explained(example, float(guess[number]), scale, predict)
        body = [f"<p>{first}</p>"] + ([f"<p>{second}</p>"] if example.pair is not None else [])
        head = [(f"said {guess[number]:.3g}", "guess"), (f"is {truth[number]:.3g}", "truth")]
        cases.append(case(head, *body, place=place_of(example.place)))
    legend = " Orange words raise the prediction, green ones lower it." if predict is not None else ""
    return [
        section(
            "Predicted and true",
            scatter(
                "Every dot is an example",
                _points(truth.tolist(), guess.tolist(), texts),
                across="true",
                up="predicted",
                one_scale=True,
            ),
        ),
        '<div class="columns">',
        section("From small numbers to large ones", _grouped(truth, truth, guess, "true value")),
        section("From short texts to long ones", _grouped(lengths, truth, guess, "words")),
        "</div>",
        section("Largest errors", soft(f"The examples that are farthest off.{legend}"), *cases),
    ]


def _grouped(by: np.ndarray, truth: np.ndarray, guess: np.ndarray, name: str) -> str:
    """Mean truth, mean prediction and mean error in groups of about equal size."""
    rows = []
    for own in groups_of(by):
        means = [f"{figure.mean():.3g}" for figure in (truth[own], guess[own], np.abs(guess[own] - truth[own]))]
        rows.append((_span(by[own]), *means))
    return table(rows, header=[name, "mean", "predicted", "mean error"], numbers=True)


def _explained(example: TextExample, value: float, scale: float, predict: Predict | None) -> tuple[str, str]:
    """Both texts, each word shaded by how much it raises the number, in deviations of all numbers."""
    texts = (example.text, example.pair or "")
    words = [(which, *match.span()) for which in (0, 1) for match in WORD.finditer(texts[which])]
    if predict is None or not 2 <= len(words) <= MAX_WORDS:
        return shortened(texts[0]), shortened(texts[1])
    variants = []
    for which, start, end in words:
        without = (texts[which][:start] + texts[which][end:]).replace("  ", " ")
        changed = replace(example, text=without) if which == 0 else replace(example, pair=without)
        variants.append(replace(changed, label=None))
    changes = [(value - cast(NumberPrediction, other).value) / scale for other in predict(variants)]
    marks = [(word, weigh(word[1], word[2], change)) for word, change in zip(words, changes, strict=True)]
    # Points are percent of a deviation here; the number itself says more.
    told = {
        word: mark._replace(title=f"{change * scale:+.2g}") for (word, mark), change in zip(marks, changes, strict=True)
    }
    first, second = (
        marked(text, [mark for word, mark in told.items() if word[0] == which]) for which, text in enumerate(texts)
    )
    return first, second


# -- similarity --------------------------------------------------------------------------------------------------------


def _pair(example: SimilarityExample) -> str:
    return "".join(f"<p>{escape(text[:400])}</p>" for text in example.texts[:2])


def _scored(examples: Sequence[SimilarityExample], predictions: Sequence[SimilarityPrediction]) -> list[str]:
    truth = np.array([cast(float, example.score) for example in examples], np.float64)
    cosines = np.array([prediction.similarity for prediction in predictions], np.float64)
    texts = [" / ".join(example.texts[:2]) for example in examples]
    apart = (ranks(cosines) - ranks(truth)) / len(truth)  # in places of all
    cases = []
    for number in np.argsort(-np.abs(apart), kind="stable")[:MAX_ERRORS].tolist():
        too = "too near" if apart[number] > 0 else "too far apart"
        head = [(f"cosine {cosines[number]:.2f}: {too}", "guess"), (f"score {truth[number]:.3g}", "truth")]
        cases.append(case(head, _pair(examples[number]), place=place_of(examples[number].place)))
    return [
        section(
            "Cosine and score",
            scatter(
                "Every dot is a pair", _points(truth.tolist(), cosines.tolist(), texts), across="score", up="cosine"
            ),
        ),
        section("From small scores to large ones", _grouped_cosines(truth, cosines)),
        section("Largest disagreements", soft("Pairs whose place in the order is farthest off."), *cases),
    ]


def _grouped_cosines(truth: np.ndarray, cosines: np.ndarray) -> str:
    rows = []
    for own in groups_of(truth):
        spread = f"{np.quantile(cosines[own], 0.1):.2f} to {np.quantile(cosines[own], 0.9):.2f}"
        rows.append((_span(truth[own]), f"{cosines[own].mean():.2f}", spread))
    return table(rows, header=["score", "mean cosine", "most of them"], numbers=True)


def _ranked(examples: Sequence[SimilarityExample], predictions: Sequence[SimilarityPrediction]) -> list[str]:
    places = np.array([prediction.rank or 1 for prediction in predictions])
    steps = [
        (f"among the first {step}" if step > 1 else "the nearest", float((places <= step).mean()))
        for step in (1, 3, 10)
    ]
    cases = []
    for number in np.argsort(-places, kind="stable")[:MAX_ERRORS].tolist():
        if places[number] == 1:
            break
        head = [(f"place {places[number]:,}, cosine {predictions[number].similarity:.2f}", "guess")]
        cases.append(case(head, _pair(examples[number]), place=place_of(examples[number].place)))
    return [
        section("Where the right text stands among all", bars(steps)),
        section("Hardest to find", soft("Pairs whose second text is farthest down."), *cases) if cases else "",
    ]
