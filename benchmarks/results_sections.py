"""The sections of the results page on quality (see `results_page`): a function each, from JSON to markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import (
    cloze,
    distill,
    encoders,
    english,
    equal_time,
    ladder,
    language_models,
    layers,
    leanings,
    quality,
    study,
    translate,
    vectors,
)
from benchmarks.plot import Bar, amount, bars, lines
from benchmarks.report import embedded, table
from benchmarks.results_page import Page
from benchmarks.results_speed import speed

Report = dict[str, Any]
REGRESSION = ("sst2-2000",)
LANGUAGES = ("swedish-minilm", "swedish-ours", "chnsenticorp")


def kind_of(name: str) -> str:
    """The colour of a model's bar: ours are those that were trained here."""
    return "ours" if name.startswith("bertworks") else "peer"


# -- a: encoders -------------------------------------------------------------------------------------------------------


def encoder_section(page: Page) -> list[str]:
    def tell(report: Report) -> list[str]:
        published = page.published["encoders"]
        names = list(encoders.SETS)
        rows = []
        for model, entry in report["models"].items():
            cells = [model, amount(entry["parameters"]), "dev"]
            cells += [
                _percent(*encoders.figure(name, entry["sets"][name])) if name in entry["sets"] else "" for name in names
            ]
            rows.append(cells)
        for row in published["rows"]:
            judged = "published, test" if row["source"] == "miniatures" else "published, test (CoNLL, SQuAD: dev)"
            cells = [f"{row['model']} ({row['shape']})", amount(row["parameters"]), judged]
            rows.append([*cells, *(f"{row[name]:.1f}" if name in row else "" for name in names)])
        header = [
            "",
            "weights",
            "judged on",
            *(f"{encoders.SETS[n].title}, {encoders.SETS[n].figures[0]}" for n in names),
        ]
        budget = (
            "Ours and MiniLM: mean ± standard deviation between seeds, in percent, on the development examples. MiniLM was "
            "distilled from far larger models on far more text. SQuAD 1.1 is trained on a tenth of the official training file, "
            "and SQuAD 2.0 on articles of its development file: these two columns compare with no published figure. "
        )
        parts = [budget + f"{published['about']}\n", table(header, rows) + "\n"]
        for name in ("sst2", "conll"):
            drawn = [
                Bar(model, *_bar(*encoders.figure(name, entry["sets"][name])), kind_of(model))
                for model, entry in report["models"].items()
                if name in entry["sets"]
            ]
            drawn += [Bar(row["model"], row[name], kind="published") for row in published["rows"] if name in row]
            title = f"{encoders.SETS[name].title}: {encoders.SETS[name].figures[0]}, percent"
            parts.append(page.plot(f"results-encoders-{name}", bars(title, drawn), title))
        sources = ", and ".join(page.cite(name) for name in ("miniatures", "bert"))
        return [*parts, f"Published figures: {sources}.\n"]

    def tell_cloze(report: Report) -> list[str]:
        drawn = [
            Bar(f"{name}, @{top}", 100 * entry["accuracy"][cloze.ALL][f"@{top}"], kind=kind_of(name))
            for name, entry in report["models"].items()
            for top in (1, cloze.TOP)
        ]
        drawn += [
            Bar(f"most frequent words, @{top}", 100 * report["unigram"]["accuracy"][cloze.ALL][f"@{top}"], kind="limit")
            for top in (1, cloze.TOP)
        ]
        title = "200 cloze questions: accuracy, percent"
        return [*embedded(cloze.render(report)), page.plot("results-cloze", bars(title, drawn), title)]

    return [
        "### How bertworks-en was trained\n",
        *page.part("english", lambda report: embedded(english.render(report))),
        "### Fine-tuned\n",
        *page.part("encoders", tell),
        "### Cloze questions\n",
        *page.part("cloze", tell_cloze),
        "### She or he\n",
        *page.part("leanings", lambda report: embedded(leanings.render(report))),
        "### The same minutes for `transformers`' Trainer\n",
        *page.part("equal_time", lambda report: embedded(equal_time.render(report))),
        "### Half of MiniLM, taught by MiniLM\n",
        *page.part("distill", lambda report: embedded(distill.render(report))),
        "### MiniLM on other sets\n",
        *rows_of_quality(page, tuple(name for name in quality.ROWS if name not in (*REGRESSION, *LANGUAGES))),
    ]


