"""Sentence bounds: hand-written examples per language, and what must hold for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.sentences import LANGUAGES, guess_language, sentence_spans
from bertworks.errors import UsageError


def split(text: str, language: str = "auto") -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


# Each list is joined with a space (nothing, in Chinese) and must be found again.
ENGLISH = [
    ["It rained.", "Nobody came!", "Why?", "Because."],
    ["Mr. Brown met Dr. Gray at St. Paul's.", "They talked."],
    ["Pi is 3.14159, roughly.", "See example.org for more."],
    ["J. R. R. Tolkien and George W. Bush never met.", "Pity."],
    ["The U.S. Navy left.", "It was seen off the coast of the U.S.", "The sailors waved."],
    ["He said, “Go home.”", "She did not.", "(Nobody did.)", "So it ended."],
    ['"Go!" he said.', '"Where to?" she asked.', '"Home."'],
    ["Well... maybe not.", "And then…", "Nothing happened."],
    ["See Fig. 3, vol. 2, and pp. 7 f. of No. 5.", "No.", "He refused."],
    ["It cost $4.50 at 5 p.m. on Monday.", "Cheap!"],
    ["In 1999.", "2000 came next."],
    ["Some animals, e.g. cats, i.e. felines, sleep.", "Dogs etc. do not."],
    ["What?!", "Really?!", "Yes."],
    ["1. Introduction"],
    ["IV. The Sea"],
    ["Smith, Jones et al. Found nothing."],
    ["He works at Acme Inc. in Boston.", "His wife does not."],
]
SWEDISH = [
    ["Det regnade.", "Ingen kom!", "Varför?", "Därför."],
    ["Man kan t.ex. äta äpplen, bl.a. röda.", "De är goda."],
    ["Tåget går kl. 12.30 fr.o.m. måndag.", "Kom i tid."],
    ["Dr. Ek bor på nr. 7, d.v.s. i hörnet.", "Han är hemma."],
    ["”Kom hit!” sade hon.", "”Nej”, svarade han.", "– Då går jag, sade hon."],
    ["A. Strindberg skrev pjäser.", "En av dem heter Fadren."],
    ["Åren gick.", "Ängarna blev skog.", "Öarna låg kvar."],
    ["Talet är 3,5 eller 3.5.", "Det räcker."],
    ["Han heter Jan.", "Hon följde med.", "Den 3 jan. 1901 var de framme."],
    ["Man åt bröd, ost m.m.", "Sedan gick man hem."],
]
CHINESE = [
    ["河边有一座旧磨坊。", "磨坊主的女儿每天都去河边！", "为什么？", "没有人知道。"],
    ["他说：“走吧。”", "她没有动。"],
    ["「真的吗？」", "她问。"],
    ["圆周率约为3.14，网址是example.org。", "完。"],
    ["什么？！", "不可能……真的不可能。"],
    ["你好!", "再见?", "好的。"],
    ["（他笑了。）", "门开了。"],
]


@pytest.mark.parametrize("sentences", ENGLISH, ids=lambda s: s[0][:24])
def test_english(sentences: list[str]) -> None:
    assert split(" ".join(sentences), "en") == sentences


@pytest.mark.parametrize("sentences", SWEDISH, ids=lambda s: s[0][:24])
def test_swedish(sentences: list[str]) -> None:
    assert split(" ".join(sentences), "sv") == sentences


@pytest.mark.parametrize("sentences", CHINESE, ids=lambda s: s[0][:12])
def test_chinese(sentences: list[str]) -> None:
    assert split("".join(sentences), "zh") == sentences


def test_a_line_end_ends_a_sentence() -> None:
    assert split("A heading\nA line without a stop\n\n  Then. One more. ") == [
        "A heading",
        "A line without a stop",
        "Then.",
        "One more.",
    ]
    assert split("") == split(" \n\t ") == []


def test_languages_are_told_apart() -> None:
    assert guess_language("The cat sat on the mat, and it was happy.") == "en"
    assert guess_language("Katten satt på mattan och den var glad.") == "sv"
    assert guess_language("Han kom hit och var snart glad att det var varmt.") == "sv"  # without å, ä, ö
    assert guess_language("猫坐在垫子上（The cat）。") == "zh"
    assert guess_language("") == guess_language("12345") == "en"
    mixed = "Det är t.ex. Anna som kom."  # an abbreviation of Swedish only
    assert split(mixed) == [mixed]
    assert split(mixed, "en") != [mixed]


def test_labels_and_initials_without_end() -> None:
    assert split("Contents\n  1. Introduction\n  IV. The mill") == ["Contents", "1. Introduction", "IV. The mill"]
    initials = "I. " * 100_000  # one sentence that never ends, with a possible end after every word
    assert split(initials) == [initials.strip()]


def test_an_unknown_language() -> None:
    with pytest.raises(UsageError, match="unknown language 'de'; allowed: en, sv, zh, auto"):
        sentence_spans("Nun denn.", "de")


TEXTS = st.text(
    st.one_of(st.sampled_from(list(".!?…。！？ \n\t\"'“”’」）)([ABCabcåÄ1290·中文字-")), st.characters()), max_size=80
)


@given(TEXTS, st.sampled_from(["auto", *LANGUAGES]))
def test_spans_are_in_order_and_lose_nothing(text: str, language: str) -> None:
    end = 0
    for start, stop in sentence_spans(text, language):
        assert end <= start < stop <= len(text)
        assert not text[end:start].strip()
        assert text[start:stop] == text[start:stop].strip()
        assert "\n" not in text[start:stop]
        end = stop
    assert not text[end:].strip()
