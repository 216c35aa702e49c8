"""Which weights learn, and when: frozen layers, adapters, and gradual unfreezing (ULMFiT, Howard & Ruder 2018, section 3.3).

The parts of a model from the top: the heads (and the pooler), the blocks from the last to the first, the embeddings.
Gradual unfreezing begins with the heads alone; the parts below join one by one, evenly over the first steps. Which of
them learn at a step is a function of the step's number, so that a resumed training unfreezes as it would have. A part
that has not joined has no gradient, and the optimiser passes it by: its momentum begins when it joins.

ULMFiT unfreezes one layer per epoch; with deep models and three epochs most layers would never learn, so here it is a
share of the training. Layers that share their weights (ALBERT) are one part.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from bertworks.errors import ConfigError
from bertworks.finetune import lora
from bertworks.finetune.config import MethodSection
from bertworks.models.model import Model
from bertworks.models.transformer import Transformer

BeforeStep = Callable[[int], None]


def adapt(model: Model, method: MethodSection) -> None:
    """Freeze and add adapters, as the settings say. New weights are drawn from torch's random numbers: seed them."""
    blocks = len(model.blocks)
    frozen = method.freeze_layers
    if frozen is not None and frozen > blocks:
        raise ConfigError(f"method.freeze_layers is {frozen}; the model has {blocks} layers with weights of their own")
    if method.lora_rank:
        if frozen:
            raise ConfigError("method.lora_rank freezes all layers already; leave method.freeze_layers out")
        if not isinstance(model.body, Transformer):
            raise ConfigError(f"method.lora_rank is for Transformers; the model is {model.config.describe()}")
        if method.gradual_unfreezing:
            raise ConfigError("method.lora_rank and method.gradual_unfreezing exclude each other: choose one")
        _lower(model).requires_grad_(False)
        lora.add_adapters(model.body, rank=method.lora_rank, alpha=method.lora_alpha, targets=method.lora_targets)
        return
    if frozen is not None:
        _lower(model).requires_grad_(False)
        for block in list(model.blocks)[:frozen]:
            block.requires_grad_(False)


def parts_of(model: Model) -> list[list[nn.Parameter]]:
    """The parameters that learn, from the top part to the lowest; parts in which nothing learns are left out."""
    modules = [*reversed(model.blocks), _lower(model)]
    below = {id(parameter) for module in modules for parameter in module.parameters()}
    top = [parameter for parameter in model.parameters() if id(parameter) not in below]
    parts = [top, *(list(module.parameters()) for module in modules)]
    learning = [[parameter for parameter in part if parameter.requires_grad] for part in parts]
    return [part for part in learning if part]


def unfreezing(model: Model, method: MethodSection, total_steps: int) -> BeforeStep | None:
    """What to do before each step; None where everything that learns does so from the first step on."""
    if not method.gradual_unfreezing:
        return None
    parts = parts_of(model)

    def before(step: int) -> None:
        learning = learning_parts(step, len(parts), round(method.gradual_unfreezing * total_steps))
        for number, part in enumerate(parts):
            for parameter in part:
                parameter.requires_grad_(number < learning)

    return before


def learning_parts(step: int, num_parts: int, over_steps: int) -> int:
    """How many parts, from the top, learn at step `step`: one at step 0, all from step `over_steps` on."""
    if step >= over_steps:
        return num_parts
    return 1 + step * (num_parts - 1) // over_steps


def _lower(model: Model) -> nn.Module:
    """Everything below the first block."""
    body = model.body
    buckets = body.buckets if isinstance(body, Transformer) else None
    return nn.ModuleList([body.embeddings] if buckets is None else [body.embeddings, buckets])