def _percent(value: float, spread: float | None) -> str:
    return f"{100 * value:.1f}" + ("" if spread is None else f" ± {100 * spread:.1f}")


def _bar(value: float, spread: float | None) -> tuple[float, float | None, float | None]:
    """Value and range of a bar."""
    if spread is None:
        return 100 * value, None, None
    return 100 * value, 100 * (value - spread), 100 * (value + spread)


# -- b: size -----------------------------------------------------------------------------------------------------------


def size_section(page: Page) -> list[str]:
    def tell(name: str, title: str) -> Callable[[Report], list[str]]:
        def told(report: Report) -> list[str]:
            drawn: dict[str, dict[float, list[float]]] = {}
            for entry in report["runs"]:
                across = layers_of(entry) if name == "depth" else weights_of(entry)
                for key, what in (("accuracy", "masked accuracy"), ("sst2", "SST-2, frozen")):
                    if key in entry["judged"]:
                        drawn.setdefault(what, {}).setdefault(across, []).append(100 * entry["judged"][key])
            series = {
                what: [(across, sum(values) / len(values)) for across, values in points.items()]
                for what, points in drawn.items()
            }
            words = "layers" if name == "depth" else "weights in the layers (logarithmic)"
            plot = lines(title, series, across=words, up="percent")
            return [*embedded(study.render(report)), page.plot(f"results-{name}", plot, title)]

        return told

    return [
        *page.part("study_sizes", tell("sizes", "Quality against model size, equal tokens")),
        "### Depth against width\n",
        *page.part("study_depth", tell("depth", "Depth against width, equal weights in the layers")),
    ]


def shape_of(run: Mapping[str, Any]) -> tuple[int, int]:
    """Layers and width of a run of the studies of size."""
    (size,) = (setting.partition("=")[2] for setting in run["settings"] if setting.startswith("model.size="))
    layers, width, _ = map(int, size.split("x"))
    return layers, width


def weights_of(run: Mapping[str, Any]) -> float:
    """Of the layers, without embeddings: twelve squares of the width in each."""
    layers, width = shape_of(run)
    return 12.0 * layers * width**2


def layers_of(run: Mapping[str, Any]) -> float:
    return float(shape_of(run)[0])


# -- c, d, e, g --------------------------------------------------------------------------------------------------------


def layer_section(page: Page) -> list[str]:
    published = page.published["layers"]

    def tell(report: Report) -> list[str]:
        columns = [(name, tagger) for name, entry in report["models"].items() for tagger in layers.taggers(entry)]
        rows = []
        for row in published["rows"]:
            cells = [row["title"].removesuffix(" twelve")]
            for name, tagger in columns:
                entry = report["models"][name]
                number = entry["num_layers"]
                place = {"first": "0", "second-to-last": str(number - 1), "last": str(number)}.get(
                    row["layers"], row["layers"]
                )
                value = layers.figures(entry).get(place, {}).get(tagger)
                cells.append("" if value is None else f"{100 * value:.1f}")
            rows.append([*cells, f"{row['f1']:.1f}"])
        header = ["layers", *(f"{name}, {tagger}" for name, tagger in columns), "BERT-base, published"]
        parts = [f"F1 on CoNLL-2003's development file, the encoder frozen. Published: {published['about']}\n"]
        for name, entry in report["models"].items():
            found = layers.figures(entry)
            drawn = {
                tagger: [(float(place) + 1, 100 * values[tagger]) for place, values in found.items() if place.isdigit()]
                for tagger in layers.taggers(entry)
            }
            title = f"{name}: F1 of each layer"
            plot = lines(title, drawn, across="layer, the embeddings are 1", up="F1, percent")
            parts.append(page.plot(f"results-layers-{name}", plot, title))
        return [parts[0], table(header, rows) + "\n", *parts[1:], f"Published: {page.cite(published['source'])}.\n"]

    return page.part("layers", tell)


