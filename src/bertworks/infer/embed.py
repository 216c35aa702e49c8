"""Embeddings: one vector per text, per token or per word, from any layer or combination of layers.

    texts -> ids -> pieces that fit the window -> packed batches -> stack -> pooling -> vectors in the texts' order

A text longer than the model's window is never cut: it is embedded piece by piece. Its pooled vector is the mean of the
pieces' vectors weighted by their tokens (the maximum, for max pooling); its token vectors come from overlapping windows, each
token from the one in which it has the most context.

Legend: T tokens in the packed batch, B sequences, H hidden, W width of the result (H, or 4 H for a concatenation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from bertworks.errors import UsageError, choice
from bertworks.infer.batching import Pieces, cut_pieces, over_batches, pack_pieces
from bertworks.infer.layers import LayerChoice
from bertworks.models.model import Model
from bertworks.nn.packed import Packed, max_per_sequence, mean_per_sequence
from bertworks.text.encoding import Encoding
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.windows import windows

POOLINGS = ("mean", "cls", "max", "none", "words")

Progress = Callable[[int, int], None]
"""Called with the number of pieces done and their total."""


@dataclass
class EmbedReport:
    """What happened to the texts; counts add up over calls, so that one report can serve a stream."""

    texts: int = 0
    tokens: int = 0
    windowed: int = 0
    """Texts longer than the window, embedded piece by piece."""
    longest: int = 0


@dataclass(frozen=True)
class TokenVector:
    """A token or a word of a text: its characters are text[start:end]; special tokens have start = end = 0."""

    text: str
    start: int
    end: int
    vector: np.ndarray = field(repr=False)  # (W,) float32


@dataclass(frozen=True)
class Runner:
    """A model and a tokenizer that belong together, and the longest sequence (special tokens included) they take."""

    model: Model
    tokenizer: Tokenizer
    window: int | None
    device: torch.device
    batch_tokens: int

    @property
    def prefix(self) -> np.ndarray:
        return self.tokenizer.template.prefix

    @property
    def suffix(self) -> np.ndarray:
        return self.tokenizer.template.suffix

    @property
    def room(self) -> int | None:
        """How many ids of a text fit in the window beside the special tokens."""
        return None if self.window is None else self.window - len(self.prefix) - len(self.suffix)

    def hidden(self, batch: Packed, layers: LayerChoice, *, first_only: bool = False) -> Tensor:
        """(T, W), or (B, W) of the first tokens alone."""
        rows = batch.layout.first() if first_only else None
        return layers.apply(self.model.body(batch.to(self.device), layers=layers.layers, rows=rows).layers)

    def ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Flat ids and lengths without special tokens; where a model has none of those, an empty text gets one token."""
        ids, lengths = self.tokenizer.ids(texts)
        if len(self.prefix) + len(self.suffix) == 0 and (lengths == 0).any():
            specials = self.tokenizer.specials
            filler = next(
                (token for token in (specials.bos, specials.eos, specials.unk, specials.pad) if token is not None), None
            )
            filler_id = 0 if filler is None else self.tokenizer.id(filler) or 0
            ids = np.insert(ids, (np.cumsum(lengths) - lengths)[lengths == 0], filler_id)
            lengths = np.maximum(lengths, 1)
        return ids, lengths


def embed_texts(
    runner: Runner,
    texts: Sequence[str],
    *,
    layers: LayerChoice,
    pooling: str,
    report: EmbedReport,
    progress: Progress | None = None,
) -> np.ndarray:
    """One vector per text: (n, W) float32."""
    choice(pooling, ("mean", "cls", "max"), "pooling")
    ids, lengths = runner.ids(texts)
    pieces = cut_pieces(ids, lengths, runner.room)
    _count(report, pieces, lengths)
    around = len(runner.prefix) + len(runner.suffix)
    vectors = np.empty((len(pieces.length), layers.width(runner.model.hidden_size)), dtype=np.float32)

    def embed_batch(chosen: np.ndarray) -> None:
        batch = pack_pieces(pieces, chosen, runner.prefix, runner.suffix)
        hidden = runner.hidden(batch, layers, first_only=pooling == "cls")
        if pooling == "mean":
            hidden = mean_per_sequence(hidden, batch.layout)
        elif pooling == "max":
            hidden = max_per_sequence(hidden, batch.layout)
        vectors[chosen] = hidden.float().cpu().numpy()

    for done in over_batches(embed_batch, pieces.length + around, budget=runner.batch_tokens, device=runner.device):
        if progress is not None:
            progress(done, len(pieces.length))
    return _join_pieces(vectors, pieces, pooling)


