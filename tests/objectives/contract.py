"""What every objective must keep. A test class derives from `ObjectiveContract` and makes an objective, a module and rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertworks.data.pretraining import Sequences
from bertworks.models.elmo import SpeltWords
from bertworks.models.recurrent import TokenVectors
from bertworks.models.transformer import Embeddings
from bertworks.objectives.base import Batch, Loss, Objective
from tests.objectives.language import FIRST_WORD, NUM_WORDS, choose, total

TOLERANCE = 1e-5


class ObjectiveContract:
    """Derive, and define `objective`, `module` (no dropout) and `rows` (at least five sequences of several lengths)."""

    def objective(self) -> Objective:
        raise NotImplementedError

    def module(self) -> nn.Module:
        raise NotImplementedError

    def rows(self) -> Sequences:
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

    def run(self, rows: Sequences, module: nn.Module | None = None) -> tuple[Batch, dict[str, Loss]]:
        objective = self.objective()
        batch = objective.prepare(rows, 0.5)
        torch.manual_seed(5)
        return batch, objective.losses(module or self.module(), batch)

    def test_the_names_of_the_losses_are_those_of_the_weights(self) -> None:
        batch, losses = self.run(self.rows())
        assert set(losses) == set(batch.counts) == set(self.objective().weights)

    def test_counts_are_known_before(self) -> None:
        batch, losses = self.run(self.rows())
        for name, loss in losses.items():
            assert loss.count == batch.counts[name] > 0
            assert loss.sum.shape == ()
            assert loss.sum.dtype == torch.float32
            assert torch.isfinite(loss.sum)
            if loss.correct is not None:
                assert loss.correct.shape == ()
                assert not loss.correct.is_floating_point()
                assert 0 <= int(loss.correct) <= loss.count

    def test_the_same_rows_give_the_same_batch(self) -> None:
        first, second = (self.objective().prepare(self.rows(), 0.5) for _ in range(2))
        assert first.counts == second.counts
        assert torch.equal(first.packed.input_ids, second.packed.input_ids)
        for name, tensor in first.tensors.items():
            assert torch.equal(tensor, second.tensors[name])

    def test_sums_and_gradients_add_up_over_parts(self) -> None:
        rows = self.rows()
        everything = range(len(rows.lengths))
        wholes = self._sums_and_gradients([rows])
        parts = self._sums_and_gradients([choose(rows, everything[::2]), choose(rows, everything[1::2])])
        assert_same(wholes, parts)

    def test_the_order_of_the_sequences_does_not_matter(self) -> None:
        rows = self.rows()
        shuffled = np.random.default_rng(1).permutation(len(rows.lengths)).tolist()
        assert_same(self._sums_and_gradients([rows]), self._sums_and_gradients([choose(rows, shuffled)]))

    def test_a_gradient_reaches_every_parameter(self) -> None:
        module = self.module()
        _, losses = self.run(self.rows(), module)
        total(self.objective(), losses).backward()
        missing = [
            name
            for name, parameter in module.named_parameters()
            if parameter.requires_grad and (parameter.grad is None or not parameter.grad.abs().max() > 0)
        ]
        assert not missing

    def test_nothing_flows_between_sequences(self) -> None:
        """Other words in the first sequence: the gradients at the tokens of all others stay as they were."""
        rows = self.rows()
        ids = rows.ids.copy()
        inside = (rows.sequence_ids == 0) & ~rows.special
        ids[inside] = FIRST_WORD + (ids[inside] - FIRST_WORD + 1) % NUM_WORDS
        changed = Sequences(ids, rows.lengths, rows.index, rows.epoch, rows.special, rows.segments, rows.labels)
        before, after = self._gradients_at_tokens(rows), self._gradients_at_tokens(changed)
        own = int(rows.lengths[0])
        assert len(before) == len(after) > 0
        for one, other in zip(before, after, strict=True):
            assert not torch.allclose(one[:own], other[:own], atol=1e-4)
            torch.testing.assert_close(one[own:], other[own:], rtol=1e-5, atol=1e-5)

    def test_no_sequences_are_a_batch_too(self) -> None:
        module = self.module()
        _, losses = self.run(choose(self.rows(), []), module)
        assert all(loss.count == 0 and float(loss.sum.detach()) == 0.0 for loss in losses.values())
        total(self.objective(), losses).backward()
        assert all(parameter.grad is not None for parameter in module.parameters() if parameter.requires_grad)

    def test_sums_are_the_same_without_gradients(self) -> None:
        rows = self.rows()
        _, losses = self.run(rows)
        with torch.no_grad():
            _, again = self.run(rows)
        for name, loss in losses.items():
            assert not again[name].sum.requires_grad
            torch.testing.assert_close(again[name].sum, loss.sum.detach(), rtol=TOLERANCE, atol=TOLERANCE)

    def test_narrow_numbers_give_about_the_same(self) -> None:
        rows = self.rows()
        module = self.module()
        _, losses = self.run(rows, module)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _, narrow = self.run(rows, module)
        total(self.objective(), narrow).backward()
        for name, loss in losses.items():
            assert narrow[name].sum.dtype == torch.float32
            torch.testing.assert_close(narrow[name].sum, loss.sum, rtol=0.05, atol=0.05 * loss.count)

    def _sums_and_gradients(self, parts: list[Sequences]) -> dict[str, Tensor]:
        module = self.module()
        found: dict[str, Tensor] = {}
        for rows in parts:
            _, losses = self.run(rows, module)
            for name, loss in losses.items():
                values = {"sum": loss.sum.detach(), "count": torch.tensor(loss.count)}
                if loss.correct is not None:
                    values["correct"] = loss.correct
                for kind, value in values.items():
                    found[f"{name} {kind}"] = found.get(f"{name} {kind}", torch.tensor(0)) + value
            torch.stack([loss.sum for loss in losses.values()]).sum().backward()
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None
            found[f"gradient of {name}"] = parameter.grad
        return found

    def _gradients_at_tokens(self, rows: Sequences) -> list[Tensor]:
        """Per stack of the module, the gradient of the summed losses at the embeddings' output: (T, H) each."""
        module = self.module()
        outputs: list[Tensor] = []

        def keep(_: nn.Module, __: object, output: Tensor) -> None:
            output.retain_grad()
            outputs.append(output)

        for part in module.modules():
            if isinstance(part, Embeddings | TokenVectors | SpeltWords):
                part.register_forward_hook(keep)
        _, losses = self.run(rows, module)
        torch.stack([loss.sum for loss in losses.values()]).sum().backward()
        return [output.grad for output in outputs if output.grad is not None]


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        scale = max(1.0, float(value.abs().max()))
        difference = float((value - second[name]).abs().max())
        assert difference <= TOLERANCE * scale, f"{name}: differs by {difference}"
