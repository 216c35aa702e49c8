"""`report.html` of a fine-tuning: how good the model is, beside what; where it goes wrong; how it got there.

The page stands alone (`bertworks.page`). What every task has is here; what is special to one (confusions of labels,
missed entities, wrong answers) is in `report_labels`, `report_spans` and `report_numbers`, all of them lists of sections.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from bertworks.config import dotted
from bertworks.finetune import report_labels, report_numbers, report_spans
from bertworks.finetune.baseline import TITLES
from bertworks.finetune.report_labels import Predict as Predict
from bertworks.finetune.result import Result
from bertworks.page import bars, curves, document, facts, folded, section, soft, table
from bertworks.train.figures import full, is_share, shown
from bertworks.train.log import HELD_OUT

DOES = {
    "classify": "classify texts",
    "pair": "classify pairs of texts",
    "regress": "give texts a number",
    "choice": "choose among options",
    "tag": "tag words",
    "qa": "answer questions from a text",
    "similarity": "tell how similar texts are",
}
FEW_TO_JUDGE = 8
"""Fewer development examples than this tell nothing."""
SURE = 1.96  # standard errors: 95 %


def report(result: Result, predict: Predict | None = None) -> str:
    """The page. With `predict`, the saved model on any examples, the words of errors show what they contribute."""
    return document(
        f"Fine-tuning report: {result.name}",
        f"<h1>{escape(result.name)}</h1>",
        soft(about(result)),
        facts(headline(result)),
        section("How good it is", *_quality(result)),
        *_details(result, predict),
        section(
            "Cross-validation" if _cross(result) else "How it got there",
            f'<div class="columns">{"".join(_curves(result))}</div>',
            *_seeds(result),
        ),
        section("Data", *(f"<p>{escape(sentence)}</p>" for sentence in result.understood or [result.data])),
        section("Settings", folded("every setting", table(flat(result.settings))), *_search(result)),
        soft(
            "Machines read metrics.json and predictions.jsonl, beside this page; config.toml makes the same run again."
        ),
    )


def about(result: Result) -> str:
    """One sentence: what was done with what."""
    shape = f" ({result.described})" if result.described else ""
    return (
        f"{result.model}{shape}, trained to {DOES[result.task.name]} on {result.num_train:,} examples "
        f"and judged by {result.num_dev:,} others. Made with Bertworks."
    )


def headline(result: Result) -> list[tuple[str, str]]:
    """(value, what it is): the few numbers that matter most."""
    metric = result.task.metric
    numbers = []
    if metric in result.figures:
        numbers.append((with_spread(metric, result.figures, result.spread), full(metric)))
    best = result.best_baseline
    if best is not None:
        numbers.append((shown(metric, best[1]), f"baseline: {TITLES.get(best[0], best[0])}"))
    if result.test.get(metric) is not None:
        numbers.append((with_spread(metric, result.test, result.test_spread), f"{full(metric)} on the test file"))
    if result.parameters:
        some = result.trained_parameters < result.parameters
        trained = f", {_millions(result.trained_parameters)} of them trained" if some else ""
        numbers.append((_millions(result.parameters), f"parameters{trained}"))
    if result.seconds:
        seeds = f", {len(result.runs)} seeds" if len(result.runs) > 1 else ""
        numbers.append((_duration(result.seconds), f"training{seeds}"))
    return numbers


def with_spread(name: str, figures: Mapping[str, float], spread: Mapping[str, float]) -> str:
    """`88.3% ± 0.4`; of one training, `88.3%`."""
    value = shown(name, figures[name])
    if name not in spread:
        return value
    return f"{value} ± {100 * spread[name]:.1f}" if is_share(name) else f"{value} ± {spread[name]:.2g}"


def warning(result: Result) -> str | None:
    """A sentence where the model is not clearly better than a simple one; None where it is."""
    best, metric = result.best_baseline, result.task.metric
    if best is None or metric not in result.figures:
        return None
    value, name = result.figures[metric], TITLES.get(best[0], best[0])
    compared = f"the model {shown(metric, value)}, {name} {shown(metric, best[1])}"
    if result.num_dev < FEW_TO_JUDGE and result.task.name != "tag":  # whose examples have many words each
        count = (
            "one development example tells" if result.num_dev == 1 else f"{result.num_dev} development examples tell"
        )
        return f"{count.capitalize()} next to nothing ({compared}). Give more of them."
    if is_share(metric) and value == best[1] == 1.0:
        return f"The development examples are too easy to tell the model from a simple one ({compared})."
    if value <= best[1]:
        advice = (
            "Its vectors as they are do not tell what is asked: fine-tune it, or take another model."
            if _cross(result)
            else "It has not learnt what it should: look at the training loss, try more epochs or another learning rate, "
            "and check that the labels are right."
        )
        return f"The model is no better than a simple one ({compared}). {advice}"
    if value - best[1] <= result.spread.get(metric, 0.0):
        return (
            f"The lead over a simple model ({compared}) is no larger than what the seed alone changes. "
            "More training examples, more epochs or another model may help."
        )
    if math.isfinite(noise := _noise(result)) and value - best[1] < noise:
        return (
            f"The lead over a simple model ({compared}) is within what chance does on "
            f"{result.num_dev:,} examples. More development examples would tell."
        )
    return None


def flat(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nested settings as rows (`train.optimizer.learning_rate`, value); what is not set is left out."""
    return [(name, str(value)) for name, value in dotted(values) if value is not None and value != ()]


# -- sections ----------------------------------------------------------------------------------------------------------


