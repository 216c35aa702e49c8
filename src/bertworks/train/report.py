"""The two texts that a finished run leaves for people: `report.html` and the model card `README.md`.

The report stands alone (see `bertworks.page`): curves, settings, and what the model makes of unseen text. The card has
the header that the Hugging Face Hub reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from bertworks.config import dotted
from bertworks.page import curves, document, facts, section, soft, table
from bertworks.train.figures import shown, words
from bertworks.train.log import HELD_OUT
from bertworks.train.reach import MEANING
from bertworks.train.samples import Sample, Shown

OF_DISTILLATION = ("temperature", "soft_weight", "mlm_weight", "cosine_weight", "hidden_weight", "sentence_weight")
OF_ELECTRA = ("discriminator_weight",)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is known of a finished run."""

    name: str
    about: str
    task: str
    """The objective: masked_lm, causal_lm, replaced_tokens or distill."""
    numbers: Sequence[tuple[str, str]]
    """(value, what it is): the few that matter most."""
    metrics: Mapping[str, float]
    """Of the final evaluation on held-out text."""
    baseline: Mapping[str, float] = field(default_factory=dict)
    """What guessing by word frequency alone reaches there."""
    data: Sequence[tuple[str, str]]
    """(what, value) about the corpus."""
    settings: Mapping[str, Any]
    """`config.toml` as nested values."""
    lines: Sequence[Mapping[str, Any]]
    """`metrics.jsonl`."""
    samples: Sequence[Sample] = field(default_factory=list)
    samples_title: str = ""
    embeddings: bool = False
    """Whether the directory is an embedding model as well."""
    mask: str | None = None
    """The tokenizer's mask token, where the model fills masks."""
    own_format: bool = False
    """Whether the directory is in our own format, which only Bertworks opens."""
    reach: str = ""
    """How far the gradient reaches back, as a figure, where the model is recurrent."""


def report(summary: Summary) -> str:
    """The page."""
    return document(
        f"Training report: {summary.name}",
        f"<h1>{escape(summary.name)}</h1>",
        soft(summary.about),
        facts(summary.numbers),
        section("Curves", f'<div class="columns">{"".join(training_curves(summary.lines))}</div>'),
        section("On held-out text", table(_results(summary), numbers=True)) if summary.metrics else "",
        _samples(summary),
        _reach(summary),
        section("Data", table(summary.data)),
        section("Settings", table(_settings(summary.settings))),
        soft("The whole of it is in config.toml and metrics.jsonl beside this page."),
    )


def _results(summary: Summary) -> list[tuple[str, str]]:
    """(measure, value) of the model, and what it is to be compared with."""
    rows = [(words(name), shown(name, value)) for name, value in summary.metrics.items()]
    return rows + [
        (f"{words(name)} of guessing tokens by their frequency", shown(name, value))
        for name, value in summary.baseline.items()
    ]


