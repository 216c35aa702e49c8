"""A model: one stack, an optional pooler, and heads by task name. It returns logits and never a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from bertworks.errors import ModelError
from bertworks.models.config import HeadConfig, ModelConfig
from bertworks.models.heads import Head, Transform
from bertworks.models.transformer import Transformer, initialise
from bertworks.nn.packed import Layout, Packed, Rows, mean_per_sequence


class Model(nn.Module):
    """`body` (the stack), `pooler`, and `heads`, all values of `ModelConfig`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.body = Transformer(config.body)
        self.pooler = self._new_pooler() if config.pooler_act is not None else None
        self.heads = nn.ModuleDict({head.task: self._new_head(head) for head in config.heads})

    def _new_pooler(self) -> Transform:
        activation = self.config.pooler_act or "tanh"
        pooler = Transform(input_size=self.hidden_size, size=self.hidden_size, activation=activation)
        initialise(pooler, std=self.config.body.initializer_range)
        return pooler

    def _new_head(self, config: HeadConfig) -> Head:
        head = Head(config, hidden_size=self.hidden_size)
        initialise(head, std=self.config.body.initializer_range)
        return head

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
        if rows is not None and reads != "tokens":
            raise ValueError(f"rows are for heads that read tokens; {task!r} reads {reads!r}")
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

    def set_heads(self, heads: Sequence[HeadConfig], labels: Sequence[str] = ()) -> None:
        """Replace the heads by freshly initialised ones; a head of the same configuration keeps its weights.

        A head that reads the pooler's output gets a new pooler where there is none.
        """
        like = self.body.embeddings.tokens.weight
        kept = {task: head for task, head in self.heads.items() if isinstance(head, Head) and head.config in heads}
        if self.pooler is None and any(head.reads == "pooled" for head in heads):
            self.config = replace(self.config, pooler_act="tanh")
            self.pooler = self._new_pooler().to(like).train(self.training)
        self.config = replace(self.config, heads=tuple(heads), labels=tuple(labels))
        self.heads = nn.ModuleDict(
            {head.task: kept.get(head.task) or self._new_head(head).to(like).train(self.training) for head in heads}
        )
