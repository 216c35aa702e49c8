"""The two texts that a finished translation run leaves for people: `report.html` and the model card `README.md`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from bertworks.config import dotted
from bertworks.infer.translate import AlignmentMatrix
from bertworks.page import case, curves, document, facts, folded, section, soft, table
from bertworks.tasks.metrics.bleu import SIGNATURE
from bertworks.train.figures import full, shown
from bertworks.train.log import HELD_OUT
from bertworks.train.report import training_curves
from bertworks.translate.alignment import picture
from bertworks.translate.evaluate import BLEU, GREEDY, Judged

EXAMPLES = 12
NEXT_TO_NOTHING = 1.0
"""A BLEU below which translations have only the commonest words of the references."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is known of a finished run."""

    name: str
    about: str
    parameters: int
    result: Mapping[str, Any]
    """The content of `metrics.json`."""
    understood: Sequence[str]
    vocab_size: int
    settings: Mapping[str, Any]
    """`config.toml` as nested values."""
    lines: Sequence[Mapping[str, Any]]
    """`metrics.jsonl`."""
    dev: Judged
    alignments: Sequence[AlignmentMatrix]
    own_format: bool

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """(value, what it is): the few that matter most."""
        figures, test = self.result["metrics"], self.result.get("test") or {}
        return [
            (f"{figures[BLEU]:.1f}", "BLEU on the development pairs"),
            *([(f"{test[BLEU]:.1f}", "BLEU on the test pairs")] if test else []),
            (f"{figures[GREEDY]:.1f}", "BLEU without beam search"),
            (f"{self.parameters / 1e6:.1f} M", "parameters"),
            (f"{self.result['steps']:,}", "steps"),
            (f"{self.result['seconds'] / 60:.1f} min", "training"),
        ]

    @property
    def rows(self) -> list[list[str]]:
        """Measure, value, and value on the test pairs where there are any."""
        figures, test = self.result["metrics"], self.result.get("test") or {}
        rows = []
        for name, value in figures.items():
            row = [full(name), shown(name, value)]
            if test:
                row.append(shown(name, test[name]) if name in test else "–")
            rows.append(row)
        return rows

    @property
    def header(self) -> list[str]:
        return ["", "development", *(["test"] if self.result.get("test") else [])]


def kept(result: Mapping[str, Any]) -> str | None:
    """Which step's weights the model has, where they are not the last one's."""
    step = result.get("best_step")
    if step is None or step == result["steps"]:
        return None
    return f"These are the weights of step {step:,} of {result['steps']:,}, the best by BLEU while it trained."


def warning(result: Mapping[str, Any]) -> str | None:
    """What a person should hear of a translator that knows next to nothing."""
    if result["metrics"][BLEU] >= NEXT_TO_NOTHING:
        return None
    return "It has learnt next to nothing yet: give it more steps, and where that does not help, more pairs."


def told(result: Mapping[str, Any]) -> list[str]:
    """Which weights these are, and what to think of them where they know next to nothing."""
    return [sentence for sentence in (kept(result), warning(result)) if sentence]


def report(summary: Summary) -> str:
    """The page."""
    bleu = [
        (float(line["step"]), float(line[HELD_OUT + BLEU]))
        for line in summary.lines
        if line.get(HELD_OUT + BLEU) is not None
    ]
    drawn = [curves("BLEU of greedy translations", {"BLEU": bleu}), *training_curves(summary.lines)]
    return document(
        f"Translation report: {summary.name}",
        f"<h1>{escape(summary.name)}</h1>",
        soft(summary.about),
        facts(summary.numbers),
        section(
            "How good it is",
            table(summary.rows, header=summary.header, numbers=True),
            soft(" ".join([f"BLEU: {SIGNATURE}.", *told(summary.result)])),
        ),
        section("Curves", f'<div class="columns">{"".join(drawn)}</div>'),
        section("Development sentences, as they come", *_examples(summary.dev)),
        _alignments(summary.alignments),
        section("Data", *(f"<p>{escape(sentence)}</p>" for sentence in (*summary.understood, _vocabulary(summary)))),
        section("Settings", folded("every setting", table(_settings(summary.settings)))),
        soft("Every development sentence is in predictions.jsonl; config.toml makes the same run again."),
    )


def _vocabulary(summary: Summary) -> str:
    return f"one vocabulary of {summary.vocab_size:,} tokens for both languages"


def _settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in dotted(settings) if value is not None and value != []]


def _examples(dev: Judged) -> list[str]:
    every = max(1, len(dev.translations) // EXAMPLES)
    parts = []
    for number in list(range(0, len(dev.translations), every))[:EXAMPLES]:
        texts = (dev.text.sources[number], dev.translations[number].text, dev.text.targets[number])
        kinds = ("", "guess", "truth")
        names = ("source", "translation", "reference")
        rows = "".join(
            f'<p><span class="pill {kind}">{name}</span> {escape(text)}</p>'
            for name, kind, text in zip(names, kinds, texts, strict=True)
        )
        parts.append(case([], rows, place=f"sentence {number + 1}"))
    return parts


def _alignments(alignments: Sequence[AlignmentMatrix]) -> str:
    if not alignments:
        return ""
    return section(
        "Where the decoder looked",
        *(picture(alignment) for alignment in alignments),
        soft("Across: the source. Down: the translation. Darker: more attention while that word was written."),
    )


def model_card(summary: Summary) -> str:
    """The model's README.md."""
    place = json.dumps(summary.name, ensure_ascii=False)
    library = "bertworks" if summary.own_format else "transformers"
    lines = [
        "---",
        f"library_name: {library}",
        "pipeline_tag: translation",
        "tags:",
        "- bertworks",
        "---",
        "",
        f"# {summary.name}",
        "",
        summary.about,
        "",
        *(f"- {name}: {value}" for value, name in summary.numbers),
        "",
        "## Results",
        "",
        f"| {' | '.join(summary.header)} |",
        "|---|" + "---:|" * (len(summary.header) - 1),
        *(f"| {' | '.join(row)} |" for row in summary.rows),
        "",
        " ".join([f"BLEU is that of `sacrebleu` ({SIGNATURE}).", *told(summary.result)]),
        "",
        "## Data",
        "",
        *(f"- {sentence}" for sentence in (*summary.understood, _vocabulary(summary))),
        "",
        "## Use",
        "",
        "```python",
        "import bertworks",
        "",
        f'print(bertworks.load({place}).translate(["A sentence."])[0].text)',
        "```",
        "",
        "How it was trained is in `config.toml`, step by step in `metrics.jsonl`, with curves and examples in `report.html`.",
    ]
    return "\n".join(lines) + "\n"
