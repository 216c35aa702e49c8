"""Few rows go another way and give the same."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

import bertworks
from bertworks.infer import few_rows
from bertworks.infer.few_rows import FEW_ROWS, FewRowsLinear, quicken_few_rows


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 7, FEW_ROWS, FEW_ROWS + 1])
def test_both_ways_give_the_same(rows: int, bias: bool) -> None:
    plain = nn.Linear(40, 56, bias=bias)
    quick, x = FewRowsLinear(plain), torch.randn(rows, 40)
    with torch.inference_mode():
        torch.testing.assert_close(quick(x), plain(x), rtol=1e-5, atol=1e-6)
    assert (quick._packed is not None) == (0 < rows <= FEW_ROWS)
    assert quick.weight is plain.weight


def test_gradients_take_the_plain_way() -> None:
    quick = FewRowsLinear(nn.Linear(4, 3))
    quick(torch.randn(2, 4)).sum().backward()
    assert quick.weight.grad is not None
    assert quick._packed is None


def test_a_changed_weight_is_noticed() -> None:
    quick, x = FewRowsLinear(nn.Linear(4, 3)), torch.randn(2, 4)
    with torch.no_grad():
        before = quick(x)
        quick.weight.mul_(2)
        torch.testing.assert_close(quick(x) - quick.bias, 2 * (before - quick.bias))


def test_it_can_be_copied_and_pickled() -> None:
    quick, x = FewRowsLinear(nn.Linear(4, 3)), torch.randn(2, 4)
    with torch.no_grad():
        wanted = quick(x)
        for other in (copy.deepcopy(quick), pickle.loads(pickle.dumps(quick))):
            torch.testing.assert_close(other(x), wanted)


def test_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_rows.torch.backends.mkldnn, "is_available", lambda: False)
    body = nn.Sequential(nn.Linear(2, 3))
    quicken_few_rows(body)
    assert type(body[0]) is nn.Linear


def test_a_loaded_model_has_it(minilm_directory: Path) -> None:
    model = bertworks.load(minilm_directory)
    kinds = {type(part) for part in model.model.body.modules() if isinstance(part, nn.Linear)}
    assert kinds == {FewRowsLinear}
    alone = model.embed("A short one.")
    among_many = model.embed(["A short one."] * 30)[0]
    assert float(abs(alone - among_many).max()) < 1e-6
