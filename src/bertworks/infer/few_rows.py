"""Linear layers that are quick for a few rows too: one sentence at a time.

With two thousand rows a matrix product is arithmetic, and PyTorch's own is the quickest. With twenty it is mostly reading
the weights, and oneDNN's is quicker, which reads them in the order in which they lie (a fifth less time for 8 to 21 rows on
AVX2, in one thread). The copy of the weights in that order is made when the first small batch comes, so whoever
embeds files never pays for it.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW_ROWS = 48
"""With 21 rows the packed weights win, with 64 it is a draw: measured with the sizes of MiniLM."""


class FewRowsLinear(nn.Linear):
    """`nn.Linear` with a second way for few rows; the parameters are those of the layer that it is made of."""

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)  # no weights of its own
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._packed: tuple[Tensor, tuple[int, int]] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(T, K) -> (T, O)"""
        weight = self.weight
        few = x.dim() == 2 and 0 < x.shape[0] <= FEW_ROWS and x.dtype == weight.dtype == torch.float32
        if not few or torch.is_grad_enabled() or not x.is_cpu:
            return F.linear(x, weight, self.bias)
        state = (weight.data_ptr(), weight._version)  # a weight that was changed is packed again
        if self._packed is None or self._packed[1] != state:
            self._packed = (torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None), state)
        return torch.ops.mkldnn._linear_pointwise(x, self._packed[0], self.bias, "none", [], "")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}  # packed weights cannot be copied or pickled, and need not be


def quicken_few_rows(body: nn.Module) -> None:
    """Give every linear layer of a stack its second way, in place, where this build of PyTorch has oneDNN."""
    if not torch.backends.mkldnn.is_available():
        return
    for part in list(body.modules()):
        for name, child in part.named_children():
            if type(child) is nn.Linear:
                setattr(part, name, FewRowsLinear(child))
