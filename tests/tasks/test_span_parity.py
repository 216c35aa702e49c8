"""What is saved opens in `transformers` with the same numbers, for every family that has the head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertworks import hub
from bertworks.models.model import Model
from bertworks.tasks import for_examples
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Chosen, Task, Units
from bertworks.tasks.run import outputs_of
from bertworks.text.tokenizer import Tokenizer
from tests.hub.reference import TOLERANCE, randomise, single_thread
from tests.tasks import small

WINDOW = 60
TAGGERS = ["bert", "distilbert", "electra", "ernie", "roberta", "mpnet", "modernbert", "albert", "gpt2"]
READERS = ["bert", "distilbert", "electra", "ernie", "roberta", "mpnet", "modernbert", "albert", "gpt2"]


@pytest.fixture(autouse=True)
def _plain_numbers() -> Iterator[None]:
    with single_thread():
        yield


def saved(task: Task[Any, Any], model_type: str, directory: Path) -> tuple[Model, Tokenizer]:
    model, tokenizer = small.make_model(model_type)
    tokenizer = attach(task, model, tokenizer)
    randomise(model)
    hub.save(model, tokenizer, directory)
    return model, tokenizer


def theirs(units: Units, model: Any) -> list[Any]:
    """Their outputs for each unit by itself."""
    found = []
    for start, stop in zip(units.starts[:-1], units.starts[1:], strict=True):
        inputs = {"input_ids": torch.from_numpy(units.ids[start:stop].astype(np.int64))[None]}
        if units.segments is not None and getattr(model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = torch.from_numpy(units.segments[start:stop].astype(np.int64))[None]
        found.append(model(**inputs))
    return found


@pytest.mark.parametrize("model_type", TAGGERS)
def test_taggers(model_type: str, tmp_path: Path) -> None:
    examples = small.tagged()
    task = for_examples("tag", examples)
    model, tokenizer = saved(task, model_type, tmp_path)
    units = task.encode(examples, tokenizer, window=WINDOW, training=True)
    reference = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path).eval()
    assert tuple(reference.config.id2label[number] for number in range(len(task.labels))) == task.labels
    bounds, places, total = units.arrays["bounds"], units.arrays["places"], 0.0
    for unit, (output, their) in enumerate(zip(outputs_of(task, model, units), theirs(units, reference), strict=True)):
        at = places[bounds[unit] : bounds[unit + 1]]
        np.testing.assert_allclose(output, their.logits[0, at].numpy(), rtol=0, atol=TOLERANCE)
        targets = torch.from_numpy(units.arrays["targets"][bounds[unit] : bounds[unit + 1]])
        total += float(torch.nn.functional.cross_entropy(their.logits[0, at], targets, reduction="sum"))
    loss = task.losses(model, task.prepare(Chosen(units, np.arange(len(units))), 0.0))["tag"]
    assert float(loss.sum) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("model_type", READERS)
def test_readers_of_contexts(model_type: str, tmp_path: Path) -> None:
    examples = small.questions()
    task = for_examples("qa", examples)
    model, tokenizer = saved(task, model_type, tmp_path)
    units = task.encode(examples, tokenizer, window=WINDOW, training=False)
    reference = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    arrays = units.arrays
    for unit, (output, their) in enumerate(zip(outputs_of(task, model, units), theirs(units, reference), strict=True)):
        first, stop = arrays["context"][unit].tolist()
        read = sorted([int(arrays["null"][unit]), *range(first, stop)])
        np.testing.assert_allclose(output[:, 0], their.start_logits[0, read].numpy(), rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(output[:, 1], their.end_logits[0, read].numpy(), rtol=0, atol=TOLERANCE)


def test_the_saved_tokenizer_makes_the_same_ids(tmp_path: Path) -> None:
    examples = small.tagged()
    task = for_examples("tag", examples)
    _, tokenizer = saved(task, "bert", tmp_path)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    units = task.encode(examples, tokenizer, window=WINDOW, training=False)
    for number, example in enumerate(examples):
        ids = reference(list(example.words), is_split_into_words=True)["input_ids"]
        assert units.ids[units.starts[number] : units.starts[number + 1]].tolist() == ids
