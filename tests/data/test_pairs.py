"""Pairs as ids, and their batches."""

from __future__ import annotations

import numpy as np
import pytest

from bertworks.data.pairs import PairBatches, PairSource, frame_ids
from bertworks.data.parallel import ParallelText
from bertworks.errors import DataError, TokenizerError
from bertworks.text.train import TrainerOptions, train_tokenizer
from tests.translate.small import make_text, make_tokenizer


def test_both_sides_are_framed() -> None:
    text = make_text(40)
    tokenizer = make_tokenizer(text)
    source = PairSource(text, tokenizer, max_length=50)
    start, end = frame_ids(tokenizer)
    rows = source.take(np.array([7, 3]), epoch=2)
    assert sorted(rows.index.tolist()) == [3, 7]
    for ids, lengths, texts in (
        (rows.source_ids, rows.source_lengths, text.sources),
        (rows.target_ids, rows.target_lengths, text.targets),
    ):
        for piece, number in zip(np.split(ids, np.cumsum(lengths)[:-1]), rows.index, strict=True):
            assert (piece[0], piece[-1]) == (start, end)
            assert tokenizer.decode(piece) == texts[number]


def test_long_pairs_are_left_out() -> None:
    text = make_text(30)
    longer = ParallelText(name="x", sources=[*text.sources, "dog " * 40], targets=[*text.targets, "Hund"])
    source = PairSource(longer, make_tokenizer(text), max_length=20)
    assert source.too_long == 1
    assert len(source) == 30
    with pytest.raises(DataError, match=r"data.max_length = 3"):
        PairSource(text, make_tokenizer(text), max_length=3)


def test_an_epoch_has_every_pair_once_in_batches_of_like_lengths() -> None:
    text = make_text(400)
    source = PairSource(text, make_tokenizer(text), max_length=50)
    batches = PairBatches(source, batch_tokens=200, seed=1)
    epochs = []
    for epoch in range(2):
        taken = [batches.at(epoch * batches.num_batches + step) for step in range(batches.num_batches)]
        assert {number for number, _ in taken} == {epoch}
        everything = np.concatenate([numbers for _, numbers in taken])
        assert sorted(everything.tolist()) == list(range(400))
        epochs.append(everything.tolist())
        assert all(len(numbers) for _, numbers in taken)
        assert max(int(source.lengths[numbers].sum()) for _, numbers in taken) <= 200 + int(source.lengths.max())
        spread = np.mean([np.ptp(source.target_lengths[numbers]) for _, numbers in taken])
        assert spread < 0.5 * np.ptp(source.target_lengths)
    assert epochs[0] != epochs[1]
    again = PairBatches(source, batch_tokens=200, seed=1)
    step = batches.num_batches + 3
    assert again.at(step)[1].tolist() == batches.at(step)[1].tolist()


def test_a_tokenizer_without_a_frame_is_refused() -> None:
    text = make_text(20)
    bare = train_tokenizer(text.sources, TrainerOptions.of("byte-bpe", vocab_size=300, family="gpt2"))
    with pytest.raises(TokenizerError, match=r"<s> x </s>"):
        PairSource(text, bare, max_length=20)
