"""A Transformer with one head, or with a pooling, as a graph of ONNX over padded batches.

The inputs are (B, L) ids, an attention mask of ones and zeros (padding, which stands to the right) and, for a model with
segments, their ids. Padding costs time and changes nothing: no token looks at it. What comes out is what the graph is
for: an embedding (pooled and normalised within the graph) or the logits of one head. All values of `TransformerConfig`
are written, so all families of Transformers are; left out, with an error: recurrent models, and a CRF's search for the
best path. `infer.export` compares what the graph says with the packed stack each time that it writes one.

Legend: B sequences, L tokens of the longest, P positions, E embedding width, H hidden, N heads, D head size, C labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from bertworks.errors import ModelError
from bertworks.hub.sentence import Pooling
from bertworks.infer.onnx_nodes import Nodes
from bertworks.models.config import TransformerConfig
from bertworks.models.heads import Transform
from bertworks.models.model import Model
from bertworks.models.transformer import Transformer
from bertworks.nn.attention import MultiHeadAttention
from bertworks.nn.blocks import Block
from bertworks.nn.positions import RelativeBuckets, SinusoidalPositions, rotary_angles

HIDDEN = -1e9
"""Added to a score that must not count. Not minus infinity: a row that is all padding would become 0 / 0."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True, kw_only=True)
class GraphKind:
    """What a graph computes: the logits of `head`, or, where it is None, an embedding."""

    head: str | None = None
    pooling: Pooling = "mean"
    normalize: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the graph's outputs."""
        if self.head is None:
            return ("embedding",)
        return ("start_logits", "end_logits") if self.head == "qa" else ("logits",)


def takes_segments(model: Model) -> bool:
    """Whether there is more than one segment, so that the graph has the input `token_type_ids`."""
    return model.config.transformer.embeddings.type_vocab_size > 1


def make_graph(model: Model, kind: GraphKind, *, for_int8: bool = False) -> Any:
    """The graph, as an `onnx.ModelProto` with all its weights; `for_int8`: as the quantiser wants it (`onnx_nodes`)."""
    body = model.config.body
    if not isinstance(body, TransformerConfig) or body.cross_attention:
        raise ModelError(
            f"only Transformers can be exported, encoders and GPT; this model is a {model.config.describe()}"
        )
    if kind.head is not None and model.head(kind.head).crf is not None:
        raise ModelError(
            "this tagger has a CRF, whose search for the best path cannot be put into a graph; "
            "fine-tune it without --crf to export it"
        )
    writer = _Writer(model, kind, Nodes(for_int8=for_int8))
    hidden = writer.stack()
    batch, length = "batch", "length"
    outputs: dict[str, tuple[str, list[str | int]]]
    if kind.head is None:
        vector = writer.read(hidden, {"cls": "first"}.get(kind.pooling, kind.pooling))
        outputs = {"embedding": (writer.unit_length(vector) if kind.normalize else vector, [batch, model.hidden_size])}
    else:
        logits = writer.head(hidden, kind.head)
        config = model.head(kind.head).config
        rows: list[str | int] = [batch, length] if config.reads == "tokens" else [batch]
        if kind.head == "qa":
            start, end = writer.nodes.op("Split", logits, outputs=2, axis=2, num_outputs=2)
            last = writer.nodes.ints(2)
            outputs = {
                name: (writer.nodes.op("Squeeze", part, last), rows)
                for name, part in zip(kind.outputs, (start, end), strict=True)
            }
        else:
            outputs = {"logits": (logits, [*rows, config.num_labels])}
    names = INPUTS if takes_segments(model) else INPUTS[:2]
    return writer.nodes.model({name: [batch, length] for name in names}, outputs)


