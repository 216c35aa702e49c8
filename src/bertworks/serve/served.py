"""A model as the server sees it: its name, its queue, and the kinds of work that its routes ask for.

Everything is done by `LoadedModel` and its `Predictor`, the same that the library and the command line use; here it is
only said which items may go through the model together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertworks.errors import ModelError, UsageError
from bertworks.infer.bilm import LoadedBiLM
from bertworks.infer.embed import TokenVector, normalize_rows
from bertworks.infer.layers import choose_layers
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.predict import Predictor
from bertworks.infer.saved import read_task
from bertworks.models.words import WordStack
from bertworks.serve.engine import Engine, Progress, Turns, Work
from bertworks.serve.metrics import Metrics
from bertworks.serve.problems import RequestError
from bertworks.serve.settings import ServeSettings, estimated_tokens

ROUTES_OF_VECTORS = ("/v1/embeddings", "/embed", "/rerank")
ROUTES_OF_TASKS = {
    "classify": ("/classify", "/pair"),
    "pair": ("/pair",),
    "regress": ("/regress",),
    "choice": ("/choice",),
    "tag": ("/tag",),
    "qa": ("/answer",),
    "similarity": ("/pair",),
}
"""Where a fine-tuned model can be asked; an embedding model compares texts, as one for similarity."""
FIRST_TEXT = "The first texts take longer than the next."


class Served:
    """One model of a server."""

    def __init__(self, name: str, loaded: LoadedModel, engine: Engine) -> None:
        self.name = name
        self.loaded = loaded
        self.engine = engine
        self.predictor = _predictor(name, loaded)
        self.has_vectors = not isinstance(loaded.model.body, WordStack)
        """Whether the model has vectors of texts to give; a recurrent one over words has only its predictions."""
        self.has_tokens = self.has_vectors and not isinstance(loaded, LoadedBiLM)
        self.can_fill = "mlm" in loaded.model.heads and self.has_tokens
        """Whether the model was trained to find masked words."""
        self.routes = self._routes()
        """Where this model can be asked."""

    @property
    def task(self) -> str | None:
        """What the model was fine-tuned for; None where it only has vectors, or masks, to give."""
        return None if self.predictor is None else self.predictor.task.name

    def _routes(self) -> tuple[str, ...]:
        own = ROUTES_OF_TASKS[self.task] if self.task is not None else ()
        if not self.has_vectors:
            return own[:1]
        more = (("/fill",) if self.can_fill else ()) + (("/tokenize",) if self.has_tokens else ())
        return ROUTES_OF_VECTORS + own + more

    def expect(self, route: str, others: Sequence[str] = ()) -> None:
        """Refuse a request at a route where this model cannot be asked, and name the `others` that can."""
        if route not in self.routes:
            instead = f"; served here for that: {', '.join(others)}" if others else ""
            raise RequestError(
                422, f"the model {self.name!r} cannot be asked at {route}; it can at {', '.join(self.routes)}{instead}"
            )

    def warm_up(self) -> None:
        """Compute a full batch and a lone text in the model's own thread, however long it takes: no client waits for what
        the first time takes, and memory is from the start what it will be."""
        if self.has_vectors:
            tokens = estimated_tokens(FIRST_TEXT)
            for count in (max(1, self.engine.settings.batch_tokens // tokens), 1):
                texts = [FIRST_TEXT] * count
                asyncio.run(self.engine.submit(self.embedding(), texts, [tokens] * count, in_time=False))

    def about(self) -> dict[str, Any]:
        """What a client may want to know."""
        loaded = self.loaded
        return {
            "name": self.name,
            "task": self.task,
            "labels": list(self.predictor.labels) if self.predictor is not None else [],
            "routes": list(self.routes),
            "width": loaded.model.hidden_size,
            "layers": loaded.model.num_layers,
            "window": loaded.window if self.predictor is None else self.predictor.window,
            "precision": loaded.precision,
        }

    def num_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens the model reads of each text, special ones included; words, for a model without tokens."""
        if not self.has_tokens:
            return [len(text.split()) for text in texts]
        lengths = self.loaded.runner.ids(texts)[1]
        special = self.loaded.tokenizer.num_special()
        return [int(length) + special for length in lengths]

    def width(self, layers: str | int) -> int:
        """How many numbers a vector of these layers has."""
        return choose_layers(layers, self.loaded.model.num_layers).width(self.loaded.model.hidden_size)

    # -- kinds of work -------------------------------------------------------------------------------------------------

    def embedding(
        self, *, layers: str | int = "last", pooling: str | None = None, normalize: bool | None = None
    ) -> Work:
        """Texts -> vectors."""

        def run(texts: list[str], look: Progress) -> list[np.ndarray]:
            return list(self.loaded.embed(texts, layers=layers, pooling=pooling, normalize=normalize, progress=look))

        return Work(("embed", layers, pooling, normalize), run)

    def counted_embedding(self) -> Work:
        """Texts -> (vector, number of tokens)."""

        def run(texts: list[str], look: Progress) -> list[tuple[np.ndarray, int]]:
            return list(zip(self.loaded.embed(texts, progress=look), self.num_tokens(texts), strict=True))

        return Work(("counted",), run)

    def pieces(self, *, layers: str | int, words: bool, normalize: bool) -> Work:
        """Texts (or, for words, lists of words) -> their tokens or words with offsets and vectors."""

        def run(texts: list[Any], look: Progress) -> list[list[dict[str, Any]]]:
            method = self.loaded.embed_words if words else self.loaded.embed_tokens
            return [[_piece(one, normalize) for one in found] for found in method(texts, layers=layers, progress=look)]

        return Work(("pieces", layers, words, normalize), run)

    def prediction(self) -> Work:
        """Examples -> predictions."""
        predictor = self.predictor
        assert predictor is not None, "the route has not asked `expect`"
        return Work(("predict",), lambda examples, look: predictor.predict_examples(examples, progress=look))

    def cloze(self, *, top_k: int, joint: bool, targets: tuple[str, ...] | None) -> Work:
        """Texts with masks -> what may stand there."""

        def run(texts: list[str], look: Progress) -> list[Any]:
            found: list[Any] = []
            for number, text in enumerate(texts):
                look(number, len(texts))
                if targets is not None:
                    found.append(self.loaded.fill(text, targets=targets))
                elif joint:
                    found.append(self.loaded.fill(text, top_k=top_k, joint=True))
                else:
                    found.append(self.loaded.fill(text, top_k=top_k))
            return found

        return Work(("fill", top_k, joint, targets), run)

    def tokenizing(self, *, special: bool) -> Work:
        """Texts -> encodings."""

        def run(texts: list[str], look: Progress) -> list[Any]:
            return self.loaded.tokenizer.encode_batch(texts, special=special)

        return Work(("tokenize", special), run)


