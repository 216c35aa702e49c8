"""A word's vector out of its letters, so that a word never seen before still looks like something.

    cnn     letters -> table -> every run of three letters -> a linear layer -> the largest value of each feature
            (dos Santos & Zadrozny 2014; Ma & Hovy 2016)
    lstm    letters -> table -> bidirectional LSTM -> its two final states side by side (Lample et al. 2016)

The words of a batch are a packed batch of letters: no word is padded. A batch has many words twice; whoever makes it
gives each spelling once.

Legend: S spellings, C letters of all of them, E width of a letter's vector, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertworks.errors import UsageError, choice
from bertworks.nn.packed import Layout, max_per_sequence, shifted
from bertworks.nn.recurrent import Recurrent

KINDS = ("cnn", "lstm")
REACH = 1
"""Letters to each side that the convolution sees."""


class CharacterEncoder(nn.Module):
    """Spellings to vectors. `num_features` of the LSTM are half its forward and half its backward state."""

    def __init__(self, kind: str, *, num_characters: int, size: int, num_features: int) -> None:
        super().__init__()
        choice(kind, KINDS, "character encoder")
        if kind == "lstm" and num_features % 2:
            raise UsageError(
                f"num_features is {num_features}; a character LSTM has two directions and needs an even one"
            )
        self.table = nn.Embedding(num_characters, size)
        self.window: nn.Linear | None = None
        self.recurrent: Recurrent | None = None
        if kind == "cnn":
            self.window = nn.Linear((2 * REACH + 1) * size, num_features)
        else:
            self.recurrent = Recurrent(input_size=size, hidden_size=num_features // 2, bidirectional=True)

    def forward(self, letters: Tensor, layout: Layout) -> Tensor:
        """letters (C,) int64, one sequence per spelling -> (S, F)"""
        x = self.table(letters)  # (C, E)
        if self.recurrent is not None:
            return self.recurrent(x, layout)[1].summary()
        assert self.window is not None
        around = torch.cat([shifted(x, layout, by) for by in range(-REACH, REACH + 1)], dim=1)  # (C, 3 E)
        return max_per_sequence(self.window(around), layout)  # (S, F)
