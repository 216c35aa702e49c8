"""Settings that suit the data and the model where nobody says otherwise.

BERT's own (Devlin et al. 2018, appendix A.3: batches of 32, two to four epochs, 2e-5 to 5e-5 with warm-up and linear
decay), and what has been learnt since: small data needs more epochs, not fewer (Mosbach et al. 2020), small models bear
a higher learning rate, and adapters need one that is ten times as high (Hu et al. 2021).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertworks.finetune.config import FinetuneConfig, MethodSection, TrainSection
from bertworks.models.model import Model
from bertworks.tasks.base import Task, TaskName

DEV_FRACTION = 0.1
"""Kept for evaluation where nobody says how much."""
QA_WINDOW = 384
"""Questions are asked of windows; longer ones cost more than they give (BERT's own for SQuAD)."""
MANY_STEPS = 1000
"""An evaluation comes at least about every so many steps."""
EVALUATION_SHARE = 0.5
"""Evaluations take at most about this share of the time that the steps take."""


def suited(task: Task[Any, Any], num_examples: int, model: Model, base: FinetuneConfig | None = None) -> FinetuneConfig:
    """`base` (or all defaults) with the settings of [train] that suit the task, the data and the model."""
    base = base or FinetuneConfig()
    usual = TrainSection()
    batch_size = 64 if task.name == "similarity" else 16 if num_examples < 1000 else usual.batch_size
    return replace(
        base,
        train=replace(
            base.train,
            epochs=epochs_for(task.name, num_examples),
            batch_size=batch_size,
            optimizer=replace(usual.optimizer, learning_rate=learning_rate_for(model, base.method)),
            evaluation=replace(usual.evaluation, metric=task.metric),
        ),
    )


def epochs_for(task: TaskName, num_examples: int) -> float:
    """More for few examples."""
    if num_examples < 1000:
        return 10.0
    if task == "qa":
        return 2.0
    if task == "similarity" and num_examples > 20_000:
        return 1.0
    return 3.0 if num_examples < 200_000 else 2.0


def learning_rate_for(model: Model, method: MethodSection) -> float:
    """5e-5 for small models, 2e-5 from BERT's base size on; ten times that for adapters and for a head alone."""
    size = sum(parameter.numel() for parameter in model.body.parameters())
    rate = 5e-5 if size < 40e6 else 3e-5 if size < 80e6 else 2e-5
    layers = len(model.body.blocks)
    head_alone = method.freeze_layers is not None and method.freeze_layers >= layers
    return rate * 10 if method.lora_rank or head_alone else rate


def window_for(task: TaskName, model: Model, window: int, max_length: int | None) -> int:
    """The longest sequence: what was asked for or what the model was made for, and never more than it has places."""
    positions = model.num_positions
    if max_length is not None:
        return min(max_length, positions)
    return min(QA_WINDOW, positions) if task == "qa" else min(window, positions)


def evaluation_every(steps_per_epoch: int, total_steps: int, *, train_tokens: int, dev_tokens: int) -> int:
    """Evaluate every so many steps: at the end of each epoch, more often in long ones, less often where it costs much.

    A forward pass costs a third of a step; `train_tokens` are an epoch's.
    """
    times = max(1, round(steps_per_epoch / MANY_STEPS))  # in an epoch
    every = -(-steps_per_epoch // times)
    trained = train_tokens * total_steps / max(steps_per_epoch, 1)
    affordable = int(EVALUATION_SHARE * 3 * trained / max(dev_tokens, 1))
    wanted = max(1, total_steps // every)
    if affordable < wanted:
        every = -(-total_steps // max(1, affordable))
    return min(every, total_steps)
