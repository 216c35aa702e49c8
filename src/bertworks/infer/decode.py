"""Decoding: tokens one after the other out of any model that can say what may come next.

    greedy   the most probable token at every step
    beam     the W best beginnings are kept side by side (`decode_beam`)
    sample   a token is drawn from the distribution, cut to its top k or top p and made flatter or sharper (`decode_sample`)

A search sees a model through `Decoder` alone: a Transformer with its keys and values of earlier steps, an encoder-decoder
with its memory, a recurrent model with its state. `decoders` has the adapters, and `decode` the search for a strategy.

A sequence that has ended leaves the batch, so that the steps become cheaper as a batch thins out. What a sequence becomes does
not depend on its neighbours.

Legend: B inputs, N live sequences (rows), V vocabulary, S longest source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertworks.errors import UsageError
from bertworks.models.seq2seq import TargetIds

Ids = NDArray[np.int64]

State = TypeVar("State")
"""What a decoder remembers of its rows: a cache, a recurrent state. Only the decoder that made it looks inside."""


class Decoder(Protocol[State]):
    """A model that continues sequences, as the searches see it.

        state, logits = decoder.start(inputs, max_new_tokens=50)   # (B, V): what may be the first new token
        decoder.select(state, rows)                                # beams: row i becomes a copy of old row rows[i]
        logits = decoder.step(state, tokens)                       # (N, V): what may follow the tokens (N,)

    A state belongs to one search and is changed in place by `step` and `select`. All calls are made without gradients.
    Row i of every result depends on the i-th row alone.
    """

    @property
    def vocab_size(self) -> int:
        """How many tokens there are to choose from."""
        ...

    def room(self, length: int) -> int | None:
        """How many new tokens may follow an input of `length` ids; None = as many as are asked for.

        An input that is itself too long, or empty where the model needs a token to start from, is a `UsageError`.
        """
        ...

    def start(self, inputs: Sequence[Ids], *, max_new_tokens: int, attentions: bool = False) -> tuple[State, Tensor]:
        """Read the inputs (sources of a translator, prompts of a language model; special tokens included) and return the
        state and the logits (B, V) of the first new token.

        A translator also takes its start token here: it is not among the new tokens. No row will be asked for more than
        `max_new_tokens` steps. With `attentions` the decoder keeps what `attention` returns.
        """
        ...

    def step(self, state: State, tokens: Tensor) -> Tensor:
        """Append one token (int64 (N,)) to every row and return the logits (N, V) of the next."""
        ...

    def select(self, state: State, rows: Tensor) -> None:
        """Keep the given rows (int64 (N',)), in the given order, repeated as given: beams, and rows that ended."""
        ...

    def attention(self, state: State) -> Tensor | None:
        """How much of the last step's attention each row gave to each token of its source: (N, S), rows sum to 1, zeros after
        a shorter source's end. Only after a `start` with `attentions`; None for a decoder without a source."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One continuation."""

    tokens: Ids
    """(n,): the new tokens, without the one that ended it."""
    log_probability: float
    """Of all new tokens, the ending one included, as the model gives it."""
    score: float
    """What ranks it among others: in beam search adjusted for length and coverage, else the log probability."""
    finished: bool
    """Whether it ended by itself, rather than at the longest length."""


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """The most probable token at every step."""

    scores: bool = True
    """Whether to work out log probabilities, which takes a twentieth of the time; else they are NaN."""


@dataclass(frozen=True, kw_only=True)
class Beam:
    """Beam search; see `decode_beam`."""

    width: int = 4
    length_penalty: float = 1.0
    """Scores are log probabilities divided by length to this power: 0 favours short results, more favours long ones."""
    coverage_penalty: float = 0.0
    """How much it costs to leave words of the source unattended, once a result has ended; for models that attend to one."""
    early_stopping: bool = False
    """Stop once `width` continuations have ended, rather than when no other could become better."""
    num: int = 1
    """How many to return, at most `width`."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise UsageError(f"the beam's width is {self.width}; it must be at least 1")
        if not 1 <= self.num <= self.width:
            raise UsageError(
                f"num is {self.num} with a beam of width {self.width}; a beam has at most its width of results"
            )
        if not math.isfinite(self.length_penalty):
            raise UsageError(f"length_penalty is {self.length_penalty}; it must be a finite number, such as 1")
        if not 0 <= self.coverage_penalty < math.inf:
            raise UsageError(f"coverage_penalty is {self.coverage_penalty}; it must be at least 0, and finite")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw each token; see `decode_sample`."""

    temperature: float = 1.0
    """Below 1 the probable becomes more probable, above 1 less."""
    top_k: int | None = None
    """Draw from the k most probable tokens only."""
    top_p: float | None = None
    """Draw from the fewest most probable tokens that have this probability together."""
    seed: int = 0
    num: int = 1
    """How many to draw for each input."""

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UsageError(
                f"temperature is {self.temperature}; it must be above 0; for the most probable tokens decode greedily"
            )
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"top_k is {self.top_k}; it must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if self.num < 1:
            raise UsageError(f"num is {self.num}; it must be at least 1")


Strategy = Greedy | Beam | Sample

Watch = Callable[[NDArray[np.int64], NDArray[np.int64]], None]
"""Called after every step with the numbers of the rows that got a token, and the tokens. Beam search has nothing to tell
before its end."""


@torch.inference_mode()
def decode(
    decoder: Decoder[State],
    inputs: Sequence[Ids],
    strategy: Strategy,
    *,
    max_new_tokens: int | Sequence[int],
    ids: TargetIds,
    numbers: NDArray[np.int64] | None = None,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """Continue one batch of inputs, the best continuation of each first; `max_new_tokens` for all or for each.

    `numbers` (B,) are the inputs' places in all that is decoded, on which drawn tokens depend; by default 0, 1, 2 …
    `watch` is called with row numbers from 0 to B * num - 1: `num` rows for each input, side by side.
    """
    from bertworks.infer.decode_beam import beam_search
    from bertworks.infer.decode_sample import sample

    if not inputs:
        return []
    wanted = [max_new_tokens] * len(inputs) if isinstance(max_new_tokens, int) else list(max_new_tokens)
    if min(wanted) < 1:
        raise UsageError(f"max_new_tokens is {min(wanted)}; it must be at least 1")
    rooms = [decoder.room(len(row)) for row in inputs]
    limits = torch.tensor([most if room is None else min(room, most) for room, most in zip(rooms, wanted, strict=True)])
    if isinstance(strategy, Beam):
        return beam_search(decoder, inputs, strategy, limits=limits, ids=ids)
    if isinstance(strategy, Sample):
        places = np.arange(len(inputs)) if numbers is None else numbers
        return sample(decoder, inputs, strategy, limits=limits, ids=ids, numbers=places, watch=watch)
    found = one_by_one(decoder, inputs, most_probable, limits=limits, ids=ids, watch=watch, scores=strategy.scores)
    return [[hypothesis] for hypothesis in found]


Choose = Callable[[Tensor, Tensor, int], Tensor]
"""Logits (N, V), the rows' numbers (N,) and the step -> the token of each row, (N,)."""

LEAVE_TOGETHER = 8
"""Rows leave the batch once one in this many has ended: what stays must be copied, which is worth a few idle rows."""

FEW_ROWS = 32
"""Below this a plain search for the maximum takes less time than the few more calls of the quicker one."""


def most_probable(logits: Tensor, rows: Tensor, step: int) -> Tensor:
    """Greedy's choice."""
    if len(logits) < FEW_ROWS:
        return logits.argmax(dim=-1)
    return largest(logits, 1)[1].squeeze(1)


def one_by_one(
    decoder: Decoder[State],
    inputs: Sequence[Ids],
    choose: Choose,
    *,
    limits: Tensor,
    ids: TargetIds,
    num: int = 1,
    watch: Watch | None = None,
    scores: bool = True,
) -> list[Hypothesis]:
    """One token for each row at a time, chosen by `choose`; `num` rows for each input, side by side.

    limits (B,): how many new tokens each input may have
    """
    state, logits = decoder.start(inputs, max_new_tokens=int(limits.max()))
    device = logits.device
    limits = limits.to(device).repeat_interleave(num)  # (B num,)
    rows = torch.arange(len(inputs) * num, device=device)  # (N,) the numbers of those still in the batch
    if num > 1:
        copies = rows // num
        decoder.select(state, copies)
        logits = logits[copies]
    tokens = torch.zeros(len(rows), int(limits.max()), dtype=torch.long, device=device)
    logs = torch.zeros(len(rows), device=device)
    lengths = torch.zeros_like(limits)
    running = torch.ones(len(rows), dtype=torch.bool, device=device)  # (N,) not ended, though still in the batch
    ends = torch.tensor(ids.end, dtype=torch.long, device=device)
    for step in range(tokens.shape[1]):
        chosen, log = _next(logits, rows, step, choose, ids, limits[rows] == step + 1, scores)  # (N,), (N,)
        tokens[rows, step] = chosen
        logs[rows] += torch.where(running, log, 0.0)
        lengths[rows] += running
        if watch is not None:
            watch(rows[running].cpu().numpy(), chosen[running].cpu().numpy())
        running &= ~torch.isin(chosen, ends) & (limits[rows] > step + 1)
        left = int(running.sum())
        if left == 0:
            break
        # A row that has reached its limit may have no place for another token, so it cannot stay idle.
        is_full = bool((limits[rows] <= step + 1).any())
        if is_full or left * LEAVE_TOGETHER <= len(rows) * (LEAVE_TOGETHER - 1):
            stay = running.nonzero().squeeze(1)
            decoder.select(state, stay)
            rows, chosen, running = rows[stay], chosen[stay], running[stay]
        logits = decoder.step(state, chosen)
    return _hypotheses(tokens, logs, lengths, ids)


def _next(
    logits: Tensor, rows: Tensor, step: int, choose: Choose, ids: TargetIds, is_last: Tensor, scores: bool
) -> tuple[Tensor, Tensor]:
    """The tokens of a step and their log probabilities; a settled token is no choice, and certain."""
    if step == 0 and ids.first is not None:
        return torch.full_like(rows, ids.first), logits.new_zeros(len(rows))
    norms = torch.logsumexp(logits, dim=-1) if scores else logits.new_full((), torch.nan)  # (N,)
    if ids.forbidden:
        logits[:, list(ids.forbidden)] = -torch.inf
    chosen = choose(logits, rows, step)
    log = logits.gather(1, chosen[:, None]).squeeze(1) - norms
    if ids.last is not None:
        return torch.where(is_last, ids.last, chosen), torch.where(is_last, 0.0, log)
    return chosen, log


def _hypotheses(tokens: Tensor, logs: Tensor, lengths: Tensor, ids: TargetIds) -> list[Hypothesis]:
    found = []
    for row, log, length in zip(tokens.cpu().numpy(), logs.tolist(), lengths.tolist(), strict=True):
        finished = int(row[length - 1]) in ids.end
        found.append(Hypothesis(row[: length - finished].copy(), log, log, finished))
    return found


BLOCK = 64
"""Neighbours of which only the largest takes part in the first round of `largest`."""


def largest(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row (N, V) in descending order, and their places: (N, k) twice.

    Two rounds: the k blocks with the largest maxima hold the k largest numbers. The maxima are quick to find, and the
    slow selection then sees a small part of the row (a third of the time of `torch.topk` at a vocabulary of 10,000).
    """
    size = logits.shape[-1]
    blocks = size // BLOCK
    if blocks < 4 * k:
        found = logits.topk(k, dim=-1)
        return found.values, found.indices
    whole = logits[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))  # (N, blocks, BLOCK)
    best = whole.amax(dim=-1).topk(k, dim=-1).indices  # (N, k)
    inside = whole.gather(1, best[:, :, None].expand(-1, -1, BLOCK)).flatten(1)  # (N, k BLOCK)
    values, places = torch.cat([inside, logits[:, blocks * BLOCK :]], dim=1).topk(k, dim=-1)  # (N, k)
    block, offset = places // BLOCK, places % BLOCK
    in_block = best.gather(1, block.clamp(max=k - 1)) * BLOCK + offset
    in_rest = places - k * BLOCK + blocks * BLOCK
    return values, torch.where(block < k, in_block, in_rest)
