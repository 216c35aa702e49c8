"""Drawing tokens from a model's distribution: top-k (Fan et al. 2018), top-p or nucleus (Holtzman et al. 2020), temperature.

One uniform number decides each token: it is looked up in the cumulated probabilities. The number is a hash of the seed, the
input's place, the copy and the step (`data.pretraining.draw`), so that a text does not depend on what is drawn beside it, and
asking for more copies leaves the first ones as they were.

Legend: N live rows, V vocabulary, K tokens that are left to draw from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertworks.data.pretraining.draw import Stream, uniform
from bertworks.infer.decode import Decoder, Hypothesis, Ids, Sample, State, Watch, largest, one_by_one
from bertworks.models.seq2seq import TargetIds

COPY = 2**32
"""The draws of one copy: as many as there can be steps."""


def sample(
    decoder: Decoder[State],
    inputs: Sequence[Ids],
    strategy: Sample,
    *,
    limits: Tensor,
    ids: TargetIds,
    numbers: NDArray[np.int64],
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """`strategy.num` continuations of each input; `numbers` (B,) are the inputs' places in all that is decoded."""
    num = strategy.num

    def choose(logits: Tensor, rows: Tensor, step: int) -> Tensor:
        owners, copies = np.divmod(rows.cpu().numpy(), num)
        draws = uniform(Stream.GENERATE, strategy.seed, 0, numbers[owners], copies * COPY + step)  # (N,)
        return pick(logits, torch.from_numpy(draws).to(logits.device), strategy)

    found = one_by_one(decoder, inputs, choose, limits=limits, ids=ids, num=num, watch=watch)
    return [found[first : first + num] for first in range(0, len(found), num)]


def pick(logits: Tensor, draws: Tensor, strategy: Sample) -> Tensor:
    """Logits (N, V) and numbers in [0, 1) (N,) -> tokens (N,)."""
    places: Tensor | None = None
    if strategy.top_k is not None and strategy.top_k < logits.shape[-1]:
        logits, places = largest(logits, strategy.top_k)  # (N, K), descending
    elif strategy.top_p is not None and strategy.top_p < 1:
        logits, places = logits.sort(dim=-1, descending=True)  # (N, V)
    shares = torch.softmax(logits.double() / strategy.temperature, dim=-1).cumsum(dim=-1)  # (N, K), up to 1
    total = shares[:, -1]
    if strategy.top_p is not None and strategy.top_p < 1:
        enough = (shares < strategy.top_p).sum(dim=-1).clamp(max=shares.shape[-1] - 1)  # the token that reaches top_p
        total = shares.gather(1, enough[:, None]).squeeze(1)
    # The first token whose share goes beyond the draw: never one of probability 0.
    found = torch.searchsorted(shares, (draws * total)[:, None], right=True)  # (N, 1)
    found = found.clamp(max=shares.shape[-1] - 1)
    return (found if places is None else places.gather(1, found)).squeeze(1)
