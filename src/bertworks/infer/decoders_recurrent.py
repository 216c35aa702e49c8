"""A recurrent language model as a `decode.Decoder`: what it remembers of a text is one state, whatever the text's length.

Legend: B prompts, N live rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertworks.errors import ModelError, UsageError
from bertworks.infer.decode import Ids
from bertworks.models.model import Model
from bertworks.models.recurrent import RecurrentStack
from bertworks.nn.packed import Layout, Packed
from bertworks.nn.recurrent import RecurrentState


@dataclass
class ReadSoFar:
    """The state after what was read, of N rows."""

    state: RecurrentState


class RecurrentDecoder:
    """A recurrent model with an `lm` head; the inputs are prompts."""

    def __init__(self, model: Model) -> None:
        if not isinstance(model.body, RecurrentStack):
            raise ModelError(f"this is for recurrent models; the model is {model.config.describe()}")
        self.model, self.body = model, model.body
        self.vocab_size = model.head("lm").config.num_labels

    def room(self, length: int) -> int | None:
        """No end: there are no positions."""
        if length == 0:
            raise UsageError("the prompt is empty; this model needs at least one token to start from")
        return None

    def start(
        self, inputs: Sequence[Ids], *, max_new_tokens: int, attentions: bool = False
    ) -> tuple[ReadSoFar, Tensor]:
        """Read the prompts."""
        batch = Packed.from_sequences(inputs).to(self.body.embeddings.tokens.weight.device)
        return self._read(batch, None)

    def step(self, state: ReadSoFar, tokens: Tensor) -> Tensor:
        """One token more."""
        found, logits = self._read(Packed(input_ids=tokens, layout=Layout([1] * len(tokens))), state.state)
        state.state = found.state
        return logits

    def select(self, state: ReadSoFar, rows: Tensor) -> None:
        """Keep the given rows."""
        state.state = state.state.select(rows)

    def attention(self, state: ReadSoFar) -> Tensor | None:
        """There is none."""
        return None

    def _read(self, batch: Packed, state: RecurrentState | None) -> tuple[ReadSoFar, Tensor]:
        _, after = self.body.read(batch, state)
        logits: Tensor = self.model.apply_head("lm", after.summary(), Layout([])).to(torch.float32)  # (N, V)
        return ReadSoFar(after), logits
