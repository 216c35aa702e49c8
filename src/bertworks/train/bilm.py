"""From a recipe's `[model]` section with `family = "elmo"` or `"charlm"` to two language models that read from both ends.

`size` is LAYERSxWIDTH, the width being that of one direction. ELMo's LSTMs have cells wider than what they show
(`bilm.cell_size`, 4,096 for 512 in the paper); those of characters show all of it. What a token is, the corpus's tokenizer
decides, so it is checked here: whole words for `elmo`, single characters for `charlm`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bertworks.errors import ConfigError, ModelError, UsageError
from bertworks.models.config import ModelConfig
from bertworks.models.elmo import BiLM
from bertworks.models.elmo_config import BiLMConfig, CharacterCNNConfig
from bertworks.models.model import Model
from bertworks.objectives.bilm import BidirectionalLM
from bertworks.text.spelling import Characters, spell, spell_boundaries
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.recurrent import OWN, parse_shape

if TYPE_CHECKING:
    from bertworks.train.architecture import ModelSection

BILMS = ("elmo", "charlm")
CELLS_PER_WIDTH = 4
CHARACTER_TABLE = 100
"""Width of the characters' vectors where the recipe does not say."""
WINDOWS = {"elmo": 512, "charlm": 4096}
"""How many tokens of a text are read at once when the model is used."""
EACH = 6
"""Operations per weight and token, forward and backward."""


@dataclass(frozen=True, kw_only=True)
class BiLMSection:
    """What only elmo and charlm have; `model.dropout` is on the input, between the layers and before the output."""

    cell_size: int | None = None
    """elmo: width of the LSTM's cell; None = 4 x width."""
    vocab_size: int = 30_000
    """elmo: how many words are predicted, the most frequent; all others count as one unknown word."""
    character_size: int = 16
    """elmo: width of a character's vector."""
    filters: tuple[int, ...] = (32, 32, 64, 128, 128)
    """elmo: how many filters see 1, 2, 3 … characters of a word."""
    num_highway_layers: int = 1
    """elmo."""
    cell_clip: float | None = None
    """elmo: the cell's values are cut to this; slower than without."""
    projection_clip: float | None = None
    """elmo: the same for the output."""

    def __post_init__(self) -> None:
        if self.vocab_size < 4:
            raise ConfigError(f"model.bilm.vocab_size is {self.vocab_size}; it must be at least 4")


def bilm_config(section: ModelSection, tokenizer: Tokenizer) -> ModelConfig:
    """The configuration of a new pair of language models for the tokens of `tokenizer`."""
    layers, width = parse_shape(section.size)
    check_tokens(section.family, tokenizer)
    unknown, options = tokenizer.specials.require("unk"), section.bilm
    if section.family == "charlm":
        body = BiLMConfig(
            vocab_size=tokenizer.vocab_size,
            unknown_id=unknown,
            embedding_size=section.embedding_size or CHARACTER_TABLE,
            cell_size=width,
            num_hidden_layers=layers,
            residual=False,
            dropout_prob=section.dropout,
            max_length=WINDOWS["charlm"],
        )
        return ModelConfig(family=OWN, body=body)
    filters = tuple((seen, count) for seen, count in enumerate(options.filters, 1) if count)
    body = BiLMConfig(
        vocab_size=min(options.vocab_size, tokenizer.vocab_size),
        unknown_id=unknown,
        spelling=CharacterCNNConfig(
            character_size=options.character_size, filters=filters, num_highway_layers=options.num_highway_layers
        ),
        embedding_size=width,
        cell_size=options.cell_size or CELLS_PER_WIDTH * width,
        projection_size=width,
        num_hidden_layers=layers,
        cell_clip=options.cell_clip,
        projection_clip=options.projection_clip,
        dropout_prob=section.dropout,
        max_length=WINDOWS["elmo"],
    )
    return ModelConfig(family=OWN, body=body)


def check_tokens(family: str, tokenizer: Tokenizer) -> None:
    """An error where the tokens of a corpus are not what a model of this family reads."""
    needed = {"elmo": "word", "charlm": "character"}[family]
    if family == "elmo":
        fits = tokenizer.kind == "WordLevel"
    else:
        special = set(tokenizer.specials.tokens().values())
        fits = all(len(token) == 1 or token in special for token in tokenizer.backend.get_vocab())
    if not fits or not len(tokenizer.template.prefix) or not len(tokenizer.template.suffix):
        raise UsageError(
            f"{family} reads {needed}s, and the corpus's tokenizer ({tokenizer.kind}, {tokenizer.vocab_size:,} tokens) is of "
            f"another kind; build the corpus with one of `bertworks tokenizer train FILES --algorithm {needed} -o DIR`"
        )


def bilm_objective(
    model: Model, tokenizer: Tokenizer, *, sequence_length: int, softmax_words: int | None = None, seed: int = 0
) -> BidirectionalLM:
    """What such a model is trained and, with the whole softmax, judged by."""
    config = model.config.body
    if not isinstance(config, BiLMConfig):
        raise ModelError(f'objective.kind = "bilm" is for elmo and charlm; the model is {model.config.describe()}')
    if config.vocab_size is None:
        raise ModelError("this model came without its output layer, so that it cannot be trained further")
    characters = None if config.spelling is None else vocabulary_characters(tokenizer, config.spelling.max_characters)
    return BidirectionalLM(
        vocab_size=config.vocab_size,
        unknown_id=config.unknown_id,
        characters=characters,
        softmax_words=softmax_words,
        seed=seed,
        boundaries=dict.fromkeys(_boundaries(tokenizer), 1 / (sequence_length - 2)),
    )


def begin_with_frequencies(model: Model, objective: BidirectionalLM, counts: NDArray[np.int64]) -> None:
    """Let a new model begin by guessing every token by how frequent it is, (V,) in the text.

    That is the first thing it would learn, and it would learn it at the cost of its words: the quickest way to raise the
    logits of frequent words is to make all states alike.
    """
    assert isinstance(model.body, BiLM)
    assert model.body.output is not None
    frequent = objective.target_counts(counts) + 1.0
    with torch.no_grad():
        model.body.output.bias.copy_(torch.from_numpy(np.log(frequent / frequent.sum())))


def _boundaries(tokenizer: Tokenizer) -> tuple[int, int]:
    """The ids of the beginning and the end of a sequence."""
    return int(tokenizer.template.prefix[0]), int(tokenizer.template.suffix[0])


def vocabulary_characters(tokenizer: Tokenizer, max_characters: int) -> Characters:
    """How every token is spelt, (V, max_characters); the beginning and the end of a text have characters of their own."""
    characters = spell(tokenizer.tokens(range(tokenizer.vocab_size)), max_characters)
    characters[np.array(_boundaries(tokenizer))] = spell_boundaries(max_characters)
    return characters


def bilm_flops(model: Model, softmax_words: int | None = None) -> float:
    """Operations per token: both readers and both predictions; of the words' own layer, which is made once for each
    distinct word of a batch, nothing."""
    body = model.body
    assert isinstance(body, BiLM)
    matrices = [
        weight for stack in (body.forwards, body.backwards) for weight in stack.parameters() if weight.dim() == 2
    ]
    predicted = min(softmax_words or math.inf, body.config.vocab_size or 0)
    output = 2 * predicted * body.config.direction_size
    return float(EACH * (sum(weight.numel() for weight in matrices) + output))
