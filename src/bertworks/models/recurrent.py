"""The recurrent stack: token vectors -> RNN, LSTM or GRU layers, from left to right or in both directions.

It stands in a `Model` where the Transformer stands, under the same heads, and is asked in the same way. From left to right
it is a language model (Mikolov et al. 2010): the state after a token says what comes next, and is all that is remembered
of the text so far; `read` hands it out and takes it back, one token or many at a time. In both directions it is an encoder
for taggers and classifiers.

Dropout is AWD-LSTM's (Merity et al. 2017): on token vectors as wholes, between the layers with one mask for all tokens of
a sequence, and on the recurrent matrices. Left out of that paper: carrying the state from one training sequence to the
next (a step would then depend on the one before, and a training could not be resumed at any step), sequences of random
lengths, averaged gradient descent (`train.ema` averages the weights), and penalties on the states.

Legend: T tokens in the packed batch, R rows asked for, B sequences, E width of the token vectors, H of the states.
Layers are numbered 0 (the token vectors) to L, as in `transformer`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertworks.errors import ModelError
from bertworks.models.config import RecurrentConfig
from bertworks.models.transformer import Hidden
from bertworks.nn.dropout import drop
from bertworks.nn.packed import Layout, Packed, Rows
from bertworks.nn.recurrent import Recurrent, RecurrentState, drop_per_sequence


class TokenVectors(nn.Module):
    """A table of token vectors."""

    def __init__(self, *, vocab_size: int, size: int, token_dropout: float, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, size)
        self.token_dropout = token_dropout
        self.dropout = dropout

    def forward(self, batch: Packed) -> Tensor:
        """(T, E)"""
        ids = batch.input_ids
        x = self.tokens(ids)
        if not self.training:
            return x
        if self.token_dropout:
            kept = drop(x.new_ones(self.tokens.num_embeddings, 1), self.token_dropout)  # (V, 1)
            x = x * kept.index_select(0, ids)
        return drop_per_sequence(x, self.dropout, batch.layout.sequence_ids(x.device), batch.layout.num_sequences)


class RecurrentStack(nn.Module):
    """Token vectors and L recurrent layers."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = TokenVectors(
            vocab_size=config.embeddings.vocab_size,
            size=config.embedding_size,
            token_dropout=config.embedding_dropout_prob,
            dropout=config.input_dropout_prob,
        )
        self.recurrent = Recurrent(
            input_size=config.embedding_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_hidden_layers,
            cell=config.cell,
            bidirectional=config.bidirectional,
            dropout_prob=config.hidden_dropout_prob,
            variational_dropout=True,
            weight_dropout_prob=config.weight_dropout_prob,
            activation=config.activation,
        )
        nn.init.normal_(self.embeddings.tokens.weight, std=config.initializer_range)
        if config.cell == "lstm":
            self._open_forget_gates()

    def _open_forget_gates(self) -> None:
        """A new LSTM remembers: its forget gates begin open (Jozefowicz et al. 2015). Their biases are the second quarter."""
        for name, bias in self.recurrent.named_parameters():
            if "bias_ih" in name:
                nn.init.ones_(bias.data[self.config.hidden_size : 2 * self.config.hidden_size])

    @property
    def blocks(self) -> nn.ModuleList:
        """The layers, from the lowest."""
        return self.recurrent.layers

    def forward(
        self,
        batch: Packed,
        *,
        layers: Sequence[int] | None = None,
        rows: Rows | None = None,
        attentions: bool = False,
    ) -> Hidden:
        """Return the wanted `layers` (default: the last), at `rows` only where they are given."""
        if attentions:
            raise ModelError(f"a recurrent model ({self.config.cell}) has no attention to show")
        top = self.config.num_hidden_layers
        wanted = sorted(set(layers)) if layers is not None else [top]
        found, _ = self.read(batch, layers=wanted)
        if rows is not None:
            rows = rows.to(batch.input_ids.device)
            found = {layer: rows.take(hidden) for layer, hidden in found.items()}
        return Hidden(found)

    def read(
        self, batch: Packed, state: RecurrentState | None = None, *, layers: Sequence[int] | None = None
    ) -> tuple[dict[int, Tensor], RecurrentState]:
        """The wanted layers (default: the last), (T, H) each, and the state after the batch, having begun with `state`."""
        top = self.config.num_hidden_layers
        wanted = [top] if layers is None else list(layers)
        if 0 in wanted and self.config.embedding_size != self.config.output_size:
            raise ModelError(
                f"layer 0 of this model (its token vectors) is {self.config.embedding_size} wide and the others "
                f"{self.config.output_size}; ask for layers from 1 on"
            )
        x = self.embeddings(batch)  # (T, E)
        several = any(0 < layer < top for layer in wanted)
        computed, state = self.recurrent(x, batch.layout, state, all_layers=several)  # ([L,] T, H)
        found: dict[int, Tensor] = {}
        for layer in wanted:
            if layer == 0:
                found[layer] = x
            else:
                hidden = computed[layer - 1] if several else computed
                found[layer] = self._output_dropout(hidden, batch.layout) if layer == top else hidden
        return found, state

    def _output_dropout(self, hidden: Tensor, layout: Layout) -> Tensor:
        if not self.training:
            return hidden
        owners = layout.sequence_ids(hidden.device)
        return drop_per_sequence(hidden, self.config.output_dropout_prob, owners, layout.num_sequences)

    def final(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(T, H) -> (B, H): what the last layer ends with, a forward half at the last token, a backward one at the first."""
        last = layout.last().to(hidden.device).take(hidden)
        if not self.config.bidirectional:
            return last
        first = layout.first().to(hidden.device).take(hidden)
        width = self.config.hidden_size
        return torch.cat([last[:, :width], first[:, width:]], dim=1)
