"""The demo's results as one HTML file: no script, nothing fetched, light and dark, narrow and wide screens.

The map is drawn as SVG: the two principal components of the messages' vectors, a mark per message, coloured by its
label and hollow where the classifier took it for another one. Hover over a mark to read its message.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from bertworks.cli.demo_finetune import FineTuned
from bertworks.cli.demo_steps import Classes, LongText, ModelFacts, Results, Search, TokenRow
from bertworks.page import NUM_COLOURS, bars, document, facts, section, soft

MAP_WIDTH, MAP_HEIGHT, MARGIN = 720, 420, 14


def page(results: Results) -> str:
    """The whole page."""
    name = escape(results.model.name)
    body = [
        f"<h1>What {name} learns and sees</h1>",
        '<p class="soft">Made by <code>bertworks demo</code> on this computer, from texts written for it.</p>',
        _facts(results.model),
        _fine_tuned_section(results.fine_tuned),
        _map_section(results.points, results.classes, results.model.hidden_size),
        '<div class="columns">',
        _classes_section(results.classes),
        section(
            "Which layer?",
            bars((row.layers, row.accuracy) for row in results.layers),
            soft("The same head on vectors from other layers."),
        ),
        "</div>",
        section("Search by meaning", *(_search(search) for search in results.searches)),
        section(
            "Tokens and where they stand",
            f"<p>{escape(results.sentence)}</p>",
            _tokens(results.tokens),
            soft(
                "Above, the token; below, the characters of the text as it was written, coloured where the two differ, "
                "and their places."
            ),
        ),
        _long_section(results.long_text),
    ]
    return document(f"Bertworks demo: {results.model.name}", *body)


def _facts(model: ModelFacts) -> str:
    numbers = [
        (f"{model.num_parameters / 1e6:.1f} M", "parameters"),
        (f"{model.num_layers} × {model.hidden_size}", "layers × width"),
        ("no limit" if model.window is None else f"{model.window:,} tokens", "window"),
        (f"{model.texts_per_second:,.0f} / s", "short texts, measured here"),
    ]
    return facts(numbers)


def _fine_tuned_section(found: FineTuned) -> str:
    answers = "".join(
        f"<li><b>{answer.probability:.0%}</b><span>{escape(answer.text)} <b>{escape(answer.label)}</b></span></li>"
        for answer in found.answers
    )
    page = escape("/".join(Path(found.report).parts[-2:]), quote=True)  # beside this page
    return section(
        "Fine-tuned to sort messages",
        bars(found.rows),
        soft(
            f"Accuracy on {found.num_dev} messages that it has not seen, after {found.num_train} others and "
            f"{found.seconds:.0f} seconds. New messages, and how sure it is:"
        ),
        f'<ol class="hits plain">{answers}</ol>',
        f'<p><a href="{page}">The report</a> shows what it takes for what, how sure it is, and its errors word by word. '
        f"By hand: <code>{escape(found.command)}</code></p>",
    )


def _map_section(points: np.ndarray, classes: Classes, hidden_size: int) -> str:
    return section(
        f"A map of {classes.num_texts} messages",
        _map(points, classes),
        _legend(classes),
        soft(
            "Each mark is a message; near ones mean similar things. The map keeps two of "
            f"{hidden_size} directions (the principal components); the classifier sees them all."
        ),
    )


def _map(points: np.ndarray, classes: Classes) -> str:
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.array([MAP_WIDTH - 2 * MARGIN, MAP_HEIGHT - 2 * MARGIN])
    places = MARGIN + (points - low) / np.maximum(high - low, 1e-9) * room  # (n, 2)
    marks = []
    for (x, y), row in zip(places, classes.predictions, strict=True):
        colour = f"var(--c{classes.labels.index(row.label) % NUM_COLOURS})"
        wrong = row.predicted != row.label
        title = f"{row.label}: {row.text}" + (f" (taken for {row.predicted})" if wrong else "")
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{"var(--card)" if wrong else colour}" stroke="{colour}" '
            f'stroke-width="2" fill-opacity=".75"><title>{escape(title)}</title></circle>'
        )
    label = f"Map of {classes.num_texts} messages by meaning, coloured by label"
    return (
        f'<svg viewBox="0 0 {MAP_WIDTH} {MAP_HEIGHT}" role="img" aria-label="{label}">\n' + "\n".join(marks) + "</svg>"
    )


def _legend(classes: Classes) -> str:
    items = "".join(
        f'<li><i style="color:var(--c{index % NUM_COLOURS})"></i>{escape(label)}</li>'
        for index, label in enumerate(classes.labels)
    )
    return f'<ul class="legend">{items}<li><i class="hollow"></i>taken for another</li></ul>'


def _classes_section(classes: Classes) -> str:
    rows = [
        ("frozen vectors", classes.accuracy),
        ("TF-IDF words", classes.tfidf_accuracy),
        ("most frequent label", classes.majority_accuracy),
    ]
    note = f"Logistic regression, accuracy over five folds (±\u00a0{classes.spread:.1%} between folds)."
    if classes.mixed_up_count:
        note += f" Most mixed up: {' and '.join(classes.mixed_up)}, {classes.mixed_up_count} times."
    return section("Labels from frozen vectors", bars(rows), soft(note))


def _search(search: Search) -> str:
    hits = "".join(f"<li><b>{hit.score:.2f}</b><span>{escape(hit.text)}</span></li>" for hit in search.hits)
    return f'<p class="query">{escape(search.query)}</p><ol class="hits">{hits}</ol>'


def _tokens(rows: Sequence[TokenRow]) -> str:
    items = []
    for row in rows:
        kind = "same" if row.token.removeprefix("##") == row.original else "other"
        items.append(
            f'<li><code>{escape(row.token)}</code><code class="{kind}">{escape(row.original)}</code>'
            f"<small>{row.start}–{row.end}</small></li>"
        )
    return f'<ul class="tokens">{"".join(items)}</ul>'


def _long_section(found: LongText) -> str:
    parts = [f"<p>{found}. Nothing was cut off.</p>"]
    if found.num_windows > 1:
        rows = [("the whole text", found.score_whole), ("its first window", found.score_first_window)]
        parts += [
            f'<p class="query">{escape(found.question)}</p>',
            bars(rows, percent=False),
            soft(
                f"The answer stands near the end; the first window holds {found.share_in_first:.0%} of the words, "
                "and is all that is left where texts are cut."
            ),
        ]
    return section("A text longer than the window", *parts)
