"""The page of `bertworks vectors bias`: what leans where, before and after neutralising and equalising."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bertworks.page import bars, document, facts, folded, scatter, section, soft, table
from bertworks.vectors.bias import Bias, Direction
from bertworks.vectors.evaluate import Score
from bertworks.vectors.words import Neighbour

MOST = 15  # words of each side
COMPONENTS = 8


def bias_page(
    name: str,
    direction: Direction,
    before: Bias,
    after: Bias,
    scores: Sequence[tuple[Score, Score]] = (),
) -> str:
    """One self-contained page; `scores` are of the same sets before and after."""
    one, other = direction.pairs[0]
    sides = f"positive numbers lean to {one!r}, negative ones to {other!r}"
    return document(
        f"Bias in word vectors: {name}",
        f"<h1>{escape(name)}: {escape(one)} and {escape(other)}</h1>",
        soft(f"Measured along a direction found from {len(direction.pairs)} pairs of words; {sides}."),
        facts(
            [
                (f"{before.direct:.3f} → {after.direct:.3f}", "mean size of the neutral words' projections"),
                (f"{before.explained:.0%}", "of the pairs' variance is the direction"),
                *_stereotype(before),
            ]
        ),
        section(
            "The direction",
            bars((f"component {number}", share) for number, share in enumerate(direction.explained[:COMPONENTS], 1)),
            soft("Pairs: " + ", ".join("/".join(pair) for pair in direction.pairs)),
        ),
        section("Words that lean most", *_leaning(before, after, one, other)),
        _examples(before, after, one, other) if before.analogies else "",
        section("Association tests", _tests(before, after), soft(WEAT_NOTE)) if before.tests else "",
        section("What is left", _left(before, after), soft(LEFT_NOTE)),
        section("Are the vectors still good?", _scores(scores)) if scores else "",
    )


WEAT_NOTE = (
    "Effect sizes (WEAT) in standard deviations, -2 to 2: do the first words lean to the third rather than the fourth, "
    "more than the second words do? p: how often words split at random give as much."
)
LEFT_NOTE = (
    "Taking out a direction does not take out bias: from the neighbours of a neutral word one can still tell to which side "
    "it leant (50% would be chance)."
)


def _stereotype(bias: Bias) -> list[tuple[str, str]]:
    return [] if bias.stereotype is None else [(f"{bias.stereotype:.2f}", "correlation with what people say")]


def _signed(value: float) -> str:
    """With its sign; what is rounded to 0 has none."""
    return f"{value:+.3f}" if round(value, 3) else "0.000"


def _leaning(before: Bias, after: Bias, one: str, other: str) -> list[str]:
    words = list(before.projections)

    def rows(chosen: Sequence[str]) -> str:
        cells = [(word, _signed(before.projections[word]), _signed(after.projections[word])) for word in chosen]
        return table(cells, header=("", "before", "after"), numbers=True)

    most = min(MOST, len(words) // 2)
    columns = "".join(
        f"<div><p>{escape(side)}</p>{rows(chosen)}</div>"
        for side, chosen in ((other, words[:most]), (one, words[::-1][:most]))
    )
    dots = [(value, after.projections[word], word) for word, value in before.projections.items()]
    everything = table(
        [(word, _signed(value), _signed(after.projections[word])) for word, value in before.projections.items()],
        header=("", "before", "after"),
        numbers=True,
    )
    return [
        f'<div class="columns">{columns}</div>',
        scatter("All neutral words", dots, across="projection before", up="projection after", one_scale=True),
        folded(f"All {len(words)} words", everything),
    ]


def _examples(before: Bias, after: Bias, one: str, other: str) -> str:
    def told(found: Sequence[Neighbour]) -> str:
        return ", ".join(f"{near.word} {near.similarity:.2f}" for near in found)

    analogies = [(word, told(near), told(after.analogies[word])) for word, near in before.analogies.items()]
    partners = [(word, told(near), told(after.partners[word])) for word, near in before.partners.items()]
    return section(
        f"{other} is to … as {one} is to …",
        table(analogies, header=("", "before", "after")),
        soft(
            f"Below, among the neutral words only: what differs from the word most nearly as {one} differs from {other}."
        ),
        table(partners, header=("", "before", "after")),
    )


def _tests(before: Bias, after: Bias) -> str:
    rows = [
        (one.title, f"{one.effect:+.2f} (p {one.p_value:.2g})", f"{other.effect:+.2f} (p {other.p_value:.2g})")
        for one, other in zip(before.tests, after.tests, strict=True)
    ]
    return table(rows, header=("", "before", "after"))


def _left(before: Bias, after: Bias) -> str:
    rows = [("side told by the neighbours", f"{before.clustering:.0%}", f"{after.clustering:.0%}")]
    return table(rows, header=("", "before", "after"), numbers=True)


def _scores(scores: Sequence[tuple[Score, Score]]) -> str:
    def shown(score: Score) -> str:
        return "nothing to ask" if score.value is None else f"{score.value:.3f}"

    rows = [(one.name, one.kind, shown(one), shown(other), f"{one.asked:,} of {one.rows:,}") for one, other in scores]
    return table(rows, header=("", "", "before", "after", "asked"), numbers=True)
