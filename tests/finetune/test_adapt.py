"""Which weights learn, and when: seen in what a training changes, and by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bertworks.config import override
from bertworks.errors import ConfigError
from bertworks.finetune import lora
from bertworks.finetune.adapt import adapt, learning_parts, parts_of, unfreezing
from bertworks.finetune.config import FinetuneConfig, MethodSection
from bertworks.finetune.events import Fitted
from bertworks.finetune.fit import TrainingData, fit
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.tasks.attach import attach
from bertworks.tasks.classification import Classification
from bertworks.train.optim import trained_parameters
from tests.finetune.small import QUICK, examples, make_model

TASK = Classification(labels=("quick", "still"))


def attached(family: str = "bert") -> Model:
    torch.manual_seed(0)
    model, tokenizer = make_model(family, layers=5)
    attach(TASK, model, tokenizer)
    return model


def changed_by(*settings: str, family: str = "bert") -> set[str]:
    """The parameters that differ from the pretrained model's after a short training, the head's left out."""
    model, tokenizer = make_model(family, layers=5)
    config = override(FinetuneConfig(), [*QUICK, "train.epochs=1", *settings])
    *_, event = fit(TASK, TrainingData(examples(16), window=32), model, tokenizer, config)
    assert isinstance(event, Fitted)
    before = dict(model.named_parameters())
    after = dict(event.model.named_parameters())
    return {name for name in before.keys() & after.keys() if not torch.equal(before[name], after[name])}


def test_all_learn_as_a_rule() -> None:
    changed = changed_by()
    model, _ = make_model(layers=5)
    still = {name for name, _ in model.body.named_parameters(prefix="body")} - changed
    assert still == set()


def test_frozen_layers() -> None:
    changed = changed_by("method.freeze_layers=2")
    blocks = {name.split(".")[2] for name in changed if name.startswith("body.blocks.")}
    assert blocks == {"2", "3", "4"}
    assert not [name for name in changed if "embeddings" in name]
    assert not [name for name in changed_by("method.freeze_layers=0") if "embeddings" in name]
    assert not [name for name in changed_by("method.freeze_layers=5") if name.startswith("body.blocks.")]


def test_learning_parts_by_hand() -> None:
    # Five parts over eight steps: one more every two steps, all from step 8 on.
    assert [learning_parts(step, 5, 8) for step in range(10)] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [learning_parts(step, 3, 0) for step in range(2)] == [3, 3]
    assert learning_parts(1, 7, 2) == 4


@pytest.mark.parametrize("family", ["bert", "albert", "mpnet", "gpt2", "modernbert"])
def test_parts_are_everything_from_the_top(family: str) -> None:
    model = attached(family)
    parts = parts_of(model)
    assert len(parts) == len(model.body.blocks) + 2
    together = [id(parameter) for part in parts for parameter in part]
    assert sorted(together) == sorted({id(parameter) for parameter in model.parameters()})
    assert any(parameter is model.heads["classify"].output.weight for parameter in parts[0])  # type: ignore[union-attr]
    assert any(parameter is model.body.embeddings.tokens.weight for parameter in parts[-1])


def test_unfreezing() -> None:
    model = attached()
    before = unfreezing(model, MethodSection(gradual_unfreezing=0.5), total_steps=24)  # seven parts over twelve steps
    assert before is not None
    learning = []
    for step in range(14):
        before(step)
        learning.append(sum(block.feed_forward.up.weight.requires_grad for block in model.body.blocks))
    assert learning == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5]
    assert model.body.embeddings.tokens.weight.requires_grad
    assert unfreezing(model, MethodSection(), 24) is None


def test_unfreezing_leaves_lower_layers_until_they_join() -> None:
    """Two steps, and the lower half joins after the end: only the upper layers have moved."""
    changed = changed_by("method.gradual_unfreezing=1.0")
    assert not [name for name in changed if "embeddings" in name]
    assert "body.blocks.4.attention.qkv.weight" in changed
    assert "body.blocks.0.attention.qkv.weight" not in changed


# -- adapters ----------------------------------------------------------------------------------------------------------


def logits(model: Model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval().logits(Packed.from_sequences([[2, 9, 17, 3], [2, 30, 3]]), "classify")


@pytest.mark.parametrize(("targets", "count"), [("attention", 10), ("all", 20)])
def test_adapters_begin_with_nothing_and_merge_into_the_model(targets: Any, count: int) -> None:
    model = attached()
    names = set(dict(model.named_parameters()))
    whole = logits(model)
    assert lora.add_adapters(model.body, rank=3, alpha=6.0, targets=targets) == count
    assert torch.equal(logits(model), whole)
    learning = trained_parameters(model)
    assert all(".down" in name or ".up" in name for name in learning if "blocks" in name)
    with torch.no_grad():
        for name, parameter in learning.items():
            if name.endswith(".up"):
                parameter.normal_(std=0.1)
    moved = logits(model)
    assert not torch.allclose(moved, whole, atol=1e-3)
    lora.merge(model)
    assert torch.equal(logits(model), moved)
    assert set(dict(model.named_parameters())) == names
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_one_adapter_by_hand() -> None:
    """rank 1, alpha 2: W + 2 b a."""
    adapter = lora.LowRank(torch.zeros(2, 3), rank=1, alpha=2.0)
    with torch.no_grad():
        adapter.up.copy_(torch.tensor([[1.0], [-1.0]]))
        adapter.down.copy_(torch.tensor([[1.0, 2.0, 3.0]]))
    given = torch.ones(2, 3)
    assert adapter(given).tolist() == [[3.0, 5.0, 7.0], [-1.0, -3.0, -5.0]]


def test_adapters_train_matrices_and_nothing_else() -> None:
    changed = {name for name in changed_by("method.lora_rank=2") if name.startswith("body.")}
    assert {name.split(".", 3)[3] for name in changed} == {"attention.qkv.weight", "attention.out.weight"}
    assert len(changed) == 10


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"freeze_layers": 6}, "method.freeze_layers is 6; the model has 5 layers"),
        ({"lora_rank": 2, "freeze_layers": 1}, "leave method.freeze_layers out"),
        ({"lora_rank": 2, "gradual_unfreezing": 0.5}, "exclude each other"),
    ],
)
def test_what_does_not_go_together(method: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        adapt(attached(), MethodSection(**method))
