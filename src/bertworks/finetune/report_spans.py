"""The report's sections on tags and answers: kinds of errors, figures per label and question, texts with marks.

In a text, what should have been found is underlined (truth), what was found has a background (guess).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from bertworks.data.labelled.examples import QuestionExample, TaggedExample
from bertworks.finetune.report_labels import MAX_ERRORS, MAX_MAP, by_length, calibration, place_of
from bertworks.finetune.result import Result
from bertworks.page import Mark, bars, case, heat_map, marked, section, soft, table
from bertworks.tasks.answers import Answering
from bertworks.tasks.metrics import entities, squad
from bertworks.tasks.metrics.classification import confusion, per_label
from bertworks.tasks.metrics.entities import Span
from bertworks.tasks.predictions import AnswerPrediction, TagPrediction
from bertworks.tasks.tagging import Tagging
from bertworks.tasks.tags import spans_of, to_bio
from bertworks.tasks.words import joined

AROUND = 160
"""Characters of a context that are shown before and after an answer."""
ASKING = ("who", "what", "when", "where", "which", "why", "how")
READABLE = 14
LEGEND = "Underlined in green: what it is. On orange: what was said."


def sections(result: Result) -> list[str]:
    """For tag and qa."""
    if isinstance(result.task, Tagging):
        return _tags(result, result.task)
    assert isinstance(result.task, Answering)
    return _answers(result, result.task)


# -- tags --------------------------------------------------------------------------------------------------------------


class Mistakes(NamedTuple):
    """One sentence's spans that are not right."""

    missed: list[Span]
    """True ones of which nothing was found."""
    invented: list[Span]
    """Predicted ones where there is nothing."""
    mislabelled: list[tuple[Span, Span]]
    """(true, predicted): the right words with another label."""
    misplaced: list[tuple[Span, Span]]
    """(true, predicted): they overlap, but do not begin and end together."""


def mistakes(truth: Sequence[Span], guess: Sequence[Span]) -> Mistakes:
    """Sort the wrong spans of a sentence by what is wrong with them."""
    right = set(truth) & set(guess)
    true, given = [s for s in truth if s not in right], [s for s in guess if s not in right]
    mislabelled = [(t, g) for t in true for g in given if (t.first, t.stop) == (g.first, g.stop)]
    done = {span for pair in mislabelled for span in pair}
    misplaced: list[tuple[Span, Span]] = []
    for span in true:
        over = [g for g in given if g not in done and g.first < span.stop and span.first < g.stop]
        if span not in done and over:
            misplaced.append((span, over[0]))
    done |= {span for pair in misplaced for span in pair}
    return Mistakes([s for s in true if s not in done], [s for s in given if s not in done], mislabelled, misplaced)


def _tags(result: Result, task: Tagging) -> list[str]:
    examples = cast(Sequence[TaggedExample], result.examples)
    predictions = cast(Sequence[TagPrediction], result.predictions)
    true = [to_bio(example.tags or (), task.scheme) for example in examples]
    right = [t == g for tags, p in zip(true, predictions, strict=True) for t, g in zip(tags, p.tags, strict=True)]
    sure = [probability for prediction in predictions for probability in prediction.probabilities]
    whole = [float(tags == prediction.tags) for tags, prediction in zip(true, predictions, strict=True)]
    first = _tag_labels(task, true, predictions) if task.scheme == "plain" else _entities(true, predictions)
    return [
        *first,
        '<div class="columns">',
        calibration(sure, right, what="single words"),
        by_length([len(tags) for tags in true], whole, "Short sentences and long ones: all tags right"),
        "</div>",
        _tag_errors(task, examples, predictions, true),
    ]


