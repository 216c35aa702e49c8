"""Which layer? The contextual embedding of a token can be any layer's output, or a combination of several.

Layers are numbered 0 (the embeddings' output) to L (the last). The names are those of the study in the BERT paper
(Devlin et al. 2019, table 7): first, last, second-to-last, and sums or concatenations of the last four or of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bertworks.errors import UsageError, did_you_mean

LAYER_NAMES = ("last", "first", "second-to-last", "sum-last-4", "concat-last-4", "sum-all")


@dataclass(frozen=True)
class LayerChoice:
    """The layers to run and how to make one vector of them."""

    layers: tuple[int, ...]
    combine: Literal["sum", "concat"]

    def apply(self, hidden: dict[int, Tensor]) -> Tensor:
        """hidden: layer -> (T, H); returns (T, H), or (T, 4 H) for a concatenation of four."""
        chosen = [hidden[layer] for layer in self.layers]
        if len(chosen) == 1:
            return chosen[0]
        return torch.cat(chosen, dim=-1) if self.combine == "concat" else torch.stack(chosen).sum(dim=0)

    def width(self, hidden_size: int) -> int:
        return hidden_size * (len(self.layers) if self.combine == "concat" else 1)


def choose_layers(name: str | int, num_layers: int) -> LayerChoice:
    """Resolve a name or a number for a model of `num_layers` layers. `sum-all` adds layers 1 to L, as the paper does."""
    text = str(name)
    last_four = tuple(range(num_layers - 3, num_layers + 1))
    if text == "last":
        return LayerChoice((num_layers,), "sum")
    if text == "first":
        return LayerChoice((0,), "sum")
    if text == "second-to-last":
        return LayerChoice((num_layers - 1,), "sum")
    if text in ("sum-last-4", "concat-last-4"):
        if num_layers < 3:
            raise UsageError(f"layers {text!r} needs four layers, this model has {num_layers + 1} (0 to {num_layers})")
        return LayerChoice(last_four, "sum" if text == "sum-last-4" else "concat")
    if text == "sum-all":
        return LayerChoice(tuple(range(1, num_layers + 1)), "sum")
    number = text.removeprefix("-")
    if number.isdecimal():
        layer = int(text) if int(text) >= 0 else num_layers + 1 + int(text)
        if not 0 <= layer <= num_layers or text == "-0":
            raise UsageError(
                f"layer {text} does not exist: this model has layers 0 (embeddings) to {num_layers} (last)"
            )
        return LayerChoice((layer,), "sum")
    raise UsageError(
        f"unknown layers {text!r}{did_you_mean(text, LAYER_NAMES)}; allowed: {', '.join(LAYER_NAMES)}, "
        f"or a number from 0 to {num_layers}"
    )
