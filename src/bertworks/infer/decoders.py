"""What the searches need of each kind of model: a language model and an encoder-decoder as `decode.Decoder`s.

Only the last token's state is projected to the vocabulary, and a source is read once.

Legend: B inputs, N live rows, V vocabulary, S longest source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.errors import ModelError, UsageError
from bertworks.infer.decode import Decoder, Ids
from bertworks.infer.decoders_recurrent import RecurrentDecoder
from bertworks.infer.decoders_rnn import RnnDecoder
from bertworks.models.config import TransformerConfig
from bertworks.models.model import Model
from bertworks.models.recurrent import RecurrentStack
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder
from bertworks.models.seq2seq import EncoderDecoder
from bertworks.models.transformer import Hidden, Transformer
from bertworks.nn.cache import KeyValueCache
from bertworks.nn.packed import Layout, Packed

WHOLE_TEXTS = ("cross_attention.key_value", "embeddings.positions")
"""Parts of a decoder that see all tokens of a source, or are only looked up in."""


@dataclass
class CacheState:
    """The keys and values so far, and the last step's attention to the source where that is wanted."""

    cache: KeyValueCache
    layout: Layout  # N sequences of one token: a step
    wants_attention: bool = False
    attention: Tensor | None = None  # (N, S)

    def batch(self, tokens: Tensor) -> Packed:
        """One token for each row."""
        if self.layout.num_sequences != len(tokens):
            self.layout = Layout([1] * len(tokens))
        return Packed(input_ids=tokens, layout=self.layout)


class LanguageModelDecoder:
    """A causal Transformer with an `lm` head; the inputs are prompts."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.vocab_size = model.head("lm").config.num_labels

    def room(self, length: int) -> int | None:
        """How many tokens fit after a prompt."""
        places = _places(self.model.config.transformer)
        if length == 0:
            raise UsageError("the prompt is empty; this model needs at least one token to start from")
        if places is not None and length >= places:
            raise UsageError(
                f"the prompt has {length} tokens and this model {places} positions, which leaves none for new tokens: "
                "shorten it"
            )
        return None if places is None else places - length

    def start(
        self, inputs: Sequence[Ids], *, max_new_tokens: int, attentions: bool = False
    ) -> tuple[CacheState, Tensor]:
        """Read the prompts."""
        batch = Packed.from_sequences(inputs).to(_device(self.model))
        state = _state(self._body, len(inputs), max(batch.layout.lengths) + max_new_tokens)
        hidden = self._body(batch, rows=batch.layout.last(), cache=state.cache).last  # (B, H)
        return state, self._logits(hidden)

    def step(self, state: CacheState, tokens: Tensor) -> Tensor:
        """One token more."""
        return self._logits(self._body(state.batch(tokens), cache=state.cache).last)

    def select(self, state: CacheState, rows: Tensor) -> None:
        """Keep the given rows."""
        state.cache.select(rows)

    def attention(self, state: CacheState) -> Tensor | None:
        """There is no source."""
        return None

    @property
    def _body(self) -> Transformer:
        body = self.model.body
        assert isinstance(body, Transformer)
        return body

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.model.apply_head("lm", hidden, Layout([])).float()  # (N, V)


class TranslatorDecoder:
    """An encoder-decoder; the inputs are sources."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.model = model
        self.vocab_size = model.config.decoder.embeddings.vocab_size

    def room(self, length: int) -> int | None:
        """How long a target may be; the start token takes a place."""
        places, target_places = _places(self.model.config.encoder), _places(self.model.config.decoder)
        if length == 0:
            raise UsageError("the source is empty; this model needs at least one token to read")
        if places is not None and length > places:
            raise UsageError(f"the source has {length} tokens, this model has {places} positions: shorten or split it")
        return None if target_places is None else target_places - 1

    def start(
        self, inputs: Sequence[Ids], *, max_new_tokens: int, attentions: bool = False
    ) -> tuple[CacheState, Tensor]:
        """Read the sources, and the start token of each target."""
        device = _device(self.model)
        memory = self.model.encode(Packed.from_sequences(inputs).to(device))
        state = _state(self.model.decoder, len(inputs), 1 + max_new_tokens)
        state.wants_attention = attentions
        first = torch.full((len(inputs),), self.model.config.target.start, dtype=torch.long, device=device)
        hidden = self.model.decode(state.batch(first), memory, cache=state.cache, attentions=attentions)
        return state, self._logits(state, hidden)

    def step(self, state: CacheState, tokens: Tensor) -> Tensor:
        """One token more."""
        hidden = self.model.decode(state.batch(tokens), None, cache=state.cache, attentions=state.wants_attention)
        return self._logits(state, hidden)

    def select(self, state: CacheState, rows: Tensor) -> None:
        """Keep the given rows."""
        state.cache.select(rows)

    def attention(self, state: CacheState) -> Tensor | None:
        """The last layer's cross-attention, averaged over its heads."""
        return state.attention

    def _logits(self, state: CacheState, hidden: Hidden) -> Tensor:
        if state.wants_attention:
            state.attention = _mean_attention(hidden.cross_attentions[-1], state.cache.longest_source)
        return self.model.project(hidden.last).float()  # (N, V)


