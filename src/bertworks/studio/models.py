"""The models of a studio: loaded once, found by name, each used by one request at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertworks.errors import UsageError, did_you_mean
from bertworks.infer.loaded import LoadedModel, load
from bertworks.infer.translator import LoadedTranslator
from bertworks.models.config import TransformerConfig
from bertworks.studio.word_vectors import VectorTables, is_vectors, unused_name
from bertworks.text.tokenizer import Tokenizer
from bertworks.vectors.words import WordVectors


class Models:
    """Models by the names that the page shows.

    A model is given as `MODEL` or `NAME=MODEL`; without a name it is called as its directory is. Two of the same name are
    told apart by a number. Word vectors, in any format that is known, may stand among the models.
    """

    def __init__(self, given: Sequence[str | tuple[str, LoadedModel | WordVectors]], device: str = "cpu") -> None:
        self._loaded: dict[str, LoadedModel] = {}
        self._locks: dict[str, threading.Lock] = {}
        self.vectors = VectorTables()
        for entry in given:
            name, loaded = _open(entry, device) if isinstance(entry, str) else entry
            if isinstance(loaded, WordVectors):
                self.vectors.add(name, loaded)
            else:
                self._add(name, loaded)

    def _add(self, name: str, loaded: LoadedModel) -> None:
        name = unused_name(name, self._loaded)
        self._loaded[name] = loaded
        self._locks[name] = threading.Lock()

    @property
    def names(self) -> list[str]:
        """In the order in which they were given."""
        return list(self._loaded)

    def items(self) -> list[tuple[str, LoadedModel]]:
        """Names and models, to say what they are; whoever computes takes `use`."""
        return list(self._loaded.items())

    @contextmanager
    def use(self, name: str) -> Iterator[LoadedModel]:
        """The model called `name`, for this request alone until it is done."""
        if name not in self._loaded:
            there = ", ".join(self._loaded) or "none"
            raise UsageError(f"no model {name!r} is loaded{did_you_mean(name, self._loaded)}; loaded: {there}")
        with self._locks[name]:
            yield self._loaded[name]

    def tokenizers(self) -> dict[str, Tokenizer]:
        """Every tokenizer once, named after the models that have it; a translation model may have one for each language."""
        found: dict[str, Tokenizer] = {}
        for name, loaded in self._loaded.items():
            if isinstance(loaded, LoadedTranslator):
                source, target = loaded.translation.source, loaded.translation.target
                found[name] = source
                if target is not source:
                    found[f"{name} (target)"] = target
            else:
                found[name] = loaded.tokenizer
        alike: dict[str, list[str]] = {}
        for name, tokenizer in found.items():
            alike.setdefault(tokenizer.backend.to_str(), []).append(name)
        return {", ".join(names): found[names[0]] for names in alike.values()}

    def describe(self) -> list[dict[str, Any]]:
        """What the page needs to know of each model before it asks for anything."""
        return [_describe(name, loaded) for name, loaded in self._loaded.items()]


def _open(entry: str, device: str) -> tuple[str, LoadedModel | WordVectors]:
    name, separator, model = entry.partition("=")
    if separator and name and not Path(entry).exists():
        if not model:
            raise UsageError(f"{entry!r} names no model; write NAME=MODEL")
        return name, _load(model, device)
    called = Path(entry).resolve().name if Path(entry).exists() else entry
    return called, _load(entry, device)


def _load(model: str, device: str) -> LoadedModel | WordVectors:
    return WordVectors.load(model) if is_vectors(model) else load(model, device=device)


def _describe(name: str, loaded: LoadedModel) -> dict[str, Any]:
    """`can` lists the parts of the page that this model is for."""
    if isinstance(loaded, LoadedTranslator):
        stack = getattr(loaded.translation.model.config, "decoder", None)
        shape = _shape(stack) if isinstance(stack, TransformerConfig) else {"layers": 1, "heads": 1}
        return {"name": name, "kind": "translation", "can": ["alignment"], **shape}
    body = loaded.model.config.body
    heads = [head.task for head in loaded.model.config.heads]
    can = ["embed"]
    if isinstance(body, TransformerConfig):
        can.append("attention")
    if "mlm" in heads and loaded.tokenizer.mask_id is not None:
        can.append("cloze")
    kind = "encoder"
    if isinstance(body, TransformerConfig):
        kind = "decoder" if body.causal else "encoder"
    else:
        kind = "recurrent"
    shape = _shape(body) if isinstance(body, TransformerConfig) else {"layers": loaded.model.num_layers, "heads": 0}
    return {"name": name, "kind": kind, "can": can, **shape}


def _shape(body: TransformerConfig) -> dict[str, int]:
    return {"layers": body.num_hidden_layers, "heads": body.layer.num_attention_heads}


def check_text(text: str, *, limit: int, what: str = "the text") -> str:
    """An error for an empty text and for one with more than `limit` characters."""
    if not text.strip():
        raise UsageError(f"{what} is empty: write something first")
    if len(text) > limit:
        raise UsageError(f"{what} has {len(text):,} characters; this part takes {limit:,} at most: shorten it")
    return text
