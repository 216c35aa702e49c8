"""Reversible renaming: one table of rules serves loading and saving, so that the two can never disagree.

A rule ties one of our tensors to one or more of theirs:

    Rule("body.embeddings.tokens.weight", "bert.embeddings.word_embeddings.weight")
    Rule("body.blocks.0.attention.qkv.weight", "…query.weight", "…key.weight", "…value.weight")     stacked by rows
    Rule("body.blocks.0.attention.qkv.weight", "h.0.attn.c_attn.weight", transposed=True)           GPT's Conv1D

Rules are written out for a concrete configuration (layer numbers filled in), so a table is just a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rule:
    """`ours` is the row-wise stack of `theirs` (usually just one), each transposed where `transposed`.

    `as_row`: our vector is stored there as a matrix of one row.
    `copies` are further names under which their files hold the same tensor once more: written, never read.
    """

    ours: str
    theirs: tuple[str, ...]
    transposed: bool
    as_row: bool
    copies: tuple[str, ...]

    def __init__(
        self,
        ours: str,
        *theirs: str,
        transposed: bool = False,
        as_row: bool = False,
        copies: tuple[str, ...] = (),
    ) -> None:
        object.__setattr__(self, "ours", ours)
        object.__setattr__(self, "theirs", theirs)
        object.__setattr__(self, "transposed", transposed)
        object.__setattr__(self, "as_row", as_row)
        object.__setattr__(self, "copies", copies)

    def shape(self, ours: Sequence[int]) -> tuple[int, ...]:
        """The shape of each of theirs, where our tensor has the shape `ours`."""
        shape = tuple(ours)
        if len(self.theirs) > 1:
            shape = (shape[0] // len(self.theirs), *shape[1:])
        return (1, *shape) if self.as_row else shape[::-1] if self.transposed else shape

    def read(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Their tensors -> ours; every name of `theirs` must be there."""
        if self.as_row:
            return tensors[self.theirs[0]][0].contiguous()
        parts = [tensors[name].t() if self.transposed else tensors[name] for name in self.theirs]
        return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts)

    def write(self, ours: Tensor) -> dict[str, Tensor]:
        """Our tensor -> theirs, by name."""
        if self.as_row:
            return {self.theirs[0]: ours[None].contiguous()}
        parts = ours.chunk(len(self.theirs)) if len(self.theirs) > 1 else (ours,)
        written = {
            name: (part.t() if self.transposed else part).contiguous()
            for name, part in zip(self.theirs, parts, strict=True)
        }
        return written | {name: written[self.theirs[0]].clone() for name in self.copies}


def linear(ours: str, *theirs: str, bias: bool = True, transposed: bool = False) -> Iterable[Rule]:
    """The rules of a linear layer or a norm: `<name>.weight` and, where there is one, `<name>.bias`."""
    yield Rule(f"{ours}.weight", *(f"{name}.weight" for name in theirs), transposed=transposed)
    if bias:
        yield Rule(f"{ours}.bias", *(f"{name}.bias" for name in theirs))
