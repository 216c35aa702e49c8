"""Words out of letters: against the sums written out, and whatever shares the batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import UsageError
from bertworks.nn.characters import CharacterEncoder
from bertworks.nn.packed import Layout, shifted


def encoder(kind: str) -> CharacterEncoder:
    torch.manual_seed(1)
    return CharacterEncoder(kind, num_characters=11, size=3, num_features=4)


def encode(kind: str, words: list[list[int]]) -> torch.Tensor:
    flat = torch.tensor([letter for word in words for letter in word], dtype=torch.long)
    with torch.no_grad():
        found: torch.Tensor = encoder(kind)(flat, Layout([len(word) for word in words]))
    return found


def test_the_convolution_sees_three_letters_and_keeps_the_largest() -> None:
    module = encoder("cnn")
    assert module.window is not None
    letters = module.table(torch.tensor([5, 7, 2])).detach()
    nothing = torch.zeros(3)
    windows = [
        torch.cat([after, here, before])
        for before, here, after in (
            (nothing, letters[0], letters[1]),
            (letters[0], letters[1], letters[2]),
            (letters[1], letters[2], nothing),
        )
    ]
    wanted = torch.stack([module.window(window) for window in windows]).amax(dim=0)
    torch.testing.assert_close(encode("cnn", [[5, 7, 2]])[0], wanted.detach())


@pytest.mark.parametrize("kind", ["cnn", "lstm"])
@settings(deadline=None, max_examples=30)
@given(words=st.lists(st.lists(st.integers(0, 10), max_size=6), max_size=5))
def test_a_word_does_not_depend_on_its_neighbours(kind: str, words: list[list[int]]) -> None:
    together = encode(kind, words)
    assert together.shape == (len(words), 4)
    for word, vector in zip(words, together, strict=True):
        torch.testing.assert_close(encode(kind, [word])[0], vector)


def test_the_lstm_reads_from_both_ends() -> None:
    first, second = encode("lstm", [[1, 2, 3], [1, 2, 4]])
    assert not torch.allclose(first[:2], second[:2])
    assert not torch.allclose(first[2:], second[2:])


def test_odd_features_have_no_two_halves() -> None:
    with pytest.raises(UsageError, match="even"):
        CharacterEncoder("lstm", num_characters=3, size=2, num_features=5)
    with pytest.raises(UsageError, match="allowed: cnn, lstm"):
        CharacterEncoder("rnn", num_characters=3, size=2, num_features=4)


@settings(deadline=None)
@given(lengths=st.lists(st.integers(0, 4), max_size=5), by=st.integers(-3, 3))
def test_shifted_rows_stay_in_their_sequence(lengths: list[int], by: int) -> None:
    layout = Layout(lengths)
    flat = torch.arange(1.0, layout.total + 1)[:, None]
    found = shifted(flat, layout, by)[:, 0].tolist()
    wanted = []
    for start, length in zip(layout.starts, lengths, strict=True):
        own = flat[start : start + length, 0].tolist()
        wanted += [own[place - by] if 0 <= place - by < length else 0.0 for place in range(length)]
    assert found == wanted
