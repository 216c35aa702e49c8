"""Made-up languages whose structure is known, tiny models, and a few lines that train one on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bertworks.data.pretraining import Masker, MaskingConfig, Sequences
from bertworks.models.config import (
    EmbeddingConfig,
    HeadConfig,
    LayerConfig,
    ModelConfig,
    PositionConfig,
    TransformerConfig,
)
from bertworks.models.model import Model
from bertworks.objectives.base import Loss, Objective
from bertworks.text.tokenizer import Tokenizer
from tests.data.pretraining.helpers import word_tokenizer

CLS, SEP, MASK = 2, 3, 4
FIRST_WORD = 5
NUM_WORDS = 24
VOCAB_SIZE = FIRST_WORD + NUM_WORDS

Words = list[list[int]]


def make_masker(rate: float = 0.2, **options: object) -> Masker:
    tokenizer = Tokenizer(word_tokenizer([f"w{number}" for number in range(NUM_WORDS)]))
    return Masker(MaskingConfig(rate=rate, **options), tokenizer, seed=7)


def make_rows(
    texts: Sequence[Sequence[Sequence[int]]],
    *,
    index: Sequence[int] | None = None,
    epoch: int = 0,
    labels: dict[str, Sequence[int]] | None = None,
) -> Sequences:
    """Each text is one list of words (0, 1, …), or two: [CLS] a [SEP], or [CLS] a [SEP] b [SEP] in segments 0 and 1."""
    ids: list[int] = []
    segments: list[int] = []
    lengths = []
    for parts in texts:
        before = len(ids)
        ids.append(CLS)
        segments.append(0)
        for segment, words in enumerate(parts):
            ids += [FIRST_WORD + word for word in words] + [SEP]
            segments += [segment] * (len(words) + 1)
        lengths.append(len(ids) - before)
    flat = np.array(ids, np.int64)
    return Sequences(
        ids=flat,
        lengths=np.array(lengths, np.int64),
        index=np.arange(len(texts)) if index is None else np.array(index, np.int64),
        epoch=epoch,
        special=(flat == CLS) | (flat == SEP),
        segments=np.array(segments, np.int64),
        labels={name: np.array(values, np.int64) for name, values in (labels or {}).items()},
    )


def choose(rows: Sequences, order: Sequence[int]) -> Sequences:
    """Some of the sequences, in this order."""
    places = [np.arange(rows.starts[number], rows.starts[number] + rows.lengths[number]) for number in order]
    flat = np.concatenate(places) if places else np.zeros(0, np.int64)
    kept = np.array(order, np.int64)
    return Sequences(
        ids=rows.ids[flat],
        lengths=rows.lengths[kept],
        index=rows.index[kept],
        epoch=rows.epoch,
        special=rows.special[flat],
        segments=None if rows.segments is None else rows.segments[flat],
        labels={name: values[kept] for name, values in rows.labels.items()},
    )


# -- models ------------------------------------------------------------------------------------------------------------


def vocabulary_head(task: str, size: int) -> HeadConfig:
    return HeadConfig(
        task=task, reads="tokens", num_labels=VOCAB_SIZE, transform_size=size, transform_norm=True, tied=True
    )


def pair_head(task: str) -> HeadConfig:
    return HeadConfig(task=task, reads="pooled", num_labels=2)


RTD_HEAD = HeadConfig(task="rtd", reads="tokens", num_labels=1, transform_size=32)


def make_model(
    *heads: HeadConfig,
    hidden_size: int = 32,
    num_layers: int = 2,
    embedding_size: int | None = None,
    causal: bool = False,
    segments: int = 2,
    family: str = "bert",
) -> Model:
    """Post-norm, no dropout, sizes that differ."""
    config = ModelConfig(
        family=family,
        body=TransformerConfig(
            embeddings=EmbeddingConfig(vocab_size=VOCAB_SIZE, size=embedding_size, type_vocab_size=segments),
            positions=PositionConfig(max_position_embeddings=31),
            layer=LayerConfig(
                hidden_size=hidden_size,
                num_attention_heads=4,
                intermediate_size=2 * hidden_size + 8,
                hidden_dropout_prob=0.0,
                attention_dropout_prob=0.0,
            ),
            num_hidden_layers=num_layers,
            causal=causal,
            initializer_range=0.1,
        ),
        pooler_act="tanh" if any(head.reads == "pooled" for head in heads) else None,
        heads=heads,
    )
    return Model(config)


# -- languages ---------------------------------------------------------------------------------------------------------

THEME_SIZE = 4
NUM_THEMES = NUM_WORDS // THEME_SIZE


def theme_texts(count: int, seed: int, length: int = 12) -> list[Words]:
    """Each text has one theme of four words; its even places take turns among the first two, its odd ones the last two."""
    generator = np.random.default_rng(seed)
    turns = np.tile([0, 2, 1, 3], length)[:length]
    return [[(THEME_SIZE * theme + turns).tolist()] for theme in generator.integers(0, NUM_THEMES, count)]


def noisy_texts(count: int, seed: int, length: int = 12) -> list[Words]:
    """Each text has one theme, whose four words are drawn with probabilities 0.4, 0.3, 0.2 and 0.1."""
    generator = np.random.default_rng(seed)
    return [
        [(THEME_SIZE * theme + generator.choice(THEME_SIZE, length, p=[0.4, 0.3, 0.2, 0.1])).tolist()]
        for theme in generator.integers(0, NUM_THEMES, count)
    ]


def topic_pairs(count: int, seed: int) -> tuple[list[Words], list[int]]:
    """A speaks about one of four topics (six words each), B about the same (label 0) or about another one (1)."""
    generator = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        label, topic = int(generator.integers(0, 2)), int(generator.integers(0, 4))
        other = (topic + int(generator.integers(1, 4))) % 4 if label else topic
        parts = [(6 * subject + generator.integers(0, 6, 4)).tolist() for subject in (topic, other)]
        texts.append(parts)
        labels.append(label)
    return texts, labels


def counter_pairs(count: int, seed: int) -> tuple[list[Words], list[int]]:
    """Someone counts upwards by steps of one or two; the second half follows the first (0), or they are swapped (1)."""
    generator = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        label = int(generator.integers(0, 2))
        steps = generator.integers(1, 3, 7)
        words = (generator.integers(0, NUM_WORDS - steps.sum()) + np.concatenate([[0], np.cumsum(steps)])).tolist()
        parts = [words[:4], words[4:]]
        texts.append(parts[::-1] if label else parts)
        labels.append(label)
    return texts, labels


def two_grammars(count: int, seed: int, length: int = 10) -> list[Words]:
    """The first word, even or odd, says which of two grammars decides every next word from the one before."""
    generator = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        words = [int(word) for word in generator.integers(0, NUM_WORDS, 2)]
        while len(words) < length:
            words.append(int((words[-1] + (5 if words[0] % 2 else 7)) % NUM_WORDS))
        texts.append([words])
    return texts


# -- training ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Losses and accuracies by name."""

    loss: dict[str, float]
    accuracy: dict[str, float]
    shares: dict[str, float]