def _entities(true: Sequence[tuple[str, ...]], predictions: Sequence[TagPrediction]) -> list[str]:
    truth = [spans_of(tags, "bio") for tags in true]
    guess = [spans_of(prediction.tags, "bio") for prediction in predictions]
    scores = entities.score(truth, guess)
    rows = [
        (
            name,
            f"{score.precision:.1%}",
            f"{score.recall:.1%}",
            f"{score.f1:.1%}",
            f"{score.support:,}",
            f"{score.predicted:,}",
        )
        for name, score in [*scores.labels.items(), ("all", scores.overall)]
    ]
    found = [mistakes(t, g) for t, g in zip(truth, guess, strict=True)]
    kinds = [
        ("found, label and all words right", f"{scores.overall.right:,}"),
        ("right words, another label", f"{sum(len(one.mislabelled) for one in found):,}"),
        ("overlapping, not the same words", f"{sum(len(one.misplaced) for one in found):,}"),
        ("missed", f"{sum(len(one.missed) for one in found):,}"),
        ("found where there is nothing", f"{sum(len(one.invented) for one in found):,}"),
    ]
    mixed = Counter((t.label, g.label) for one in found for t, g in one.mislabelled)
    pairs = [(t, g, f"{count:,}") for (t, g), count in mixed.most_common(8)]
    return [
        section(
            "Label by label",
            table(rows, header=["", "precision", "recall", "F1", "there", "said"], numbers=True),
            soft("A span counts as found only where its label, first and last word are all right."),
        ),
        '<div class="columns">',
        section("Kinds of errors", table(kinds, numbers=True)),
        section("Most often mixed up", table(pairs, header=["is", "taken for", "times"], numbers=True))
        if pairs
        else "",
        "</div>",
    ]


def _tag_labels(task: Tagging, true: Sequence[tuple[str, ...]], predictions: Sequence[TagPrediction]) -> list[str]:
    names = sorted({tag for tags in true for tag in tags} | set(task.labels))
    numbers = {name: number for number, name in enumerate(names)}
    truth = np.array([numbers[tag] for tags in true for tag in tags], np.int64)
    guess = np.array([numbers[tag] for prediction in predictions for tag in prediction.tags], np.int64)
    scores = per_label(truth, guess, len(names))
    rows = [
        (name, f"{scores.precision[n]:.1%}", f"{scores.recall[n]:.1%}", f"{scores.f1[n]:.1%}", f"{scores.support[n]:,}")
        for n, name in enumerate(names)
        if scores.support[n] or scores.predicted[n]
    ]
    parts = [section("Tag by tag", table(rows, header=["", "precision", "recall", "F1", "there are"], numbers=True))]
    if len(names) <= MAX_MAP:
        counts = confusion(truth, guess, len(names)).tolist()
        parts.insert(0, section("What is taken for what", heat_map(names, counts, numbers=len(names) <= READABLE)))
    return parts


def _tag_errors(
    task: Tagging,
    examples: Sequence[TaggedExample],
    predictions: Sequence[TagPrediction],
    true: Sequence[tuple[str, ...]],
) -> str:
    surest = []
    for number, (tags, prediction) in enumerate(zip(true, predictions, strict=True)):
        wrong = [sure for t, g, sure in zip(tags, prediction.tags, prediction.probabilities, strict=True) if t != g]
        if wrong:
            surest.append((max(wrong), number))
    cases = []
    for sure, number in sorted(surest, key=lambda entry: -entry[0])[:MAX_ERRORS]:
        example, prediction = examples[number], predictions[number]
        text, offsets = joined(example.words)
        if example.text is not None and example.offsets is not None:
            text, offsets = example.text, example.offsets
        marks = []
        for kind, spans in _wrong_spans(task, true[number], prediction.tags):
            for label, first, stop in spans:
                start, end = offsets[first][0], offsets[stop - 1][1]
                what = "is" if kind == "truth" else "said"
                marks.append(Mark(start, end, kind, f"{what} {label}", note=f"{what} {label}"))
        cases.append(
            case([(f"{sure:.0%} sure", "guess")], f"<p>{marked(text, marks)}</p>", place=place_of(example.place))
        )
    if not cases:
        return section("Errors", "<p>There are none.</p>")
    told = (
        f"{len(surest):,} of {len(examples):,} sentences have an error; these are the ones it was surest of. {LEGEND}"
    )
    return section("Most confident errors", soft(told), *cases)


def _wrong_spans(task: Tagging, true: tuple[str, ...], guess: tuple[str, ...]) -> list[tuple[str, list[Span]]]:
    if task.scheme == "plain":
        wrong = [place for place in range(len(true)) if true[place] != guess[place]]
        return [
            ("truth", [Span(true[place], place, place + 1) for place in wrong]),
            ("guess", [Span(guess[place], place, place + 1) for place in wrong]),
        ]
    truth, given = spans_of(true, "bio"), spans_of(guess, "bio")
    return [("truth", [s for s in truth if s not in given]), ("guess", [s for s in given if s not in truth])]


# -- answers -----------------------------------------------------------------------------------------------------------


