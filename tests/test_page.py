"""Pages stand alone and escape whatever they show; plots hold their points."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from bertworks.page import (
    Mark,
    bars,
    case,
    curves,
    document,
    facts,
    folded,
    heat_map,
    marked,
    reliability,
    scatter,
    section,
    soft,
    table,
)
from tests.reader import Reader


def test_parts_escape() -> None:
    page = document(
        "<t>",
        section("<s>", soft("<x>"), facts([("<v>", "<n>")]), table([("<a>", "<b>")], header=["<h>"])),
        folded("<f>", bars([("<bar>", 0.5)])),
        case(
            [("<pill>", "guess")], marked("<text>", [Mark(0, 3, "guess", '"<title>"', note="<note>")]), place="<place>"
        ),
        heat_map(["<one>", "two"], [[3, 1], [0, 2]]),
        scatter("<plot>", [(1.0, 2.0, "<point>"), (2.0, 1.0, "")], across="<across>", up="<up>"),
        reliability("<rel>", [(0.5, 0.4, 10), (0.9, 0.95, 30)]),
    )
    seen = Reader(page)
    assert seen.open == []
    assert (seen.fetched, seen.scripts) == ([], 0)
    wanted = "t s x v n a b h f bar pill text note place one plot point across up rel"
    for word in (f"<{name}>" for name in wanted.split()):
        if word != "<text>":  # cut in two by its mark
            assert word in seen.text, word
    assert "<te" in seen.text


@given(st.text("ab <&\"'é", max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5))
def test_marks_change_no_text(text: str, places: list[tuple[int, int]]) -> None:
    marks = [Mark(start, min(end, len(text)), "guess") for start, end in places if start <= len(text)]
    seen = Reader(f"<p>{marked(text, marks)}</p>")
    assert seen.text == text
    assert seen.open == []


def test_overlapping_marks_have_both_kinds() -> None:
    found = marked("New York City", [Mark(0, 8, "truth", "is LOC"), Mark(4, 13, "guess", "said ORG")])
    assert re.findall(r'<mark class="([^"]*)"[^>]*>([^<]*)<', found) == [
        ("truth", "New "),
        ("truth guess", "York"),
        ("guess", " City"),
    ]
    assert 'title="is LOC; said ORG"' in found


def test_bars_stay_within_their_track() -> None:
    found = bars([("a", 1.7), ("b", -0.4), ("c", 0.25)])
    assert re.findall(r"width:([\d.]+)%", found) == ["100.0", "0.0", "25.0"]
    assert "-40.0%" in found


def test_plots_hold_their_points() -> None:
    found = scatter("x", [(float(x), x * x / 10.0, str(x)) for x in range(-20, 21)], across="x", up="y")
    places = [(float(x), float(y)) for x, y in re.findall(r'cx="([-\d.]+)" cy="([-\d.]+)"', found)]
    assert len(places) == 41
    assert all(0 <= x <= 420 and 0 <= y <= 220 for x, y in places)
    assert scatter("x", [], across="x", up="y") == ""
    assert "<circle" in scatter("x", [(1.0, 1.0, "alone")], across="x", up="y")
    wide = scatter("x", [(-1.0, 1e-9, "a"), (1.0, -1e-9, "b")], across="x", up="y", one_scale=True)
    assert len(set(re.findall(r'cy="([-\d.]+)"', wide))) == 1
    dotted = curves("F1", {"a": [(0, 0.5), (1, 0.7), (2, 0.6)]}, dots=True, over="layers", percent=True)
    assert dotted.count("<circle") == 3
    assert [f">{number}<" in dotted for number in (0, 1, 2)] == [True] * 3
    assert "F1 over layers" in dotted


def test_heat_map() -> None:
    found = heat_map(["a", "b"], [[3, 1], [0, 0]])
    assert 'title="a taken for b: 1 (25%)">1<' in found
    assert 'class="right strong" style="--w:0.75"' in found
    assert "<td" in heat_map(["a", "b"], [[3, 1], [0, 0]], numbers=False)
    assert ">3<" not in heat_map(["a", "b"], [[3, 1], [0, 0]], numbers=False)
