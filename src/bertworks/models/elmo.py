"""Two language models that read a text from both ends, and the word vectors in their layers: ELMo and its kin.

    ELMo (Peters et al. 2018, "Deep contextualized word representations")

        c-h-a-r-s ─► embeddings ─► convolutions, max over places ─► highway layers ─► projection     x_t, per word
                                                                                                     │
        forward   LSTM with projection  ─► LSTM with projection (+ its input)  ─► next word      ◄───┤
        backward  LSTM with projection  ─► LSTM with projection (+ its input)  ─► previous word  ◄───┘

        layers of a word: 0 = [x_t; x_t], 1 and 2 = [forward_t; backward_t]

    contextual strings (Akbik et al. 2018, "Contextual String Embeddings for Sequence Labeling", known as Flair)

        the same two readers over single characters, from a table of them; a word's vector is the forward reader's state
        at the word's last character beside the backward reader's at its first

Both are values of `BiLMConfig`, and stand in a `Model` where the Transformer stands. The two readers never see each other;
they share the input and the output layer. Nothing is remembered from one call to the next unless the caller passes a state
on, so the same text has the same vectors every time. (AllenNLP's module keeps the states of one batch for the next one,
whatever that is.)

A word's first layer does not depend on its neighbours, so it is computed once for each distinct word of a batch, and only
over as many places as the word has: places that hold nothing but padding all give the same number, and one of them is
enough for the maximum.

Left out: stochastic depth and weights of their own for each direction.

Legend: T tokens in the packed batch, W distinct words, M places of a word, C character width, F filters, E input width,
H cell width, P output width of one direction, L layers, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.errors import ModelError
from bertworks.models.elmo_config import BiLMConfig, CharacterCNNConfig
from bertworks.models.recurrent import TokenVectors
from bertworks.models.transformer import Hidden
from bertworks.nn.activations import ACTIVATIONS
from bertworks.nn.dropout import Dropout
from bertworks.nn.packed import Layout, Packed, Rows
from bertworks.nn.recurrent import Recurrent, RecurrentState, reverse_sequences

WORDS_AT_ONCE = 256
"""Words of about equal length that go through the convolutions together."""
CARRY_BIAS = -2.0
"""Highway layers begin by letting most of their input through (Srivastava et al. 2015)."""


@dataclass(frozen=True, kw_only=True)
class PackedSpelt(Packed):
    """A batch of words: `input_ids` are numbers of rows of `characters`, each word of the batch once."""

    characters: Tensor  # (W, M), whole numbers

    def to(self, device: torch.device | str) -> PackedSpelt:
        return PackedSpelt(
            input_ids=self.input_ids.to(device), layout=self.layout, characters=self.characters.to(device)
        )


def keep_scale(weight: Tensor) -> None:
    """Begin with numbers that neither shrink nor stretch what goes through; torch's own are too small for a deep reader."""
    nn.init.normal_(weight, std=weight[0].numel() ** -0.5)


class Highway(nn.Module):
    """g * relu(transform(x)) + (1 - g) * x, with g = sigmoid(carry(x)) (Srivastava et al. 2015)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.carry = nn.Linear(size, size)
        nn.init.constant_(self.carry.bias, CARRY_BIAS)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.carry(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x


class SpeltWords(nn.Module):
    """Words from their characters: embeddings, convolutions, the maximum over the places, highway layers, projection."""

    def __init__(self, config: CharacterCNNConfig, size: int) -> None:
        super().__init__()
        self.padding = config.num_characters - 1
        self.widest = max(width for width, _ in config.filters)
        self.activation = ACTIVATIONS[config.activation]
        num_filters = sum(count for _, count in config.filters)
        self.tokens = nn.Embedding(config.num_characters, config.character_size)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.character_size, count, kernel_size=width) for width, count in config.filters
        )
        self.highways = nn.ModuleList(Highway(num_filters) for _ in range(config.num_highway_layers))
        self.projection = nn.Linear(num_filters, size)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1 and not name.startswith("tokens"):
                keep_scale(parameter)

    def forward(self, batch: Packed) -> Tensor:
        """(T, E)"""
        if not isinstance(batch, PackedSpelt):
            raise ModelError("this model reads words by their characters, not tokens by their numbers")
        return self.words(batch.characters).index_select(0, batch.input_ids)

    def words(self, characters: Tensor) -> Tensor:
        """(W, M) -> (W, E)"""
        lengths = (characters != self.padding).sum(dim=1)  # (W,)
        order = torch.argsort(lengths, stable=True)
        parts = []
        for rows in order.split(WORDS_AT_ONCE):  # shortest first; no words at all are one empty part
            longest = int(lengths[rows[-1]]) if len(rows) else 0
            places = min(characters.shape[1], longest + self.widest)
            parts.append(self._convolved(characters[rows, :places].long()))
        x = torch.cat(parts)[torch.argsort(order)]  # (W, F)
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)

    def _convolved(self, characters: Tensor) -> Tensor:
        """(W, M) -> (W, F)"""
        embedded = self.tokens(characters)  # (W, M, C)
        features = []
        for layer in self.convolutions:
            convolution = cast(nn.Conv1d, layer)
            seen = embedded.unfold(1, convolution.kernel_size[0], 1).flatten(2)  # (W, places, C * width)
            # One product instead of the convolution's kernel: on a CPU it takes half of the time.
            found = functional.linear(seen, convolution.weight.flatten(1), convolution.bias)  # (W, places, filters)
            features.append(self.activation(found.amax(dim=1)))
        return torch.cat(features, dim=-1)


@dataclass(frozen=True)
class BiLMState:
    """What both readers remember: the forward one after the last tokens, the backward one before the first."""

    forward: RecurrentState
    backward: RecurrentState


@dataclass(frozen=True)
class BiLMHidden:
    """What the readers make of T tokens; a layer's vectors are both directions side by side."""

    inputs: Tensor  # (T, E)
    forward: Tensor  # (L, T, P)
    backward: Tensor  # (L, T, P), in the tokens' order
    state: BiLMState

    def halves(self, layer: int) -> tuple[Tensor, Tensor]:
        """What layer `layer` (0 = the input, which both share, to L) is in each direction: (T, P) and (T, P)."""
        if layer == 0:
            return self.inputs, self.inputs
        return self.forward[layer - 1], self.backward[layer - 1]


