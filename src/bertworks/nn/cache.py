"""Keys and values of earlier steps, so that a causal model computes each token once.

The first call stores a whole batch of prompts of any lengths; each further call adds the same number of tokens to every
sequence. Stored as (B, capacity, N, D) per layer; a place past a sequence's end is never looked at, because the causal
mask hides what lies ahead of a query.

Cross-attention keeps the keys and values of the memory in the same object: they are made once and only read after.

Legend: B sequences, N heads, D head size, S new tokens per sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bertworks.nn.packed import Layout


class LayerCache:
    """One layer's keys and values: self-attention (B, capacity, N, D); cross-attention the flat memory (Tk, N, D)."""

    def __init__(self, owner: KeyValueCache) -> None:
        self.owner = owner
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values (T, N, D) of the step's layout; return what the step's queries look at.

        A first step (prompts) looks at itself, (T, N, D); a later one at everything stored, a view (B, longest, N, D).
        """
        owner = self.owner
        sequence, place = owner.sequence, owner.place
        if self.keys is None or self.values is None:
            shape = (owner.num_sequences, owner.capacity, *keys.shape[1:])
            self.keys, self.values = keys.new_zeros(shape), values.new_zeros(shape)
        self.keys[sequence, place] = keys
        self.values[sequence, place] = values
        if owner.first_step:
            return keys, values
        longest = owner.longest
        return self.keys[:, :longest], self.values[:, :longest]


class KeyValueCache:
    """What a causal stack remembers of B sequences of at most `capacity` tokens."""

    def __init__(self, *, num_layers: int, num_sequences: int, capacity: int) -> None:
        self.capacity = capacity
        self.num_sequences = num_sequences
        self.lengths: list[int] = [0] * num_sequences
        self.layers = [LayerCache(self) for _ in range(num_layers)]
        self.cross_layers = [LayerCache(self) for _ in range(num_layers)]

    @property
    def first_step(self) -> bool:
        return not any(self.lengths)

    @property
    def longest(self) -> int:
        """The longest sequence once the step under way is stored."""
        return int(self.place.max()) + 1 if len(self.place) else max(self.lengths)

    def begin(self, layout: Layout, device: torch.device | str = "cpu") -> Tensor:
        """Announce a step; returns the places (T,) of its tokens within their sequences."""
        if layout.num_sequences != self.num_sequences:
            raise ValueError(f"the cache holds {self.num_sequences} sequences, the step has {layout.num_sequences}")
        if not self.first_step and len(set(layout.lengths)) > 1:
            raise ValueError("after the first step every sequence must grow by the same number of tokens")
        grown = max(before + new for before, new in zip(self.lengths, layout.lengths, strict=True))
        if grown > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} tokens per sequence, {grown} are needed")
        self.sequence = layout.sequence_ids(device)
        before = torch.tensor(self.lengths, dtype=torch.long, device=device)
        self.place = layout.positions(device) + before[self.sequence]
        return self.place

    def key_layout(self, layout: Layout) -> Layout:
        """The layout of what the step's queries look at."""
        return layout if self.first_step else Layout([self.longest] * self.num_sequences)

    def end(self, layout: Layout) -> None:
        """The step is done: its tokens belong to the past."""
        self.lengths = [before + new for before, new in zip(self.lengths, layout.lengths, strict=True)]

    def select(self, indices: Sequence[int]) -> None:
        """Keep the given sequences, in the given order, repeated as given (beam search)."""
        index = torch.as_tensor(indices, dtype=torch.long)
        for layer in self.layers:
            if layer.keys is not None and layer.values is not None:
                where = index.to(layer.keys.device)
                layer.keys, layer.values = layer.keys[where], layer.values[where]
        self.cross_layers = [
            LayerCache(self) for _ in self.cross_layers
        ]  # made anew from the memory, which was reordered too
        self.lengths = [self.lengths[i] for i in index.tolist()]
        self.num_sequences = len(self.lengths)
