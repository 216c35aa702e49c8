"""Translation before the Transformer: a recurrent encoder, and a recurrent decoder that looks at all of its states.

The encoder reads the source in both directions and keeps every state h_1 … h_S. The decoder writes one token at a time, from
the token before (as a vector y), its own state s, and a context c, the encoder's states weighted by what matters now:

    Bahdanau (2014)    c_t = attend(s_{t-1})     s_t = cell([y_{t-1}; c_t], s_{t-1})      o_t = tanh(R [s_t; c_t; y_{t-1}])
    Luong (2015)       s_t = cell([y_{t-1}; o_{t-1}], s_{t-1})     c_t = attend(s_t)      o_t = tanh(R [s_t; c_t])

so Bahdanau looks before the step and Luong after it, feeding the result into the next step ("input feeding", section 3.3). The
logits are o_t against the table of token vectors, which both languages and the output share (Press & Wolf 2016): one
vocabulary for both. The decoder begins from tanh(W [last state forwards; last state backwards]).

Left out: Bahdanau's maxout before the output, local attention (Luong, section 3.2), vocabularies of their own for each side.

Legend: Ts/Tt tokens in the packed source/target batch, M sources, W rows that share a source, N = M W rows, S longest source,
E width of token vectors, D width of the decoder's state, V width of the encoder's states (2 D).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.errors import ConfigError
from bertworks.models.seq2seq import TargetIds
from bertworks.models.transformer import Hidden
from bertworks.nn.alignment import Alignment
from bertworks.nn.dropout import drop
from bertworks.nn.packed import Layout, Packed
from bertworks.nn.recurrent import Recurrent, TimeMajor

CELLS: dict[str, Callable[[int, int], nn.Module]] = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}


@dataclass(frozen=True, kw_only=True)
class RnnSeq2SeqConfig:
    """Two stacks of recurrent layers with attention in between."""

    vocab_size: int
    embedding_size: int
    hidden_size: int
    """Of the decoder, and of each direction of the encoder."""
    num_encoder_layers: int = 1
    num_decoder_layers: int = 1
    cell: Literal["rnn", "lstm", "gru"] = "gru"
    attention: Literal["bahdanau", "luong"] = "bahdanau"
    dropout_prob: float = 0.2
    """On token vectors, between layers, and before the output."""
    target: TargetIds = field(default_factory=TargetIds)

    def __post_init__(self) -> None:
        for name in ("vocab_size", "embedding_size", "hidden_size", "num_encoder_layers", "num_decoder_layers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not 0.0 <= self.dropout_prob < 1.0:
            raise ConfigError(f"dropout_prob is {self.dropout_prob}; it must be at least 0 and below 1")


@dataclass(frozen=True)
class RnnMemory:
    """What the decoder knows of the sources."""

    values: Tensor  # (M, S, V) the encoder's states, zeros after a shorter source's end
    keys: Tensor  # (M, S, A)
    mask: Tensor | None  # (M, 1, S): minus infinity after a shorter source's end; None where all are of equal length
    summary: Tensor  # (M, V) the last states of both directions
    lengths: tuple[int, ...]

    def select(self, sources: Tensor) -> RnnMemory:
        """The given sources (any number, int64), up to the end of the longest of them."""
        lengths = tuple(self.lengths[number] for number in sources.tolist())
        longest = max(lengths, default=0)

        def chosen(states: Tensor) -> Tensor:
            return states[:, :longest].index_select(0, sources)

        mask = None
        if self.mask is not None and len(set(lengths)) > 1:
            mask = self.mask[:, :, :longest].index_select(0, sources)
        return RnnMemory(chosen(self.values), chosen(self.keys), mask, self.summary.index_select(0, sources), lengths)

    def first(self, count: int) -> RnnMemory:
        """The first sources."""
        mask = None if self.mask is None else self.mask[:count]
        return RnnMemory(self.values[:count], self.keys[:count], mask, self.summary[:count], self.lengths[:count])


@dataclass(frozen=True)
class RnnState:
    """What the decoder remembers of N rows."""

    hidden: tuple[Tensor, ...]  # per layer (N, D)
    cell: tuple[Tensor, ...]  # per layer (N, D), LSTM only
    fed: Tensor | None  # (N, E) the last output, Luong only

    def _each(self, change: slice | Tensor) -> RnnState:
        def changed(state: Tensor) -> Tensor:
            return state[change] if isinstance(change, slice) else state.index_select(0, change)

        return RnnState(
            tuple(map(changed, self.hidden)),
            tuple(map(changed, self.cell)),
            None if self.fed is None else changed(self.fed),
        )

    def select(self, rows: Tensor) -> RnnState:
        """The given rows (any number, int64), repeats allowed."""
        return self._each(rows)

    def first(self, count: int) -> RnnState:
        """The first rows."""
        return self._each(slice(count))


class RnnEncoderDecoder(nn.Module):
    """Source batch -> memory -> output vectors, and logits over the vocabulary."""

    def __init__(self, config: RnnSeq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        width, size = config.hidden_size, config.embedding_size
        is_luong = config.attention == "luong"
        self.embeddings = nn.Embedding(config.vocab_size, size)
        nn.init.normal_(self.embeddings.weight, std=size**-0.5)
        self.encoder = Recurrent(
            input_size=size,
            hidden_size=width,
            num_layers=config.num_encoder_layers,
            cell=config.cell,
            bidirectional=True,
            dropout_prob=config.dropout_prob,
        )
        self.bridge = nn.Linear(2 * width, config.num_decoder_layers * width)
        first = size + (size if is_luong else 2 * width)
        self.cells = nn.ModuleList(
            CELLS[config.cell](first if layer == 0 else width, width) for layer in range(config.num_decoder_layers)
        )
        self.alignment = Alignment(
            "general" if is_luong else "additive", query_size=width, value_size=2 * width, key_size=width
        )
        self.readout = nn.Linear(3 * width + (0 if is_luong else size), size)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))

    @property
    def output_weight(self) -> Tensor:
        """(vocabulary, E): the table of token vectors."""
        return self.embeddings.weight

    def project(self, output: Tensor) -> Tensor:
        """(N, E) -> logits (N, vocabulary)"""
        return F.linear(output, self.output_weight, self.output_bias)

    # The encoder.

    def encode(self, source: Packed) -> RnnMemory:
        """The source read once; every step looks at it."""
        layout = source.layout
        embedded = self._drop(self.embeddings(source.input_ids))  # (Ts, E)
        states, final = self.encoder(embedded, layout)  # (Ts, V)
        values = self._rectangle(self._drop(states), layout)  # (M, S, V)
        mask = None
        if len(set(layout.lengths)) > 1:
            lengths = torch.tensor(layout.lengths, device=values.device)[:, None, None]
            beyond = torch.arange(values.shape[1], device=values.device) >= lengths  # (M, 1, S)
            mask = values.new_zeros(beyond.shape).masked_fill_(beyond, -torch.inf)
        return RnnMemory(values, self.alignment.key(values), mask, final.summary(), layout.lengths)

    def _rectangle(self, flat: Tensor, layout: Layout) -> Tensor:
        """(Ts, V) -> (M, S, V)"""
        if len(set(layout.lengths)) == 1:
            return flat.unflatten(0, (layout.num_sequences, layout.lengths[0]))
        padded = flat.new_zeros(layout.num_sequences, max(layout.lengths, default=0), flat.shape[1])
        return padded.index_put((layout.sequence_ids(flat.device), layout.positions(flat.device)), flat)

    # The decoder.

    def start(self, memory: RnnMemory) -> RnnState:
        """The state before the first token, of one row a source."""
        states = torch.tanh(self.bridge(memory.summary))  # (M, layers x D)
        hidden = states.chunk(len(self.cells), dim=1)
        cell = tuple(torch.zeros_like(each) for each in hidden) if self.config.cell == "lstm" else ()
        fed = states.new_zeros(len(states), self.config.embedding_size) if self.config.attention == "luong" else None
        return RnnState(hidden, cell, fed)

    def step(self, embedded: Tensor, state: RnnState, memory: RnnMemory) -> tuple[RnnState, Tensor, Tensor]:
        """One token further: its vectors (N, E) -> new state, output (N, E), attention weights (N, S).

        There may be W rows to a source: those of the first source come first, then those of the second, and so on.
        """
        if self.config.attention == "luong":
            assert state.fed is not None
            state = self._advance(torch.cat([embedded, state.fed], dim=1), state)
            context, weights = self._attend(state.hidden[-1], memory)
            output = torch.tanh(self.readout(torch.cat([state.hidden[-1], context], dim=1)))  # (N, E)
            return replace(state, fed=output), output, weights
        context, weights = self._attend(state.hidden[-1], memory)
        state = self._advance(torch.cat([embedded, context], dim=1), state)
        output = torch.tanh(self.readout(torch.cat([state.hidden[-1], context, embedded], dim=1)))  # (N, E)
        return state, output, weights

    def _attend(self, queries: Tensor, memory: RnnMemory) -> tuple[Tensor, Tensor]:
        """(N, D) -> (N, V) and (N, S)"""
        sources = len(memory.lengths)
        grouped = queries.unflatten(0, (sources, len(queries) // sources))  # (M, W, D)
        context, weights = self.alignment(grouped, memory.keys, memory.values, memory.mask)
        return context.flatten(0, 1), weights.flatten(0, 1)

    def _advance(self, x: Tensor, state: RnnState) -> RnnState:
        """All layers of the decoder, one step."""
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        for number, layer in enumerate(self.cells):
            if self.config.cell == "lstm":
                new_hidden, new_cell = layer(x, (state.hidden[number], state.cell[number]))
                cells.append(new_cell)
            else:
                new_hidden = layer(x, state.hidden[number])
            hidden.append(new_hidden)
            x = self._drop(new_hidden) if number + 1 < len(self.cells) else new_hidden
        return replace(state, hidden=tuple(hidden), cell=tuple(cells))

    def decode(self, target: Packed, memory: RnnMemory, *, attentions: bool = False) -> Hidden:
        """Outputs (Tt, E) for targets that are known; sequence i of `target` belongs to source i of `memory`.

        All sequences take a step together, the longest first, so that those still running are always the first ones.
        """
        layout = target.layout
        time_major = TimeMajor.of(layout, target.input_ids.device)
        embedded = self._drop(self.embeddings(target.input_ids.index_select(0, time_major.index)))  # (Tt, E)
        memory = memory.select(time_major.order)
        state = self.start(memory)
        outputs: list[Tensor] = [embedded[:0]]
        looked: list[Tensor] = []
        for x in time_major.steps(embedded):  # (n, E)
            if len(x) < len(memory.lengths):
                memory, state = memory.first(len(x)), state.first(len(x))
            state, output, weights = self.step(x, state, memory)
            outputs.append(output)
            looked.append(weights)
        flat = self._drop(torch.cat(outputs).index_select(0, time_major.inverse))  # (Tt, E)
        if not attentions:
            return Hidden({1: flat})
        return Hidden({1: flat}, cross_attentions=[_per_sequence(looked, layout, time_major)])

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.config.dropout_prob) if self.training else x


def _per_sequence(looked: list[Tensor], layout: Layout, time_major: TimeMajor) -> list[Tensor]:
    """The weights of each step (n, S) to those of each sequence, each (1, 1, target length, S)."""
    rows = torch.cat(looked).index_select(0, time_major.inverse)  # (Tt, S)
    return [piece[None, None] for piece in rows.split(list(layout.lengths))]
