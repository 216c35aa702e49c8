"""Attention weights of one text (or a pair): what every head of every layer looks at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from bertworks.errors import UsageError
from bertworks.infer.embed import Runner
from bertworks.nn.packed import Packed


@dataclass(frozen=True)
class Attention:
    """`weights[layer, head, i, j]`: how much token i looks at token j; each row sums to 1."""

    tokens: list[str]
    offsets: list[tuple[int, int]]
    segments: list[int]
    weights: np.ndarray  # (L, N, T, T) float32


@torch.inference_mode()
def attend(runner: Runner, text: str, pair: str | None = None) -> Attention:
    """Run the model once and keep every weight."""
    encoding = runner.tokenizer.encode(text, pair)
    limit = runner.model.num_positions
    if limit is not None and len(encoding) > limit:
        raise UsageError(f"the text has {len(encoding)} tokens, this model takes {limit} at once: shorten it")
    if len(encoding) == 0:
        raise UsageError("the text is empty: there is nothing to attend to")
    batch = Packed.from_sequences([encoding.ids], [encoding.segments])
    hidden = runner.model.body(batch.to(runner.device), attentions=True)
    weights = np.stack([layer[0][0].float().cpu().numpy() for layer in hidden.attentions])  # (L, N, T, T)
    return Attention(
        tokens=runner.tokenizer.tokens(encoding.ids),
        offsets=[(int(start), int(end)) for start, end in encoding.offsets],
        segments=[int(segment) for segment in encoding.segments],
        weights=weights,
    )
