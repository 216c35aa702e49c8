"""A recurrent encoder-decoder as the searches see it (`decode.Decoder`): its state, and the sources that its rows look at.

The sources are kept once each, however many beams look at them: rows that share a source are neighbours, equally many for each.

Legend: B inputs, N live rows, V vocabulary, S longest source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertworks.errors import UsageError
from bertworks.infer.decode import Ids
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder, RnnMemory, RnnState
from bertworks.nn.packed import Packed


@dataclass
class RnnDecoding:
    """Where a search is."""

    state: RnnState
    memory: RnnMemory
    attention: Tensor  # (N, S) of the last step


class RnnDecoder:
    """The inputs are sources."""

    def __init__(self, model: RnnEncoderDecoder) -> None:
        self.model = model
        self.vocab_size = model.config.vocab_size

    def room(self, length: int) -> int | None:
        """As much as is asked for: a recurrent model has no positions to run out of."""
        if length == 0:
            raise UsageError("the source is empty; this model needs at least one token to start from")
        return None

    def start(
        self, inputs: Sequence[Ids], *, max_new_tokens: int, attentions: bool = False
    ) -> tuple[RnnDecoding, Tensor]:
        """Read the sources, and the start token of each target."""
        device = self.model.output_weight.device
        memory = self.model.encode(Packed.from_sequences(inputs).to(device))
        first = torch.full((len(inputs),), self.model.config.target.start, dtype=torch.long, device=device)
        decoding = RnnDecoding(self.model.start(memory), memory, memory.values[:, :, 0])
        return decoding, self.step(decoding, first)

    def step(self, state: RnnDecoding, tokens: Tensor) -> Tensor:
        """One token more."""
        embedded = self.model.embeddings(tokens)  # (N, E)
        state.state, output, state.attention = self.model.step(embedded, state.state, state.memory)
        return self.model.project(output).float()  # (N, V)

    def select(self, state: RnnDecoding, rows: Tensor) -> None:
        """Keep the given rows, and the sources that they look at."""
        num_sources = len(state.memory.lengths)
        owners = rows // (len(state.attention) // num_sources)  # (N',)
        kept, counts = torch.unique_consecutive(owners, return_counts=True)
        if not bool((counts == counts[0]).all()):  # unequally many for each source: every row gets its own copy
            kept = owners
        if kept.tolist() != list(range(num_sources)):
            state.memory = state.memory.select(kept)
        state.state = state.state.select(rows)
        state.attention = state.attention.index_select(0, rows)

    def attention(self, state: RnnDecoding) -> Tensor | None:
        """What the last step looked at."""
        return state.attention
