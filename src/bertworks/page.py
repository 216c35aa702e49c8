"""Self-contained HTML pages: one style sheet in the file itself, no script, nothing fetched, light and dark.

Every page that a command writes (`demo`, `tokenizer compare`, the report of a training run) is made of these parts, so
that they look alike and none can forget to escape a text. Curves are drawn as SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

NUM_COLOURS = 6  # --c0 to --c5 in page.css
CURVE_WIDTH, CURVE_HEIGHT = 420, 220
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 8, 22
MAX_POINTS = 600
"""A curve has no more points than a screen has columns; more of them are thinned out, the last one kept."""

Curve = Sequence[tuple[float, float]]


def document(title: str, *body: str) -> str:
    """A whole page from its parts, which are HTML already; `title` is text."""
    style = files("bertworks").joinpath("page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n<body><main>",
            *body,
            "</main></body></html>\n",
        ]
    )


def section(title: str, *parts: str) -> str:
    """A card with a heading."""
    return "\n".join([f"<section><h2>{escape(title)}</h2>", *parts, "</section>"])


def soft(text: str) -> str:
    """A remark."""
    return f'<p class="soft">{escape(text)}</p>'


def facts(numbers: Iterable[tuple[str, str]]) -> str:
    """(value, what it is), in a row."""
    items = "".join(f"<li><b>{escape(value)}</b><small>{escape(name)}</small></li>" for value, name in numbers)
    return f'<ul class="facts">{items}</ul>'


def table(rows: Iterable[Sequence[str]], *, header: Sequence[str] = ()) -> str:
    """Rows of text; the first cell of a row is its name."""
    head = f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in header)}</tr>" if header else ""
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return f'<div class="scroll"><table>{head}{body}</table></div>'


def curves(title: str, lines: Mapping[str, Curve], *, percent: bool = False) -> str:
    """Lines over a common horizontal axis (steps), each (x, y) with x ascending; lines without points are left out."""
    drawn = {name: _thinned([point for point in line if math.isfinite(point[1])]) for name, line in lines.items()}
    drawn = {name: line for name, line in drawn.items() if line}
    if not drawn:
        return ""
    xs = [x for line in drawn.values() for x, _ in line]
    ys = [y for line in drawn.values() for _, y in line]
    low, high = min(ys), max(ys)
    if high - low < 1e-12 * max(abs(high), 1.0):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    first, last = min(xs), max(max(xs), min(xs) + 1e-9)

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - first) / (last - first) * (CURVE_WIDTH - LEFT - RIGHT)
        return across, TOP + (high - y) / (high - low) * (CURVE_HEIGHT - TOP - BOTTOM)

    parts = []
    for tick in ticks:
        y = place(first, tick)[1]
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{CURVE_WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick, percent)}</text>')
    for x, anchor in ((first, "start"), (last, "end")):
        across = place(x, low)[0]
        parts.append(f'<text x="{across:.1f}" y="{CURVE_HEIGHT - 6}" text-anchor="{anchor}">{x:,.0f}</text>')
    for index, line in enumerate(drawn.values()):
        colour = f"var(--c{index % NUM_COLOURS})"
        if len(line) == 1:
            x, y = place(*line[0])
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        else:
            points = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line)
            parts.append(f'<polyline points="{points}" stroke="{colour}"/>')
    legend = "".join(
        f'<li><i style="color:var(--c{index % NUM_COLOURS})"></i>{escape(name)}</li>'
        for index, name in enumerate(drawn)
    )
    legend = f'<ul class="legend">{legend}</ul>' if len(drawn) > 1 else ""
    label = escape(f"{title} over the steps of training", quote=True)
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg class="curve" viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>{legend}</figure>"
    )


def _thinned(line: list[tuple[float, float]]) -> list[tuple[float, float]]:
    stride = math.ceil(len(line) / MAX_POINTS) if line else 1
    kept = line[::stride]
    return kept if not line or kept[-1] == line[-1] else [*kept, line[-1]]


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers between `low` and `high`."""
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _number(value: float, percent: bool) -> str:
    if percent:
        return f"{value:.0%}" if abs(value * 100 - round(value * 100)) < 1e-6 else f"{value:.1%}"
    if value == 0:
        return "0"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value / 1000:.3g}k"
