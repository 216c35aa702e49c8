"""Words as people separate them: the rules of a tagger, as a tokenizer's step."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertworks.tasks.words import split_words
from bertworks.text.word_rules import word_rules

RULES = word_rules()


def words(text: str) -> list[tuple[str, tuple[int, int]]]:
    return [(word, place) for word, place in RULES.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Germany's EU-wide ban, 22-year-old.", "Germany 's EU-wide ban , 22-year-old ."),
        ("He didn't pay $3,000.50 at 12:30", "He did n't pay $ 3,000.50 at 12:30"),
        ("the U.S. and e.g. R&D", "the U.S. and e.g. R&D"),
        ("(O'Neill)  said:\n\t«oui»", "( O'Neill ) said : « oui »"),
        ("naïve cafe\u0301 Zürich", "naïve cafe\u0301 Zürich"),
        ("今天好 yes", "今 天 好 yes"),
        ("  ", ""),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert " ".join(word for word, _ in words(text)) == expected


@example("7a'd")
@example("a7's")
@given(st.text(st.sampled_from("aBc7.,-'’:/&@_ \n!$sntrevd"), max_size=30))
def test_they_are_those_of_a_tagger(text: str) -> None:
    assert [place for _, place in words(text)] == split_words(text)
