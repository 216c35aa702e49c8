"""Figures as people read them: the same words and the same form in the terminal, the report and the model card."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

SHARES = ("accuracy", "found", "f1", "precision", "recall", "match")
"""Words in the names of figures that are shares of a whole; they are shown in percent."""
NAMES = {
    "f1": "F1",
    "f1_macro": "macro F1",
    "f1_micro": "micro F1",
    "has_answer_f1": "F1 where there is an answer",
    "has_answer_exact_match": "exact match where there is an answer",
    "no_answer_accuracy": "accuracy where there is none",
    "mcc": "Matthews correlation",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "r2": "R²",
    "rmse": "root mean square error",
    "mae": "mean absolute error",
    "d2": "explained deviance",
    "mrr": "mean reciprocal rank",
    "bleu": "BLEU",
    "bleu_greedy": "BLEU, greedy",
}
"""What figures are called where there is room to say it."""
TURNED = 1.005
"""How many times its lowest value a loss must be to have turned."""


def full(name: str) -> str:
    """`f1_macro` as `macro F1`: for pages and cards."""
    return NAMES.get(name, words(name))


def words(name: str) -> str:
    """`mlm_accuracy` as `mlm accuracy`."""
    return name.replace("_", " ")


def is_share(name: str) -> bool:
    """Whether a figure is a share of a whole, by its name."""
    return any(word in SHARES for word in name.split("_"))


def shown(name: str, value: float) -> str:
    """One figure: shares in percent, whole numbers whole, all else with four digits."""
    if is_share(name):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def in_words(figures: Mapping[str, float], spread: Mapping[str, float] | None = None) -> str:
    """`loss 5.9, mlm accuracy 10.0%`; with a spread between several trainings: `accuracy 88.3% ± 0.4%`"""
    around = {name: f" ± {shown(name, value)}" for name, value in (spread or {}).items()}
    return ", ".join(f"{words(name)} {shown(name, value)}{around.get(name, '')}" for name, value in figures.items())


def steps(count: int) -> str:
    """`1 step`, `2,000 steps`"""
    return f"{count:,} step" + ("" if count == 1 else "s")


def has_turned(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the loss on held-out text was lower before (`metrics.jsonl`): more steps of the same text make it worse."""
    losses = [loss for line in lines if (loss := line.get("held_out_loss")) is not None]
    return bool(losses) and losses[-1] > TURNED * min(losses)


def beats(figures: Mapping[str, float], baseline: Mapping[str, float]) -> bool:
    """Whether tokens are likelier to the model than by word frequency alone; True where the two cannot be compared."""
    names = ("mlm_perplexity", "lm_perplexity", "forward_perplexity")
    own = next((math.log(figures[name]) for name in names if name in figures), None)
    return own is None or "loss" not in baseline or own < baseline["loss"]
