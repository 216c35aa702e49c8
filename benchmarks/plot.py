"""Plots as SVG files that stand by themselves: horizontal bars with their range, and lines over a logarithmic axis.

An image in a markdown page sees no style sheet of that page, so the style is in the file; it follows the reader's light or
dark mode. The pages of the package (`bertworks.page`) have their own drawing, which lives inside HTML.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
NAMES, NUMBERS = 270, 100
"""Room for the names of the bars on the left, at least, and their numbers on the right."""
LETTER = 7.0
"""How wide a letter is, about: names that are longer get more room, and the bars less."""
ROW, TOP, BOTTOM = 24, 38, 12
LINE_HEIGHT, LEFT, RIGHT, FOOT = 320, 64, 150, 44
KINDS = ("ours", "peer", "published", "limit")
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .soft { fill: #6e7781 } .grid { stroke: #d0d7de }
.ours { fill: #0969da } .peer { fill: #8c959f } .published { fill: #bf8700 } .limit { fill: #1a7f37 }
.range { stroke: #24292f } .line { fill: none; stroke-width: 2 }
.s0 { stroke: #0969da; fill: #0969da } .s1 { stroke: #bf8700; fill: #bf8700 } .s2 { stroke: #1a7f37; fill: #1a7f37 }
.s3 { stroke: #8250df; fill: #8250df }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #8d96a0 } .grid { stroke: #444c56 } .range { stroke: #e6edf3 }
}
"""
NUM_STYLES = 4


@dataclass(frozen=True)
class Bar:
    """One value; `low` and `high` are its range, `kind` its colour."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    kind: str = "peer"


def bars(title: str, rows: Sequence[Bar], form: str = ".1f") -> str:
    """Horizontal bars from 0."""
    top = max((max(row.value, row.high or row.value) for row in rows), default=0.0) or 1.0
    left = max(NAMES, 16 + LETTER * max((len(row.name) for row in rows), default=0))
    room = WIDTH - left - NUMBERS

    def x(value: float) -> float:
        return left + room * max(value, 0.0) / top

    parts = []
    for number, row in enumerate(rows):
        assert row.kind in KINDS, row.kind
        y = TOP + ROW * number
        parts.append(f'<text x="{left - 8:g}" y="{y + 15}" text-anchor="end">{escape(row.name)}</text>')
        length = x(row.value) - left
        parts.append(f'<rect class="{row.kind}" x="{left:g}" y="{y + 3}" width="{length:.1f}" height="{ROW - 7}"/>')
        end = x(row.value)
        if row.low is not None and row.high is not None and row.high > row.low:
            middle = y + ROW / 2 - 0.5
            parts.append(
                f'<path class="range" d="M{x(row.low):.1f} {middle}H{x(row.high):.1f}M{x(row.low):.1f} {middle - 4}v8'
                f'M{x(row.high):.1f} {middle - 4}v8"/>'
            )
            end = max(end, x(row.high))
        parts.append(f'<text x="{end + 7:.1f}" y="{y + 15}">{row.value:{form}}</text>')
    return document(title, TOP + ROW * len(rows) + BOTTOM, parts)


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    across: str,
    up: str,
    form: str = ".1f",
) -> str:
    """Lines of (x, y) points over a logarithmic horizontal axis; what the axes are is said in words."""
    points = [point for line in series.values() for point in line]
    if not points:
        raise ValueError("a plot of lines needs a point")
    low, high = min(y for _, y in points), max(y for _, y in points)
    margin = 0.08 * (high - low) or 1.0
    low, high = low - margin, high + margin
    first, last = (math.log(bound(x for x, _ in points)) for bound in (min, max))

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log(x) - first) / ((last - first) or 1.0)
        height = LINE_HEIGHT - TOP - FOOT
        return LEFT + share * (WIDTH - LEFT - RIGHT), TOP + height * (high - y) / (high - low)

    parts = []
    for step in range(5):
        y = low + (high - low) * step / 4
        across_y = place(points[0][0], y)[1]
        parts.append(f'<path class="grid" d="M{LEFT} {across_y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="soft" x="{LEFT - 6}" y="{across_y + 4:.1f}" text-anchor="end">{y:{form}}</text>')
    for x in sorted({x for x, _ in points}):
        at = place(x, low)[0]
        parts.append(f'<text class="soft" x="{at:.1f}" y="{LINE_HEIGHT - 24}" text-anchor="middle">{amount(x)}</text>')
    parts.append(f'<text class="soft" x="{LEFT}" y="{LINE_HEIGHT - 6}">{escape(across)}</text>')
    parts.append(f'<text class="soft" x="{WIDTH - RIGHT + 8}" y="{TOP - 16}">{escape(up)}</text>')
    for number, (name, line) in enumerate(series.items()):
        style = f"s{number % NUM_STYLES}"
        places = [place(x, y) for x, y in sorted(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline class="line {style}" style="fill:none" points="{path}"/>')
        parts += [f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
        parts.append(f'<text x="{places[-1][0] + 10:.1f}" y="{places[-1][1] + 4:.1f}">{escape(name)}</text>')
    return document(title, LINE_HEIGHT, parts)


def amount(number: float) -> str:
    """4,400,000 as 4.4 M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:g}"


def document(title: str, height: float, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title, quote=True)}">',
            f"<style>{STYLE}</style>",
            f'<text class="title" x="8" y="20">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )
