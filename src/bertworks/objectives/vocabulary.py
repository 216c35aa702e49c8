"""Losses over a whole vocabulary, without ever holding all logits at once.

With a vocabulary of 30,522, the logits of 1,200 masked tokens are 146 MB, and the usual way keeps two or three tensors of
that size (logits, their log-softmax, its gradient), each written to and read from slow memory. Here the rows go through in
chunks. A chunk's gradient is known as soon as its logits are (for cross entropy: softmax minus one-hot):

    for each chunk:  logits = x Wᵀ + b      loss += log Σ exp(logits) − logits[target]      e = softmax(logits) − onehot
                     dx = e W               dW += eᵀ x                                      db += Σ e

so the gradients of features, matrix and bias are made in the *forward* pass, in the logits' own memory, and the backward
pass only multiplies them by the number that comes in. That works because the loss is a sum that is scaled afterwards and
nothing else. The number of matrix products is the same as in the usual way.

What the loss is, a *rule* says: from a chunk's logits it makes their loss and its gradient. `_Targets` are tokens, `_Sampled`
are tokens among a part of the vocabulary, `_Softened` is another model's distribution.

With label smoothing ε (Szegedy et al. 2016) the target is 1 − ε of the one-hot and ε spread evenly over the vocabulary, and so
the loss is  log Σ exp(logits) − (1 − ε) logits[target] − ε mean(logits)  and its gradient less by ε / V everywhere.

Left out: ignored targets (rows without a target are never computed at all), second derivatives.

Legend: R rows, C rows of a chunk, E features, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertworks.models.heads import Head
from bertworks.models.model import Model
from bertworks.nn import narrow
from bertworks.objectives.base import Loss

CHUNK_BYTES = 2**25
"""How much memory the logits of a chunk have: 8.4 million of fp32."""
BLOCK = 2048
"""Columns of the logits that a CPU computes at once; measured 1.3 times as fast as all of 30,522."""


@dataclass(frozen=True)
class Output:
    """A vocabulary head, cut before its last matrix."""

    features: Tensor  # (R, E)
    weight: Tensor  # (V, E)
    bias: Tensor | None  # (V,)

    def cast(self) -> Output:
        """As autocast would have it for a linear layer, where that is on."""
        device = self.features.device.type
        if not torch.is_autocast_enabled(device):
            return self
        dtype = torch.get_autocast_dtype(device)
        return Output(
            self.features.to(dtype), self.weight.to(dtype), None if self.bias is None else self.bias.to(dtype)
        )

    def logits(self, rows: slice, memory: Tensor | None = None) -> Tensor:
        """Logits (C, V) at some rows, written to `memory` (at least C, V). Without a gradient.

        On a CPU in blocks of the vocabulary: a product with so many columns at once is slower.
        """
        x, vocab_size = self.features[rows], len(self.weight)
        found = x.new_empty(len(x), vocab_size) if memory is None else memory[: len(x)]
        block = BLOCK if x.device.type == "cpu" else vocab_size
        for start in range(0, vocab_size, block):
            part = slice(start, start + block)
            if self.bias is None:
                torch.mm(x, self.weight[part].t(), out=found[:, part])
            else:
                torch.addmm(self.bias[part], x, self.weight[part].t(), out=found[:, part])
        return found


def output_of(model: Model, task: str, hidden: Tensor) -> Output:
    """What the head `task` (masked LM or LM) makes of hidden states (R, H), all but its last matrix product."""
    head: Head = model.head(task)
    features = head.dropout(hidden if head.transform is None else head.transform(hidden))
    if head.output is not None:
        return Output(features, head.output.weight, head.output.bias)
    return Output(features, model.body.embeddings.tokens.weight, head.output_bias)


# -- the losses --------------------------------------------------------------------------------------------------------


def vocabulary_loss(output: Output, targets: Tensor, *, label_smoothing: float = 0.0) -> Loss:
    """Cross entropy against target tokens (R,)."""
    return vocabulary_loss_and_samples(output, targets, None, label_smoothing=label_smoothing)[0]


def vocabulary_loss_and_samples(
    output: Output, targets: Tensor, uniform: Tensor | None, *, label_smoothing: float = 0.0
) -> tuple[Loss, Tensor]:
    """The same, and for each row a token drawn from what is predicted there.

    uniform: (R,) fp32 in [0, 1), which decides the draws: the first token at which the cumulative probability exceeds it;
             None draws nothing
    """
    output = output.cast()
    rule = _Targets(targets, uniform, ties=output.features.dtype != torch.float32, smoothing=label_smoothing)
    total = _chunked(output, rule)
    return Loss(sum=total, count=len(targets), correct=rule.correct), rule.sampled


def sampled_vocabulary_loss(output: Output, targets: Tensor, offsets: Tensor) -> Loss:
    """Cross entropy against targets (R,), with the softmax over a part of the vocabulary, which `output` holds alone.

    offsets: (V,) what is added to each logit, except to that of a row's own target: 0, minus the logarithm of the
             probability with which a token came into the sample, or -inf for a token that is there for its own rows only
    """
    output = output.cast()
    rule = _Sampled(targets, offsets, ties=output.features.dtype != torch.float32)
    return Loss(sum=_chunked(output, rule), count=len(targets))


def soft_vocabulary_loss(output: Output, teacher: Output, temperature: float) -> Loss:
    """T² · KL(teacher ‖ ours), both distributions softened by the temperature T."""
    with torch.no_grad():
        rule = _Softened(teacher.cast(), temperature)
    return Loss(sum=_chunked(output.cast(), rule), count=len(output.features))


class _Targets:
    """Cross entropy against tokens; counts the right answers, and draws samples."""

    def __init__(self, targets: Tensor, uniform: Tensor | None, *, ties: bool, smoothing: float) -> None:
        self.targets = targets
        self.smoothing = smoothing
        self.uniform = uniform
        self.ties = ties
        self.correct = targets.new_zeros(())
        self.sampled = torch.empty_like(targets)

    def stays_narrow(self, x: Tensor) -> bool:
        return self.uniform is None and not self.smoothing and narrow.suits(x)

    def __call__(self, logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        if self.stays_narrow(logits):
            losses, correct = narrow.softmax_error(logits, self.targets[part])  # (C,) each; logits are the error now
            self.correct += correct.sum()
            return losses.sum(), logits
        logits = logits.float()
        target = self.targets[part, None]  # (C, 1)
        highest = logits.amax(dim=-1, keepdim=True)  # (C, 1)
        wanted = logits.gather(1, target)  # (C, 1)
        if self.ties:  # narrow numbers are often equal, and then the first one is the answer
            self.correct += (logits.argmax(dim=-1, keepdim=True) == target).sum()
        else:  # quicker
            self.correct += (wanted >= highest).sum()
        if self.smoothing:
            wanted = torch.lerp(wanted, logits.mean(dim=-1, keepdim=True), self.smoothing)  # (C, 1)
        exponentials = logits.sub_(highest).exp_()  # (C, V)
        total = exponentials.sum(dim=-1, keepdim=True)  # (C, 1)
        if self.uniform is not None:
            self.sampled[part] = _draw(exponentials, self.uniform[part])
        loss = (total.log() + highest - wanted).sum()
        error = exponentials.div_(total).scatter_add_(1, target, torch.full_like(total, self.smoothing - 1.0))  # (C, V)
        return loss, error.sub_(self.smoothing / error.shape[1]) if self.smoothing else error


class _Sampled(_Targets):
    """The same over a sample, whose sum of exponentials is on average that of the whole vocabulary."""

    def __init__(self, targets: Tensor, offsets: Tensor, *, ties: bool) -> None:
        super().__init__(targets, None, ties=ties, smoothing=0.0)
        self.offsets = offsets

    def stays_narrow(self, x: Tensor) -> bool:
        return False

    def __call__(self, logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        logits = logits.float()
        target = self.targets[part, None]  # (C, 1)
        wanted = logits.gather(1, target)
        return super().__call__(logits.add_(self.offsets).scatter_(1, target, wanted), part)


class _Softened:
    """Divergence from another model's distribution at a temperature."""

    def __init__(self, teacher: Output, temperature: float) -> None:
        self.teacher = teacher
        self.temperature = temperature

    def stays_narrow(self, x: Tensor) -> bool:
        return False

    def __call__(self, logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        wanted = self.teacher.logits(part).float().div_(self.temperature).log_softmax(dim=-1)  # (C, V)
        ours = logits.float().div_(self.temperature).log_softmax(dim=-1)  # (C, V)
        probabilities = wanted.exp()
        loss = (probabilities * wanted.sub_(ours)).sum() * self.temperature**2
        error = ours.exp_().sub_(probabilities).mul_(self.temperature)  # (C, V)
        return loss, error


def _draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Inverse cumulative distribution: unnormalised weights (C, V) and numbers (C,) in [0, 1) to tokens (C,)."""
    cumulative = weights.cumsum(dim=-1)
    threshold = uniform[:, None].to(cumulative.dtype) * cumulative[:, -1:]
    found = torch.searchsorted(cumulative, threshold, right=True).squeeze(1)
    return found.clamp_(max=weights.shape[1] - 1)  # rounding may bring the threshold up to the very end


# -- the chunks --------------------------------------------------------------------------------------------------------


class Rule(Protocol):
    """What the loss is."""

    def stays_narrow(self, x: Tensor) -> bool:
        """Whether logits of the kind of `x` are worked on as they are; else they are widened to fp32."""
        ...

    def __call__(self, logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        """Logits (C, V), which it may overwrite, and which rows they are -> their loss, summed in fp32, and its gradient."""
        ...


def _chunked(output: Output, rule: Rule) -> Tensor:
    with torch.autocast(output.features.device.type, enabled=False):
        return _Chunked.apply(output.features, output.weight, output.bias, rule, torch.is_grad_enabled())


class _Chunked(torch.autograd.Function):
    """See the module's text. Returns the sum of the rule's losses in fp32."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, rule: Rule, with_gradient: bool
    ) -> Tensor:
        output = Output(features, weight, bias)
        bytes_each = 2 if rule.stays_narrow(features) else 4
        size = max(1, CHUNK_BYTES // (len(weight) * bytes_each))
        memory = features.new_empty(min(size, len(features)), len(weight))
        loss = features.new_zeros((), dtype=torch.float32)
        gradients = _Gradients(output) if with_gradient else None
        for start in range(0, len(features), size):
            part = slice(start, start + size)
            chunk_loss, error = rule(output.logits(part, memory), part)
            loss += chunk_loss
            if gradients is not None:
                gradients.add(output, error, part)
        if gradients is not None:
            ctx.save_for_backward(gradients.of_features, gradients.of_weight, gradients.of_bias)
            ctx.dtypes = (features.dtype, weight.dtype, None if bias is None else bias.dtype)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [
            None if gradient is None else gradient.mul_(incoming).to(dtype)
            for gradient, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return (*scaled, None, None)


class _Gradients:
    """Of features (R, E), matrix (V, E) and bias (V,). A sum over several chunks is in fp32."""

    def __init__(self, output: Output) -> None:
        self.of_features = torch.empty_like(output.features)
        self.of_weight = torch.zeros_like(output.weight)
        self.of_bias = None if output.bias is None else torch.zeros_like(output.bias, dtype=torch.float32)
        self.empty = True

    def add(self, output: Output, error: Tensor, part: slice) -> None:
        """One chunk's share, from the gradient of its logits (C, V)."""
        x = output.features[part]
        if self.of_bias is not None:
            self.of_bias += error.sum(dim=0)
        error = error.to(x.dtype)
        torch.mm(error, output.weight, out=self.of_features[part])
        first, self.empty = self.empty, False
        if first:
            torch.mm(error.t(), x, out=self.of_weight)
        elif x.dtype == torch.float32:
            self.of_weight.addmm_(error.t(), x)
        else:
            self.of_weight = self.of_weight.float().add_(error.t() @ x)
