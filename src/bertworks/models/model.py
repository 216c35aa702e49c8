"""A model: one stack, an optional pooler, and heads by task name. It returns logits and never a loss.

The stack is a Transformer, a recurrent one, one over words or a pair of language models, as the type of `config.body` says;
whoever calls it need not know which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from bertworks.errors import ModelError
from bertworks.models.config import HeadConfig, ModelConfig, RecurrentConfig
from bertworks.models.elmo import BiLM
from bertworks.models.elmo_config import BiLMConfig
from bertworks.models.heads import Head, Transform
from bertworks.models.recurrent import RecurrentStack
from bertworks.models.transformer import Transformer, initialise
from bertworks.models.word_config import WordStackConfig
from bertworks.models.words import WordStack
from bertworks.nn.packed import Layout, Packed, Rows, max_per_sequence, mean_per_sequence

CONCAT = 3
"""The parts of concat pooling: last, maximum, mean."""


class Model(nn.Module):
    """`body` (the stack), `pooler`, and `heads`, all values of `ModelConfig`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.body: Transformer | RecurrentStack | WordStack | BiLM
        if isinstance(config.body, WordStackConfig):
            self.body = WordStack(config.body)
        elif isinstance(config.body, BiLMConfig):
            self.body = BiLM(config.body)
        elif isinstance(config.body, RecurrentConfig):
            self.body = RecurrentStack(config.body)
        else:
            self.body = Transformer(config.body)
        self.pooler = self._new_pooler() if config.pooler_act is not None else None
        self.heads = nn.ModuleDict({head.task: self._new_head(head) for head in config.heads})

    def _new_pooler(self) -> Transform:
        activation = self.config.pooler_act or "tanh"
        pooler = Transform(input_size=self.hidden_size, size=self.hidden_size, activation=activation)
        initialise(pooler, std=self.config.body.initializer_range)
        return pooler

    def _new_head(self, config: HeadConfig) -> Head:
        head = Head(config, hidden_size=self.hidden_size * (CONCAT if config.reads == "concat" else 1))
        initialise(head, std=self.config.body.initializer_range)
        return head

    @property
    def num_layers(self) -> int:
        return self.config.body.num_hidden_layers

    @property
    def blocks(self) -> nn.ModuleList:
        """The layers that have weights of their own, from the lowest."""
        if isinstance(self.body, BiLM):
            raise ModelError(
                f"the layers of {self.config.describe()} are two stacks that are used, but not fine-tuned: train a model over "
                "its vectors, such as `bertworks finetune tag --model bilstm --vectors MODEL`"
            )
        return self.body.blocks

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.config.body.output_size

    @property
    def num_positions(self) -> int:
        """The longest sequence the model was made for; relative positions may work beyond it, learned ones cannot."""
        return self.config.body.max_length

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
        """One head on hidden states that were already read: rows for first/last/pooled/tokens, all tokens for mean/concat."""
        head = self.head(task)
        if head.config.reads == "mean":
            hidden = mean_per_sequence(hidden, layout)
        elif head.config.reads == "concat":
            hidden = self.concat(hidden, layout)
        elif head.config.reads == "pooled":
            hidden = self.pool(hidden)
        return head(hidden, self.body.embeddings.tokens.weight if head.config.tied else None)

    def concat(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Last state, maximum and mean of each sequence side by side (Howard & Ruder 2018, section 3.3): (T, H) -> (B, 3 H)"""
        if isinstance(self.body, RecurrentStack | WordStack):
            last = self.body.final(hidden, layout)
        else:
            last = layout.last().to(hidden.device).take(hidden)
        return torch.cat([last, max_per_sequence(hidden, layout), mean_per_sequence(hidden, layout)], dim=1)

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