def serve_models(models: Mapping[str, LoadedModel], settings: ServeSettings, metrics: Metrics) -> dict[str, Served]:
    """Each model with a queue of its own; those on the processor take turns."""
    if not models:
        raise UsageError("there is no model to serve; give at least one")
    turns = Turns()
    return {
        name: Served(name, loaded, Engine(name, settings, metrics, turns if loaded.device.type == "cpu" else None))
        for name, loaded in models.items()
    }


def _predictor(name: str, loaded: LoadedModel) -> Predictor | None:
    """What the model predicts; None where it has no head for that, only vectors to give, and maybe masks to fill."""
    try:
        heads = loaded.runner.model.config.heads  # a translator has no runner, and says so
        saved = read_task(loaded.directory) if loaded.directory is not None else None
        if saved is None and loaded.settings is None and not any(head.task in ROUTES_OF_TASKS for head in heads):
            return None
        return loaded.predictor
    except ModelError as error:
        raise type(error)(f"the model {name!r} cannot be served: {error}") from None


def _piece(piece: TokenVector, normalize: bool) -> dict[str, Any]:
    vector = np.ascontiguousarray(normalize_rows(piece.vector) if normalize else piece.vector)
    return {"text": piece.text, "start": piece.start, "end": piece.end, "vector": vector}
