"""Schemes are recognised, read alike, and written back."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.errors import UsageError
from bertworks.tasks.metrics.entities import Span
from bertworks.tasks.tags import Scheme, labels_of, recognise, scheme_of_labels, spans_of, tags_of, to_bio

WRITTEN: dict[Scheme, str] = {
    "bio": "B-PER O B-LOC B-PER I-PER B-PER O",
    "iob1": "I-PER O I-LOC I-PER I-PER B-PER O",
    "iobes": "S-PER O S-LOC B-PER E-PER S-PER O",
}
SPANS = [Span("PER", 0, 1), Span("LOC", 2, 3), Span("PER", 3, 5), Span("PER", 5, 6)]


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[Span], int]:
    """Spans that do not overlap, some side by side, and the number of words."""
    spans, place = [], 0
    for _ in range(draw(st.integers(0, 6))):
        first = place + draw(st.integers(0, 2))
        place = first + draw(st.integers(1, 3))
        spans.append(Span(draw(st.sampled_from(["A", "B", "X-Y"])), first, place))
    return spans, place + draw(st.integers(0, 2))


@pytest.mark.parametrize("scheme", WRITTEN)
def test_one_sentence_in_three_schemes(scheme: Scheme) -> None:
    tags = WRITTEN[scheme].split()
    assert recognise([tags]) == scheme
    assert spans_of(tags, scheme) == SPANS
    assert list(tags_of(SPANS, 7, scheme)) == tags
    assert " ".join(to_bio(tags, scheme)) == WRITTEN["bio"]


@given(sentences(), st.sampled_from(["bio", "iob1", "iobes"]))
def test_spans_survive_every_scheme(sentence: tuple[list[Span], int], scheme: Scheme) -> None:
    spans, length = sentence
    tags = tags_of(spans, length, scheme)
    assert len(tags) == length
    assert spans_of(tags, scheme) == spans
    # Reading needs no scheme: the letters say enough.
    assert spans_of(tags, "bio") == spans


@given(sentences())
def test_labels_alone_join_neighbours(sentence: tuple[list[Span], int]) -> None:
    spans, length = sentence
    tags = tags_of(spans, length, "io")
    joined = spans_of(tags, "io")
    assert tags_of(joined, length, "io") == tags
    assert all(not (a.stop == b.first and a.label == b.label) for a, b in itertools.pairwise(joined))


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O I-A I-A", [Span("A", 1, 3)]),
        ("B-A I-B I-A", [Span("A", 0, 1), Span("B", 1, 2), Span("A", 2, 3)]),
        ("E-A E-A", [Span("A", 0, 1), Span("A", 1, 2)]),
        ("S-A I-A", [Span("A", 0, 1), Span("A", 1, 2)]),
        ("B-A E-A I-A", [Span("A", 0, 2), Span("A", 2, 3)]),
        ("B I O", [Span("_", 0, 2)]),
        ("B-X-Y I-X-Y", [Span("X-Y", 0, 2)]),
    ],
)
def test_broken_rules_are_read_kindly(tags: str, expected: list[Span]) -> None:
    assert spans_of(tags.split(), "iobes") == expected


@pytest.mark.parametrize(
    ("sequences", "scheme"),
    [
        (["0 0 PER PER 0", "0 0"], "io"),  # a zero for O, labels alone
        (["O O LOC"], "io"),
        (["0 0 1 2 0 3", "0 0"], "plain"),  # numbers, of which nobody knows what begins a span
        (["DT NN VB", "O NN"], "plain"),  # a part of speech that is called O
        (["S V O"], "plain"),
        (["B M E S B E S"], "iobes"),  # Chinese words, without labels
        (["B-A L-A U-B O"], "iobes"),
        (["O O"], "plain"),
        ([], "plain"),
        (["B-PER I-PER O O"] * 9 + ["O PER"], "bio"),  # a slip, which is told with its place
        (["B-PER I-PER O O"] * 9 + ["b-per O"], "bio"),
        (["B-PER I-PER O O"] * 9 + ["O I-LOC"], "bio"),
        (["O I-PER", "I-PER B-PER"], "iob1"),
        ([""], "plain"),
    ],
)
def test_schemes_are_recognised(sequences: list[str], scheme: Scheme) -> None:
    assert recognise([tags.split() for tags in sequences]) == scheme


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("O B-LOC I-LOC B-PER I-PER", "bio"),
        ("B-LOC I-LOC I-PER O", "iob1"),  # a model whose data never needed B-PER
        ("O B-A I-A E-A S-A", "iobes"),
        ("O B I", "bio"),
        ("O PER LOC", "io"),
        ("0 PER", "io"),
        ("0 1 2", "plain"),
        ("DT NN VB", "plain"),
        ("B M E S", "plain"),  # of Chinese words: every word is in one
        ("N O V A", "plain"),  # letters are parts of speech
        ("LABEL_0 LABEL_1", "plain"),
        ("O", "plain"),
    ],
)
def test_schemes_of_models_are_told_by_their_labels(labels: str, scheme: Scheme) -> None:
    assert scheme_of_labels(labels.split()) == scheme


def test_zero_is_outside() -> None:
    assert to_bio(["0", "PER", "PER", "0", "LOC"], "io") == ("O", "B-PER", "I-PER", "O", "B-LOC")


def test_bilou_is_read() -> None:
    assert spans_of(["B-A", "I-A", "L-A", "U-B"], "iobes") == [Span("A", 0, 3), Span("B", 3, 4)]


def test_labels() -> None:
    assert labels_of([["O", "I-PER"], ["S-LOC"]], "iobes") == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert labels_of([["NN", "DT"], ["NN"]], "plain") == ("DT", "NN")


def test_plain_tags_have_no_spans() -> None:
    assert spans_of(["NN", "B-A"], "plain") == []
    assert to_bio(["NN", "B-A"], "plain") == ("NN", "B-A")
    with pytest.raises(UsageError, match="allowed schemes: bio, iob1"):
        tags_of([], 3, "plain")


def test_a_tag_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="'PER' is neither O nor"):
        spans_of(["PER"], "bio")
