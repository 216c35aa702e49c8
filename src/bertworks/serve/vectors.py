"""The routes that give vectors and tokens: /v1/embeddings, /embed, /tokenize."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from bertworks.infer.embed import normalize_rows
from bertworks.serve.answers import as_json, results_of, state_of
from bertworks.serve.problems import RequestError
from bertworks.serve.schemas import EmbeddingsRequest, EmbedRequest, TokenizeRequest
from bertworks.serve.settings import estimated_tokens


async def embeddings(body: EmbeddingsRequest, request: Request) -> Response:
    """Vectors of texts, exactly as OpenAI's clients expect them."""
    state = state_of(request)
    served = state.asked(body.model, "/v1/embeddings")
    texts = _texts_of(body)
    state.settings.check_items(len(texts), "input")
    width = served.width("last")
    if body.dimensions is not None and body.dimensions > width:
        raise RequestError(422, f"dimensions is {body.dimensions}; the vectors of {served.name!r} have {width} numbers")
    found = await results_of(
        request, served, served.counted_embedding(), texts, [estimated_tokens(text) for text in texts]
    )
    data = [
        {"object": "embedding", "index": number, "embedding": _written(vector, body)}
        for number, (vector, _) in enumerate(found)
    ]
    tokens = sum(count for _, count in found)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return as_json({"object": "list", "data": data, "model": served.name, "usage": usage})


def _texts_of(body: EmbeddingsRequest) -> list[str]:
    texts = [body.input] if isinstance(body.input, str) else body.input
    if any(not isinstance(text, str) for text in texts):
        raise RequestError(
            422,
            "input holds token numbers, which belong to another tokenizer; send texts "
            "(with LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))",
        )
    return [str(text) for text in texts]


def _written(vector: np.ndarray, body: EmbeddingsRequest) -> np.ndarray | str:
    if body.dimensions is not None and body.dimensions < len(vector):
        vector = normalize_rows(vector[: body.dimensions])
    vector = np.ascontiguousarray(vector, dtype="<f4")
    return base64.b64encode(vector.tobytes()).decode("ascii") if body.encoding_format == "base64" else vector


async def embed(body: EmbedRequest, request: Request) -> Response:
    """Vectors of texts from any layer: one per text, or one per token or word with its offsets."""
    state = state_of(request)
    served = state.asked(body.model, "/embed")
    texts: list[Any] = [body.texts] if isinstance(body.texts, str) else list(body.texts)
    state.settings.check_items(len(texts), "texts")
    width = served.width(body.layers)
    in_words = [text for text in texts if not isinstance(text, str)]
    if in_words and body.pooling != "words":
        raise RequestError(422, "texts holds lists of words; they go with pooling 'words' only")
    sizes = [estimated_tokens(text) if isinstance(text, str) else _size_of_words(text) for text in texts]
    if body.pooling not in ("tokens", "words"):
        work = served.embedding(layers=body.layers, pooling=body.pooling, normalize=body.normalize)
        state.settings.check_numbers(len(texts) * width)
        found = await results_of(request, served, work, texts, sizes)
        return as_json({"model": served.name, "width": width, "vectors": found})
    state.settings.check_tokens(sizes)
    served.engine.check_room(sum(sizes))
    joined = [text if isinstance(text, str) else " ".join(text) for text in texts]
    counts = await asyncio.to_thread(served.num_tokens, joined)
    state.settings.check_numbers(sum(counts) * width)
    work = served.pieces(layers=body.layers, words=body.pooling == "words", normalize=bool(body.normalize))
    found = await results_of(request, served, work, texts, sizes)
    return as_json({"model": served.name, "width": width, "pieces": found})


def _size_of_words(words: list[str]) -> int:
    """Every word is at least one token."""
    return sum(estimated_tokens(word) - 1 for word in words) + 2


async def tokenize(body: TokenizeRequest, request: Request) -> Response:
    """The tokens of texts, with their characters in the text."""
    state = state_of(request)
    served = state.asked(body.model, "/tokenize")
    texts = [body.texts] if isinstance(body.texts, str) else body.texts
    state.settings.check_items(len(texts), "texts")
    work = served.tokenizing(special=body.special)
    found = await results_of(request, served, work, texts, [estimated_tokens(text) for text in texts])
    tokenizer = served.loaded.tokenizer
    rows = [
        {
            "ids": encoding.ids.tolist(),
            "tokens": tokenizer.tokens(encoding.ids),
            "offsets": encoding.offsets.tolist(),
            "words": encoding.words.tolist(),
        }
        for encoding in found
    ]
    return as_json({"model": served.name, "texts": rows})
