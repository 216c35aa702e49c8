"""Self-contained HTML pages: one style sheet in the file itself, no script, nothing fetched, light and dark.

Every page that a command writes (`demo`, `tokenizer compare`, the report of a training run) is made of these parts, so
that they look alike and none can forget to escape a text. Plots are drawn as SVG, heat maps as tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import NamedTuple

NUM_COLOURS = 6  # --c0 to --c5 in page.css
CURVE_WIDTH, CURVE_HEIGHT = 420, 220
LEFT, RIGHT, TOP, BOTTOM = 54, 10, 8, 22
MAX_POINTS = 600
"""A curve has no more points than a screen has columns; more of them are thinned out, the last one kept."""

FEW = 5
"""A share of fewer than these is chance: a dot, but no line leads to it."""

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


def table(rows: Iterable[Sequence[str]], *, header: Sequence[str] = (), numbers: bool = False) -> str:
    """Rows of text; the first cell of a row is its name. Cells with `numbers` are never broken, but scroll."""
    head = f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in header)}</tr>" if header else ""
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    kind = ' class="numbers"' if numbers else ""
    return f'<div class="scroll"><table{kind}>{head}{body}</table></div>'


def bars(rows: Iterable[tuple[str, float]], *, percent: bool = True) -> str:
    """(name, value from 0 to 1) as horizontal bars with their numbers; below 0 there is no bar."""

    def bar(name: str, value: float) -> str:
        track = f'<span class="track"><i style="width:{min(max(value, 0), 1):.1%}"></i></span>'
        number = f"{value:.1%}" if percent else f"{value:.2f}"
        return f'<div class="bar"><span>{escape(name)}</span>{track}<span>{number}</span></div>'

    return "\n".join(bar(name, value) for name, value in rows)


def folded(title: str, *parts: str) -> str:
    """Something long, behind a line that opens it."""
    return "\n".join([f"<details><summary>{escape(title)}</summary>", *parts, "</details>"])


# -- texts -------------------------------------------------------------------------------------------------------------


class Mark(NamedTuple):
    """A part of a text that stands out: characters `start:end`."""

    start: int
    end: int
    kind: str
    """A class of the style sheet: `truth`, `guess`, or `for` and `against` with a weight."""
    title: str = ""
    """What is told where the pointer rests."""
    weight: float = 1.0
    """0 to 1: how much it stands out."""
    note: str = ""
    """Small letters behind it."""


def marked(text: str, marks: Iterable[Mark]) -> str:
    """A text with its marks, which may overlap."""
    given = [mark for mark in marks if mark.start < mark.end]
    bounds = sorted({0, len(text), *(place for mark in given for place in (mark.start, mark.end))})
    parts = []
    for start, end in itertools.pairwise(place for place in bounds if 0 <= place <= len(text)):
        here = [mark for mark in given if mark.start <= start and end <= mark.end]
        piece = escape(text[start:end])
        if here:
            kinds = escape(" ".join(dict.fromkeys(mark.kind for mark in here)), quote=True)
            title = escape("; ".join(dict.fromkeys(mark.title for mark in here if mark.title)), quote=True)
            weight = max(mark.weight for mark in here)
            piece = f'<mark class="{kinds}" style="--w:{weight:.2f}" title="{title}">{piece}</mark>'
        notes = " ".join(
            f'<small class="{escape(mark.kind, quote=True)}">{escape(mark.note)}</small>'
            for mark in given
            if mark.note and mark.end == end
        )
        parts.append(piece + notes)
    return "".join(parts)


def case(head: Sequence[tuple[str, str]], *body: str, place: str = "") -> str:
    """One example: (text, kind) as small labels above, its parts below. A kind is `truth`, `guess` or nothing."""
    pills = "".join(f'<span class="pill {escape(kind, quote=True)}">{escape(text)}</span>' for text, kind in head)
    where = f"<small>{escape(place)}</small>" if place else ""
    return f'<article class="case"><header>{pills}{where}</header>{"".join(body)}</article>'


# -- plots -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plane:
    """Where numbers lie in a drawing."""

    left: float
    right: float
    low: float
    high: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - self.left) / (self.right - self.left) * (CURVE_WIDTH - LEFT - RIGHT)
        return across, TOP + (self.high - y) / (self.high - self.low) * (CURVE_HEIGHT - TOP - BOTTOM)

    def grid(self, ticks: Iterable[float], percent: bool) -> list[str]:
        """Horizontal lines with their numbers."""
        parts = []
        for tick in ticks:
            y = self.place(self.left, tick)[1]
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{CURVE_WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick, percent)}</text>')
        return parts

    def foot(self, ticks: Iterable[tuple[float, str, str]]) -> list[str]:
        """(x, text, anchor) below."""
        return [
            f'<text x="{self.place(x, self.low)[0]:.1f}" y="{CURVE_HEIGHT - 6}" text-anchor="{anchor}">{text}</text>'
            for x, text, anchor in ticks
        ]

    def line(self, points: Curve, kind: str) -> str:
        places = " ".join("{:.1f},{:.1f}".format(*self.place(x, y)) for x, y in points)
        return f'<polyline points="{places}" {kind}/>'


def _figure(title: str, label: str, parts: Iterable[str], *below: str) -> str:
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg class="curve" viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{"".join(parts)}</svg>{"".join(below)}</figure>'
    )


def curves(
    title: str,
    lines: Mapping[str, Curve],
    *,
    percent: bool = False,
    over: str = "the steps of training",
    dots: bool = False,
) -> str:
    """Lines over a common horizontal axis, each (x, y) with x ascending; lines without points are left out.

    over: what the axis is; dots: mark every point, and number every one of the few places on the axis
    """
    drawn = {name: _thinned([point for point in line if math.isfinite(point[1])]) for name, line in lines.items()}
    drawn = {name: line for name, line in drawn.items() if line}
    if not drawn:
        return ""
    xs = [x for line in drawn.values() for x, _ in line]
    plane, ticks = _plane(xs, [y for line in drawn.values() for _, y in line])
    parts = plane.grid(ticks, percent)
    if dots:
        parts += plane.foot((x, f"{x:,.0f}", "middle") for x in sorted(set(xs)))
    else:
        ends = [(min(xs), "start"), (max(xs), "end")][: 1 + (max(xs) > min(xs))]
        parts += plane.foot((x, f"{x:,.0f}", anchor) for x, anchor in ends)
    for index, line in enumerate(drawn.values()):
        colour = f"var(--c{index % NUM_COLOURS})"
        if len(line) > 1:
            parts.append(plane.line(line, f'stroke="{colour}"'))
        if len(line) == 1 or dots:
            for x, y in line:
                across, down = plane.place(x, y)
                parts.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="{colour}"/>')
    legend = "".join(
        f'<li><i style="color:var(--c{index % NUM_COLOURS})"></i>{escape(name)}</li>'
        for index, name in enumerate(drawn)
    )
    return _figure(title, f"{title} over {over}", parts, f'<ul class="legend">{legend}</ul>' if len(drawn) > 1 else "")


def scatter(
    title: str, points: Sequence[tuple[float, float, str]], *, across: str, up: str, one_scale: bool = False
) -> str:
    """(x, y, what it is) as dots, with the line on which x = y where both axes have the same scale.

    Where both mean the same and should be seen so, `one_scale` gives them the same bounds.
    """
    if not points:
        return ""
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    plane, ticks = _plane(xs + ys, xs + ys) if one_scale else _plane(xs, ys)
    parts = plane.grid(ticks, False)
    parts += plane.foot((x, _number(x, False), anchor) for x, anchor in ((plane.left, "start"), (plane.right, "end")))
    low, high = max(plane.left, plane.low), min(plane.right, plane.high)
    if high - low > 0.3 * (plane.right - plane.left):
        parts.append(plane.line([(low, low), (high, high)], 'class="ideal"'))
    for x, y, what in points:
        place = plane.place(x, y)
        parts.append(
            f'<circle class="dot" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="2.5"><title>{escape(what)}</title></circle>'
        )
    return _figure(
        title, f"{up} over {across}", parts, f'<p class="axes">across: {escape(across)}; up: {escape(up)}</p>'
    )


def reliability(title: str, bins: Sequence[tuple[float, float, int]]) -> str:
    """(mean confidence, share that is right, how many) per bin: on the diagonal, confidence means what it says."""
    plane = _Plane(0.0, 1.0, 0.0, 1.0)
    parts = plane.grid((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), True)
    parts += plane.foot((x, f"{x:.0%}", anchor) for x, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")))
    parts.append(plane.line([(0, 0), (1, 1)], 'class="ideal"'))
    most = max((count for _, _, count in bins), default=1) or 1
    kept = [(confidence, right, count) for confidence, right, count in bins if count]
    enough = [(confidence, right) for confidence, right, count in kept if count >= FEW]
    parts.append(plane.line(enough, 'stroke="var(--c0)"'))
    for confidence, right, count in kept:
        x, y = plane.place(confidence, right)
        told = f"{count:,} at {confidence:.0%}: {right:.0%} right"
        radius = 2.5 + 6 * math.sqrt(count / most)
        parts.append(f'<circle class="bin" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{told}</title></circle>')
    note = '<p class="axes">across: how sure; up: how often right; larger dots: more examples</p>'
    return _figure(title, f"{title}: share that is right over confidence", parts, note)


def heat_map(names: Sequence[str], counts: Sequence[Sequence[int]], *, numbers: bool = True) -> str:
    """How often the row's name was taken for the column's: right in one colour, wrong in another, each row its own scale.

    Without `numbers` the cells are small and tell them under the pointer.
    """

    def cell(row: int, column: int) -> str:
        count = counts[row][column]
        share = count / max(sum(counts[row]), 1)
        told = escape(f"{names[row]} taken for {names[column]}: {count:,} ({share:.0%})", quote=True)
        kind = ("right" if row == column else "wrong") + (" strong" if share > 0.55 else "")
        # The eye sees small shares of wrong ones better on a root's scale.
        weight = share if row == column else math.sqrt(share)
        text = f"{count:,}" if numbers and count else ""
        return f'<td class="{kind}" style="--w:{weight:.2f}" title="{told}">{text}</td>'

    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(cell(row, column) for column in range(len(names)))}</tr>'
        for row, name in enumerate(names)
    )
    kind = "heat" if numbers else "heat small"
    return (
        f'<div class="scroll"><table class="{kind}"><tr><td></td>{head}</tr>{body}</table></div>'
        '<p class="axes">down: what it is; across: what it was taken for</p>'
    )


def weights_map(rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]]) -> str:
    """How much of each row (its weights sum to 1) goes to each column: darker is more, the number is under the pointer."""

    def cell(row: int, column: int) -> str:
        weight = float(weights[row][column])
        told = escape(f"{rows[row]} → {columns[column]}: {weight:.0%}", quote=True)
        return f'<td class="right" style="--w:{weight:.2f}" title="{told}"></td>'

    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(cell(row, column) for column in range(len(columns)))}</tr>'
        for row, name in enumerate(rows)
    )
    return f'<div class="scroll"><table class="heat small"><tr><td></td>{head}</tr>{body}</table></div>'


def _plane(xs: Sequence[float], ys: Sequence[float]) -> tuple[_Plane, list[float]]:
    """A plane that holds all points, and its horizontal lines."""
    low, high = min(ys), max(ys)
    if high - low < 1e-12 * max(abs(high), 1.0):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    ticks = _ticks(low, high)
    return _Plane(min(xs), max(max(xs), min(xs) + 1e-9), min(low, ticks[0]), max(high, ticks[-1])), ticks


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
    if abs(value) < 0.001:  # a learning rate
        return f"{value:.1e}".replace(".0e", "e").replace("e-0", "e-")
    return f"{value:.3g}" if abs(value) < 1000 else f"{value / 1000:.3g}k"
