"""From a recipe's `[model]` section with `family = "rnn"`, `"lstm"` or `"gru"` to a recurrent language model.

The output matrix is the token table (Press & Wolf 2017, Inan et al. 2017): half of the parameters of a small model, and
better than two tables. Where the states are wider or narrower than the token vectors, a dense layer stands in between.

`medium` and `large` are the shapes of Zaremba et al. 2014, `base` is that of AWD-LSTM and ULMFiT (Merity et al. 2017,
Howard & Ruder 2018), rounded to a multiple of 64; the smaller ones are ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from bertworks.errors import ConfigError, ModelError
from bertworks.models.config import EmbeddingConfig, HeadConfig, ModelConfig, RecurrentConfig, Task
from bertworks.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from bertworks.train.architecture import ModelSection

CELLS = ("rnn", "lstm", "gru")
OWN = "bertworks"
"""Hugging Face has no family of recurrent models: they are saved in our own format."""
SHAPES: dict[str, tuple[int, int]] = {
    "tiny": (1, 128),
    "mini": (2, 256),
    "small": (2, 512),
    "medium": (2, 650),
    "base": (3, 1152),
    "large": (2, 1500),
}
"""Layers and width."""


@dataclass(frozen=True, kw_only=True)
class RecurrentSection:
    """What only rnn, lstm and gru have; `model.dropout` is that between the layers."""

    input_dropout: float = 0.0
    """On the token vectors."""
    output_dropout: float = 0.0
    """On the last layer's states."""
    embedding_dropout: float = 0.0
    """The share of the vocabulary whose vectors are 0 in a batch."""
    weight_dropout: float = 0.0
    """On the recurrent matrices."""
    activation: Literal["tanh", "relu"] = "tanh"
    """rnn: of the state."""
    tied: bool = True
    """The output matrix is the token table."""


def parse_shape(text: str) -> tuple[int, int]:
    """`small`, or LAYERSxWIDTH as in `2x512`."""
    if text in SHAPES:
        return SHAPES[text]
    found = re.fullmatch(r"(\d+)[x×](\d+)", text.strip().lower())
    shape = (int(found[1]), int(found[2])) if found else (0, 0)
    if min(shape) < 1:
        names = ", ".join(f"{name} ({layers}x{width})" for name, (layers, width) in SHAPES.items())
        raise ConfigError(
            f"model.size is {text!r}; allowed for {', '.join(CELLS)}: {names}, or LAYERSxWIDTH such as 2x400"
        )
    return shape


def recurrent_config(section: ModelSection, tokenizer: Tokenizer, tasks: tuple[Task, ...]) -> ModelConfig:
    """The configuration of a new recurrent model, with a head for each of `tasks`."""
    layers, width = parse_shape(section.size)
    options = section.recurrent
    body = RecurrentConfig(
        embeddings=EmbeddingConfig(vocab_size=tokenizer.vocab_size, size=section.embedding_size, norm=False),
        cell=cast(Literal["rnn", "lstm", "gru"], section.family),
        hidden_size=width,
        num_hidden_layers=layers,
        activation=options.activation,
        embedding_dropout_prob=options.embedding_dropout,
        input_dropout_prob=options.input_dropout,
        hidden_dropout_prob=section.dropout,
        output_dropout_prob=options.output_dropout,
        weight_dropout_prob=options.weight_dropout,
        max_length=section.max_position_embeddings,
    )
    pad = tokenizer.pad_id
    return ModelConfig(
        family=OWN,
        body=body,
        heads=tuple(recurrent_head(body, task, tied=options.tied) for task in tasks),
        pad_token_id=0 if pad is None else pad,
    )


def recurrent_head(body: RecurrentConfig, task: Task, *, tied: bool = True) -> HeadConfig:
    """The head that a recurrent model is pretrained with."""
    if body.bidirectional:
        raise ModelError(f"a {body.cell} that reads in both directions sees the token which it would be asked for")
    if task != "lm":
        raise ModelError(
            f"a {body.cell} has no {task!r} head: it reads from left to right, and objective.kind is causal_lm"
        )
    narrow = tied and body.embedding_size != body.output_size
    return HeadConfig(
        task="lm",
        reads="tokens",
        num_labels=body.embeddings.vocab_size,
        transform_size=body.embedding_size if narrow else None,
        transform_act="linear",
        tied=tied,
    )
