"""What is masked: how much, what never, in which units, with what, and always alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.config import from_dict, to_dict
from bertworks.data.pretraining import Lexicon, Masked, Masker, MaskingConfig, Sequences
from bertworks.data.pretraining.masking import _choose, _fill_up, span_hazard
from bertworks.errors import ConfigError, TokenizerError, UsageError
from bertworks.text.tokenizer import Tokenizer
from tests.data.pretraining.helpers import letters_tokenizer, rows_of
from tests.text import tiny

TOKENIZER = letters_tokenizer()  # w0 … w39 are 5 … 44, ##a ##b ##c are 45 46 47
VOCABULARY = TOKENIZER.vocab_size
LEXICON = Lexicon([(5, 6), (5, 6, 7), (8, 45, 9), (10, 11, 12, 13)], VOCABULARY)
UNITS = ("token", "word", "span", "lexicon")
MASK, UNKNOWN = 4, 1

# Mostly text, now and then an unknown token; entries of the lexicon are likely.
SEQUENCES = st.lists(st.lists(st.sampled_from([1, *range(5, 16), 45, 46, 47]), max_size=40), min_size=1, max_size=6)


def masker(unit: str = "token", *, seed: int = 0, **settings: object) -> Masker:
    config = from_dict(MaskingConfig, {"unit": unit, **settings})
    return Masker(config, TOKENIZER, LEXICON if unit == "lexicon" else None, seed)


def random_rows(count: int, length: int, seed: int = 0, epoch: int = 0) -> Sequences:
    generator = np.random.default_rng(seed)
    return rows_of(generator.integers(5, VOCABULARY, (count, length)).tolist(), epoch=epoch)


def check(rows: Sequences, masked: Masked) -> None:
    """What holds for any masking."""
    assert (np.diff(masked.places) > 0).all()
    np.testing.assert_array_equal(masked.targets, rows.ids[masked.places])
    untouched = np.ones(len(rows.ids), bool)
    untouched[masked.places] = False
    np.testing.assert_array_equal(masked.input_ids[untouched], rows.ids[untouched])
    assert not rows.special[masked.places].any()
    assert (masked.targets >= 5).all()  # no special token is asked for, not even [UNK]
    new = masked.input_ids[masked.places]
    assert ((new == MASK) | (new >= 5)).all()  # and none is put in


def test_choose_by_hand() -> None:
    """Units of 2 3 1 1 | 4 5 | (nothing); budgets 4, 2, 0: 3 fits, 2 does not, 1 does; the smallest where none fits."""
    chosen = np.zeros(7, bool)
    size, sequence = np.array([2, 3, 1, 1, 5, 4, 0]), np.array([0, 0, 0, 0, 1, 1, 2])
    _choose(np.array([1, 0, 3, 2, 4, 5, 6]), size, sequence, np.array([4, 2, 0]), chosen)
    assert chosen.tolist() == [False, True, False, True, False, True, False]


@settings(deadline=None, max_examples=60)
@given(SEQUENCES, st.sampled_from(UNITS), st.floats(0.05, 0.6), st.integers(0, 3))
def test_counts_and_what_is_never_masked(texts: list[list[int]], unit: str, rate: float, epoch: int) -> None:
    rows = rows_of(texts, epoch=epoch)
    masking = masker(unit, rate=rate)
    masked = masking.apply(rows)
    check(rows, masked)
    got = np.bincount(rows.sequence_ids[masked.places], minlength=len(texts))
    for place, text in enumerate(texts):
        maskable = sum(token != UNKNOWN for token in text)
        wanted = max(1, int(rate * maskable + 0.5)) if maskable else 0
        if unit == "token":
            assert got[place] == wanted
        assert (got[place] > 0) == (maskable > 0)
        if unit == "word" and got[place] > wanted:  # only where no word is that short
            assert got[place] == min(len(word) for word in words(text))


def words(text: list[int]) -> list[list[int]]:
    """A sequence in words: [UNK] is none, and what follows it begins one."""
    found: list[list[int]] = []
    before = UNKNOWN
    for token in text:
        if token != UNKNOWN:
            if token < 45 or before == UNKNOWN:
                found.append([])
            found[-1].append(token)
        before = token
    return found


@settings(deadline=None, max_examples=60)
@given(SEQUENCES, st.sampled_from(UNITS), st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_sequence_is_masked_alike_in_any_company(
    texts: list[list[int]], unit: str, epoch: int, random: object
) -> None:
    masking = masker(unit, rate=0.3, seed=7)
    order = list(range(len(texts)))
    random.shuffle(order)  # type: ignore[attr-defined]
    rows = rows_of([texts[number] for number in order], index=order, epoch=epoch)
    together = masking.apply(rows)
    for place, number in enumerate(order):
        alone = masking.apply(rows_of([texts[number]], index=[number], epoch=epoch))
        start, end = rows.starts[place], rows.starts[place] + rows.lengths[place]
        np.testing.assert_array_equal(together.input_ids[start:end], alone.input_ids)
        here = (together.places >= start) & (together.places < end)
        np.testing.assert_array_equal(together.places[here] - start, alone.places)


def test_nothing_to_mask() -> None:
    for unit in UNITS:
        empty = rows_of([])
        assert len(masker(unit).apply(empty).places) == 0
        assert len(masker(unit).apply(rows_of([[], [1, 1]])).places) == 0


def test_static_dynamic_and_copies() -> None:
    def places(epoch: int, copies: int | None, seed: int = 0) -> list[int]:
        return masker(copies=copies, seed=seed).apply(random_rows(4, 50, epoch=epoch)).places.tolist()

    assert places(0, None) != places(1, None)
    assert places(0, 1) == places(1, 1) == places(17, 1) == places(0, None)
    assert places(0, 10) == places(10, 10) == places(0, None)
    assert places(3, 10) == places(13, 10) == places(3, None)
    assert places(0, 1) != places(0, 1, seed=1)


def test_every_token_is_masked_at_the_rate_and_eight_in_ten_are_masks() -> None:
    """5,000 sequences of 40 tokens at 15 %: 6 each; bounds are 5 standard deviations."""
    rows = random_rows(5000, 40)
    masked = masker(seed=3).apply(rows)
    check(rows, masked)
    count = len(masked.places)
    assert count == 5000 * 6
    by_position = np.bincount(rows.positions[masked.places], minlength=42)[1:41]
    assert np.abs(by_position - 750).max() < 5 * np.sqrt(750 * 0.85)
    new = masked.input_ids[masked.places]
    is_mask = new == MASK
    is_same = new == masked.targets
    for share, expected in ((is_mask.mean(), 0.8), (is_same.mean(), 0.1 + 0.1 / 43)):
        assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / count)
    drawn = np.bincount(new[~is_mask & ~is_same], minlength=VOCABULARY)
    assert drawn[:5].sum() == 0
    expected_each = drawn.sum() / 43
    assert np.abs(drawn[5:] - expected_each).max() < 5 * np.sqrt(expected_each)
    # What happens to a token has nothing to do with what happens to the one masked before it.
    assert abs(np.corrcoef(is_mask[1:], is_mask[:-1])[0, 1]) < 5 / np.sqrt(count)


def test_all_masks_or_none() -> None:
    rows = random_rows(10, 30)
    everything = masker(mask_share=1.0, random_share=0.0).apply(rows)
    assert (everything.input_ids[everything.places] == MASK).all()
    nothing = masker(mask_share=0.0, random_share=0.0).apply(rows)
    np.testing.assert_array_equal(nothing.input_ids, rows.ids)
    np.testing.assert_array_equal(nothing.places, everything.places)


def test_the_rate_decays_with_progress() -> None:
    rows = random_rows(3, 100)
    masking = masker(rate=0.3, final_rate=0.1)
    got = [len(masking.apply(rows, progress).places) for progress in (0.0, 0.5, 1.0)]
    assert got == [90, 60, 30]
    assert len(masker(rate=0.3).apply(rows, 1.0).places) == 90


def test_words_are_masked_whole() -> None:
    generator = np.random.default_rng(1)
    texts = [generator.choice([*range(5, 20), 45, 46, 47], 60).tolist() for _ in range(50)]
    rows = rows_of(texts)
    masked = masker("word", rate=0.2).apply(rows)
    is_masked = np.zeros(len(rows.ids), bool)
    is_masked[masked.places] = True
    continues = np.flatnonzero((rows.ids >= 45) & (rows.positions > 1))
    np.testing.assert_array_equal(is_masked[continues], is_masked[continues - 1])
    counts = np.bincount(rows.sequence_ids[masked.places])
    assert counts.max() <= 12
    assert counts.mean() > 11.5  # one-token words fill up what is left


def test_lexicon_entries_are_masked_whole() -> None:
    generator = np.random.default_rng(2)
    texts = [generator.choice(range(5, 18), 80).tolist() for _ in range(80)]
    texts[0] = [5, 6, 7, 5, 6, 8, 45, 9, 8, 45, 10, 11, 12, 13] * 4
    rows = rows_of(texts)
    masking = masker("lexicon", rate=0.3)
    starts = masking._unit_starts(rows, ~rows.special)
    units = [rows.ids[a:b].tolist() for a, b in zip(*[np.flatnonzero(starts)[i:] for i in (0, 1)], strict=False)]
    assert units[1:8] == [[5, 6, 7], [5, 6], [8, 45, 9], [8, 45], [10, 11, 12, 13], [5, 6, 7], [5, 6]]
    is_masked = np.zeros(len(rows.ids), bool)
    is_masked[masking.apply(rows).places] = True
    unit = np.cumsum(starts) - 1
    share = np.bincount(unit, is_masked) / np.bincount(unit)
    assert set(share) == {0.0, 1.0}


def test_an_entry_ends_where_a_word_does() -> None:
    """w0 w1 is an entry, but in w0 w1##a it is not there."""
    masking = masker("lexicon")
    rows = rows_of([[5, 6, 45, 9, 5, 6, 9]])
    starts = masking._unit_starts(rows, ~rows.special)
    assert starts.tolist() == [True, True, True, False, True, True, False, True, True]


