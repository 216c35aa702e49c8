"""Settings that suit the data and the model where nobody says otherwise.

BERT's own (Devlin et al. 2018, appendix A.3: batches of 32, two to four epochs, 2e-5 to 5e-5 with warm-up and linear
decay), and what has been learnt since: small data needs more epochs, not fewer (Mosbach et al. 2020), small models bear
a higher learning rate, and adapters need one that is ten times as high (Hu et al. 2021).

A recurrent language model is fine-tuned as ULMFiT does it (Howard & Ruder 2018): layers join from the top one by one, lower
ones learn slower by 2.6 each, in a learning rate that rises over a tenth of the steps and falls to 1/32.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertworks.finetune.config import FinetuneConfig, MethodSection, TrainSection
from bertworks.models.config import RecurrentConfig
from bertworks.models.model import Model
from bertworks.models.word_config import WordStackConfig
from bertworks.tasks.base import Task, TaskName

DEV_FRACTION = 0.1
"""Kept for evaluation where nobody says how much."""
QA_WINDOW = 384
"""Questions are asked of windows; longer ones cost more than they give (BERT's own for SQuAD)."""
MANY_STEPS = 1000
"""An evaluation comes at least about every so many steps."""
FEW_FOR_LARGE, FEW_FOR_SMALL = 200, 1000
"""Fewer examples than these are few, for a large model and for a small one."""
FAR_TO_GO: tuple[TaskName, ...] = ("tag", "qa", "regress")
"""Tasks that move a small model further than a label of the whole text does."""
ULMFIT_DECAY = 0.385
"""1 / 2.6: how much slower a layer learns than the one above it."""
ULMFIT_UNFREEZING = 0.2
"""The share of the training over which the layers join."""
EVALUATION_SHARE = 0.5
"""Evaluations take at most about this share of the time that the steps take."""


def suited(
    task: Task[Any, Any],
    num_examples: int,
    model: Model,
    base: FinetuneConfig | None = None,
    *,
    fresh: bool = False,
) -> FinetuneConfig:
    """`base` (or all defaults) with the settings of [train] that suit the task, the data and the model, which may be a fresh
    one; those of [method], too, for a recurrent language model."""
    base = base or FinetuneConfig()
    if isinstance(model.config.body, RecurrentConfig):
        return _recurrent(task, num_examples, base, fresh=fresh)
    usual = TrainSection()
    if isinstance(model.config.body, WordStackConfig):
        return _over_words(task, num_examples, base)
    rate = learning_rate_for(model, base.method, task.name, num_examples)
    batch_size = 64 if task.name == "similarity" else 16 if num_examples < 1000 else usual.batch_size
    return replace(
        base,
        train=replace(
            base.train,
            epochs=epochs_for(task.name, num_examples),
            batch_size=batch_size,
            optimizer=replace(usual.optimizer, learning_rate=rate),
            evaluation=replace(usual.evaluation, metric=task.metric),
        ),
    )


def _over_words(task: Task[Any, Any], num_examples: int, base: FinetuneConfig) -> FinetuneConfig:
    """A new model learns faster than a pretrained one is changed, and needs more epochs for it."""
    usual = TrainSection()
    return replace(
        base,
        train=replace(
            base.train,
            epochs=30.0 if num_examples < 1000 else 10.0 if num_examples < 20_000 else 5.0,
            batch_size=_word_batch_size(num_examples),
            optimizer=replace(usual.optimizer, learning_rate=2e-3),
            evaluation=replace(usual.evaluation, metric=task.metric),
        ),
    )


def _word_batch_size(num_examples: int) -> int:
    """Few examples in large batches make too few steps for a model that knows nothing yet."""
    return 4 if num_examples < 500 else 8 if num_examples < 2000 else 16 if num_examples < 20_000 else 32


def _recurrent(task: Task[Any, Any], num_examples: int, base: FinetuneConfig, *, fresh: bool) -> FinetuneConfig:
    usual = TrainSection()
    train = replace(
        base.train,
        epochs=20.0 if num_examples < 1000 else 10.0 if num_examples < 20_000 else 5.0,
        batch_size=16 if num_examples < 1000 else usual.batch_size,
        evaluation=replace(usual.evaluation, metric=task.metric),
    )
    if fresh:
        return replace(base, train=replace(train, optimizer=replace(usual.optimizer, learning_rate=2e-3)))
    optimizer = replace(usual.optimizer, learning_rate=1e-2, betas=(0.7, 0.99), layer_decay=ULMFIT_DECAY)
    return replace(
        base,
        method=replace(base.method, gradual_unfreezing=ULMFIT_UNFREEZING),
        train=replace(train, optimizer=optimizer, schedule=replace(usual.schedule, final=1 / 32)),
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


def learning_rate_for(model: Model, method: MethodSection, task: TaskName, num_examples: int) -> float:
    """1e-4 for small models (5e-5 for `similarity`, which has no new head), 2e-5 from BERT's base size on; 5e-4 to 2e-4 for
    adapters and for a head alone.

    Few examples make few steps, in which a new head and the model under it have as far to go: twice that. So do small models
    where tokens are judged, or a number is: MiniLM after three epochs on 2,000 sentences of CoNLL-2003 has an F1 of 63, 78,
    85 and 84 with 5e-5, 1e-4, 2e-4 and 4e-4; with the first three SST-2 has 86.6, 87.1 and 85.8 %, STS-B 0.800, 0.808 and
    0.815, and SQuAD (two epochs on 1,000 questions) an F1 of 13, 21 and 36.
    """
    size = sum(parameter.numel() for parameter in model.body.parameters())
    small = size < 40e6
    new_head = task != "similarity"
    rate = (1e-4 if new_head else 5e-5) if small else 3e-5 if size < 80e6 else 2e-5
    layers = len(model.blocks)
    head_alone = method.freeze_layers is not None and method.freeze_layers >= layers
    if method.lora_rank or head_alone:
        return min(rate, 5e-5) * 10
    few = num_examples < (FEW_FOR_SMALL if small else FEW_FOR_LARGE)
    return rate * 2 if new_head and (few or (small and task in FAR_TO_GO)) else rate


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
