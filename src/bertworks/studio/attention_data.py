"""Attention as data for a picture: who looks, at what, and every weight of every head in one or two bytes.

Three kinds of pictures have one form, in which rows look at columns:

    self        every token looks at every token                     encoders
    causal      a token looks at itself and at those before it       decoders
    alignment   a word that is written looks at the words read       encoder and decoder

A weight w is kept as round(levels · √w): the root spends the levels where most weights are, near 0. 255 levels (an error of
at most 0.004 at 1, far less below) are enough for a picture; 65,535 where the picture is small enough that nobody waits.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import ModelError, UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.models.config import TransformerConfig
from bertworks.studio.models import check_text
from bertworks.text.tokenizer import Tokenizer

MAX_CHARACTERS = 20_000
MAX_WEIGHTS = 40_000_000
"""What a browser holds and draws without effort: 512 tokens of 12 layers with 12 heads."""
FINE = 65_535
COARSE = 255
FINE_WEIGHTS = 2_000_000
"""Up to so many weights are sent with two bytes each."""


@dataclass(frozen=True)
class Picture:
    """`weights[layer, head, i, j]`: how much row i looks at column j. Segments tell the texts of a pair apart."""

    kind: str
    rows: list[str]
    columns: list[str]
    row_segments: list[int]
    column_segments: list[int]
    weights: NDArray[np.float32]  # (L, N, rows, columns)
    text: str
    pair: str | None

    def as_json(self, model: str, levels: int | None = None, *, small: bool = False) -> dict[str, Any]:
        """Everything the view needs; `weights` are the levels as little-endian numbers, compressed, in base 64."""
        layers, heads, _, _ = self.weights.shape
        if levels is None:
            levels = FINE if self.weights.size <= FINE_WEIGHTS else COARSE
        return {
            "model": model,
            "kind": self.kind,
            "text": self.text,
            "pair": self.pair,
            "rows": self.rows,
            "columns": self.columns,
            "rowSegments": self.row_segments,
            "columnSegments": self.column_segments,
            "layers": layers,
            "heads": heads,
            "levels": levels,
            "weights": encode_weights(self.weights, levels, small=small),
        }


def encode_weights(weights: NDArray[np.float32], levels: int, *, small: bool = False) -> str:
    """Weights from 0 to 1 as text; `small` takes four times as long and a tenth less room."""
    steps = np.sqrt(weights)
    steps *= levels
    steps += 0.5  # the next line cuts
    numbers = steps.astype("<u1" if levels <= 255 else "<u2")
    return base64.b64encode(zlib.compress(numbers.tobytes(), 6 if small else 1)).decode("ascii")


def decode_weights(text: str, levels: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The way back, as `attention/weights.js` goes it."""
    steps = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u1" if levels <= 255 else "<u2")
    roots = steps.astype(np.float32) / np.float32(levels)
    weights: NDArray[np.float32] = np.square(roots).reshape(shape)
    return weights


def attention_picture(loaded: LoadedModel, text: str, pair: str | None = None) -> Picture:
    """Run the model on a text, or on a pair; of a translation model the pair is the translation, made where none is given."""
    check_text(text, limit=MAX_CHARACTERS)
    pair = pair if pair is not None and pair.strip() else None
    if pair is not None:
        check_text(pair, limit=MAX_CHARACTERS, what="the second text")
    if isinstance(loaded, LoadedTranslator):
        return _alignment(loaded, text, pair)
    body = loaded.model.config.body
    if not isinstance(body, TransformerConfig):
        raise ModelError("this model has no attention to look at: it is recurrent; choose a Transformer")
    encoding = loaded.tokenizer.encode(text, pair)
    _check_size(len(encoding), body.num_hidden_layers * body.layer.num_attention_heads)
    found = loaded.attend(text, pair)
    texts = (text, pair or "")
    sequences = [int(sequence) for sequence in encoding.sequences]
    names = [
        token if sequence < 0 else readable(loaded.tokenizer, token, texts[sequence][start:end])
        for token, (start, end), sequence in zip(found.tokens, found.offsets, sequences, strict=True)
    ]
    segments = _segments(sequences)
    return Picture(
        kind="causal" if body.causal else "self",
        rows=names,
        columns=names,
        row_segments=segments,
        column_segments=segments,
        weights=found.weights,
        text=text,
        pair=pair,
    )


def _alignment(loaded: LoadedTranslator, text: str, pair: str | None) -> Picture:
    length = int(loaded.translator.source.ids([text], special=True)[1][0])
    if length > loaded.translator.window:
        raise UsageError(
            f"the text has {length} tokens, this model reads {loaded.translator.window} at once: take one sentence"
        )
    written = pair if pair is not None else loaded.translate([text])[0].text
    check_text(written, limit=MAX_CHARACTERS, what="the translation")
    found = loaded.align(text, written)
    return Picture(
        kind="alignment",
        rows=list(found.target),
        columns=list(found.source),
        row_segments=[0] * len(found.target),
        column_segments=[0] * len(found.source),
        weights=found.weights,
        text=text,
        pair=written,
    )


def _check_size(tokens: int, heads: int) -> None:
    most = int((MAX_WEIGHTS / heads) ** 0.5)
    if tokens > most:
        raise UsageError(
            f"the text has {tokens:,} tokens; a picture of {heads} heads takes {most:,} at most: shorten it"
        )


def _segments(sequences: list[int]) -> list[int]:
    """0 or 1 for every token; a special token belongs to the text before it, and the first to the one after it."""
    found: list[int] = []
    for sequence in sequences:
        found.append(sequence if sequence >= 0 else (found[-1] if found else 0))
    return found


def readable(tokenizer: Tokenizer, token: str, piece: str) -> str:
    """A token for people: byte-level and metaspace spellings (ĠcafÃ©) as the text that they stand for."""
    return piece if piece and tokenizer.kind not in ("WordPiece", "WordLevel") else token
