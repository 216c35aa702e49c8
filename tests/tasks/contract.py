"""What every task must keep. A test class derives from `TaskContract` and makes a task and labelled examples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertworks import hub
from bertworks.errors import DataError
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss
from bertworks.tasks import from_settings
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Chosen, Task, Units
from bertworks.tasks.run import evaluate_model, outputs_of, predict_examples
from bertworks.text.tokenizer import Tokenizer
from tests.tasks.small import make_model

LABELS = ("label", "tags", "answers", "score")
"""Where the different kinds of examples keep what is to be predicted."""
TOLERANCE = 1e-5


def without_labels(examples: Sequence[Any]) -> list[Any]:
    """The same examples, as they come to be predicted."""
    return [
        replace(example, **{field.name: None for field in fields(example) if field.name in LABELS})
        for example in examples
    ]


class TaskContract:
    """Derive, and define `task` and `examples` (at least five, of several lengths, with labels)."""

    window = 60
    model_type = "bert"
    learnable = True
    """Whether a tiny model can be brought to know the training examples by heart, by the task's own metric."""
    needs_labels = True
    """Whether an example without a label cannot be trained on."""

    def task(self) -> Task[Any, Any]:
        raise NotImplementedError

    def examples(self) -> list[Any]:
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

    def model(self) -> tuple[Model, Tokenizer]:
        """A tiny model that has the task's head, in evaluation mode: without dropout."""
        torch.manual_seed(3)
        model, tokenizer = make_model(self.model_type)
        return model, attach(self.task(), model, tokenizer)

    def units(self, tokenizer: Tokenizer, *, training: bool = True) -> Units:
        return self.task().encode(self.examples(), tokenizer, window=self.window, training=training)

    def run(self, units: Units, numbers: Sequence[int], model: Model) -> tuple[Batch, dict[str, Loss]]:
        task = self.task()
        batch = task.prepare(Chosen(units, np.array(numbers, np.int64)), 0.5)
        return batch, task.losses(model, batch)

    def predictions(
        self, model: Model, tokenizer: Tokenizer, examples: Sequence[Any], decision: Any = None
    ) -> list[Any]:
        return predict_examples(
            self.task(), model, examples, tokenizer=tokenizer, window=self.window, decision=decision or {}
        )

    # -- as a value ----------------------------------------------------------------------------------------------------

    def test_settings_make_the_same_task_again(self) -> None:
        settings = json.loads(json.dumps(self.task().settings()))
        again = from_settings(settings)
        assert again == self.task()
        assert settings["task"] == again.name == self.task().name

    def test_what_is_missing_is_said_with_its_place(self) -> None:
        if not self.needs_labels:
            return
        examples = self.examples()
        examples[3] = without_labels(examples)[3]
        _, tokenizer = self.model()
        with pytest.raises(DataError, match=rf"train\.tsv:{examples[3].place.line}: "):
            self.task().check(examples)
        with pytest.raises(DataError, match=rf"train\.tsv:{examples[3].place.line}: "):
            self.task().encode(examples, tokenizer, window=self.window, training=True)

    # -- as units ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("training", [True, False])
    def test_units_are_whole_and_fit_the_window(self, training: bool) -> None:
        _, tokenizer = self.model()
        units = self.units(tokenizer, training=training)
        lengths = np.diff(units.starts)
        assert lengths.min() > 0
        assert lengths.max() <= self.window
        assert units.starts[-1] == len(units.ids) == units.num_tokens.sum()
        assert units.first[-1] == len(lengths)
        assert (np.diff(units.owners) >= 0).all()
        assert set(units.owners.tolist()) == set(range(len(self.examples())))

    def test_small_windows_hold_too(self) -> None:
        _, tokenizer = self.model()
        units = self.task().encode(self.examples(), tokenizer, window=16, training=False)
        assert np.diff(units.starts).max() <= 16

    # -- as an objective -----------------------------------------------------------------------------------------------

    def test_counts_are_known_before(self) -> None:
        model, tokenizer = self.model()
        units = self.units(tokenizer)
        batch, losses = self.run(units, range(len(units)), model)
        assert set(losses) == set(batch.counts) == set(self.task().weights)
        for name, loss in losses.items():
            assert loss.count == batch.counts[name] > 0
            assert loss.sum.shape == ()
            assert loss.sum.dtype == torch.float32
            assert torch.isfinite(loss.sum)
            if loss.correct is not None:
                assert not loss.correct.is_floating_point()
                assert 0 <= int(loss.correct) <= loss.count

    def test_the_same_units_give_the_same_batch(self) -> None:
        _, tokenizer = self.model()
        units = self.units(tokenizer)
        first, second = (self.task().prepare(Chosen(units, np.array([2, 0, 3])), 0.5) for _ in range(2))
        assert first.counts == second.counts
        assert torch.equal(first.packed.input_ids, second.packed.input_ids)
        for name, tensor in first.tensors.items():
            assert torch.equal(tensor, second.tensors[name])

    def test_sums_and_gradients_add_up_over_parts(self) -> None:
        if self.task().whole_steps:
            return
        model, tokenizer = self.model()
        units = self.units(tokenizer)
        everything = list(range(len(units)))
        whole = self._sums_and_gradients(model, units, [everything])
        assert_same(whole, self._sums_and_gradients(model, units, [everything[::2], everything[1::2]]))

    def test_the_order_of_the_units_does_not_matter(self) -> None:
        model, tokenizer = self.model()
        units = self.units(tokenizer)
        order = np.random.default_rng(1).permutation(len(units)).tolist()
        whole = self._sums_and_gradients(model, units, [list(range(len(units)))])
        assert_same(whole, self._sums_and_gradients(model, units, [order]))

    def test_a_gradient_reaches_every_parameter(self) -> None:
        model, tokenizer = self.model()
        units = self.units(tokenizer)
        _, losses = self.run(units, range(len(units)), model)
        torch.stack([loss.sum for loss in losses.values()]).sum().backward()
        missing = [
            name for name, parameter in model.named_parameters() if parameter.requires_grad and parameter.grad is None
        ]
        assert not missing

    def test_no_units_are_a_batch_too(self) -> None:
        model, tokenizer = self.model()
        batch, losses = self.run(self.units(tokenizer), [], model)
        assert all(count == 0 for count in batch.counts.values())
        assert all(loss.count == 0 and float(loss.sum.detach()) == 0.0 for loss in losses.values())

    def test_narrow_numbers_give_about_the_same(self) -> None:
        model, tokenizer = self.model()
        units = self.units(tokenizer)
        _, losses = self.run(units, range(len(units)), model)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _, narrow = self.run(units, range(len(units)), model)
        for name, loss in losses.items():
            assert narrow[name].sum.dtype == torch.float32
            torch.testing.assert_close(narrow[name].sum, loss.sum, rtol=0.1, atol=0.1 * loss.count)

    def test_it_learns(self) -> None:
        """A few dozen steps on the very same examples: the loss falls, and the figures rise to the top."""
        model, tokenizer = self.model()
        task, units = self.task(), self.units(tokenizer)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3, weight_decay=0.0)
        seen = []
        for _ in range(40):
            _, losses = self.run(units, range(len(units)), model)
            total = torch.stack([loss.sum / loss.count for loss in losses.values()]).sum()
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            seen.append(float(total.detach()))
        assert seen[-1] < 0.7 * seen[0]
        if self.learnable:
            evaluated = evaluate_model(task, model, self.examples(), tokenizer=tokenizer, window=self.window)
            assert evaluated.figures[task.metric] > 0.8, seen

    # -- after the model -----------------------------------------------------------------------------------------------

    def test_outputs_do_not_depend_on_the_batch(self) -> None:
        model, tokenizer = self.model()
        units = self.units(tokenizer, training=False)
        many, few = (outputs_of(self.task(), model, units, batch_tokens=tokens) for tokens in (100_000, 1))
        assert len(many) == len(few) == len(units)
        for one, other in zip(many, few, strict=True):
            assert one.dtype == np.float32
            # of a number near 1,000, as some labels are, float32 has no digits below 6e-5
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=TOLERANCE)

    def test_one_prediction_per_example_as_json_without_labels(self) -> None:
        model, tokenizer = self.model()
        predictions = self.predictions(model, tokenizer, self.examples())
        assert len(predictions) == len(self.examples())
        for prediction in predictions:
            json.dumps(prediction.as_json(), allow_nan=False)
        bare = self.predictions(model, tokenizer, without_labels(self.examples()))
        assert [drop_rank(p) for p in bare] == [drop_rank(p) for p in predictions]

    def test_nothing_to_predict_is_no_error(self) -> None:
        model, tokenizer = self.model()
        assert self.predictions(model, tokenizer, []) == []

    def test_figures_have_the_metric_and_are_numbers(self) -> None:
        model, tokenizer = self.model()
        task = self.task()
        evaluated = evaluate_model(task, model, self.examples(), tokenizer=tokenizer, window=self.window)
        assert task.metric in evaluated.figures
        json.dumps([evaluated.figures, dict(evaluated.decision)], allow_nan=False)
        again = evaluate_model(
            task,
            model,
            self.examples(),
            units=self.units(tokenizer, training=False),
            decision=json.loads(json.dumps(dict(evaluated.decision))),
        )
        assert again.figures == evaluated.figures
        assert again.predictions == evaluated.predictions

    def test_a_finished_and_saved_model_predicts_the_same(self, tmp_path: Path) -> None:
        model, tokenizer = self.model()
        task = self.task()
        decision = evaluate_model(task, model, self.examples(), tokenizer=tokenizer, window=self.window).decision
        before = self.predictions(model, tokenizer, self.examples(), decision)
        finished = task.finish(model)
        hub.save(model, tokenizer, tmp_path)
        loaded = hub.load(tmp_path)
        assert loaded.model.config.labels == task.labels
        again = from_settings(json.loads(json.dumps(finished.settings())))
        after = predict_examples(
            again, loaded.model, self.examples(), tokenizer=loaded.tokenizer, window=self.window, decision=decision
        )
        assert_near([prediction.as_json() for prediction in before], [prediction.as_json() for prediction in after])

    def _sums_and_gradients(self, model: Model, units: Units, parts: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        model.zero_grad()
        found: dict[str, Tensor] = {}
        for numbers in parts:
            _, losses = self.run(units, numbers, model)
            for name, loss in losses.items():
                found[name] = found.get(name, torch.tensor(0.0)) + loss.sum.detach()
            torch.stack([loss.sum for loss in losses.values()]).sum().backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        return found | gradients


def drop_rank(prediction: Any) -> Any:
    """A similarity's rank is there only where nobody gave a score."""
    return replace(prediction, rank=None) if hasattr(prediction, "rank") else prediction


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], rtol=1e-4, atol=TOLERANCE, msg=lambda m, n=name: f"{n}: {m}")


def assert_near(first: Any, second: Any) -> None:
    """The same values, numbers up to rounding."""
    if isinstance(first, float):
        assert second == pytest.approx(first, rel=1e-4, abs=1e-5)
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for name in first:
            assert_near(first[name], second[name])
    elif isinstance(first, list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_near(one, other)
    else:
        assert first == second