class BiLM(nn.Module):
    """An input layer, two stacks of LSTMs, and an output layer where something is predicted."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings: SpeltWords | TokenVectors
        if config.spelling is not None:
            self.embeddings = SpeltWords(config.spelling, config.embedding_size)
        else:
            assert config.vocab_size is not None, "checked by the configuration"
            self.embeddings = TokenVectors(
                vocab_size=config.vocab_size, size=config.embedding_size, token_dropout=0.0, dropout=0.0
            )
        self.forwards, self.backwards = self._new_stack(), self._new_stack()
        self.dropout = Dropout(config.dropout_prob)
        self.output = None if config.vocab_size is None else nn.Linear(config.direction_size, config.vocab_size)

    def _new_stack(self) -> Recurrent:
        config = self.config
        stack = Recurrent(
            input_size=config.embedding_size,
            hidden_size=config.cell_size,
            num_layers=config.num_hidden_layers,
            cell="lstm",
            dropout_prob=config.dropout_prob,
            residual=config.residual,
            projection_size=config.projection_size,
            cell_clip=config.cell_clip,
            projection_clip=config.projection_clip,
        )
        for name, parameter in stack.named_parameters():
            if parameter.dim() > 1:
                keep_scale(parameter)
            else:
                nn.init.zeros_(parameter)
            if "bias_ih" in name:  # a new LSTM remembers: its forget gates begin open (Jozefowicz et al. 2015)
                nn.init.ones_(parameter.data[config.cell_size : 2 * config.cell_size])
        return stack

    def forward(
        self,
        batch: Packed,
        *,
        layers: Sequence[int] | None = None,
        rows: Rows | None = None,
        attentions: bool = False,
    ) -> Hidden:
        """The wanted `layers` (default: the last), both directions side by side, at `rows` only where they are given."""
        if attentions:
            raise ModelError("a model of LSTMs has no attention to show")
        wanted = [self.config.num_hidden_layers] if layers is None else sorted(set(layers))
        if 0 in wanted and self.config.embedding_size != self.config.direction_size:
            raise ModelError(
                f"layer 0 of this model (its characters) is {self.config.embedding_size} wide and the others "
                f"{self.config.output_size}; ask for layers from 1 on"
            )
        hidden = self.read(batch)
        found = {layer: torch.cat(hidden.halves(layer), dim=-1) for layer in wanted}  # (T, 2 P) each
        if rows is not None:
            rows = rows.to(batch.input_ids.device)
            found = {layer: rows.take(both) for layer, both in found.items()}
        return Hidden(found)

    def read(self, batch: Packed, state: BiLMState | None = None) -> BiLMHidden:
        """Read a batch in both directions, from `state` or from the state of nothing read."""
        return self.read_vectors(self.embeddings(batch), batch.layout, state)

    def read_vectors(self, inputs: Tensor, layout: Layout, state: BiLMState | None = None) -> BiLMHidden:
        """The same for tokens whose vectors (T, E) are known."""
        x = self.dropout(inputs)
        forward, after = self.forwards(x, layout, None if state is None else state.forward, all_layers=True)
        backward, before = self.backwards(
            reverse_sequences(x, layout), layout, None if state is None else state.backward, all_layers=True
        )
        backward = reverse_sequences(backward.transpose(0, 1), layout).transpose(0, 1)  # (L, T, P)
        return BiLMHidden(inputs, forward, backward, BiLMState(after, before))
