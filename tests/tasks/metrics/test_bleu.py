"""BLEU is that of `sacrebleu`, to the last digit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from bertworks.errors import UsageError
from bertworks.tasks.metrics.bleu import SIGNATURE, corpus_bleu, words_13a

WORDS = st.sampled_from(
    ["the", "cat", "sat", "on", "mat", "The", "1,000.5", "end.", "x-y", "5-6", "&quot;no&quot;", "ä", "…", "(a)"]
)
SENTENCES = st.lists(WORDS, max_size=12).map(" ".join)
reference_words = Tokenizer13a()


def test_worked_by_hand() -> None:
    found = corpus_bleu(["the cat sat on a mat today"], ["the cat sat on the mat yesterday"])
    # 5 of 7 words, 3 of 6 pairs (the cat, cat sat, sat on), 2 of 5 triples, 1 of 4 quadruples; equal length
    assert found.precisions == pytest.approx((500 / 7, 50, 40, 25))
    assert found.brevity == 1.0
    assert found.score == pytest.approx(math.exp(sum(map(math.log, (500 / 7, 50, 40, 25))) / 4))


def test_a_word_counts_no_more_often_than_in_the_reference() -> None:
    assert corpus_bleu(["the the the the"], ["the cat is here"]).precisions[0] == 25.0


def test_short_translations_are_penalised() -> None:
    found = corpus_bleu(["a b c d"], ["a b c d e f g h"])
    assert found.brevity == pytest.approx(math.exp(1 - 8 / 4))
    assert found.score == pytest.approx(100 * found.brevity)


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world!",
        "3.14 and 1,000, but .5",
        "a-b 5-6 x.y",
        'it\'s "so" {a} [b] ~^`',
        "&lt;b&gt; &amp;quot;",
        "50% of $3/2",
        " a\u202fb\u3000c ",
        "<skipped>x-\ny\nz",
    ],
)
def test_words_by_example(text: str) -> None:
    assert words_13a(text) == reference_words(text.rstrip()).split()


@given(st.text(max_size=60))
def test_words(text: str) -> None:
    assert words_13a(text) == reference_words(text.rstrip()).split()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=6))
def test_scores(pairs: list[tuple[str, str]]) -> None:
    ours = corpus_bleu([a for a, _ in pairs], [b for _, b in pairs])
    theirs = sacrebleu.corpus_bleu([a for a, _ in pairs], [[b for _, b in pairs]])
    assert ours.score == pytest.approx(theirs.score, abs=1e-9)
    assert ours.precisions == pytest.approx(theirs.precisions, abs=1e-9)
    assert (ours.length, ours.reference_length) == (theirs.sys_len, theirs.ref_len)
    assert ours.brevity == pytest.approx(theirs.bp)


def test_the_signature_is_theirs() -> None:
    metric = sacrebleu.metrics.BLEU()
    metric.corpus_score(["a"], [["a"]])
    assert str(metric.get_signature()).startswith(SIGNATURE)


def test_real_sentences(shared_data: Path) -> None:
    lines = (shared_data / "multi30k" / "test2016.de").read_text(encoding="utf-8").splitlines()
    changed = [line.replace("Ein", "Der").replace(",", "") for line in lines]
    theirs = sacrebleu.corpus_bleu(changed, [lines])
    assert corpus_bleu(changed, lines).score == pytest.approx(theirs.score, abs=1e-9)
    assert corpus_bleu(lines, lines).score == pytest.approx(100.0)


def test_as_many_references_as_translations() -> None:
    with pytest.raises(UsageError, match="2 translations and 1 references"):
        corpus_bleu(["a", "b"], ["a"])
