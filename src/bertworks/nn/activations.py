"""Activation functions by their Hugging Face names, so that a `config.json` can be read as it stands.

gelu      z Φ(z), with the error function (Hendrycks & Gimpel 2016)
gelu_new  the same with the tanh approximation, as GPT and ALBERT were trained
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Callable[[Tensor], Tensor]


def _identity(x: Tensor) -> Tensor:
    return x


_gelu_tanh: Activation = partial(F.gelu, approximate="tanh")

ACTIVATIONS: dict[str, Activation] = {
    "elu": F.elu,
    "gelu": F.gelu,
    "gelu_fast": _gelu_tanh,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "linear": _identity,
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


def apply_in_place(activation: Activation, x: Tensor) -> Tensor:
    """The activation of x, written over x where no gradient is recorded and the kernel can; x must be the caller's own.

    On a CPU the memory traffic of a second large tensor costs more than the arithmetic: this is 5 % of an encoder's time.
    """
    if torch.is_grad_enabled():
        return activation(x)
    if activation is F.gelu or activation is _gelu_tanh:
        return activation(x, out=x)  # type: ignore[call-arg]
    if activation is F.relu:
        return F.relu_(x)
    return activation(x)