def total(objective: Objective, losses: dict[str, Loss]) -> torch.Tensor:
    parts = [weight * losses[name].sum / max(1, losses[name].count) for name, weight in objective.weights.items()]
    return torch.stack(parts).sum()


def train(
    objective: Objective,
    module: nn.Module,
    make: Callable[[int], Sequences],
    *,
    steps: int,
    learning_rate: float = 3e-3,
    parameters: Iterator[nn.Parameter] | None = None,
) -> None:
    """`make(seed)` gives the rows of a step."""
    optimizer = torch.optim.AdamW(parameters or module.parameters(), lr=learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps)
    module.train()
    for step in range(steps):
        loss = total(objective, objective.losses(module, objective.prepare(make(step), step / steps)))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def measure(objective: Objective, module: nn.Module, rows: Sequences) -> Measured:
    module.eval()
    with torch.no_grad():
        losses = objective.losses(module, objective.prepare(rows, 1.0))
    return Measured(
        {name: float(loss.sum) / loss.count for name, loss in losses.items()},
        {name: int(loss.correct) / loss.count for name, loss in losses.items() if loss.correct is not None},
        {
            name: int(part) / max(1, int(whole))
            for loss in losses.values()
            for name, (part, whole) in loss.shares.items()
        },
    )


UNSEEN = 10**6
"""A seed that no training step has."""
