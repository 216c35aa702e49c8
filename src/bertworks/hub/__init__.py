"""The door to models on disk and on the Hugging Face Hub: foreign spellings are known here and nowhere else.

resolve      alias, directory or Hub id -> directory
checkpoint   directory <-> model                         (families: whose names and entries mean what)
elmo         ELMo as AllenNLP has it: options and HDF5
sentence     pooling, normalisation and window of an embedding model
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from bertworks.errors import CheckpointError
from bertworks.hub.checkpoint import LoadReport, load_model, load_report, save_model
from bertworks.hub.elmo import find_elmo, load_elmo, word_finder
from bertworks.hub.files import model_directory
from bertworks.hub.resolve import resolve
from bertworks.hub.sentence import SentenceSettings, read_settings, remove_settings, write_settings
from bertworks.hub.tensors import Integers
from bertworks.models.elmo_config import BiLMConfig
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer

__all__ = [
    "LoadReport",
    "Loaded",
    "SentenceSettings",
    "load",
    "load_model",
    "load_report",
    "resolve",
    "save",
    "save_model",
]


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model directory, opened."""

    model: Model
    tokenizer: Tokenizer
    directory: Path
    settings: SentenceSettings | None
    """Pooling and normalisation, where the directory is an embedding model."""
    window: int
    """The longest sequence the model takes at once, special tokens included."""


def load(name: str | os.PathLike[str], revision: str | None = None) -> Loaded:
    """Open an alias (`minilm`), a model directory or a Hub id."""
    directory = model_directory(resolve(name, revision))
    if (files := find_elmo(directory)) is not None:
        elmo = load_elmo(*files)
        return Loaded(
            model=elmo, tokenizer=word_finder(), directory=directory, settings=None, window=elmo.num_positions
        )
    settings = read_settings(directory)
    body = directory / settings.folder if settings is not None else directory
    model = load_model(body)
    tokenizer = Tokenizer.from_directory(body)
    table = _table_size(model)
    if table is not None and tokenizer.vocab_size > table:
        raise CheckpointError(
            f"{body}: the tokenizer has {tokenizer.vocab_size} tokens, but the model has vectors for only {table}; "
            "the two do not belong together"
        )
    window = _window(model, settings)
    return Loaded(model=model, tokenizer=tokenizer, directory=directory, settings=settings, window=window)


def save(
    model: Model,
    tokenizer: Tokenizer,
    directory: str | os.PathLike[str],
    *,
    settings: SentenceSettings | None = None,
    dtype: torch.dtype | None = None,
    tensors: Mapping[str, torch.Tensor | Integers] | None = None,
) -> None:
    """Write a Hugging Face directory; with `settings`, one that `sentence-transformers` opens as well.

    The weights are written in `dtype`, or as they are; `tensors` are written in their stead (`save_model`).
    """
    path = Path(directory)
    tokenizer.save(path, model_max_length=_window(model, settings))
    remove_settings(path)  # those of an embedding model that was here before are not this one's
    if settings is not None:
        write_settings(path, settings, model.hidden_size)
    save_model(model, path, dtype=dtype, tensors=tensors)  # last, because config.json is what makes a directory a model


def _table_size(model: Model) -> int | None:
    """How many tokens have a vector; None where tokens are spelt."""
    body = model.config.body
    if isinstance(body, BiLMConfig):
        return body.vocab_size if body.spelling is None else None
    return body.embeddings.vocab_size


def _window(model: Model, settings: SentenceSettings | None) -> int:
    """What the embedding model was made for, but never more than there are positions."""
    asked = settings.max_seq_length if settings is not None else None
    return model.num_positions if asked is None else min(asked, model.num_positions)
