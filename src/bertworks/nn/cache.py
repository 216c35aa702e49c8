"""Keys and values of earlier steps, so that a causal model computes each token once.

The first call stores a whole batch of prompts of any lengths; each further call adds the same number of tokens to every
sequence. Stored as (B, N, capacity, D) per layer, so that each head's keys lie together; a place past a sequence's end
is never looked at, because the causal mask hides what lies ahead of a query.

Cross-attention's keys and values are made of the memory once, in the first call, and kept per *source*: several
sequences that look at the same source (the beams of one sentence) share them, and are its queries together.

Legend: B sequences, M sources, S longest source, N heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bertworks.nn.packed import Layout

ROOM = 32
"""How many places are added when a layer's room is used up; it grows by half where that is more."""


class LayerCache:
    """One layer's keys and values, each (B, N, room, D)."""

    def __init__(self, owner: KeyValueCache) -> None:
        self.owner = owner
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self._spare: tuple[Tensor, Tensor] | None = None  # where `select` writes next: the memory of the last time

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values (T, N, D) of the step's layout; return what the step's queries look at.

        A first step (prompts) looks at itself, (T, N, D); a later one at everything stored, views (B, N, longest, D).
        """
        owner = self.owner
        if self.keys is None or self.values is None or self.keys.shape[2] < owner.longest:
            self._grow(keys)
        assert self.keys is not None
        assert self.values is not None
        if owner.column is not None:  # one token each, all at the same place: a plain copy
            self.keys.select(2, owner.column).copy_(keys)
            self.values.select(2, owner.column).copy_(values)
        else:
            self.keys[owner.sequence, :, owner.place] = keys
            self.values[owner.sequence, :, owner.place] = values
        if owner.first_step:
            return keys, values
        return self.keys[:, :, : owner.longest], self.values[:, :, : owner.longest]

    def _grow(self, like: Tensor) -> None:
        before = 0 if self.keys is None else self.keys.shape[2]
        room = min(self.owner.capacity, max(self.owner.longest + ROOM, before * 3 // 2))
        shape = (self.owner.num_sequences, like.shape[1], room, like.shape[2])
        # Zeros: a place that a mask hides must still hold numbers, because 0 times infinity is none.
        keys, values = like.new_zeros(shape), like.new_zeros(shape)
        if self.keys is not None and self.values is not None:
            keys[:, :, :before], values[:, :, :before] = self.keys, self.values
        self.keys, self.values, self._spare = keys, values, None

    def select(self, rows: Tensor) -> None:
        """Keep the given sequences; only the places in use are copied, into memory that is there already."""
        if self.keys is None or self.values is None:
            return
        used = self.owner.longest
        rows = rows.to(self.keys.device)
        if self.keys.requires_grad:  # which memory that is used again cannot carry
            self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
            return
        if self._spare is None or len(self._spare[0]) < len(rows):
            shape = (len(rows), *self.keys.shape[1:])
            self._spare = (self.keys.new_zeros(shape), self.values.new_zeros(shape))
        free_keys, free_values = (spare[: len(rows)] for spare in self._spare)
        torch.index_select(self.keys[:, :, :used], 0, rows, out=free_keys[:, :, :used])
        torch.index_select(self.values[:, :, :used], 0, rows, out=free_values[:, :, :used])
        self._spare = (self.keys, self.values)
        self.keys, self.values = free_keys, free_values


class MemoryLayer:
    """One layer's keys and values of the sources, each (M, N, S, D)."""

    def __init__(self, owner: KeyValueCache) -> None:
        self.owner = owner
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def keep(self, both: Tensor) -> None:
        """Store the keys and values of the packed memory, (Tk, 2, N, D), padded to the longest source.

        What stands after a shorter source's end is something else's, and masked.
        """
        rows, sources = self.owner.source_rows, self.owner.sources
        assert rows is not None
        assert sources is not None
        padded = both.index_select(0, rows).unflatten(0, (sources.num_sequences, -1))  # (M, S, 2, N, D)
        self.keys, self.values = padded.permute(2, 0, 3, 1, 4).contiguous().unbind(0)

    def select(self, sources: Tensor) -> None:
        """Keep the given sources, up to the end of the longest of them."""
        if self.keys is not None and self.values is not None:
            longest = self.owner.longest_source
            self.keys = self.keys[:, :, :longest].index_select(0, sources)
            self.values = self.values[:, :, :longest].index_select(0, sources)


