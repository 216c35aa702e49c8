"""Routes and answers of the tokens view: how every loaded tokenizer cuts a text, and how it came to the pieces of a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from bertworks.errors import UsageError, did_you_mean
from bertworks.studio.merges import Tables, read_tables, word_steps
from bertworks.studio.models import Models, check_text
from bertworks.text.tokenizer import Tokenizer

MAX_CHARACTERS = 100_000
MAX_SHOWN = 2_000
"""Tokens of one tokenizer that are listed; they are all counted."""


class TokensRequest(BaseModel):
    """A text for every tokenizer."""

    text: str


class StepsRequest(BaseModel):
    """The characters `start` to `end` of a text: a word of this tokenizer."""

    tokenizer: str
    text: str
    start: int
    end: int


def router(models: Models) -> APIRouter:
    """`POST /api/tokens` and `POST /api/tokens/steps`."""
    routes = APIRouter()
    tokenizers = models.tokenizers()
    tables: dict[str, Tables] = {}

    def tables_of(name: str) -> Tables:
        if name not in tables:
            tables[name] = read_tables(tokenizers[name])
        return tables[name]

    @routes.post("/api/tokens")
    def cut(request: TokensRequest) -> dict[str, Any]:
        return tokens_answer(tokenizers, request.text)

    @routes.post("/api/tokens/steps")
    def steps(request: StepsRequest) -> dict[str, Any]:
        if request.tokenizer not in tokenizers:
            near = did_you_mean(request.tokenizer, tokenizers)
            raise UsageError(f"no tokenizer {request.tokenizer!r} is loaded{near}; loaded: {', '.join(tokenizers)}")
        check_text(request.text, limit=MAX_CHARACTERS)
        tokenizer = tokenizers[request.tokenizer]
        return steps_answer(tokenizer, lambda: tables_of(request.tokenizer), request.text, request.start, request.end)

    return routes


def tokens_answer(tokenizers: dict[str, Tokenizer], text: str) -> dict[str, Any]:
    """For every tokenizer its kind, the number of tokens, and the first of them with id, offsets and word."""
    check_text(text, limit=MAX_CHARACTERS)
    return {"tokenizers": [_one(name, tokenizer, text) for name, tokenizer in tokenizers.items()]}


def _one(name: str, tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    encoding = tokenizer.encode(text)
    shown = encoding.take(slice(0, MAX_SHOWN))
    spans = {word.index: (word.start, word.end) for word in shown.word_spans()}
    tokens = [
        {
            "token": token,
            "id": int(number),
            "start": int(start),
            "end": int(end),
            "word": None if special else list(spans[int(word)]),
            "special": bool(special),
            "unknown": int(number) == tokenizer.unk_id,
        }
        for token, number, (start, end), word, special in zip(
            tokenizer.tokens(shown.ids), shown.ids, shown.offsets, shown.words, shown.special, strict=True
        )
    ]
    return {
        "name": name,
        "kind": tokenizer.kind,
        "vocabSize": tokenizer.vocab_size,
        "count": len(encoding),
        "tokens": tokens,
    }


def steps_answer(tokenizer: Tokenizer, tables: Callable[[], Tables], text: str, start: int, end: int) -> dict[str, Any]:
    """The steps that lead to the pieces of the word at `start` to `end`, checked against the tokenizer's own pieces."""
    if not 0 <= start < end <= len(text):
        raise UsageError(f"the word {start}–{end} does not lie in the text, which has {len(text)} characters")
    word = text[start:end]
    if tokenizer.kind not in ("BPE", "WordPiece"):
        return {
            "word": word,
            "steps": [],
            "note": f"{tokenizer.kind} tokenizers choose all pieces at once, not in steps",
        }
    encoding = tokenizer.encode(text, special=False)
    inside = (encoding.offsets[:, 0] >= start) & (encoding.offsets[:, 1] <= end)
    numbers = set(encoding.words[inside & (encoding.offsets[:, 0] < encoding.offsets[:, 1])].tolist())
    pieces = tokenizer.tokens(encoding.ids[[int(number) in numbers for number in encoding.words]])
    for spelling in _spellings(tokenizer, text, start, end):
        found = word_steps(tables(), spelling)
        if found and found[-1].pieces == pieces and not found[-1].rest:
            return {"word": word, "steps": [step.as_json() for step in found], "note": ""}
    return {
        "word": word,
        "steps": [],
        "note": "this word is not cut by merges: it is an added token, or its parts are bytes",
    }


def _spellings(tokenizer: Tokenizer, text: str, start: int, end: int) -> list[str]:
    """How the tokenizer's model may get the word: normalised, in the byte alphabet, with or without the space before it."""
    backend = tokenizer.backend
    found: list[str] = []
    for piece in (
        text[max(start - 1, 0) : end] if start and text[start - 1] == " " else text[start:end],
        text[start:end],
    ):
        normal = backend.normalizer.normalize_str(piece) if backend.normalizer is not None else piece
        parts = [(normal, (0, 0))] if backend.pre_tokenizer is None else backend.pre_tokenizer.pre_tokenize_str(normal)
        found += [part for part, _ in parts[-1:]] if len(parts) > 1 else [part for part, _ in parts]
    return list(dict.fromkeys(found))
