"""The page that `bertworks tokenizer compare -o PAGE.html` writes: bars per measure and the longest splits, no script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from bertworks.page import document, section
from bertworks.text.compare import Measure

BAR_WIDTH = 420
ROW_HEIGHT = 26
NAME_WIDTH = 200

PLOTS: tuple[tuple[str, str, Callable[[Measure], float], Callable[[float], str]], ...] = (
    ("Tokens per word", "Fewer is coarser: shorter sequences.", lambda m: m.fertility, lambda v: f"{v:.3f}"),
    ("Bytes of text per token", "More text in the same window.", lambda m: m.bytes_per_token, lambda v: f"{v:.2f}"),
    ("Unknown tokens", "Text that a model cannot see.", lambda m: m.unknown_share, lambda v: f"{v:.2%}"),
    ("Words that are one token", "", lambda m: m.whole_share, lambda v: f"{v:.1%}"),
)


def page(measures: Sequence[Measure], source: str) -> str:
    """One self-contained HTML page."""
    words = f"{measures[0].words:,} words, {measures[0].bytes:,} bytes of {source}"
    plots = (section(title, _bars(measures, value, shown), f"<p>{note}</p>") for title, note, value, shown in PLOTS)
    heading = f"<h1>Tokenizers compared</h1><p>{escape(words)}</p>"
    return document("Tokenizers compared", heading, *plots, *map(_splits, measures))


def _bars(measures: Sequence[Measure], value: Callable[[Measure], float], shown: Callable[[float], str]) -> str:
    """Horizontal bars as SVG, the longest as wide as the picture allows."""
    largest = max(value(found) for found in measures) or 1.0
    rows = []
    for index, found in enumerate(measures):
        top = index * ROW_HEIGHT
        width = max(1.0, BAR_WIDTH * value(found) / largest)
        rows.append(
            f'<text x="0" y="{top + 17}" fill="currentColor">{escape(found.name[-28:])}</text>'
            f'<rect x="{NAME_WIDTH}" y="{top + 4}" width="{width:.1f}" height="18" rx="3" fill="#0d6c9c"/>'
            f'<text x="{NAME_WIDTH + width + 8:.1f}" y="{top + 17}" fill="currentColor">{shown(value(found))}</text>'
        )
    size = f"0 0 {NAME_WIDTH + BAR_WIDTH + 90} {len(measures) * ROW_HEIGHT}"
    return f'<svg viewBox="{size}" role="img" style="width:100%;font:13px system-ui,sans-serif">{"".join(rows)}</svg>'


def _splits(found: Measure) -> str:
    rows = "".join(
        f"<li>{len(split.pieces)}: <b>{escape(split.word[:60])}</b> {escape(' '.join(split.pieces[:16]))}</li>"
        for split in found.longest
    )
    kind = f"{found.kind}, {found.vocab_size:,} tokens"
    return section(f"Longest splits of {found.name}", f"<p>{kind}</p><ul>{rows}</ul>")
