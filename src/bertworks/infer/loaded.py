"""What `bertworks.load` returns: a model with its tokenizer, ready to use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch

from bertworks import hub
from bertworks.errors import UsageError, choice
from bertworks.hub.sentence import SentenceSettings
from bertworks.infer.attention import Attention, attend
from bertworks.infer.batching import default_batch_tokens
from bertworks.infer.embed import (
    POOLINGS,
    EmbedReport,
    Progress,
    Runner,
    TokenVector,
    check_room,
    embed_texts,
    embed_tokens,
    normalize_rows,
    word_vectors,
)
from bertworks.infer.fill import Candidate, Cloze, JointCandidate, TargetScore
from bertworks.infer.layers import LayerChoice, choose_layers
from bertworks.infer.saved import read_task, write_task
from bertworks.models.device import usable_device
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from bertworks.infer.predict import Predictor


class LoadedModel:
    """A model, its tokenizer and its settings. Nothing it does depends on what else is in a batch."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        window: int | None = None,
        settings: SentenceSettings | None = None,
        directory: Path | None = None,
        device: str | torch.device = "cpu",
        batch_tokens: int | None = None,
    ) -> None:
        self.settings = settings
        self.directory = directory
        self.device = usable_device(device)
        budget = batch_tokens or default_batch_tokens(self.device)
        self.runner = Runner(model.eval().to(self.device), tokenizer, window, self.device, budget)
        check_room(self.runner)

    @property
    def model(self) -> Model:
        return self.runner.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.runner.tokenizer

    @property
    def window(self) -> int | None:
        """The longest sequence that runs at once, special tokens included; longer texts run in several windows."""
        return self.runner.window

    @overload
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: str | int = ...,
        pooling: Literal["mean", "cls", "max"] | None = ...,
        normalize: bool | None = ...,
        report: EmbedReport | None = ...,
        progress: Progress | None = ...,
    ) -> np.ndarray: ...

    @overload
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: str | int = ...,
        pooling: str | None = ...,
        normalize: bool | None = ...,
        report: EmbedReport | None = ...,
        progress: Progress | None = ...,
    ) -> np.ndarray | list[np.ndarray]: ...

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: str | int = "last",
        pooling: str | None = None,
        normalize: bool | None = None,
        report: EmbedReport | None = None,
        progress: Progress | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """One vector per text: float32 (n, width), or (width,) for a single string.

        layers     last | first | second-to-last | sum-last-4 | concat-last-4 | sum-all | a number from 0 (embeddings)
        pooling    mean | cls | max; none gives a list of (tokens, width) arrays, special tokens included.
                   Default: what the model was made for, else mean.
        normalize  scale to length 1. Default: what the model was made for where layers and pooling are its own
                   (all-MiniLM-L6-v2 does), else no.
        """
        single = isinstance(texts, str)
        items = _strings(texts)
        own = self.settings.pooling if self.settings is not None else "mean"
        pooling = choice(pooling or own, (*POOLINGS[:4],), "pooling")
        selected = self._layers(layers)
        report = report if report is not None else EmbedReport()
        if pooling == "none":
            encodings = self.tokenizer.encode_batch(items, special=False)
            ragged = embed_tokens(self.runner, encodings, layers=selected, report=report)
            ragged = [normalize_rows(rows) for rows in ragged] if normalize else ragged
            return ragged[0] if single else ragged
        vectors = embed_texts(
            self.runner,
            items,
            layers=selected,
            pooling=pooling,
            report=report,
            progress=progress,
        )
        if normalize is None:
            is_own = self.settings is not None and selected == self._layers("last") and pooling == self.settings.pooling
            normalize = is_own and self.settings is not None and self.settings.normalize
        if normalize:
            vectors = normalize_rows(vectors)
        return vectors[0] if single else vectors

    def embed_tokens(
        self, texts: Sequence[str], *, layers: str | int = "last", report: EmbedReport | None = None
    ) -> list[list[TokenVector]]:
        """Every token of every text with its offsets and vector, special tokens included."""
        items = _strings(texts)
        encodings = self.tokenizer.encode_batch(items, special=False)
        arrays = embed_tokens(
            self.runner, encodings, layers=self._layers(layers), report=report if report is not None else EmbedReport()
        )
        prefix, suffix = self.runner.prefix, self.runner.suffix
        results = []
        for encoding, rows in zip(encodings, arrays, strict=True):
            names = self.tokenizer.tokens(np.concatenate([prefix, encoding.ids, suffix]))
            special = np.zeros((1, 2), dtype=encoding.offsets.dtype)
            places = np.concatenate(
                [special.repeat(len(prefix), 0), encoding.offsets, special.repeat(len(suffix), 0)]
            ).tolist()
            results.append(
                [
                    TokenVector(name, start, end, row)
                    for name, (start, end), row in zip(names, places, rows, strict=True)
                ]
            )
        return results

    def embed_words(
        self,
        texts: Sequence[str] | Sequence[Sequence[str]],
        *,
        layers: str | int = "last",
        report: EmbedReport | None = None,
    ) -> list[list[TokenVector]]:
        """Every word of every text with its offsets and the mean vector of its tokens.

        A text is a string (words are the tokenizer's) or a list of words (yours; offsets are then within each word).
        """
        if isinstance(texts, str):
            texts = [texts]
        encodings = [
            self.tokenizer.encode(text, special=False)
            if isinstance(text, str)
            else self.tokenizer.encode_words(text, special=False)
            for text in texts
        ]
        arrays = embed_tokens(
            self.runner, encodings, layers=self._layers(layers), report=report if report is not None else EmbedReport()
        )
        before = len(self.runner.prefix)
        return [
            word_vectors(text, encoding, rows[before : before + len(encoding)])
            for text, encoding, rows in zip(texts, encodings, arrays, strict=True)
        ]

    @overload
    def fill(self, text: str, *, top_k: int = ...) -> list[list[Candidate]]: ...
    @overload
    def fill(self, text: str, *, top_k: int = ..., joint: Literal[True]) -> list[JointCandidate]: ...
    @overload
    def fill(self, text: str, *, targets: Sequence[str]) -> list[TargetScore]: ...

    def fill(
        self, text: str, *, top_k: int = 5, joint: bool = False, targets: Sequence[str] | None = None
    ) -> list[list[Candidate]] | list[JointCandidate] | list[TargetScore]:
        """What stands behind each [MASK]; `joint` fills all masks together; `targets` are scored whole."""
        if top_k < 1:
            raise UsageError(f"top_k is {top_k}; it must be at least 1")
        cloze = Cloze(self.runner)
        if targets is not None:
            return cloze.score_targets(text, targets)
        return cloze.fill_jointly(text, top_k=top_k) if joint else cloze.fill(text, top_k=top_k)

    def attend(self, text: str, pair: str | None = None) -> Attention:
        """The attention weights of every layer and head."""
        return attend(self.runner, text, pair)

    def predict(self, rows: Any) -> Any:
        """What a fine-tuned model says: one prediction per row, or one for a single row.

        What a row is depends on the task (`bertworks.infer.rows`): a text, a pair as a tuple, a question with its
        context, words. `predictor` has more: labels, streams of rows, figures of labelled examples.
        """
        return self.predictor.predict(rows)

    @cached_property
    def predictor(self) -> Predictor:
        """What the model was fine-tuned for."""
        from bertworks.infer.predict import Predictor

        return Predictor(self)

    def save(self, directory: str | Path) -> None:
        """Write a Hugging Face directory (a sentence-transformers one where this is an embedding model)."""
        hub.save(self.model, self.tokenizer, Path(directory), settings=self.settings)
        saved = read_task(self.directory) if self.directory is not None else None
        if saved is not None:
            write_task(directory, saved)

    def _layers(self, layers: str | int) -> LayerChoice:
        return choose_layers(layers, self.model.num_layers)


def load(
    model: str | Path = "minilm",
    *,
    revision: str | None = None,
    device: str = "cpu",
    precision: str = "fp32",
    batch_tokens: int | None = None,
) -> LoadedModel:
    """Load an alias (`minilm`), a model directory or a Hub id."""
    choice(precision, ("fp32", "int8"), "precision")
    if precision == "int8":
        raise UsageError("precision 'int8' is not available yet; use fp32")
    if batch_tokens is not None and batch_tokens < 1:
        raise UsageError(f"batch_tokens is {batch_tokens}; it must be at least 1")
    loaded = hub.load(model, revision=revision)
    return LoadedModel(
        loaded.model,
        loaded.tokenizer,
        window=loaded.window,
        settings=loaded.settings,
        directory=loaded.directory,
        device=device,
        batch_tokens=batch_tokens,
    )


def _strings(texts: str | Sequence[str]) -> list[str]:
    items = [texts] if isinstance(texts, str) else list(texts)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise UsageError(f"text {index} is {type(item).__name__}, not a string")
    return items
