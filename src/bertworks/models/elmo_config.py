"""What a pair of language models that read from both ends is, as a value (`bertworks.models.elmo`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertworks.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class CharacterCNNConfig:
    """From the characters of a word to its vector."""

    num_characters: int = 261
    """Bytes and marks, as `bertworks.text.spelling` numbers them; the last one is the padding."""
    max_characters: int = 50
    """Places of a word, the marks of its beginning and end included."""
    character_size: int = 16
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    """(characters that it sees, how many of them): ELMo's 2,048."""
    activation: Literal["relu", "tanh"] = "relu"
    num_highway_layers: int = 2

    def __post_init__(self) -> None:
        for name, minimum in {"max_characters": 3, "character_size": 1, "num_highway_layers": 0}.items():
            if getattr(self, name) < minimum:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {minimum}")
        if not self.filters:
            raise ConfigError("filters is empty; it needs at least one pair of width and number")
        for width, count in self.filters:
            if not 1 <= width <= self.max_characters or count < 1:
                raise ConfigError(
                    f"filters has ({width}, {count}); a width is from 1 to max_characters = {self.max_characters}, "
                    "a number at least 1"
                )


@dataclass(frozen=True, kw_only=True)
class BiLMConfig:
    """Two language models, one per direction."""

    vocab_size: int | None
    """What is predicted: the most frequent words, or all characters. None = nothing is, as in the files of ELMo."""
    unknown_id: int = 0
    """The id that stands for all tokens from `vocab_size` on where they are to be predicted."""
    spelling: CharacterCNNConfig | None = None
    """Tokens are words and are read by their characters; None = tokens are characters and have a table."""
    embedding_size: int
    """Width of a word's or a character's vector before the LSTMs."""
    cell_size: int
    projection_size: int | None = None
    """Width of the LSTM's output where it is narrower than its cell."""
    num_hidden_layers: int = 2
    residual: bool = True
    """A layer's input is added to its output, from the second layer on."""
    cell_clip: float | None = None
    projection_clip: float | None = None
    dropout_prob: float = 0.0
    """On the input, between the layers, and before the output."""
    max_length: int = 512
    """The longest sequence that is read at once; longer texts come in windows. No weights depend on it."""
    initializer_range: float = 0.05
    """Of heads that are put on it."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "embedding_size", "cell_size", "projection_size", "num_hidden_layers", "max_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if not 0.0 <= self.dropout_prob < 1.0:
            raise ConfigError(f"dropout_prob is {self.dropout_prob}; it must be at least 0 and below 1")
        if self.spelling is None and self.vocab_size is None:
            raise ConfigError("vocab_size is none; a model without a spelling needs it for its table of characters")
        if self.spelling is not None and self.embedding_size != self.direction_size:
            raise ConfigError(
                f"embedding_size is {self.embedding_size}; words that are spelt must be as wide as one direction's "
                f"output, {self.direction_size}, because they are a layer like the others"
            )

    @property
    def direction_size(self) -> int:
        """Width of one direction's output."""
        return self.projection_size or self.cell_size

    @property
    def output_size(self) -> int:
        """Width of the hidden states: both directions side by side."""
        return 2 * self.direction_size

    @property
    def causal(self) -> bool:
        return False

    def describe(self) -> str:
        """`elmo 2x512` (layers, width of one direction), `charlm 1x1024`"""
        return f"{'charlm' if self.spelling is None else 'elmo'} {self.num_hidden_layers}x{self.direction_size}"
