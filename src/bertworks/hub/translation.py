"""Translation models in directories: two stacks, and a tokenizer for both languages or one for each."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import nn

from bertworks.errors import CheckpointError
from bertworks.hub.checkpoint import KINDS, OWN, load_module, save_model
from bertworks.hub.families import SEQ2SEQ_FAMILIES
from bertworks.hub.files import model_directory, read_object, writing
from bertworks.hub.resolve import resolve
from bertworks.text.files import has_sides
from bertworks.text.tokenizer import Tokenizer

SIDE_FILES = (
    *("source.spm", "target.spm", "vocab.json", "target_vocab.json"),
    *("tokenizer_config.json", "special_tokens_map.json"),
)
"""The files of two tokenizers, as Marian's models have them."""


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A translation model's directory, opened."""

    model: nn.Module
    source: Tokenizer
    target: Tokenizer
    """The same as `source` where both languages have one."""
    directory: Path


def is_translation(directory: str | os.PathLike[str]) -> bool:
    """Whether a directory holds a model that reads one text and writes another."""
    path = Path(directory) / "config.json"
    if not path.is_file():
        return False
    hf = read_object(path)
    if hf.get("model_type") != OWN:
        return hf.get("model_type") in SEQ2SEQ_FAMILIES
    config_class, _ = KINDS.get(str(hf.get("kind", "model")), KINDS["model"])
    return "target" in {entry.name for entry in fields(config_class)}


def load_translation(name: str | os.PathLike[str], revision: str | None = None) -> Translation:
    """Open a translation model's directory or Hub id."""
    directory = model_directory(resolve(name, revision))
    model = load_module(directory)
    source = Tokenizer.from_directory(directory)
    target = Tokenizer.from_directory(directory, "target") if has_sides(directory) else source
    tables = [
        module.num_embeddings
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and name.endswith(("tokens", "embeddings"))
    ]
    size = max(source.vocab_size, target.vocab_size)
    if tables and size > max(tables):
        raise CheckpointError(
            f"{directory}: the tokenizer has {size} tokens, but the model has vectors for only {max(tables)}; "
            "the two do not belong together"
        )
    return Translation(model=model, source=source, target=target, directory=directory)


def save_translation(
    translation: Translation, directory: str | os.PathLike[str], *, dtype: torch.dtype | None = None
) -> None:
    """Write a directory that `transformers` opens too where the model is of a family it has."""
    path = Path(directory)
    if has_sides(translation.directory):
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            for name in SIDE_FILES:
                if (translation.directory / name).is_file():
                    shutil.copyfile(translation.directory / name, path / name)
    else:
        translation.source.save(path)
    save_model(translation.model, path, dtype=dtype)  # last, because config.json is what makes a directory a model
