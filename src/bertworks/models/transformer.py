"""The one stack: embeddings -> L blocks -> (final norm). Encoder, GPT and decoder are values of `TransformerConfig`.

Only what is asked for is computed: the pass stops at the highest layer wanted, and that layer's output is made only at the
`rows` wanted, though every token is still attended to.

Legend: T tokens in the packed batch, R rows asked for, B sequences, H hidden, E embedding width, N heads, L layers.
Layers are numbered 0 (the embeddings' output) to L (the last block's output, after the final norm where there is one).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from bertworks.models.config import EmbeddingConfig, PositionConfig, TransformerConfig
from bertworks.nn.attention import Plan, make_plan
from bertworks.nn.blocks import Block, Sight
from bertworks.nn.cache import KeyValueCache
from bertworks.nn.dropout import Dropout
from bertworks.nn.packed import Layout, Packed, Rows, Span
from bertworks.nn.positions import RelativeBuckets, RelativeKeys, SinusoidalPositions, rotary_angles


@dataclass(frozen=True)
class Memory:
    """What a decoder's cross-attention looks at: the encoder's output (Tk, H) and its layout."""

    hidden: Tensor
    layout: Layout


@dataclass
class Hidden:
    """The layers that were asked for, each (T, H), or (R, H) where `rows` were given."""

    layers: dict[int, Tensor]
    attentions: list[list[Tensor]] = field(default_factory=list)  # per layer, per span: (n, N, Lq, Lk)
    cross_attentions: list[list[Tensor]] = field(default_factory=list)

    @property
    def last(self) -> Tensor:
        return self.layers[max(self.layers)]


def initialise(module: nn.Module, *, std: float) -> None:
    """Start all matrices and tables of a module from a normal distribution, and biases from 0, as BERT does."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding | RelativeKeys | RelativeBuckets):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