@pytest.mark.parametrize(("mean", "longest"), [(3.8, 10), (1.0, 5), (3.0, 5), (2.0, 100)])
def test_span_lengths_have_their_mean(mean: float, longest: int) -> None:
    hazard = span_hazard(mean, longest)
    assert len(hazard) == longest + 1
    at_least = np.cumprod(np.concatenate([[1.0], 1 - hazard[1:-1]]))
    assert abs(at_least.sum() - mean) < 1e-6  # the sum of P(length >= n) is the mean
    if (mean, longest) == (3.8, 10):
        # SpanBERT's numbers: p = 0.2, cut off at 10, is 3.8 in the mean
        expected = 0.2 * 0.8 ** np.arange(10) / (1 - 0.8**10)
        np.testing.assert_allclose(at_least * hazard[1:], expected, atol=0.002)


def spans_of(masking: Masker, rows: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """For each token, the number of its word and the number of its span."""
    starts = masking._unit_starts(rows, ~rows.special)
    words = np.flatnonzero(starts)
    lead = masking._span_starts(rows, ~rows.special, words, rows.index[rows.sequence_ids], 0)
    word = np.cumsum(starts) - 1
    return word, np.cumsum(np.diff(lead, prepend=-1) > 0)[word] - 1


def test_filling_up_by_hand() -> None:
    """Words of 1 2 3 1 | 4 1 | (nothing); budgets 4, 2, 0: up to the first that does not fit, and the first anyway."""
    chosen = np.zeros(7, bool)
    size, sequence = np.array([1, 2, 3, 1, 4, 1, 0]), np.array([0, 0, 0, 0, 1, 1, 2])
    _fill_up(np.arange(7), size, sequence, np.array([4, 2, 0]), chosen)
    assert chosen.tolist() == [True, True, False, False, True, False, False]


def test_spans_are_runs_of_whole_words_changed_alike() -> None:
    rows = random_rows(4000, 120, seed=5)
    masking = masker("span", mask_share=0.5, random_share=0.0)
    word, span = spans_of(masking, rows)
    continues = np.flatnonzero((rows.ids >= 45) & (rows.positions > 1))
    np.testing.assert_array_equal(word[continues], word[continues - 1])
    np.testing.assert_array_equal(span[continues], span[continues - 1])
    masked = masking.apply(rows)
    check(rows, masked)
    is_masked = np.zeros(len(rows.ids), bool)
    is_masked[masked.places] = True
    np.testing.assert_array_equal(is_masked[continues], is_masked[continues - 1])
    changed = masked.input_ids[masked.places] == MASK
    by_span = np.bincount(span[masked.places], changed) / np.maximum(np.bincount(span[masked.places]), 1)
    assert set(by_span) == {0.0, 1.0}
    counts = np.bincount(rows.sequence_ids[masked.places])
    assert counts.max() == 18
    assert counts.mean() > 17.8  # where the next word does not fit, its place stays free
    # Every word is as likely to be masked as any other; the very first a little more, since it always begins a span.
    by_position = np.bincount(rows.positions[masked.places], minlength=122)[1:121].reshape(6, 20).sum(1)
    assert by_position.max() / by_position.min() < 1.12


@pytest.mark.parametrize("length", [126, 510])
def test_masked_spans_have_the_lengths_that_were_asked_for(length: int) -> None:
    """All words are single tokens. Only the last span of a sequence is cut; as drawn, they are SpanBERT's."""
    generator = np.random.default_rng(4)
    rows = rows_of(generator.integers(5, 45, (300_000 // length, length)).tolist())
    masking = masker("span")
    masked = masking.apply(rows)
    wanted = int(0.15 * length + 0.5)
    assert (np.bincount(rows.sequence_ids[masked.places]) == wanted).all()
    _, span = spans_of(masking, rows)
    whole, taken = np.bincount(span), np.bincount(span[masked.places], minlength=span[-1] + 1)
    cut = np.flatnonzero((taken > 0) & (taken < whole))
    first = np.flatnonzero(np.diff(span, prepend=-1))  # of each span
    assert len(np.unique(rows.sequence_ids[first[cut]])) == len(cut)  # at most one of a sequence
    is_masked = np.isin(np.arange(len(rows.ids)), masked.places)
    assert all(is_masked[first[number] : first[number] + taken[number]].all() for number in cut)  # its beginning
    drawn = whole[taken > 0]
    # Chance is 0.02 or so; the span at the end of a sequence is cut by that end, which is 3.8 / length of the mean.
    assert abs(drawn.mean() - 3.8) < 0.1 + 14 / length
    shares = np.bincount(drawn, minlength=11)[1:] / len(drawn)
    np.testing.assert_allclose(shares, 0.2 * 0.8 ** np.arange(10) / (1 - 0.8**10), atol=0.015 + 2 / length)


def test_random_tokens_are_drawn_for_each_token_of_a_span() -> None:
    rows = random_rows(50, 60)
    masked = masker("span", mask_share=0.0, random_share=1.0).apply(rows)
    assert len(Counter(masked.input_ids[masked.places].tolist())) > 30


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 0.0}, "rate must be between 0 and 1, not 0.0"),
        ({"final_rate": 1.5}, "final_rate must be between 0 and 1, not 1.5"),
        ({"mask_share": 0.9, "random_share": 0.2}, "together at most 1, not 0.9 and 0.2"),
        ({"mask_share": -0.1}, "must be 0 or more"),
        ({"copies": 0}, "copies must be at least 1, not 0"),
        ({"mean_span": 6.0}, "mean_span must be from 1 to 5.5 with max_span 10"),
        ({"max_span": 0}, "max_span"),
    ],
)
def test_bad_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict(MaskingConfig, settings)


def test_the_settings_are_a_configuration() -> None:
    config = MaskingConfig(unit="span", final_rate=0.1, copies=10)
    assert from_dict(MaskingConfig, to_dict(config)) == config
    with pytest.raises(ConfigError, match="unknown unit 'words'"):
        replace(config, unit="words")  # type: ignore[arg-type]


def test_errors() -> None:
    with pytest.raises(TokenizerError, match="no mask token"):
        Masker(MaskingConfig(), Tokenizer(tiny.gpt2()))
    with pytest.raises(UsageError, match="needs a lexicon"):
        Masker(MaskingConfig(unit="lexicon"), TOKENIZER)
    with pytest.raises(UsageError, match="made with a vocabulary of 99 tokens"):
        Masker(MaskingConfig(unit="lexicon"), TOKENIZER, Lexicon([(5, 6)], 99))