def _answers(result: Result, task: Answering) -> list[str]:
    examples = cast(Sequence[QuestionExample], result.examples)
    predictions = cast(Sequence[AnswerPrediction], result.predictions)
    allowed = [[answer.text for answer in example.answers or ()] for example in examples]
    rules: squad.Rules = "2.0" if task.unanswerable or not all(allowed) else "1.1"
    scores = squad.score(allowed, [prediction.text for prediction in predictions], rules)
    kinds = np.array([_asks(example.question) for example in examples])
    by_kind = [
        (f"{kind} ({(kinds == kind).sum():,})", float(scores.f1s[kinds == kind].mean()))
        for kind in (*ASKING, "other")
        if (kinds == kind).any()
    ]
    parts = ['<div class="columns">', section("F1 by what is asked", bars(by_kind))]
    has = scores.answerable
    if has.any():
        lengths = [min(len(texts[0].split()), 99) if texts else 0 for texts in allowed]
        own = np.flatnonzero(has)
        parts.append(by_length([lengths[n] for n in own], scores.f1s[own].tolist(), "Short answers and long ones: F1"))
    parts.append("</div>")
    if not has.all():
        said = np.array([bool(prediction.text) for prediction in predictions])
        counts = [[int((a & b).sum()) for b in (said, ~said)] for a in (has, ~has)]
        parts.append(section("Is there an answer?", heat_map(["answer", "no answer"], counts)))
    sure = [prediction.probability for prediction in predictions]
    return [
        *parts,
        '<div class="columns">',
        calibration(sure, (scores.exact_matches > 0).tolist(), what="answers", fitted=False),
        by_length(
            [len(example.context.split()) for example in examples], scores.f1s.tolist(), "Short texts and long ones: F1"
        ),
        "</div>",
        _answer_errors(examples, predictions, scores),
    ]


def _asks(question: str) -> str:
    lowered = question.lower().split()
    return next((word for word in lowered if word in ASKING), "other")


def _answer_errors(
    examples: Sequence[QuestionExample], predictions: Sequence[AnswerPrediction], scores: squad.SquadScores
) -> str:
    wrong = np.flatnonzero(scores.f1s == 0)
    wrong = wrong[np.argsort([-predictions[number].probability for number in wrong.tolist()], kind="stable")]
    cases = []
    for number in wrong[:MAX_ERRORS].tolist():
        example, prediction = examples[number], predictions[number]
        marks = [Mark(answer.start, answer.start + len(answer.text), "truth", "is") for answer in example.answers or ()]
        if prediction.text:
            marks.append(Mark(prediction.start, prediction.end, "guess", f"said, {prediction.probability:.0%} sure"))
        said = prediction.text or "no answer"
        truth = example.answers[0].text if example.answers else "no answer"
        head = [(f"said {said}, {prediction.probability:.0%} sure", "guess"), (f"is {truth}", "truth")]
        text = _excerpt(example.context, marks)
        question = f'<p class="query">{marked(example.question, [])}</p>'
        cases.append(case(head, question, f"<p>{text}</p>", place=example.group or place_of(example.place)))
    if not cases:
        return section("Errors", "<p>No answer is wholly wrong.</p>")
    told = (
        f"{len(wrong):,} of {len(examples):,} answers share no word with the right one; these are the surest. {LEGEND}"
    )
    return section("Most confident errors", soft(told), *cases)


def _excerpt(context: str, marks: Sequence[Mark]) -> str:
    """The context around the marks, with dots where something is left out."""
    parts: list[tuple[int, int]] = []
    for mark in sorted(marks, key=lambda mark: mark.start) or [Mark(0, AROUND, "")]:
        low, high = max(0, mark.start - AROUND), min(len(context), mark.end + AROUND)
        if parts and low <= parts[-1][1]:
            parts[-1] = (parts[-1][0], max(high, parts[-1][1]))
        else:
            parts.append((low, high))
    shown = []
    for low, high in parts:
        low = 0 if low == 0 else context.find(" ", low, low + 40) + 1 or low  # whole words
        high = high if high == len(context) else max(context.rfind(" ", high - 40, high), high - 40)
        inside = [m._replace(start=m.start - low, end=m.end - low) for m in marks if low <= m.start and m.end <= high]
        shown.append(("… " if low else "") + marked(context[low:high], inside))
    return " ".join(shown) + (" …" if parts[-1][1] < len(context) else "")