class Embeddings(nn.Module):
    """Token + segment + position vectors, summed, normalised, and projected to the stack's width where they have their own."""

    def __init__(
        self,
        config: EmbeddingConfig,
        positions: PositionConfig,
        *,
        size: int,
        hidden_size: int,
        eps: float,
        norm_bias: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(size) if config.scale else 1.0
        self.offset = positions.offset
        self.tokens = nn.Embedding(config.vocab_size, size)
        self.positions: nn.Module | None = None
        if positions.absolute == "learned":
            self.positions = nn.Embedding(positions.max_position_embeddings + positions.offset, size)
        elif positions.absolute == "sinusoidal":
            self.positions = SinusoidalPositions(
                num_positions=positions.max_position_embeddings + positions.offset, size=size, halves=positions.halves
            )
        self.segments = nn.Embedding(config.type_vocab_size, size) if config.type_vocab_size else None
        self.tasks = nn.Embedding(config.task_vocab_size, size) if config.task_vocab_size else None
        self.norm = nn.LayerNorm(size, eps=eps, bias=norm_bias) if config.norm else None
        self.dropout = Dropout(dropout)
        self.project = nn.Linear(size, hidden_size) if config.size is not None else None

    def forward(self, batch: Packed, positions: Tensor) -> Tensor:
        """positions (T,) -> (T, H)"""
        x = self.tokens(batch.input_ids)  # (T, E)
        if self.scale != 1.0:
            x = x * self.scale
        if self.segments is not None:  # a batch without segments is all segment 0
            x = x + (self.segments.weight[0] if batch.segments is None else self.segments(batch.segments))
        if self.positions is not None:
            x = x + self.positions(positions + self.offset if self.offset else positions)
        if self.tasks is not None:
            x = x + (self.tasks.weight[0] if batch.tasks is None else self.tasks(batch.tasks))
        if self.norm is not None:
            x = self.norm(x)
        x = self.dropout(x)
        return x if self.project is None else self.project(x)  # (T, H)


class Transformer(nn.Module):
    """Embeddings and L blocks (ALBERT: fewer blocks, used more than once)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        layer, positions = config.layer, config.positions
        dropout = config.embeddings.dropout_prob
        self.head_size = layer.hidden_size // layer.num_attention_heads
        self.embeddings = Embeddings(
            config.embeddings,
            positions,
            size=config.embedding_size,
            hidden_size=layer.hidden_size,
            eps=layer.norm_eps,
            norm_bias=layer.norm_bias,
            dropout=layer.hidden_dropout_prob if dropout is None else dropout,
        )
        self.buckets: RelativeBuckets | None = None
        if positions.relative == "buckets":
            self.buckets = RelativeBuckets(
                num_buckets=positions.num_buckets,
                max_distance=positions.max_distance,
                num_heads=layer.num_attention_heads,
                bidirectional=not config.causal,
            )

        def relative_keys() -> RelativeKeys | None:
            if positions.relative not in ("keys", "keys_queries"):
                return None
            return RelativeKeys(
                max_positions=positions.max_position_embeddings,
                head_size=self.head_size,
                with_keys=positions.relative == "keys_queries",
            )

        num_blocks = (
            config.num_hidden_layers if config.num_groups is None else config.num_groups * config.layers_per_group
        )
        self.blocks = nn.ModuleList(
            Block(
                hidden_size=layer.hidden_size,
                num_heads=layer.num_attention_heads,
                intermediate_size=layer.intermediate_size,
                activation=layer.hidden_act,
                gated=layer.gated,
                pre_norm=layer.pre_norm,
                skip_first_norm=config.skip_first_norm and index == 0,
                eps=layer.norm_eps,
                bias=layer.bias,
                norm_bias=layer.norm_bias,
                dropout=layer.hidden_dropout_prob,
                attention_dropout=layer.attention_dropout_prob,
                attention_output_dropout=layer.attention_output_dropout_prob,
                feed_forward_dropout=layer.feed_forward_dropout_prob,
                cross=config.cross_attention,
                relative_keys=relative_keys,
            )
            for index in range(num_blocks)
        )
        self.final_norm = (
            nn.LayerNorm(layer.hidden_size, eps=layer.norm_eps, bias=layer.norm_bias) if config.final_norm else None
        )
        initialise(self, std=config.initializer_range)

    def blocks_of(self, layer: int) -> list[int]:
        """Which blocks make layer `layer` (1 … L) out of the one below it."""
        config = self.config
        if config.num_groups is None:
            return [layer - 1]
        group = (layer - 1) * config.num_groups // config.num_hidden_layers
        first = group * config.layers_per_group
        return list(range(first, first + config.layers_per_group))

    def forward(
        self,
        batch: Packed,
        *,
        layers: Sequence[int] | None = None,
        rows: Rows | None = None,
        memory: Memory | None = None,
        cache: KeyValueCache | None = None,
        attentions: bool = False,
    ) -> Hidden:
        """Return the wanted `layers` (default: the last), at `rows` only where they are given.

        A `cache` keeps the `memory` too: it is given in the first step and never looked at again.
        """
        if cache is not None and self.config.layers_per_group > 1:
            raise ValueError("a cache needs one block per layer; this stack has groups of several")
        device = batch.input_ids.device
        wanted = sorted(set(layers)) if layers is not None else [self.config.num_hidden_layers]
        top = wanted[-1]
        positions = batch.positions
        if cache is not None:
            positions = cache.begin(batch.layout, device)
        places = positions if positions is not None else batch.layout.positions(device)
        if rows is not None:
            rows = rows.to(device)

        hidden = Hidden({})
        x = self.embeddings(batch, places)  # (T, H)
        sights = _Sights(self, batch.layout, positions, places, cache)
        if 0 in wanted:
            hidden.layers[0] = x if rows is None else rows.take(x)
        memory_plan: Plan | None = None
        kept_memory = cache is not None and cache.sources is not None
        if cache is not None and memory is not None and not kept_memory:
            cache.look_at(memory.layout, device)
        for layer in range(1, top + 1):
            is_top = layer == top
            asked = rows if is_top else None
            weights: list[Tensor] | None = [] if attentions else None
            cross_weights: list[Tensor] | None = [] if attentions else None
            if memory_plan is None or asked is not None:
                if cache is not None and kept_memory:
                    memory_plan = _plan_of_kept_memory(cache, (asked or batch).layout)
                elif memory is not None:
                    memory_plan = make_plan((asked or batch).layout, memory.layout, device=device)
            path = self.blocks_of(layer)
            for index in path:
                x = self.blocks[index](
                    x,
                    sights.of(layer - 1, asked if index == path[-1] else None),
                    rows=asked if index == path[-1] else None,
                    memory=None if memory is None else memory.hidden,
                    memory_plan=memory_plan,
                    cache=None if cache is None else cache.layers[layer - 1],
                    cross_cache=None if cache is None else cache.memory_layers[layer - 1],
                    weights=weights,
                    cross_weights=cross_weights,
                )
            if attentions:
                hidden.attentions.append(weights or [])
                hidden.cross_attentions.append(cross_weights or [])
            if layer in wanted:
                kept = x
                if layer == self.config.num_hidden_layers and self.final_norm is not None:
                    kept = self.final_norm(x)
                hidden.layers[layer] = kept if rows is None or is_top else rows.take(kept)
        if cache is not None:
            cache.end(batch.layout)
        return hidden


def _plan_of_kept_memory(cache: KeyValueCache, layout: Layout) -> Plan:
    """The sequences that share a source are its queries together."""
    assert cache.sources is not None
    queries = cache.sharing * (layout.lengths[0] if layout.lengths else 0)
    span = Span(cache.sources.num_sequences, 0, queries, 0, cache.longest_source)
    return Plan((span,), (cache.source_mask,), (None,), (False,))


class _Sights:
    """What each layer's self-attention sees, made once per pass: global and local, for all tokens or some rows."""

    def __init__(
        self,
        stack: Transformer,
        layout: Layout,
        positions: Tensor | None,
        places: Tensor,
        cache: KeyValueCache | None,
    ) -> None:
        self.stack = stack
        self.layout = layout
        self.positions = positions  # None where they are the default, which lets spans share one mask
        self.places = places  # (T,)
        self.cache = cache
        self.made: dict[tuple[bool, bool], Sight] = {}

    def of(self, index: int, rows: Rows | None) -> Sight:
        """The sight of the block that makes layer `index + 1`."""
        key = (self.stack.config.is_local(index), rows is not None)
        if key not in self.made:
            self.made[key] = self._make(key[0], rows)
        return self.made[key]

    def _make(self, local: bool, rows: Rows | None) -> Sight:
        config, device = self.stack.config, self.places.device
        query_positions, key_positions = self.positions, self.positions
        keys, causal = self.layout, config.causal
        if self.cache is not None and not self.cache.first_step:
            keys = Layout([self.cache.longest] * self.cache.num_sequences)
            key_positions = None  # what is stored starts at 0
            causal = causal and self.cache.column is None  # one token each, all at the end: nothing lies ahead
        elif self.cache is not None and rows is None:
            query_positions = key_positions = None  # prompts start at 0
        query_places = self.places if rows is None else rows.take(self.places)
        if rows is not None:
            query_positions = query_places
            if self.cache is None or self.cache.first_step:
                key_positions = self.places if key_positions is None else key_positions
        query_angles = key_angles = None
        if config.positions.relative == "rotary":
            theta = config.positions.theta
            if local and config.positions.local_theta is not None:
                theta = config.positions.local_theta
            key_angles = rotary_angles(self.places, head_size=self.stack.head_size, theta=theta)
            query_angles = key_angles
            if rows is not None:
                query_angles = (rows.take(key_angles[0]), rows.take(key_angles[1]))
        plan = make_plan(
            self.layout if rows is None else rows.layout,
            keys,
            query_positions=query_positions,
            key_positions=key_positions,
            causal=causal,
            window=config.local_window if local else None,
            buckets=self.stack.buckets,
            with_distances=config.positions.relative in ("keys", "keys_queries"),
            device=device,
        )
        return Sight(plan, query_angles, key_angles)
