"""A model: one stack, an optional pooler, and heads by task name. It returns logits and never a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from bertworks.errors import ModelError
from bertworks.models.config import HeadConfig, ModelConfig
from bertworks.models.heads import Head, Transform
from bertworks.models.transformer import Transformer
from bertworks.nn.packed import Layout, Packed, Rows, mean_per_sequence


class Model(nn.Module):
    """`body` (the stack), `pooler`, and `heads`, all values of `ModelConfig`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.body = Transformer(config.body)
        hidden_size = config.body.layer.hidden_size
        self.pooler: Transform | None = None
        if config.pooler_act is not None:
            self.pooler = Transform(input_size=hidden_size, size=hidden_size, activation=config.pooler_act)
        self.heads = nn.ModuleDict(
            {
                head.task: Head(head, hidden_size=hidden_size, initializer_range=config.body.initializer_range)
                for head in config.heads
            }
        )

    @property
    def num_layers(self) -> int:
        return self.config.body.num_hidden_layers

    @property
    def hidden_size(self) -> int:
        return self.config.body.layer.hidden_size

    @property
    def num_positions(self) -> int:
        """The longest sequence the model was made for; relative positions may work beyond it, learned ones cannot."""
        return self.config.body.positions.max_position_embeddings

    def head(self, task: str) -> Head:
        """The head for `task`, or an error that says which heads there are."""
        if task not in self.heads:
            there = ", ".join(self.heads) or "none"
            raise ModelError(f"this model has no {task!r} head; it has: {there}")
        head = self.heads[task]
        assert isinstance(head, Head)
        return head

    def logits(self, batch: Packed, task: str, *, rows: Rows | None = None) -> Tensor:
        """Run the stack and one head: (B, C) for a head that reads sequences, (T or R, C or V) for one that reads tokens.

        Only what the head reads goes through the last layer; `rows` narrows a head that reads tokens.
        """
        head = self.head(task)
        reads = head.config.reads
        if reads in ("first", "pooled"):
            rows = batch.layout.first()
        elif reads == "last":
            rows = batch.layout.last()
        hidden = self.body(batch, rows=rows).last
        return self.apply_head(task, hidden, batch.layout)

    def apply_head(self, task: str, hidden: Tensor, layout: Layout) -> Tensor:
        """One head on hidden states that were already read: rows for first/last/pooled/tokens, all tokens for a mean."""
        head = self.head(task)
        if head.config.reads == "mean":
            hidden = mean_per_sequence(hidden, layout)
        elif head.config.reads == "pooled":
            hidden = self.pool(hidden)
        return head(hidden, self.body.embeddings.tokens.weight if head.config.tied else None)

    def pool(self, first: Tensor) -> Tensor:
        """The pooler on the first tokens' hidden states: (B, H) -> (B, H)."""
        if self.pooler is None:
            raise ModelError("this model has no pooler")
        return self.pooler(first)

    def with_heads(self, heads: Sequence[HeadConfig]) -> None:
        """Replace the heads by new, freshly initialised ones; a head of the same configuration keeps its weights."""
        kept = {
            task: head for task, head in self.heads.items() if isinstance(head, Head) and head.config in tuple(heads)
        }
        self.config = replace(self.config, heads=tuple(heads))
        self.heads = nn.ModuleDict(
            {
                head.task: kept.get(head.task)
                or Head(head, hidden_size=self.hidden_size, initializer_range=self.config.body.initializer_range)
                for head in heads
            }
        )