def _quality(result: Result) -> list[str]:
    if not result.figures:
        return [soft("There were no development examples to judge by.")]
    metric = result.task.metric
    parts = []
    told = warning(result)
    if told:
        parts.append(f'<p class="warning">{escape(told)}</p>')
    rows = [("this model", result.figures[metric])] if metric in result.figures else []
    rows += [
        (TITLES.get(name, name), figures[metric]) for name, figures in result.baseline.items() if metric in figures
    ]
    if rows and all(-1.0 <= value <= 1.0 for _, value in rows):
        parts += [f'<p class="query">{escape(full(metric))}</p>', bars(rows, percent=is_share(metric))]
    parts.append(table(_figure_rows(result), header=_figure_header(result), numbers=True))
    noise = _noise(result)
    notes = []
    if math.isfinite(noise):
        notes.append(
            f"With {result.num_dev:,} examples, {full(metric)} is known to about ± {100 * noise:.1f} points "
            "(95 %), whatever the seed."
        )
    if result.spread:
        notes.append(f"± is the standard deviation between {len(result.runs)} seeds.")
    return [*parts, soft(" ".join(notes))] if notes else parts


def _figure_header(result: Result) -> list[str]:
    test = ["on the test file"] if result.test else []
    return ["", "this model", *test, *(TITLES.get(name, name) for name in result.baseline)]


def _figure_rows(result: Result) -> list[list[str]]:
    rows = []
    for name in result.figures:
        row = [full(name), with_spread(name, result.figures, result.spread)]
        if result.test:
            row.append(with_spread(name, result.test, result.test_spread) if name in result.test else "–")
        row += [shown(name, figures[name]) if name in figures else "–" for figures in result.baseline.values()]
        rows.append(row)
    return rows


def _noise(result: Result) -> float:
    """Half the width of a 95 % interval of a share of the development examples; nan for figures that are none."""
    metric = result.task.metric
    is_plain = metric == "accuracy" and result.task.name in ("classify", "pair", "choice")
    # An answer's F1 is between 0 and 1, and its mean no less certain than a share.
    if not (is_plain or result.task.name == "qa") or not result.num_dev:
        return math.nan
    value = min(max(result.figures[metric], 0.5 / result.num_dev), 1 - 0.5 / result.num_dev)
    return SURE * math.sqrt(value * (1 - value) / result.num_dev)


def _details(result: Result, predict: Predict | None) -> list[str]:
    """What is special to the task, from the saved model's predictions."""
    if not result.predictions:
        return []
    name = result.task.name
    if name in ("classify", "pair", "choice"):
        return report_labels.sections(result, predict)
    if name in ("tag", "qa"):
        return report_spans.sections(result)
    return report_numbers.sections(result, predict)


def _curves(result: Result) -> list[str]:
    several = len(result.runs) > 1

    def lines_of(name: str, label: str = "") -> dict[str, list[tuple[float, float]]]:
        return {
            f"seed {run.seed}" if several else label or name: [
                (float(line["step"]), float(line[name])) for line in run.lines if line.get(name) is not None
            ]
            for run in result.runs
        }

    metric = result.task.metric
    kept = [result.runs[result.kept]] if result.runs else []
    rates = {
        "learning rate": [
            (float(line["step"]), float(line["learning_rate"]))
            for run in kept
            for line in run.lines
            if line.get("learning_rate") is not None
        ]
    }
    judged = lines_of(HELD_OUT + metric, full(metric))
    if max(map(len, judged.values()), default=0) < 2:  # one evaluation is no curve
        judged = {}
    found = [
        curves("Training loss", lines_of("loss")),
        curves(
            f"{full(metric)[:1].upper()}{full(metric)[1:]} on the development examples",
            judged,
            percent=is_share(metric),
        ),
        curves("Learning rate", rates),
    ]
    return [curve for curve in found if curve]


def _cross(result: Result) -> Mapping[str, Any]:
    """The cross-validation of a head on frozen vectors."""
    return result.runs[result.kept].frozen if result.runs else {}


def _seeds(result: Result) -> list[str]:
    cross = _cross(result)
    if cross:
        metric = str(cross["metric"])
        folds = [(f"fold {number}", shown(metric, value)) for number, value in enumerate(cross["folds"], start=1)]
        mean = with_spread(metric, {metric: cross["mean"]}, {metric: cross["std"]})
        return [
            table([("cross-validation", mean), *folds], header=["", full(metric)], numbers=True),
            soft(
                f"A head by scikit-learn on frozen vectors; its {cross['knob']}, {cross['strength']:.2g}, did best on "
                "the folds."
            ),
        ]
    if len(result.runs) < 2:
        return []
    metric = result.task.metric
    rows = [
        (
            f"seed {run.seed}" + (" (saved)" if number == result.kept else ""),
            shown(metric, run.figures[metric]) if metric in run.figures else "–",
            f"{run.steps:,}",
            f"{run.best_step:,}" if run.best_step is not None else "the last",
            _duration(run.seconds),
        )
        for number, run in enumerate(result.runs)
    ]
    return [table(rows, header=["", full(metric), "steps", "step kept", "time"], numbers=True)]


def _search(result: Result) -> list[str]:
    if not result.search:
        return []
    names = list(dict.fromkeys(name for trial in result.search for name in trial["settings"]))
    rows = [
        [
            f"trial {trial['number']}",
            shown(result.task.metric, trial["value"]) if trial.get("value") is not None else str(trial.get("state")),
            *(f"{trial['settings'].get(name, '')}"[:12] for name in names),
        ]
        for trial in sorted(
            result.search, key=lambda trial: -math.inf if trial.get("value") is None else trial["value"], reverse=True
        )
    ]
    return [f'<p class="query">Search</p>{table(rows, header=["", full(result.task.metric), *names], numbers=True)}']


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f} M" if count >= 100_000 else f"{count:,}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
