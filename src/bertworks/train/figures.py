"""Figures as people read them: the same words and the same form in the terminal, the report and the model card."""

from __future__ import annotations

from collections.abc import Mapping

SHARES = ("accuracy", "found")
"""Figures that are shares of a whole; they are shown in percent."""


def words(name: str) -> str:
    """`mlm_accuracy` as `mlm accuracy`."""
    return name.replace("_", " ")


def shown(name: str, value: float) -> str:
    """One figure: shares in percent, whole numbers whole, all else with four digits."""
    if name.endswith(SHARES):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def in_words(figures: Mapping[str, float]) -> str:
    """`loss 5.9, mlm accuracy 10.0%`"""
    return ", ".join(f"{words(name)} {shown(name, value)}" for name, value in figures.items())


def steps(count: int) -> str:
    """`1 step`, `2,000 steps`"""
    return f"{count:,} step" + ("" if count == 1 else "s")


def beats(figures: Mapping[str, float], baseline: Mapping[str, float]) -> bool:
    """Whether the model guesses tokens better than word frequency does; True where the two cannot be compared."""
    own = next((figures[name] for name in ("mlm_accuracy", "lm_accuracy") if name in figures), None)
    return own is None or "accuracy" not in baseline or own > baseline["accuracy"]
