"""A running text in words."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.data.labelled.examples import Place
from bertworks.tasks.words import joined, split_words, tagged_from_text
from tests.text.tiny import TEXTS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The U.S. won't beat Germany's team.", "The|U.S.|wo|n't|beat|Germany|'s|team|."),
        ("A 22-year-old, 3,000.50 at 12:30 (Paris,Berlin)", "A|22-year-old|,|3,000.50|at|12:30|(|Paris|,|Berlin|)"),
        ("i.e. R&D at a.b.com", "i.e.|R&D|at|a.b.com"),
        ("O'Neill said “yes” — twice…", "O'Neill|said|“|yes|”|—|twice|…"),
        ("我爱北京。OK", "我|爱|北|京|。|OK"),
        ("e\u0301clair nai\u0308ve नमस्ते", "e\u0301clair|nai\u0308ve|नमस्ते"),
        ("👨‍👩‍👧 🇸🇪🇩🇪 👍🏽!", "👨‍👩‍👧|🇸🇪|🇩🇪|👍🏽|!"),
        ("zero\u200bwidth soft\u00adhyphen \x00 \ufeffend", "zero|width|soft\u00adhyphen|end"),
        ("lone \ud800 surrogate", "lone|\ud800|surrogate"),
        ("  \t\n ", ""),
        ("", ""),
    ],
)
def test_by_hand(text: str, words: str) -> None:
    assert "|".join(text[start:end] for start, end in split_words(text)) == words


@given(st.one_of(st.text(), st.lists(st.sampled_from(TEXTS)).map(" ".join)))
@settings(deadline=None, max_examples=200)
def test_words_are_in_order_and_hold_every_letter(text: str) -> None:
    places = split_words(text)
    assert all(start < end for start, end in places)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(places))
    covered = {place for start, end in places for place in range(start, end)}
    assert not [c for number, c in enumerate(text) if c.isalnum() and number not in covered]
    assert not [text[start:end] for start, end in places if any(c.isspace() for c in text[start:end])]


def test_an_example_keeps_its_text() -> None:
    example = tagged_from_text("Two  words", Place("here", 3))
    assert example.words == ("Two", "words")
    assert example.text == "Two  words"
    assert example.offsets == ((0, 3), (5, 10))
    assert example.tags is None


@given(st.lists(st.text(max_size=4)).map(tuple))
def test_joined_words_are_where_they_are_said_to_be(words: tuple[str, ...]) -> None:
    text, offsets = joined(words)
    assert tuple(text[start:end] for start, end in offsets) == words