def _join_pieces(vectors: np.ndarray, pieces: Pieces, pooling: str) -> np.ndarray:
    """(P, W) -> (n, W): most texts have one piece, and keep its vector as it is."""
    if len(vectors) == pieces.num_texts:
        return vectors
    counts = pieces.counts
    first = np.cumsum(counts) - counts
    joined = vectors[first]
    for text in np.flatnonzero(counts > 1):
        own = slice(first[text], first[text] + counts[text])
        if pooling == "max":
            joined[text] = vectors[own].max(axis=0)
        else:
            joined[text] = np.average(vectors[own], axis=0, weights=pieces.length[own])
    return joined


def embed_tokens(
    runner: Runner,
    encodings: Sequence[Encoding],
    *,
    layers: LayerChoice,
    report: EmbedReport | None = None,
    progress: Progress | None = None,
) -> list[np.ndarray]:
    """For texts encoded without special tokens: each one's token vectors, (prefix + tokens + suffix, W) float32."""
    room = runner.room
    owner, starts, lengths, kept = [], [], [], []
    offsets = np.cumsum([0] + [len(encoding) for encoding in encodings])
    for index, encoding in enumerate(encodings):
        size = max(1, len(encoding)) if room is None else room
        for window in windows(len(encoding), size, overlap=size // 4):
            owner.append(index)
            starts.append(int(offsets[index]) + window.start)
            lengths.append(window.stop - window.start)
            kept.append((window.keep_start - window.start, window.keep_stop - window.start))
    ids = np.concatenate([encoding.ids for encoding in encodings]) if encodings else np.zeros(0, dtype=np.int32)
    pieces = Pieces(ids, np.array(owner, int), np.array(starts, int), np.array(lengths, int), len(encodings))
    if report is not None:
        _count(report, pieces, np.diff(offsets))

    around = len(runner.prefix) + len(runner.suffix)
    outputs: list[np.ndarray] = [np.zeros(0, dtype=np.float32)] * len(owner)

    def embed_batch(chosen: np.ndarray) -> None:
        batch = pack_pieces(pieces, chosen, runner.prefix, runner.suffix)
        flat = runner.hidden(batch, layers).float().cpu().numpy()
        for piece, start, length in zip(chosen, batch.layout.starts, batch.layout.lengths, strict=True):
            outputs[piece] = flat[start : start + length]

    for done in over_batches(embed_batch, pieces.length + around, budget=runner.batch_tokens, device=runner.device):
        if progress is not None:
            progress(done, len(pieces.length))

    width = layers.width(runner.model.hidden_size)
    results: list[list[np.ndarray]] = [[] for _ in encodings]
    last_of = {text: piece for piece, text in enumerate(owner)}
    for piece, text in enumerate(owner):
        rows = outputs[piece].reshape(-1, width)
        low, high = kept[piece]
        low = low + len(runner.prefix) if results[text] else 0
        high = high + len(runner.prefix) if piece != last_of[text] else len(rows)
        results[text].append(rows[low:high])
    return [np.concatenate(parts) if len(parts) > 1 else parts[0].copy() for parts in results]


def word_vectors(text: str | Sequence[str], encoding: Encoding, vectors: np.ndarray) -> list[TokenVector]:
    """The mean of each word's tokens. `vectors` (tokens, W) belong to the tokens of `encoding` alone, no special ones."""
    found = []
    for word in encoding.word_spans():
        surface = text[word.start : word.end] if isinstance(text, str) else text[word.index]
        found.append(TokenVector(surface, word.start, word.end, vectors[word.tokens].mean(axis=0)))
    return found


def normalize_rows(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; a row of zeros stays as it is."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)


def check_room(runner: Runner) -> None:
    """A window must leave room for at least one token of text."""
    if runner.room is not None and runner.room < 1:
        raise UsageError(
            f"the window of {runner.window} tokens leaves no room beside {len(runner.prefix) + len(runner.suffix)} "
            "special tokens; choose a larger one"
        )


def _count(report: EmbedReport, pieces: Pieces, lengths: np.ndarray) -> None:
    report.texts += pieces.num_texts
    report.tokens += int(lengths.sum())
    report.windowed += 0 if len(pieces.length) == pieces.num_texts else int((pieces.counts > 1).sum())
    report.longest = max(report.longest, int(lengths.max(initial=0)))