class KeyValueCache:
    """What a causal stack remembers of B sequences of at most `capacity` tokens; room is taken as it is needed."""

    def __init__(self, *, num_layers: int, num_sequences: int, capacity: int) -> None:
        self.capacity = capacity
        self.num_sequences = num_sequences
        self.longest = 0
        """The longest sequence, the step under way included."""
        self.lengths = torch.zeros(num_sequences, dtype=torch.long)
        """(B,): the tokens of each sequence before the step under way."""
        self.is_even = True
        """Whether all sequences are of equal length."""
        self.first_step = True
        self.layers = [LayerCache(self) for _ in range(num_layers)]
        self.memory_layers = [MemoryLayer(self) for _ in range(num_layers)]
        self.sources: Layout | None = None
        """The sources' lengths, once a memory has been looked at."""
        self.sharing = 1
        """How many neighbouring sequences look at one source."""
        self.source_rows: Tensor | None = None
        """(M S,): the rows of the packed memory, source after source, each to the length of the longest."""
        self.source_mask: Tensor | None = None
        """(M, 1, 1, S): minus infinity after a shorter source's end; None where all are of equal length."""

    def begin(self, layout: Layout, device: torch.device | str = "cpu") -> Tensor:
        """Announce a step; returns the places (T,) of its tokens within their sequences."""
        if layout.num_sequences != self.num_sequences:
            raise ValueError(f"the cache holds {self.num_sequences} sequences, the step has {layout.num_sequences}")
        is_even = len(set(layout.lengths)) <= 1
        if not self.first_step and not is_even:
            raise ValueError("after the first step every sequence must grow by the same number of tokens")
        new = max(layout.lengths, default=0)
        if self.longest + new > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} tokens per sequence, {self.longest + new} are needed")
        self.longest += new
        self.is_even &= is_even
        self.column = self.longest - 1 if self.is_even and new == 1 else None
        if self.column is not None:
            self.place = torch.full((self.num_sequences,), self.column, dtype=torch.long, device=device)
        else:
            self.sequence = layout.sequence_ids(device)
            self.place = layout.positions(device) + self.lengths.to(device)[self.sequence]
        return self.place

    def end(self, layout: Layout) -> None:
        """The step is done: its tokens belong to the past."""
        new = torch.tensor(layout.lengths) if self.first_step else layout.lengths[0] if layout.lengths else 0
        self.lengths = self.lengths + new
        self.first_step = False

    @property
    def longest_source(self) -> int:
        """S."""
        return max(self.sources.lengths, default=0) if self.sources is not None else 0

    def look_at(self, sources: Layout, device: torch.device | str = "cpu") -> None:
        """The layout of the memory, announced before the first step looks at it, and when sources were left out."""
        self.sources, self.source_mask = sources, None
        longest = self.longest_source
        starts = torch.tensor(sources.starts, dtype=torch.long)[:, None]
        self.source_rows = (starts + torch.arange(longest)).clamp(max=sources.total - 1).flatten().to(device)  # (M S,)
        if len(set(sources.lengths)) > 1:
            lengths = torch.tensor(sources.lengths, device=device)[:, None, None, None]
            beyond = torch.arange(longest, device=device) >= lengths  # (M, 1, 1, S)
            self.source_mask = torch.zeros(beyond.shape, device=device).masked_fill_(beyond, -torch.inf)

    def select(self, rows: Tensor | Sequence[int]) -> None:
        """Keep the given sequences, in the given order, repeated as given (beam search)."""
        chosen = torch.as_tensor(rows, dtype=torch.long)
        self.num_sequences = len(chosen)
        self.lengths = self.lengths[chosen.cpu()]
        lengths = self.lengths.tolist()
        self.longest = max(lengths, default=0)
        self.is_even = len(set(lengths)) <= 1
        for layer in self.layers:
            layer.select(chosen)
        if self.sources is not None:
            self._select_sources(chosen // self.sharing)

    def _select_sources(self, owners: Tensor) -> None:
        """Keep the sources that the sequences now look at, `owners` (B,) by their numbers so far.

        Neighbours share a source where all sources have equally many; otherwise each sequence gets its own copy.
        """
        assert self.sources is not None
        kept, counts = torch.unique_consecutive(owners, return_counts=True)
        shared = len(counts) > 0 and bool((counts == counts[0]).all())
        kept, self.sharing = (kept, int(counts[0])) if shared else (owners, 1)
        numbers = kept.tolist()
        if numbers == list(range(self.sources.num_sequences)):
            return
        self.look_at(Layout([self.sources.lengths[number] for number in numbers]), owners.device)
        for layer in self.memory_layers:
            layer.select(kept)