class _Writer:
    """Writes the parts of one model, from the ids to what a head reads."""

    def __init__(self, model: Model, kind: GraphKind, nodes: Nodes) -> None:
        self.model = model
        self.tied = kind.head is not None and model.head(kind.head).config.tied
        self.body = cast(Transformer, model.body)
        self.config = self.body.config
        self.nodes = nodes

    def stack(self) -> str:
        """(B, L, H): the last layer; rows of padding hold nothing of use."""
        nodes = self.nodes.within("input")
        self.length = nodes.op("Shape", "input_ids", start=1, end=2)  # (1,)
        self.mask = nodes.as_float("attention_mask")  # (B, L)
        x = self._embeddings()
        sights: dict[bool, tuple[str, tuple[str, str] | None]] = {}
        for layer in range(1, self.config.num_hidden_layers + 1):
            local = self.config.is_local(layer - 1)
            if local not in sights:
                sights[local] = (self._bias(local), self._angles(local))
            for index in self.body.blocks_of(layer):
                self.nodes.within(f"layer_{layer}")
                x = self._block(x, cast(Block, self.body.blocks[index]), f"blocks.{index}", *sights[local])
        self.nodes.within("output")
        return x if self.body.final_norm is None else self.nodes.norm(x, self.body.final_norm, "final_norm")

    @cached_property
    def distance(self) -> str:
        """(L, L): the key's place minus the query's; written where the model asks for it."""
        nodes = self.nodes
        size = nodes.op("Squeeze", self.length, nodes.ints(0))
        places = nodes.op("Range", nodes.constant(0, np.int64), size, nodes.constant(1, np.int64))  # (L,)
        keys, queries = (nodes.op("Unsqueeze", places, nodes.ints(axis)) for axis in (0, 1))
        return str(nodes.op("Sub", keys, queries))

    def _first_places(self, table: str, offset: int = 0) -> str:
        """(P, …) -> (L, …): the rows of the places that there are, after `offset` others."""
        nodes = self.nodes
        end = self.length if offset == 0 else nodes.add(self.length, nodes.ints(offset))
        return str(nodes.op("Slice", table, nodes.ints(offset), end, nodes.ints(0)))

    def _embeddings(self) -> str:
        nodes, parts = self.nodes.within("embeddings"), self.body.embeddings
        # The table of a tied head is there in full anyway, for the output.
        x = nodes.rows_of("embeddings.tokens", parts.tokens.weight, "input_ids", whole=self.tied)  # (B, L, E)
        if parts.scale != 1.0:
            x = nodes.multiply(x, nodes.constant(parts.scale))
        if parts.segments is not None:
            table = nodes.weight("embeddings.segments", parts.segments.weight)
            which = "token_type_ids" if takes_segments(self.model) else nodes.constant(0, np.int64)
            x = nodes.add(x, nodes.op("Gather", table, which))
        if parts.positions is not None:
            sinusoidal = isinstance(parts.positions, SinusoidalPositions)
            values = parts.positions.table if sinusoidal else parts.positions.weight
            table = nodes.weight("embeddings.positions", cast(torch.Tensor, values))
            x = nodes.add(x, self._first_places(table, parts.offset))
        if parts.tasks is not None:
            x = nodes.add(
                x, nodes.op("Gather", nodes.weight("embeddings.tasks", parts.tasks.weight), nodes.constant(0, np.int64))
            )
        if parts.norm is not None:
            x = nodes.norm(x, parts.norm, "embeddings.norm")
        return x if parts.project is None else nodes.linear(x, parts.project, "embeddings.project")

    def _bias(self, local: bool) -> str:
        """What is added to the scores: (B, N or 1, L or 1, L)."""
        nodes = self.nodes.within("local_attention" if local else "attention")
        hidden = nodes.constant(HIDDEN)
        padding = nodes.multiply(nodes.op("Sub", nodes.constant(1.0), self.mask), hidden)
        bias = nodes.op("Unsqueeze", padding, nodes.ints(1, 2))  # (B, 1, 1, L)
        if self.config.causal:
            ahead = nodes.op("Greater", self.distance, nodes.constant(0, np.int64))
            bias = nodes.add(bias, nodes.multiply(nodes.as_float(ahead), hidden))
        if local and self.config.local_window is not None:
            limit = nodes.constant(self.config.local_window, np.int64)
            far = nodes.op("Greater", nodes.op("Abs", self.distance), limit)
            bias = nodes.add(bias, nodes.multiply(nodes.as_float(far), hidden))
        if self.body.buckets is not None:
            table = nodes.table("attention.buckets", _bucket_table(self.body.buckets, self.model.num_positions))
            place = nodes.add(self.distance, nodes.constant(self.model.num_positions - 1, np.int64))
            found = nodes.op("Gather", table, place)  # (L, L, N)
            bias = nodes.add(bias, nodes.op("Unsqueeze", nodes.op("Transpose", found, perm=[2, 0, 1]), nodes.ints(0)))
        return str(bias)

    def _angles(self, local: bool) -> tuple[str, str] | None:
        """Cosines and sines of rotary positions, (L, 1, D/2) each."""
        positions = self.config.positions
        if positions.relative != "rotary":
            return None
        theta = positions.local_theta if local and positions.local_theta is not None else positions.theta
        every = torch.arange(self.model.num_positions)
        found = []
        for name, values in zip(
            ("cosine", "sine"), rotary_angles(every, head_size=self.body.head_size, theta=theta), strict=True
        ):
            table = self.nodes.table(f"{'local_' if local else ''}{name}", values.numpy())  # (P, 1, D/2)
            found.append(self._first_places(table))
        return found[0], found[1]

    def _block(self, x: str, block: Block, name: str, bias: str, angles: tuple[str, str] | None) -> str:
        """(B, L, H) -> (B, L, H)"""
        nodes, normed = self.nodes, x
        if block.pre_norm:
            normed = nodes.norm(x, block.attention_norm, f"{name}.attention_norm")
        x = nodes.add(x, self._attention(normed, block.attention, f"{name}.attention", bias, angles))
        if not block.pre_norm:
            x = nodes.norm(x, block.attention_norm, f"{name}.attention_norm")
        normed = nodes.norm(x, block.feed_forward_norm, f"{name}.feed_forward_norm") if block.pre_norm else x
        x = nodes.add(x, self._feed_forward(normed, block, f"{name}.feed_forward"))
        return x if block.pre_norm else nodes.norm(x, block.feed_forward_norm, f"{name}.feed_forward_norm")

    def _feed_forward(self, x: str, block: Block, name: str) -> str:
        nodes, part, activation = self.nodes, block.feed_forward, self.config.layer.hidden_act
        x = nodes.linear(x, part.up, f"{name}.up")
        if part.gated:
            x, gate = nodes.op("Split", x, outputs=2, axis=-1, num_outputs=2)
            return nodes.linear(nodes.multiply(nodes.activation(x, activation), gate), part.down, f"{name}.down")
        return nodes.linear(nodes.activation(x, activation), part.down, f"{name}.down")

    def _attention(
        self, x: str, attention: MultiHeadAttention, name: str, bias: str, angles: tuple[str, str] | None
    ) -> str:
        """softmax(Q Kᵀ / √D + bias) V: (B, L, H) -> (B, L, H)"""
        nodes = self.nodes
        heads = nodes.ints(0, 0, attention.num_heads, attention.head_size)
        parts = nodes.op("Split", nodes.linear(x, attention.qkv, f"{name}.qkv"), outputs=3, axis=-1, num_outputs=3)
        queries, keys, values = (nodes.op("Reshape", part, heads) for part in parts)  # (B, L, N, D)
        if angles is not None:
            queries, keys = self._rotate(queries, angles), self._rotate(keys, angles)
        queries, values = (nodes.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (queries, values))  # (B, N, L, D)
        queries = nodes.multiply(queries, nodes.constant(attention.scale))
        scores = nodes.op("MatMul", queries, nodes.op("Transpose", keys, perm=[0, 2, 3, 1]))  # (B, N, L, L)
        if attention.relative is not None:
            limit = attention.relative.max_positions - 1
            bound = [nodes.constant(edge, np.int64) for edge in (-limit, limit)]
            place = nodes.op("Sub", bound[1], nodes.op("Clip", self.distance, *bound))
            table = nodes.weight(f"{name}.relative", attention.relative.weight)
            vectors = nodes.op("Gather", table, place)  # (L, L, D)
            scores = nodes.add(scores, nodes.op("Einsum", queries, vectors, equation="bnqd,qkd->bnqk"))
            if attention.relative.with_keys:
                scaled = nodes.multiply(keys, nodes.constant(attention.scale))  # (B, L, N, D)
                scores = nodes.add(scores, nodes.op("Einsum", scaled, vectors, equation="bknd,qkd->bnqk"))
        weights = nodes.op("Softmax", nodes.add(scores, bias), axis=-1)
        context = nodes.op("Transpose", nodes.op("MatMul", weights, values), perm=[0, 2, 1, 3])  # (B, L, N, D)
        size = attention.num_heads * attention.head_size
        return nodes.linear(nodes.op("Reshape", context, nodes.ints(0, 0, size)), attention.out, f"{name}.out")

    def _rotate(self, x: str, angles: tuple[str, str]) -> str:
        """Turn each pair (x_i, x_{i+D/2}) of (B, L, N, D) by its token's angle."""
        nodes, (cosine, sine) = self.nodes, angles
        first, second = nodes.op("Split", x, outputs=2, axis=-1, num_outputs=2)
        turned = (
            nodes.op("Sub", nodes.multiply(first, cosine), nodes.multiply(second, sine)),
            nodes.add(nodes.multiply(second, cosine), nodes.multiply(first, sine)),
        )
        return str(nodes.op("Concat", *turned, axis=-1))

    # -- what stands on the stack --------------------------------------------------------------------------------------

    def read(self, hidden: str, reads: str) -> str:
        """What a head or a pooling takes of the hidden states: (B, H), or all of them."""
        nodes = self.nodes
        if reads == "tokens":
            return hidden
        if reads == "concat":
            return str(nodes.op("Concat", *(self.read(hidden, part) for part in ("last", "max", "mean")), axis=1))
        if reads in ("first", "pooled"):
            first = nodes.op("Gather", hidden, nodes.constant(0, np.int64), axis=1)
            if reads == "first":
                return str(first)
            assert self.model.pooler is not None
            return self._transform(first, self.model.pooler, self.model.config.pooler_act or "tanh", "pooler")
        if reads == "last":
            place = nodes.op("Sub", nodes.op("ReduceSum", "attention_mask", nodes.ints(1)), nodes.constant(1, np.int64))
            return str(nodes.op("GatherND", hidden, place, batch_dims=1))
        mask = nodes.op("Unsqueeze", self.mask, nodes.ints(2))  # (B, L, 1)
        if reads == "max":
            padding = nodes.multiply(nodes.op("Sub", nodes.constant(1.0), mask), nodes.constant(HIDDEN))
            return str(nodes.op("ReduceMax", nodes.add(hidden, padding), nodes.ints(1), keepdims=0))
        total = nodes.op("ReduceSum", nodes.multiply(hidden, mask), nodes.ints(1), keepdims=0)
        count = nodes.op("Max", nodes.op("ReduceSum", mask, nodes.ints(1), keepdims=0), nodes.constant(1.0))
        return str(nodes.op("Div", total, count))

    def unit_length(self, vector: str) -> str:
        """(B, H) -> (B, H): scaled to length 1; a row of zeros stays as it is."""
        length = self.nodes.op("ReduceL2", vector, self.nodes.ints(1))
        return str(self.nodes.op("Div", vector, self.nodes.op("Max", length, self.nodes.constant(1e-12))))

    def head(self, hidden: str, task: str) -> str:
        """The logits of a head: (B, C), or (B, L, C) of one that reads tokens."""
        nodes, head = self.nodes, self.model.head(task)
        x = self.read(hidden, head.config.reads)
        nodes.within(task)
        if head.transform is not None:
            x = self._transform(x, head.transform, head.config.transform_act, f"{task}.transform")
        if head.output is not None:
            return nodes.linear(x, head.output, f"{task}.output")
        tokens = nodes.weight("embeddings.tokens", self.body.embeddings.tokens.weight)
        logits = nodes.op("MatMul", x, nodes.op("Transpose", tokens, perm=[1, 0]))
        bias = head.output_bias
        return str(logits) if bias is None else nodes.add(logits, nodes.weight(f"{task}.output_bias", bias))

    def _transform(self, x: str, part: Transform, activation: str, name: str) -> str:
        nodes = self.nodes
        x = nodes.activation(nodes.linear(x, part.dense, f"{name}.dense"), activation)
        return x if part.norm is None else nodes.norm(x, cast(nn.Module, part.norm), f"{name}.norm")


def _bucket_table(buckets: RelativeBuckets, num_positions: int) -> np.ndarray:
    """(2 P - 1, N): what each distance adds to the scores, from the farthest key before to the farthest behind."""
    distance = torch.arange(1 - num_positions, num_positions)
    with torch.no_grad():
        return buckets(distance[None, None])[0, :, 0].T.float().numpy()
