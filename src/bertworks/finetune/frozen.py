"""`--frozen`: the model stays as it is, and scikit-learn trains a linear head on its vectors.

    examples -> vectors, computed once -> cross-validation over strengths -> linear head -> an ordinary model with a head

What feature-based transfer is in its simplest form: logistic regression on the vectors of texts (classify, pair) or
words (tag), ridge regression or Poisson regression on those of texts (regress), a logistic regression on differences of
options (choice; of two, this is McFadden's conditional logit). It takes a minute where fine-tuning takes an hour, and is
often the better choice for a few hundred examples.

In the end there is nothing but a matrix and a bias (`frozen_heads`): the model is saved, opened and asked like a
fine-tuned one. A head on the mean of a text's tokens (the default, and mostly the best) has no place in the directories of
most families: such a model is written in our own format. The head over words has one, and so has `reads = "family"`, which
reads what the family's own classifier reads.

Left out: heads for answers and similarities, which need more than a linear layer on frozen vectors.

Legend: N examples, R rows (texts, options or words), H hidden, C outputs.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertworks.errors import CheckpointError, ModelError, UsageError
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.events import Begun, FitEvent, Fitted, Note, Stopped
from bertworks.finetune.fit import TrainingData
from bertworks.finetune.frozen_heads import Linear, fit_head, num_rows, rows_of
from bertworks.hub.checkpoint import OWN
from bertworks.hub.families import FAMILIES
from bertworks.models.batches import default_batch_tokens, over_batches
from bertworks.models.config import HeadConfig, Reads
from bertworks.models.model import Model
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Chosen, Task, Units
from bertworks.tasks.regression import Regression
from bertworks.tasks.run import evaluate_model
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.parallel import Parallel

TASKS = ("classify", "pair", "regress", "choice", "tag")
TELL_SECONDS = 10.0
PAIRS = (
    "the vector of a pair, read as one text, says little about how its two texts compare unless the model was trained on "
    "pairs: look at the baseline, and fine-tune without --frozen where it is not beaten"
)
OWN_FORMAT = (
    "the model is saved in our own format, which transformers does not open, since its family has no such head; "
    "frozen.reads=family makes one that it opens, where the family's own head can be trained so"
)

Floats = NDArray[np.float32]


def check_frozen(task: str, *, crf: bool = False) -> None:
    """An error for a task that has no such head."""
    if task not in TASKS:
        raise UsageError(f"--frozen is for {', '.join(TASKS)}; {task!r} needs the whole model: leave --frozen out")
    if crf:
        raise UsageError("--frozen trains a linear head, which a CRF is not: leave --crf or --frozen out")


def fit_frozen(
    task: Task[Any, Any],
    data: TrainingData,
    model: Model,
    tokenizer: Tokenizer,
    config: FinetuneConfig,
    *,
    seed: int = 0,
    parallel: Parallel | None = None,
    stop: threading.Event | None = None,
    **unused: Any,
) -> Iterator[FitEvent]:
    """Like `fit`, with a head by scikit-learn on a copy of `model` that is otherwise left alone.

    Of `parallel` only the device is used; what else `fit` takes means nothing here.
    """
    check_frozen(task.name)
    started = time.monotonic()
    torch.manual_seed(seed)
    model = copy.deepcopy(model).requires_grad_(False)
    if isinstance(task, Regression):
        task = replace(task, center=0.0, scale=1.0)  # the head gives the number itself
    family = model.config.family
    tokenizer = attach_plain(task, model, tokenizer, config.frozen.reads)
    own_format = model.config.family == OWN != family
    model.to(parallel.device if parallel is not None else "cpu")
    units, dev_units = data.encoded(task, tokenizer)
    parameters, own = _count(model), _count(model.heads)
    yield Begun(
        seed=seed,
        steps=1,
        first_step=0,
        num_examples=len(data.train),
        num_units=len(units),
        num_tokens=int(units.num_tokens.sum()),
        evaluation_steps=0,
        parameters=parameters,
        trained_parameters=own,
    )
    if own_format:
        yield Note(OWN_FORMAT)
    if 1 < len(data.train) < config.frozen.folds:
        yield Note(f"{len(data.train)} examples make {len(data.train)} folds, not {config.frozen.folds}")
    if getattr(data.train[0], "pair", None) is not None:
        yield Note(PAIRS)
    vectors = yield from compute_vectors(task, model, units, stop)
    if vectors is None:
        yield Stopped(step=0, total_steps=1, directory=None)
        return
    found = fit_head(task, data.train, units, vectors, _bias(model), folds=config.frozen.folds, seed=seed)
    _put(model, found.head)
    evaluated = None if dev_units is None else evaluate_model(task, model.eval(), data.dev, units=dev_units)
    yield Fitted(
        seed=seed,
        task=task,
        model=model.eval().requires_grad_(True),
        tokenizer=tokenizer,
        evaluated=evaluated,
        steps=0,
        best_step=None,
        seconds=time.monotonic() - started,
        parameters=parameters,
        trained_parameters=own,
        frozen=found.as_json() | {"reads": next(iter(model.config.heads)).reads},
    )


# -- the model ---------------------------------------------------------------------------------------------------------


def attach_plain(task: Task[Any, Any], model: Model, tokenizer: Tokenizer, reads: str) -> Tokenizer:
    """Give `model` a head that is one linear layer; in our own format where the family has none such."""
    had_pooler = model.pooler is not None
    tokenizer = attach(task, model, tokenizer)
    (own,) = model.config.heads
    if reads == "family" or (own.reads == "tokens" and own.transform_size is None):
        if own.transform_size is not None or (own.reads == "pooled" and not had_pooler):
            raise ModelError(
                f"the {own.task} head of the family {model.config.family!r} has a layer in between, which nobody has "
                "trained for this model; use frozen.reads=mean"
            )
        return tokenizer
    kind = "tokens" if own.reads == "tokens" else cast(Reads, reads)
    model.set_heads([HeadConfig(task=own.task, reads=kind, num_labels=own.num_labels)], task.labels)
    model.pooler, model.config = None, replace(model.config, pooler_act=None)
    if model.config.family != OWN:
        try:
            FAMILIES[model.config.family].write_config(model.config)
        except CheckpointError:
            model.config = replace(model.config, family=OWN)
    return tokenizer


def compute_vectors(
    task: Task[Any, Any], model: Model, units: Units, stop: threading.Event | None = None
) -> Generator[Note, None, Floats | None]:
    """What the head's linear layer reads, (R, H) in the order of the units; None where it was stopped.

    Tells now and then how far it is.
    """
    (config,) = model.config.heads
    head = model.head(config.task)
    trained, head.output = head.output, cast(Any, nn.Identity())
    rows = num_rows(units)
    vectors = np.empty((rows, model.hidden_size), np.float32)
    device = model.body.embeddings.tokens.weight.device
    model.eval()

    def compute(numbers: NDArray[np.int64]) -> None:
        chosen = Chosen(units, numbers)
        batch = task.prepare(chosen, 1.0).to(device)
        wanted = batch.rows if config.reads == "tokens" else None
        found = model.logits(batch.packed, config.task, rows=wanted).float().cpu().numpy()  # (rows of the batch, H)
        if "unit" in batch.tensors:  # the options of a choice are sorted by length
            unit, option = batch.tensors["unit"].cpu().numpy(), batch.tensors["option"].cpu().numpy()
            vectors[units.first[numbers[unit]] + option] = found
        else:
            vectors[rows_of(units, numbers)] = found

    told = time.monotonic()
    try:
        for done in over_batches(compute, units.num_tokens, budget=default_batch_tokens(device), device=device):
            if stop is not None and stop.is_set():
                return None
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                yield Note(f"vectors: {done / len(units):.0%}")
    finally:
        head.output = trained
    return vectors


def _bias(model: Model) -> bool:
    (config,) = model.config.heads
    return config.bias


def _put(model: Model, head: Linear) -> None:
    (config,) = model.config.heads
    output = model.head(config.task).output
    assert output is not None
    output.weight.data = torch.from_numpy(head.weight.astype(np.float32)).to(output.weight)
    if output.bias is not None:
        output.bias.data = torch.from_numpy(head.bias.astype(np.float32)).to(output.bias)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
