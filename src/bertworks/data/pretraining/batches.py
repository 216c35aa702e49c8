"""Which sequences make up a step: shuffled epochs in batches of tokens, and a batch's shares of ranks and micro-batches.

Everything is a function of (seed, step): the order of an epoch is a sort by hash, a batch is a slice of it. A run that
goes on at step 1,000,000 plans one epoch and is there; nothing is replayed.

A batch is counted in tokens, not in sequences, since sequences differ in length and a step's work is its tokens. The
epoch's tokens are divided evenly: sequence i of the shuffled epoch belongs to batch floor(tokens before it × batches /
all tokens). So every epoch has the same number of batches, all of about the same size, none empty, and each sequence is
in exactly one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.corpus.reader import Corpus
from bertworks.data.pretraining import draw
from bertworks.data.pretraining.draw import Stream
from bertworks.data.pretraining.flat import Ints
from bertworks.data.pretraining.sequences import RowSource
from bertworks.errors import UsageError

MAX_HELD_OUT = 0.05  # of the corpus's tokens


class Batches:
    """Step number to (epoch, sequence numbers)."""

    def __init__(self, source: RowSource, batch_tokens: int, seed: int = 0) -> None:
        """`batch_tokens` is the size of a global batch, which no batch exceeds by more than one sequence."""
        longest = int(source.lengths.max())
        if batch_tokens < longest:
            raise UsageError(
                f"batch_tokens is {batch_tokens:,}, but one sequence has {longest:,} tokens; make it larger"
            )
        self.source, self.batch_tokens, self.seed = source, batch_tokens, seed
        self.num_tokens = int(source.num_tokens)
        # A batch of an even share must hold the longest sequence, or one could go empty; that matters in tiny data only.
        self.num_batches = max(1, min(-(-self.num_tokens // batch_tokens), self.num_tokens // longest))
        """Per epoch."""
        self._planned: tuple[int, Ints, Ints] | None = None

    def at(self, step: int) -> tuple[int, Ints]:
        """The epoch that `step` falls in, and the numbers of its sequences; steps count from 0 and never end."""
        if step < 0:
            raise UsageError(f"steps count from 0, there is no step {step}")
        epoch, batch = divmod(step, self.num_batches)
        planned = self._planned  # read and set as one value: another thread may plan another epoch
        if planned is None or planned[0] != epoch:
            planned = self._planned = (epoch, *self._plan(epoch))
        _, order, bounds = planned
        return epoch, order[bounds[batch] : bounds[batch + 1]]

    def _plan(self, epoch: int) -> tuple[Ints, Ints]:
        """The order of an epoch (n,), and where its batches begin and end (batches + 1,)."""
        order = draw.permutation(Stream.SHUFFLE, self.seed, epoch, len(self.source.lengths))
        lengths = self.source.lengths[order].astype(np.int64)
        before = np.cumsum(lengths) - lengths
        # before × batches // tokens >= batch, solved for before
        first = -(-np.arange(self.num_batches + 1) * self.num_tokens // self.num_batches)
        return order, np.searchsorted(before, first)


def share(source_lengths: NDArray[Any], numbers: Ints, *, rank: int, world: int, micro_tokens: int) -> list[Ints]:
    """This rank's micro-batches of a global batch.

    The batch is sorted by length and cut into runs of about equal tokens, as many as `world` × micro-batches, which are
    dealt out in turn: the same number of micro-batches to each rank, like with like, so that packed spans are few and
    ranks are done at the same time. A micro-batch has about `micro_tokens` tokens, give or take two sequences. It is
    empty only where the batch has fewer sequences than there are micro-batches in all.
    """
    if not 0 <= rank < world:
        raise UsageError(f"rank must be from 0 to {world - 1}, not {rank}")
    if micro_tokens < 1:
        raise UsageError(f"micro_tokens must be at least 1, not {micro_tokens}")
    numbers = np.asarray(numbers, np.int64)
    lengths = np.asarray(source_lengths)[numbers].astype(np.int64)
    order = np.argsort(lengths, kind="stable")
    numbers, ends = numbers[order], np.cumsum(lengths[order])
    total, longest = (int(ends[-1]), int(lengths.max())) if len(ends) else (0, 0)
    # A batch that is a sequence larger than was asked for does not need a micro-batch more.
    runs = world * max(1, -(-(total - longest) // (world * micro_tokens)))
    middles = ends - lengths[order] / 2
    inner = np.searchsorted(middles, np.arange(1, runs) * (total / runs))
    # At least one sequence in each run: move bounds up where two are equal, down where too few would be left.
    steps = np.arange(1, runs)
    inner = np.maximum.accumulate(np.maximum(inner, 1) - steps) + steps if runs > 1 else inner
    inner = np.minimum(inner, np.maximum(len(numbers) - runs + steps, 0))
    if len(numbers) < runs:
        inner = np.minimum(steps, len(numbers))
    return np.split(numbers, inner)[rank::world]


def split_documents(corpus: Corpus, held_out_tokens: int, seed: int = 0, *, at_least: int = 1) -> tuple[Ints, Ints]:
    """Documents to train on, and documents held out: ascending numbers, the same for the same corpus and seed.

    Held out are documents spread over the corpus by hash, in all at most `held_out_tokens` tokens and at most 5 % of the
    corpus. Where that would be fewer than `at_least` documents, it is so many whose length is nearest, but never more than
    half of all. A corpus of a single document, or held_out_tokens = 0, leaves nothing to hold out: the second list is
    empty.
    """
    lengths = corpus.document_lengths()
    limit = min(held_out_tokens, int(MAX_HELD_OUT * corpus.num_tokens))
    everything = np.arange(len(lengths))
    if held_out_tokens < 1 or len(lengths) < 2:
        return everything, everything[:0]
    order = draw.permutation(Stream.HELD_OUT, seed, 0, len(lengths))
    order = order[lengths[order] <= limit]
    held_out = order[: np.searchsorted(np.cumsum(lengths[order]), limit, side="right")]
    at_least = min(at_least, len(lengths) // 2)
    if len(held_out) < at_least:
        held_out = np.argsort(np.abs(lengths - limit), kind="stable")[:at_least]
    is_held_out = np.zeros(len(lengths), np.bool_)
    is_held_out[held_out] = True
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
