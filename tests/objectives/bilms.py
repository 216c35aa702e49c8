"""Tiny models that read the made-up languages from both ends."""

from __future__ import annotations

import torch

from bertworks.models.config import ModelConfig
from bertworks.models.elmo_config import BiLMConfig, CharacterCNNConfig
from bertworks.models.model import Model
from bertworks.objectives.bilm import BidirectionalLM
from bertworks.text.spelling import spell, spell_boundaries
from tests.objectives.language import CLS, FIRST_WORD, NUM_WORDS, SEP, VOCAB_SIZE

PREDICTED = 20
"""Of the 29 tokens; the others are the unknown one."""


def spelt_model(*, dropout: float = 0.0) -> Model:
    torch.manual_seed(0)
    spelling = CharacterCNNConfig(character_size=6, filters=((1, 9), (2, 14)), num_highway_layers=1)
    body = BiLMConfig(
        vocab_size=PREDICTED,
        unknown_id=1,
        spelling=spelling,
        embedding_size=16,
        cell_size=28,
        projection_size=16,
        dropout_prob=dropout,
    )
    return Model(ModelConfig(family="bertworks", body=body))


def table_model() -> Model:
    torch.manual_seed(0)
    body = BiLMConfig(
        vocab_size=VOCAB_SIZE, unknown_id=1, embedding_size=12, cell_size=20, num_hidden_layers=1, residual=False
    )
    return Model(ModelConfig(family="bertworks", body=body))


def spelt_objective(softmax_words: int | None = None) -> BidirectionalLM:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(NUM_WORDS))]
    assert names[FIRST_WORD] == "w0"
    characters = spell(names)
    characters[[CLS, SEP]] = spell_boundaries()
    return BidirectionalLM(
        vocab_size=PREDICTED, unknown_id=1, characters=characters, softmax_words=softmax_words, seed=3
    )
