"""The same steps as `transformers`' Trainer: with one order of the examples and no dropout, the same weights come out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.finetune import trainer_rows

from bertworks import hub
from bertworks.config import override
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.events import Fitted
from bertworks.finetune.feed import Feed
from bertworks.finetune.fit import TrainingData, fit
from bertworks.tasks import for_examples
from bertworks.tasks.attach import attach
from tests.tasks import small

BATCH_SIZE, EPOCHS, RATE, SEED = 3, 4, 2e-3, 5
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.mark.parametrize(
    ("name", "architecture", "examples"),
    [
        ("pair", "SequenceClassification", small.texts(pairs=True)),
        ("tag", "TokenClassification", small.tagged()),
    ],
)
def test_equal_training_equals_the_trainers(
    name: Any, architecture: str, examples: Sequence[Any], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    model, tokenizer = small.make_model("bert", **NO_DROPOUT)
    task: Any = for_examples(name, examples)
    settings = {"batch_size": BATCH_SIZE, "epochs": EPOCHS, "optimizer.learning_rate": RATE, "schedule.warmup": 0}
    config = override(FinetuneConfig(), [f"train.{key}={value}" for key, value in settings.items()])
    *_, fitted = fit(task, TrainingData(examples, window=64), model, tokenizer, config, seed=SEED)
    assert isinstance(fitted, Fitted)

    torch.manual_seed(SEED)  # the same new head
    start = copy.deepcopy(model)
    attach(task, start, tokenizer)
    hub.save(start, tokenizer, tmp_path / "start")
    units = task.encode(examples, tokenizer, window=64, training=True)
    rows = trainer_rows(task, examples, units)
    feed = Feed(task, units, batch_size=BATCH_SIZE, epochs=EPOCHS, seed=SEED)
    steps = [[int(unit) for unit in feed.at(step)] for step in range(feed.total_steps)]

    class Trainer(transformers.Trainer):  # type: ignore[name-defined, misc]
        def get_train_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(rows, batch_sampler=steps, collate_fn=self.data_collator)

    kind = getattr(transformers, f"AutoModelFor{architecture}")
    theirs = kind.from_pretrained(tmp_path / "start")
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "trainer"),
        max_steps=len(steps),
        learning_rate=RATE,
        weight_decay=config.train.optimizer.weight_decay,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    collators = {"tag": transformers.DataCollatorForTokenClassification}
    collator = collators.get(name, transformers.DataCollatorWithPadding)
    known = transformers.AutoTokenizer.from_pretrained(tmp_path / "start")
    Trainer(model=theirs, args=arguments, train_dataset=rows, data_collator=collator(known)).train()

    hub.save(fitted.model, fitted.tokenizer, tmp_path / "ours")
    ours = kind.from_pretrained(tmp_path / "ours").state_dict()
    before = kind.from_pretrained(tmp_path / "start").state_dict()
    for key, weight in theirs.state_dict().items():
        if key.endswith("key.bias"):
            continue  # its gradient is 0 but for rounding, which Adam makes steps of
        assert not weight.is_floating_point() or not torch.equal(weight, before[key]), key
        torch.testing.assert_close(ours[key], weight, atol=5e-5, rtol=0, msg=lambda text, key=key: f"{key}: {text}")