def rows_of_quality(page: Page, names: tuple[str, ...]) -> list[str]:
    """Some rows of the table of fine-tuning."""

    def tell(report: Report) -> list[str]:
        chosen = {name: report["rows"][name] for name in names if name in report["rows"]}
        if not chosen:
            return [f"These rows are not measured yet: `python -m benchmarks.quality {' '.join(names)}`\n"]
        return embedded(quality.render({**report, "rows": chosen}))

    return page.part("quality", tell)


def regression_section(page: Page) -> list[str]:
    about = (
        "The lectures' notebook: vectors of 2,000 sentences of SST-2 from a model that is left as it is, and a logistic "
        "regression on them.\n"
    )
    return [about, *rows_of_quality(page, REGRESSION)]


def language_section(page: Page) -> list[str]:
    return [
        *rows_of_quality(page, LANGUAGES),
        "### Masking characters, entities and phrases in Chinese\n",
        *page.part("study_ernie", lambda report: embedded(study.render(report))),
    ]


def ladder_section(page: Page) -> list[str]:
    def tell(report: Report) -> list[str]:
        drawn = []
        for name, row in ladder.ROWS.items():
            if name in report["rows"]:
                values = [100 * value for value in report["rows"][name]["f1"]]
                drawn.append(Bar(row.title, sum(values) / len(values), min(values), max(values), "ours"))
        title = "CoNLL-2003, F1 on the development file"
        plot = page.plot("results-ladder", bars(title, drawn, ".2f"), title)
        return [*embedded(ladder.render(report)), plot]

    def tell_vectors(report: Report) -> list[str]:
        return [
            "Word vectors by themselves, on the usual sets:\n",
            *(f"{note}\n" for note in vectors.score_notes(report)),
        ]

    return [
        *page.part("ladder", tell),
        *page.part("vectors", tell_vectors),
        "### Language models: RNN, LSTM, GRU, GPT, and ULMFiT\n",
        *page.part("language_models", lambda report: embedded(language_models.render(report))),
    ]


# -- h and after -------------------------------------------------------------------------------------------------------


def headline_section(page: Page) -> list[str]:
    about = (
        "What large budgets have reached: the figures that the lectures quote. BERT-large was pretrained for four days on 64 "
        "TPU chips; no model that was trained for this page had more than two cores of a processor for a few hours.\n"
    )
    parts = [about]
    for block in page.published["headlines"]:
        rows = [[str(name), *(f"{value:g}" for value in values)] for name, *values in block["rows"]]
        parts += [table([block["title"], *block["columns"]], rows) + "\n", f"*From {page.cite(block['source'])}.*\n"]
    drawn = [Bar(row[0], row[-1], kind="published") for row in page.published["headlines"][0]["rows"]]
    found = page.load("encoders") or {"models": {}}
    for model, entry in found["models"].items():
        if "squad1" in entry["sets"]:
            value, low, high = _bar(*encoders.figure("squad1", entry["sets"]["squad1"]))
            drawn.append(Bar(f"{model} (a tenth, dev)", value, low, high, kind_of(model)))
    title = "SQuAD 1.1: F1, percent"
    return [*parts, page.plot("results-headlines", bars(title, drawn), title)]


def translation_section(page: Page) -> list[str]:
    return page.part("translate", lambda report: embedded(translate.page(report)))


def choice_section(page: Page) -> list[str]:
    parts = []
    for name, title in (
        ("study_modern", "The recipe `modern`, one choice taken back at a time"),
        ("study_roberta", "RoBERTa's five changes to BERT"),
        ("study_recipes", "Every recipe on real text"),
        ("study_distill", "A student with and without its teacher"),
    ):
        parts += [f"### {title}\n", *page.part(name, lambda report: embedded(study.render(report)))]
    return parts


SECTIONS: tuple[tuple[str, Callable[[Page], list[str]]], ...] = (
    ("Encoders beside the published ones", encoder_section),
    ("Quality against model size", size_section),
    ("Which layer?", layer_section),
    ("Two thousand rows and a logistic regression", regression_section),
    ("Swedish and Chinese", language_section),
    ("Speed, beside the peers and the machine's limit", speed),
    ("The ladder: word vectors, ELMo, BERT", ladder_section),
    ("The lectures' headline figures", headline_section),
    ("Translation", translation_section),
    ("Choices of pretraining", choice_section),
)