def decoder_for(model: nn.Module) -> Decoder[Any]:
    """The decoder of a model that can write; an error that says why not for one that cannot."""
    if isinstance(model, EncoderDecoder):
        return TranslatorDecoder(model)
    if isinstance(model, RnnEncoderDecoder):
        return RnnDecoder(model)
    if isinstance(model, Model):
        if "lm" not in model.heads:
            there = ", ".join(model.heads) or "none"
            raise ModelError(
                f"this model cannot write text: it has no language-model head (its heads: {there}); choose one that "
                "has, for example one made by `bertworks pretrain --recipe gpt`, a GPT-2, or a translation model"
            )
        if not model.config.body.causal:
            raise ModelError("this model cannot write text: it looks at the tokens that are still to come")
        return RecurrentDecoder(model) if isinstance(model.body, RecurrentStack) else LanguageModelDecoder(model)
    raise ModelError(f"this model cannot write text: it is a {type(model).__name__}")


def lay_out_for_steps(model: nn.Module) -> None:
    """Store the matrices that a step of decoding multiplies with by columns, on a CPU; values stay as they are.

    Products with few rows read them quicker so: up to 64 rows take a sixth to a third less time. What reads whole texts, an
    encoder and the keys and values of its output, stays by rows. For models that are only used: the order in which numbers
    are summed may change, and with it the last digits.
    """
    for name, module in (model.decoder if isinstance(model, EncoderDecoder) else model).named_modules():
        if isinstance(module, nn.Linear | nn.Embedding) and not name.endswith(WHOLE_TEXTS):
            weight = module.weight.data
            module.weight.data = weight.t().contiguous().t() if weight.device.type == "cpu" else weight


def _places(config: TransformerConfig) -> int | None:
    """How many positions there are; None where they are computed and have no end."""
    return config.positions.max_position_embeddings if config.positions.absolute == "learned" else None


def _state(stack: Transformer, num_sequences: int, capacity: int) -> CacheState:
    cache = KeyValueCache(num_layers=stack.config.num_hidden_layers, num_sequences=num_sequences, capacity=capacity)
    return CacheState(cache, Layout([1] * num_sequences))


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device


def _mean_attention(weights: list[Tensor], longest: int) -> Tensor:
    """Per span (n, heads, queries, keys), queries sharing a source side by side -> (N, S)"""
    rows = [matrix.mean(dim=1).flatten(0, 1) for matrix in weights]  # each (n queries, keys)
    return torch.cat([nn.functional.pad(row, (0, longest - row.shape[1])) for row in rows])
