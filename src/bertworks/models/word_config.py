"""What a stack over words is, as a value (`bertworks.models.words`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertworks.errors import ConfigError

UNLIMITED = 1_000_000


@dataclass(frozen=True, kw_only=True)
class VectorConfig:
    """Frozen vectors from one source."""

    width: int
    num_layers: int = 1
    """More than one are mixed by learned weights."""
    between: bool = False
    """TagLM: joined to what comes out of the first recurrent layer, not to the words."""
    scale: float = 1.0
    """What the vectors are multiplied by."""

    def __post_init__(self) -> None:
        _at_least(1, width=self.width, num_layers=self.num_layers)


@dataclass(frozen=True, kw_only=True)
class WordEmbeddingConfig:
    """What is learned of the words themselves."""

    vocab_size: int
    size: int = 100
    """Width of the words' table."""
    characters: Literal["none", "cnn", "lstm"] = "cnn"
    num_characters: int = 261
    """Bytes and marks, as `bertworks.text.spelling` numbers them."""
    character_size: int = 25
    character_features: int = 50

    def __post_init__(self) -> None:
        _at_least(1, vocab_size=self.vocab_size, size=self.size, num_characters=self.num_characters)
        _at_least(1, character_size=self.character_size, character_features=self.character_features)

    @property
    def width(self) -> int:
        return self.size + (self.character_features if self.characters != "none" else 0)


@dataclass(frozen=True, kw_only=True)
class WordStackConfig:
    """A stack over words; see the module."""

    embeddings: WordEmbeddingConfig
    vectors: tuple[VectorConfig, ...] = ()
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    direction_size: int = 100
    """Width of one direction of a recurrent layer."""
    num_hidden_layers: int = 2
    hidden_dropout_prob: float = 0.3
    """Before each recurrent layer and before the head."""
    initializer_range: float = 0.05
    """Of the heads."""

    def __post_init__(self) -> None:
        _at_least(1, direction_size=self.direction_size, num_hidden_layers=self.num_hidden_layers)
        if not 0.0 <= self.hidden_dropout_prob < 1.0:
            raise ConfigError(f"hidden_dropout_prob is {self.hidden_dropout_prob:g}; it must be at least 0 and below 1")
        if self.num_hidden_layers < 2 and any(vectors.between for vectors in self.vectors):
            raise ConfigError("vectors between the recurrent layers need two of them; num_hidden_layers is 1")

    @property
    def output_size(self) -> int:
        """Width of the hidden states: both directions."""
        return 2 * self.direction_size

    @property
    def max_length(self) -> int:
        """Recurrent layers have no positions to run out of."""
        return UNLIMITED

    @property
    def causal(self) -> bool:
        return False


def _at_least(lowest: int, **values: int) -> None:
    for name, value in values.items():
        if value < lowest:
            raise ConfigError(f"{name} is {value}; it must be at least {lowest}")
