"""`--model bilstm`, `bigru` or `birnn`: a new recurrent encoder that nobody has pretrained, and a tokenizer of the texts.

What there was before transfer learning, and still what to measure it against: subwords of the training texts, their vectors,
recurrent layers in both directions, everything learnt from the labelled examples alone. Each training of a run draws its
own weights; the tokenizer is a function of the training texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, cast

from bertworks import hub
from bertworks.data.labelled.examples import UNREAD
from bertworks.errors import ModelError, did_you_mean
from bertworks.finetune.config import FreshSection
from bertworks.models.config import EmbeddingConfig, ModelConfig, RecurrentConfig
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.train import TrainerOptions, build_tokenizer, count_words, learn
from bertworks.train.recurrent import CELLS, OWN, parse_shape

NAMES = tuple(f"bi{cell}" for cell in CELLS)


def open_model(name: str | Path, examples: Sequence[Any], section: FreshSection) -> tuple[hub.Loaded, bool]:
    """The model of that name, and whether it is a new one; a directory that has such a name is a directory."""
    if name not in NAMES or Path(name).is_dir():
        if not Path(name).exists() and (hint := did_you_mean(str(name), NAMES)):
            raise ModelError(f"there is no model {str(name)!r}{hint}")
        return hub.load(name), False
    cell = str(name).removeprefix("bi")
    tokenizer = _tokenizer(examples, section)
    layers, width = parse_shape(section.size)
    config = ModelConfig(
        family=OWN,
        body=RecurrentConfig(
            embeddings=EmbeddingConfig(vocab_size=tokenizer.vocab_size, size=section.embedding_size, norm=False),
            cell=cast(Literal["rnn", "lstm", "gru"], cell),
            hidden_size=width,
            num_hidden_layers=layers,
            bidirectional=True,
            input_dropout_prob=section.dropout,
            hidden_dropout_prob=section.dropout,
            output_dropout_prob=section.dropout,
            initializer_range=0.1,
        ),
        pad_token_id=tokenizer.pad_id or 0,
    )
    model = Model(config)
    return hub.Loaded(
        model=model, tokenizer=tokenizer, directory=Path(name), settings=None, window=model.num_positions
    ), True


def _tokenizer(examples: Sequence[Any], section: FreshSection) -> Tokenizer:
    options = TrainerOptions.of(
        "wordpiece", vocab_size=section.vocab_size, lowercase=section.lowercase, strip_accents=section.lowercase
    )
    return build_tokenizer(learn(count_words(_texts(examples), options), options), options)


def _texts(examples: Iterable[Any]) -> Iterator[str]:
    for example in examples:
        for field in fields(example):
            value = getattr(example, field.name)
            if field.name in UNREAD or value is None:
                continue
            if isinstance(value, str):
                yield value
            elif all(isinstance(part, str) for part in value):  # the words of a sentence, the options of a choice
                yield " ".join(value)
