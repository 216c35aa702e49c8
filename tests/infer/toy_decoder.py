"""A decoder that can be worked out by hand: the next token depends on the last one alone, by a table of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor


@dataclass
class ToyState:
    """The last token of every row, and what was asked."""

    last: Tensor  # (N,)
    sources: Tensor  # (N, S) attention to come, step by step
    steps: int = 0
    rows_seen: list[int] = field(default_factory=list)


class ToyDecoder:
    """`table[i][j]` is the probability of j after i. With a source, step t looks at word `looks[t]` of it alone."""

    def __init__(self, table: Sequence[Sequence[float]], *, room: int | None = None) -> None:
        self.table = torch.tensor(table, dtype=torch.float64).log().float()
        self.most = room
        self.vocab_size = self.table.shape[1]
        self.state: ToyState | None = None

    def room(self, length: int) -> int | None:
        return None if self.most is None else self.most - length

    def start(
        self, inputs: Sequence[np.ndarray], *, max_new_tokens: int, attentions: bool = False
    ) -> tuple[ToyState, Tensor]:
        last = torch.tensor([int(row[-1]) for row in inputs])
        self.state = ToyState(last, torch.zeros(len(inputs), max(map(len, inputs))))
        self.state.rows_seen.append(len(inputs))
        return self.state, self.table[last].clone()

    def step(self, state: ToyState, tokens: Tensor) -> Tensor:
        state.last = tokens
        state.steps += 1
        state.rows_seen.append(len(tokens))
        return self.table[tokens].clone()

    def select(self, state: ToyState, rows: Tensor) -> None:
        state.last, state.sources = state.last[rows], state.sources[rows]

    def attention(self, state: ToyState) -> Tensor | None:
        return None


class LookingDecoder(ToyDecoder):
    """Gives all its attention to the word of the source that has the number of the last token, or to the first word."""

    def attention(self, state: ToyState) -> Tensor | None:
        found = torch.zeros_like(state.sources)
        place = torch.where(state.last < found.shape[1], state.last, 0)
        return found.scatter(1, place[:, None], 1.0)
