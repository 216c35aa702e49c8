import pytest
import torch

from bertworks.errors import UsageError
from bertworks.infer.layers import choose_layers


@pytest.mark.parametrize(
    ("name", "layers", "width"),
    [
        ("last", (6,), 10),
        ("first", (0,), 10),
        ("second-to-last", (5,), 10),
        ("sum-last-4", (3, 4, 5, 6), 10),
        ("concat-last-4", (3, 4, 5, 6), 40),
        ("sum-all", (1, 2, 3, 4, 5, 6), 10),
        ("2", (2,), 10),
        (0, (0,), 10),
        (-1, (6,), 10),
    ],
)
def test_names(name, layers, width):
    choice = choose_layers(name, 6)
    assert choice.layers == layers
    assert choice.width(10) == width


def test_combinations():
    hidden = {layer: torch.full((2, 3), float(layer)) for layer in range(7)}
    assert choose_layers("sum-last-4", 6).apply(hidden)[0, 0] == 3 + 4 + 5 + 6
    assert choose_layers("concat-last-4", 6).apply(hidden)[0].tolist() == [3.0] * 3 + [4.0] * 3 + [5.0] * 3 + [6.0] * 3
    assert choose_layers("sum-all", 6).apply(hidden)[1, 2] == 21


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lst", r"unknown layers 'lst' \(did you mean 'last'\?\); allowed: last, first"),
        ("7", r"layer 7 does not exist: this model has layers 0 \(embeddings\) to 6"),
        ("-8", "layer -8 does not exist"),
        ("", "unknown layers ''"),
        ("²", "unknown layers '²'"),
    ],
)
def test_wrong_names_explain_themselves(name, message):
    with pytest.raises(UsageError, match=message):
        choose_layers(name, 6)


def test_too_few_layers():
    with pytest.raises(UsageError, match="needs four layers, this model has 3"):
        choose_layers("sum-last-4", 2)
