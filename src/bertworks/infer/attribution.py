"""Which tokens mattered? Two answers that are often mixed up, each under its own name.

*Integrated gradients* (Sundararajan, Taly & Yan 2017) explain one number F that the model gives: the score of a label, of
an answer, a similarity. The token vectors are moved in a straight line from a baseline, where every word is the padding
token, to the text itself, and the gradient of F is added up on the way:

    contribution of token i = (x_i − b_i) · ∫ ∂F/∂x_i (b + α (x − b)) dα

They are complete: the contributions add up to F(text) − F(baseline). The integral is taken by Gauss and Legendre's rule;
what is missing from completeness is told with the result. Special tokens are the same in both, so they contribute 0.

*Attention rollout* (Abnar & Zuidema 2020) does not look at F at all. It follows attention through the layers: the mean of
the heads, half of it replaced by the token itself for the residual connection, multiplied from the first layer to the
last. A row says how much of each token arrives at the place that the head reads, if attention were all that mixes
tokens. It is never negative and does not know for or against.

Left out: baselines drawn at random, gradient times input, rollout's variant by maximum flow.

Legend: T tokens of one sequence, K points of the path, E width of the token vectors, L layers, N heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.errors import ModelError, UsageError
from bertworks.models.elmo import BiLM
from bertworks.models.model import Model
from bertworks.models.recurrent import RecurrentStack
from bertworks.models.transformer import Transformer
from bertworks.nn.packed import Layout, Packed
from bertworks.text.tokenizer import Tokenizer

Floats = NDArray[np.float64]
Score = Callable[[Packed], Tensor]
"""B sequences of equal length to B numbers, the ones that are explained; differentiable."""

POINTS = 32
TOKENS_AT_ONCE = 4096  # of all points of the path together: what a backward pass keeps in memory


@dataclass(frozen=True)
class Integrated:
    """What each token adds to a number."""

    values: Floats  # (T,)
    output: float
    """The number for the text."""
    baseline: float
    """The number for the baseline."""

    @property
    def gap(self) -> float:
        """How far the contributions are from adding up to `output` − `baseline`: the error of the integral."""
        return float(self.values.sum() - (self.output - self.baseline))


def integrated_gradients(
    model: Model, batch: Packed, score: Score, *, baseline_ids: Tensor, points: int = POINTS
) -> Integrated:
    """For a batch of one sequence; `baseline_ids` (T,) stand where it begins."""
    if points < 1:
        raise UsageError(f"points is {points}; the path needs at least 1")
    if batch.layout.num_sequences != 1 or batch.layout.total == 0:
        raise ValueError(f"one sequence with tokens is explained at a time, not {batch.layout}")
    table = token_table(model)
    with torch.no_grad():
        start, end = table(baseline_ids), table(batch.input_ids)  # (T, E)
        ends = torch.stack([start, end])  # the first and the last point
        first, last = _scores(table, batch, score, ends).double().tolist()
    nodes, weights = np.polynomial.legendre.leggauss(points)
    places, weights = (nodes + 1) / 2, weights / 2  # from -1 … 1 to 0 … 1
    total = torch.zeros_like(end, dtype=torch.float64)  # (T, E)
    at_once = max(1, TOKENS_AT_ONCE // batch.layout.total)
    for begin in range(0, points, at_once):
        some = slice(begin, begin + at_once)
        alpha = torch.as_tensor(places[some], dtype=end.dtype, device=end.device)[:, None, None]  # (K, 1, 1)
        path = (start + alpha * (end - start)).requires_grad_()  # (K, T, E)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(_scores(table, batch, score, path).sum(), path)
        scale = torch.as_tensor(weights[some], device=end.device)[:, None, None]
        total += (gradient.double() * scale).sum(dim=0)
    values = (total * (end - start).double()).sum(dim=-1)
    return Integrated(values.cpu().numpy(), last, first)


def token_table(model: Model) -> nn.Embedding:
    """Where a model looks its tokens up; an error where it reads something else than tokens."""
    if not isinstance(model.body, Transformer | RecurrentStack):
        what = "spelling of words" if isinstance(model.body, BiLM) else "vectors of words"
        raise ModelError(
            f"integrated gradients need a model that reads tokens; this one ({model.config.describe()}) reads the {what}"
        )
    return model.body.embeddings.tokens


def baseline_of(tokenizer: Tokenizer) -> int:
    """The token that stands for nothing: padding, else the mask, else the unknown one, else the end of a text."""
    for number in (tokenizer.pad_id, tokenizer.mask_id, tokenizer.unk_id, tokenizer.eos_id):
        if number is not None:
            return number
    raise ModelError("integrated gradients need a padding, mask or unknown token; this tokenizer has none of them")


def _scores(table: nn.Embedding, batch: Packed, score: Score, vectors: Tensor) -> Tensor:
    """The scores of K copies of the sequence, whose token vectors are replaced by `vectors` (K, T, E): (K,)."""
    copies = len(vectors)

    def repeated(ids: Tensor | None) -> Tensor | None:
        return None if ids is None else ids.repeat(copies)

    packed = Packed(
        input_ids=batch.input_ids.repeat(copies),
        layout=Layout(batch.layout.lengths * copies),
        segments=repeated(batch.segments),
        positions=repeated(batch.positions),
        tasks=repeated(batch.tasks),
    )
    # Everything after the table runs as it always does: its output alone is another.
    handle = table.register_forward_hook(lambda module, inputs, output: vectors.flatten(0, 1))
    try:
        return score(packed)
    finally:
        handle.remove()


def attention_rollout(weights: Iterable[NDArray[np.floating]]) -> Floats:
    """Attention weights of each layer, (N, T, T), to (T, T): how much of token j arrives at token i; rows sum to 1."""
    arrived: Floats | None = None
    for layer in weights:
        heads = np.asarray(layer, np.float64).mean(axis=0)  # (T, T)
        mixed = (heads + np.eye(len(heads))) / 2
        arrived = mixed if arrived is None else mixed @ arrived
    if arrived is None:
        raise UsageError("there are no attention weights; a rollout needs those of at least one layer")
    return arrived


@torch.inference_mode()
def rollout_of(model: Model, batch: Packed, rows: Sequence[int]) -> Floats:
    """(T,): how much of each token of one sequence arrives at `rows`, the places that the head reads, on the mean."""
    if not isinstance(model.body, Transformer):
        raise ModelError(
            f"attention rollout needs a Transformer; this model ({model.config.describe()}) has no attention weights; "
            "choose integrated gradients"
        )
    hidden = model.body(batch, attentions=True)
    weights = [span[0].float().cpu().numpy() for layer in hidden.attentions for span in layer]  # (N, T, T) each
    return attention_rollout(weights)[list(rows)].mean(axis=0)
