"""Tiny models, tokenizers and data for the tasks about words and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from bertworks.models.config import EmbeddingConfig, LayerConfig, ModelConfig, PositionConfig, TransformerConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Batch
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Chosen, Task, Units
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.config import EvaluationConfig, OptimizerConfig, ScheduleConfig, TrainConfig
from bertworks.train.loop import train
from tests.text import tiny


def make_tokenizer(kind: str = "bert") -> Tokenizer:
    return Tokenizer(tiny.KINDS[kind]())


def make_model(tokenizer: Tokenizer, *, positions: int = 41, causal: bool = False, dropout: float = 0.0) -> Model:
    """Random and in evaluation mode; all sizes differ."""
    torch.manual_seed(3)
    config = TransformerConfig(
        embeddings=EmbeddingConfig(vocab_size=tokenizer.vocab_size, type_vocab_size=2),
        positions=PositionConfig(max_position_embeddings=positions),
        layer=LayerConfig(
            hidden_size=48,
            num_attention_heads=4,
            intermediate_size=72,
            hidden_dropout_prob=dropout,
            attention_dropout_prob=dropout,
        ),
        num_hidden_layers=2,
        causal=causal,
        initializer_range=0.1,
    )
    return Model(ModelConfig(family="bertworks", body=config)).eval()


def attached(task: Task[Any, Any], tokenizer: Tokenizer, **options: Any) -> tuple[Model, Tokenizer]:
    """A random model with the task's head."""
    model = make_model(tokenizer, **options)
    return model, attach(task, model, tokenizer)


def random_outputs(task: Task[Any, Any], units: Units, width: int, seed: int = 0) -> list[np.ndarray]:
    """What a model with random opinions would give, without the model."""
    random = np.random.default_rng(seed)
    batch = task.prepare(Chosen(units, np.arange(len(units))), 1.0)
    assert batch.rows is not None
    return [random.normal(size=(rows, width)).astype(np.float32) * 3 for rows in batch.rows.layout.lengths]


@dataclass(frozen=True)
class Feed:
    """Random units, a function of the step."""

    task: Task[Any, Any]
    units: Units
    size: int = 16

    def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
        numbers = np.random.default_rng([5, step]).choice(len(self.units), self.size, replace=False)
        numbers = numbers[np.argsort(self.units.num_tokens[numbers], kind="stable")]
        return [self.task.prepare(Chosen(self.units, numbers), 0.0)]


def learn(model: nn.Module, task: Task[Any, Any], units: Units, *, steps: int, learning_rate: float = 3e-3) -> None:
    """Train through the project's own loop."""
    config = TrainConfig(
        optimizer=OptimizerConfig(learning_rate=learning_rate, betas=(0.9, 0.999)),
        schedule=ScheduleConfig(warmup=0.1),
        evaluation=EvaluationConfig(steps=0),
    )
    for _ in train(model, task, Feed(task, units), config, total_steps=steps, seed=1):
        pass
