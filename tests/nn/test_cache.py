"""Keys and values of earlier steps: room that grows, rows that come and go, sources that are shared."""

from __future__ import annotations

import pytest
import torch

from bertworks.models.transformer import Memory, Transformer
from bertworks.nn.cache import ROOM, KeyValueCache
from bertworks.nn.packed import Layout, Packed
from tests.models.test_transformer import NOWHERE, config


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.inference_mode():
        yield


def stack(**options: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(config(NOWHERE, causal=True, **options)).eval()


def test_room_grows_and_ends() -> None:
    body = stack()
    steps = 2 * ROOM + 5
    rows = torch.randint(0, 31, (3, steps)).tolist()
    cache = KeyValueCache(num_layers=5, num_sequences=3, capacity=steps)
    whole = body(Packed.from_sequences(rows)).last.view(3, steps, -1)
    body(Packed.from_sequences([row[:4] for row in rows]), cache=cache)
    for step in range(4, steps):
        out = body(Packed.from_sequences([[row[step]] for row in rows]), cache=cache).last
    torch.testing.assert_close(out, whole[:, -1], atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match=f"holds {steps} tokens per sequence, {steps + 1} are needed"):
        body(Packed.from_sequences([[1]] * 3), cache=cache)


def test_wrong_steps_are_refused() -> None:
    body = stack()
    cache = KeyValueCache(num_layers=5, num_sequences=2, capacity=9)
    with pytest.raises(ValueError, match="holds 2 sequences, the step has 3"):
        body(Packed.from_sequences([[1]] * 3), cache=cache)
    body(Packed.from_sequences([[1], [2, 3]]), cache=cache)
    with pytest.raises(ValueError, match="grow by the same number"):
        body(Packed.from_sequences([[1], [2, 3]]), cache=cache)


@pytest.mark.parametrize(
    ("chosen", "sharing"),
    [
        ([0, 0, 1, 1, 2, 2], 2),  # two rows for each source
        ([1, 1], 2),  # two of the sources leave
        ([2, 0], 1),  # another order
        ([0, 1, 1], 1),  # unequally many: a copy for each
        ([1, 0, 1], 1),
    ],
)
def test_rows_share_sources(chosen: list[int], sharing: int) -> None:
    body = stack(cross_attention=True)
    lengths = [3, 5, 4]
    memory = Memory(torch.randn(sum(lengths), 24), Layout(lengths))
    pieces = memory.hidden.split(lengths)
    cache = KeyValueCache(num_layers=5, num_sequences=3, capacity=9)
    targets = [[7], [8], [9]]
    body(Packed.from_sequences(targets), memory=memory, cache=cache)
    owners = list(range(3))
    for picked in (chosen, list(range(len(chosen)))[::-1]):
        cache.select(picked)
        owners = [owners[row] for row in picked]
        targets = [[*targets[row], 10 + number] for number, row in enumerate(picked)]
        out = body(Packed.from_sequences([[row[-1]] for row in targets]), cache=cache).last
        for row, (target, owner) in enumerate(zip(targets, owners, strict=True)):
            alone = Memory(pieces[owner], Layout([lengths[owner]]))
            whole = body(Packed.from_sequences([target]), memory=alone).last[-1]
            torch.testing.assert_close(out[row], whole, atol=1e-5, rtol=1e-5)
        if picked is chosen:
            assert cache.sharing == sharing