def training_curves(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The curves that every training has, from the lines of its `metrics.jsonl`."""
    names = {name for line in lines for name in line}

    def line_of(name: str) -> list[tuple[float, float]]:
        return [(float(line["step"]), float(line[name])) for line in lines if line.get(name) is not None]

    held_out = sorted(name for name in names if name.startswith(HELD_OUT))
    losses = {"training": line_of("loss"), "held out": line_of(HELD_OUT + "loss")}
    parts = {
        words(name): line_of(name) for name in sorted(names) if name.endswith("_loss") and not name.startswith(HELD_OUT)
    }
    accuracies = {words(name): line_of(name) for name in held_out if name.endswith("accuracy")}
    return [
        curves("Loss", losses),
        curves("Accuracy", accuracies, percent=True),
        curves("Losses one by one", parts) if len(parts) > 1 else "",
        curves("Learning rate", {"learning rate": line_of("learning_rate")}),
        curves("Gradient norm", {"gradient norm": line_of("gradient_norm")}),
        curves("Tokens a second", {"tokens a second": line_of("tokens_per_second")}),
    ]


def _samples(summary: Summary) -> str:
    if not summary.samples:
        return ""

    def show(part: Shown) -> str:
        if not part.mark:
            return escape(part.text)
        kind = ' class="wrong"' if part.mark == "wrong" else ""
        own = f" <small>({escape(part.own)})</small>" if part.own else ""
        return f'<mark{kind} title="{escape(part.title, quote=True)}">{escape(part.text)}</mark>{own}'

    texts = ("".join(show(part) for part in sample) for sample in summary.samples)
    return section(summary.samples_title, *(f'<p class="filled">{text}</p>' for text in texts))


def _reach(summary: Summary) -> str:
    if not summary.reach:
        return ""
    return section(
        "How far the gradient reaches back",
        summary.reach,
        soft(MEANING),
    )


def model_card(summary: Summary) -> str:
    """The model's README.md."""
    tag = "fill-mask" if summary.mask is not None else None
    tag = "sentence-similarity" if summary.embeddings else "text-generation" if summary.task == "causal_lm" else tag
    library = "bertworks" if summary.own_format else "transformers"
    header = ["---", "library_name: " + ("sentence-transformers" if summary.embeddings else library)]
    header += [f"pipeline_tag: {tag}"] if tag else []
    header += ["tags:", "- bertworks", "---"]
    results = [f"| {name} | {value} |" for name, value in _results(summary)] if summary.metrics else []
    lines = [
        *header,
        "",
        f"# {summary.name}",
        "",
        summary.about,
        "",
        *(f"- {name}: {value}" for value, name in summary.numbers),
        "",
        "## Results on held-out text",
        "",
        *(["| measure | value |", "|---|---:|", *results] if results else ["None: the run held out no text."]),
        "",
        "## Data",
        "",
        *(f"- {name}: {value}" for name, value in summary.data),
        "",
        "## Use",
        "",
        "```python",
        *_use(summary),
        "```",
        "",
        "How it was trained is in `config.toml`, step by step in `metrics.jsonl`, with curves in `report.html`.",
    ]
    return "\n".join(lines) + "\n"


def _use(summary: Summary) -> list[str]:
    place = json.dumps(summary.name, ensure_ascii=False)
    if summary.embeddings:
        return [
            "import bertworks",
            "",
            f'vectors = bertworks.load({place}).embed(["A text.", "Another one."])',
        ]
    if summary.mask is not None:
        text = json.dumps(f"Put a {summary.mask} here.", ensure_ascii=False)
        return ["import bertworks", "", f"print(bertworks.load({place}).fill({text}))"]
    if summary.task == "causal_lm" and summary.own_format:
        return ["import bertworks", "", f'print(bertworks.load({place}).generate("It was", max_tokens=20)[0].text)']
    if summary.task == "causal_lm":
        return [
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            f"tokenizer, model = AutoTokenizer.from_pretrained({place}), AutoModelForCausalLM.from_pretrained({place})",
            'ids = model.generate(**tokenizer("It was", return_tensors="pt"), max_new_tokens=20)',
            "print(tokenizer.decode(ids[0]))",
        ]
    return [
        "import bertworks",
        "",
        f'vectors = bertworks.load({place}).embed(["A text."], layers="last", pooling="mean")',
    ]


def _settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(setting, value), without the settings of other objectives."""
    objective = dict(settings.get("objective") or {})
    kind = objective.get("kind")
    for name in list(objective):
        if (kind != "distill" and name in OF_DISTILLATION) or (kind != "replaced_tokens" and name in OF_ELECTRA):
            del objective[name]
    if objective.get("pairs") == "none":
        objective.pop("pair_weight", None)
    belonging = {**settings, **({"objective": objective} if objective else {})}
    return [(name, "none" if value is None else str(value)) for name, value in dotted(belonging)]
