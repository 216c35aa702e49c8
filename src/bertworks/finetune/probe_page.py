"""The study of layers as a page: the table, F1 over the layers, and what the learned sums chose."""

from __future__ import annotations

from html import escape

from bertworks.finetune.probe import Row, Study
from bertworks.page import bars, curves, document, facts, folded, section, soft, table
from bertworks.train.figures import full, shown, words

NAMES = {"linear": "linear tagger", "bilstm": "BiLSTM tagger"}


def page(study: Study) -> str:
    """The whole page."""
    metric = study.metric
    best = max(study.rows, key=lambda row: row.mean(metric))
    numbers = [
        (shown(metric, best.mean(metric)), f"best {full(metric)}: {best.title}, {NAMES[best.tagger]}"),
        (f"{study.num_layers}", "layers"),
        (f"{study.num_train:,} / {study.num_dev:,}", "sentences: trained on / judged by"),
    ]
    return document(
        f"Which layer? {study.model}",
        f"<h1>Which layer of {escape(study.model)}?</h1>",
        soft(
            "Taggers on the frozen vectors of words: what each layer knows, and what several know together. "
            "Made with Bertworks."
        ),
        facts(numbers),
        section("The table", table(table_rows(study), header=header(study), numbers=True), soft(_note(study))),
        section(
            "Layer by layer",
            curves(
                f"{full(metric)[:1].upper()}{full(metric)[1:]} of single layers; 0 is the embeddings",
                {
                    NAMES[kind]: [
                        (float(row.layers), row.mean(metric))
                        for row in study.rows
                        if row.tagger == kind and row.layers.isdigit()
                    ]
                    for kind in kinds(study)
                },
                percent=True,
                over="the layers",
                dots=True,
            ),
        ),
        *_weights(study),
        section(
            "Data and settings",
            *(f"<p>{escape(sentence)}</p>" for sentence in study.understood),
            folded(
                "the taggers",
                table([[str(value) for value in tagger.values()] for tagger in study.taggers], header=_fields(study)),
            ),
        ),
        soft("Machines read probe.json beside this page."),
    )


def kinds(study: Study) -> list[str]:
    """The kinds of taggers, in their order."""
    return list(dict.fromkeys(row.tagger for row in study.rows))


def header(study: Study) -> list[str]:
    """Of the table: what is read, then a column per tagger."""
    return [f"{full(study.metric)} on the development sentences", *(NAMES[kind] for kind in kinds(study))]


def table_rows(study: Study) -> list[list[str]]:
    """A row for each layer or combination; the best of each column has a star."""
    found = {(row.layers, row.tagger): row for row in study.rows}
    best = {
        kind: max((row.mean(study.metric) for row in study.rows if row.tagger == kind), default=0.0)
        for kind in kinds(study)
    }
    titles = {row.layers: row.title for row in study.rows}
    return [
        [title, *(_cell(found.get((name, kind)), study.metric, best[kind]) for kind in kinds(study))]
        for name, title in titles.items()
    ]


def _cell(row: Row | None, metric: str, best: float) -> str:
    if row is None:
        return "–"
    value, spread = row.mean(metric), row.spread(metric)
    return (
        f"{100 * value:.2f}"
        + (f" ± {100 * spread:.2f}" if spread is not None else "")
        + (" *" if value == best else "")
    )


def _note(study: Study) -> str:
    seeds = f"; ± between {len(study.seeds)} seeds" if len(study.seeds) > 1 else ""
    token = "its first token" if study.words == "first" else "the mean of its tokens"
    return (
        f"In percent{seeds}; * the best of a column. A word's vector is that of {token}. "
        "The taggers' last weights count: none were chosen by the development sentences."
    )


def _weights(study: Study) -> list[str]:
    learned = [row for row in study.rows if row.weights]
    if not learned:
        return []
    parts = []
    for row in learned:
        first = study.num_layers - len(row.weights) + 1
        parts.append(f'<div><p class="query">{escape(row.title)}, {escape(NAMES[row.tagger])}</p>')
        parts.append(bars((f"layer {first + n}", weight) for n, weight in enumerate(row.weights)))
        parts.append("</div>")
    return [section("What the learned sums chose", f'<div class="columns">{"".join(parts)}</div>')]


def _fields(study: Study) -> list[str]:
    return [words(name) for name in (study.taggers[0] if study.taggers else {})]
