"""Both neighbours of every token: targets by hand, losses by torch, and a language whose losses are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bertworks.data.pretraining import Sequences
from bertworks.errors import ModelError, UsageError
from bertworks.models.elmo import BiLM, PackedSpelt
from bertworks.objectives.bilm import BidirectionalLM
from bertworks.objectives.masked_lm import MaskedLM
from tests.objectives.bilms import spelt_model, spelt_objective, table_model
from tests.objectives.language import (
    CLS,
    SEP,
    UNSEEN,
    VOCAB_SIZE,
    make_masker,
    make_model,
    make_rows,
    measure,
    train,
    vocabulary_head,
)

ROWS = [[[3, 9, 20]], [[1]]]  # words; ids are five more


def test_targets_are_the_neighbours() -> None:
    batch = BidirectionalLM(vocab_size=20, unknown_id=1).prepare(make_rows(ROWS), 0.0)
    unknown = 1  # for 25
    assert batch.packed.input_ids.tolist() == [CLS, 8, 14, 25, SEP, CLS, 6, SEP]
    assert batch.tensors["places"].tolist() == [1, 2, 3, 4, 6, 7]
    assert batch.tensors["targets"].tolist() == [8, 14, unknown, SEP, 6, SEP]
    assert batch.tensors["targets_before"].tolist() == [CLS, 8, 14, unknown, CLS, 6]
    assert batch.counts == {"forward": 6, "backward": 6}


def test_words_are_spelt_once() -> None:
    objective = spelt_objective()
    batch = objective.prepare(make_rows([[[3, 3, 4]], [[3]]]), 0.0)
    assert isinstance(batch.packed, PackedSpelt)
    assert objective.characters is not None
    assert len(batch.packed.characters) == 4  # [CLS], [SEP] and two words
    spelling = batch.packed.characters[batch.packed.input_ids].numpy()
    np.testing.assert_array_equal(spelling, objective.characters[[CLS, 8, 8, 9, SEP, CLS, 8, SEP]])


def test_losses_are_torchs() -> None:
    model, objective = spelt_model(), spelt_objective()
    batch = objective.prepare(make_rows(ROWS), 0.0)
    body = model.body
    assert isinstance(body, BiLM)
    assert body.output is not None
    hidden = body.read(batch.packed)
    found = objective.losses(model, batch)
    for name, states, places, targets in (
        ("forward", hidden.forward[-1], batch.tensors["places"] - 1, "targets"),
        ("backward", hidden.backward[-1], batch.tensors["places"], "targets_before"),
    ):
        expected = F.cross_entropy(body.output(states[places]), batch.tensors[targets], reduction="sum")
        torch.testing.assert_close(found[name].sum, expected)
        assert found[name].count == 6


def test_a_sample_by_hand() -> None:
    """Twenty tokens are predicted, of which 0 to 3 always and about four of the others; a target is among them anyway."""
    objective = spelt_objective(softmax_words=8)
    rows = make_rows(ROWS)
    batch = objective.prepare(rows, 0.25)
    columns, offsets = batch.tensors["columns"].tolist(), batch.tensors["offsets"].tolist()
    shared = columns[: len([offset for offset in offsets if offset > -math.inf])]
    assert columns[:4] == [0, 1, 2, 3]
    assert len(set(columns)) == len(columns)
    assert offsets[:4] == [0.0] * 4
    assert offsets[4 : len(shared)] == pytest.approx([math.log(16 / 4)] * (len(shared) - 4))
    assert [columns[place] for place in batch.tensors["targets"].tolist()] == [8, 14, 1, SEP, 6, SEP]
    assert set(columns[len(shared) :]) <= {8, 14, 6}
    assert columns == objective.prepare(rows, 0.25).tensors["columns"].tolist()
    drawn = {tuple(objective.prepare(rows, step / 40).tensors["columns"].tolist()) for step in range(40)}
    assert len(drawn) > 20  # another step, other words
    assert "columns" not in spelt_objective(softmax_words=20).prepare(rows, 0.25).tensors
    with pytest.raises(UsageError, match="at least 2"):
        spelt_objective(softmax_words=1)


def test_a_sampled_softmax_is_right_on_average() -> None:
    """The denominators over a sample, over many steps, against those over the whole vocabulary."""
    model, whole, sampled = spelt_model(), spelt_objective(), spelt_objective(softmax_words=8)
    rows = make_rows([[[3]]])  # two predictions
    body = model.body
    assert isinstance(body, BiLM)
    assert body.output is not None
    batch = whole.prepare(rows, 0.0)
    with torch.no_grad():
        logits = body.output(body.read(batch.packed).forward[-1])[:-1]  # (2, V)
        own = logits.gather(1, batch.tensors["targets"][:, None])
        denominators = []
        for step in range(2000):
            part = sampled.prepare(rows, step / 2000)
            columns, offsets, targets = (part.tensors[name] for name in ("columns", "offsets", "targets"))
            terms = logits[:, columns] + offsets
            denominators.append(terms.scatter(1, targets[:, None], own).exp().sum(dim=1))
            expected = (denominators[-1].log() - own[:, 0]).sum()
            if step % 500 == 0:
                torch.testing.assert_close(sampled.losses(model, part)["forward"].sum, expected)
    torch.testing.assert_close(torch.stack(denominators).mean(dim=0), logits.exp().sum(dim=1), rtol=0.03, atol=0.0)


def test_rare_words_count_as_the_unknown_one() -> None:
    objective = BidirectionalLM(vocab_size=3, unknown_id=1)
    assert objective.target_counts(np.array([5, 1, 4, 2, 3])).tolist() == [5, 6, 4]
    framed = BidirectionalLM(vocab_size=3, unknown_id=1, boundaries={0: 0.2, 2: 0.2})
    assert framed.target_counts(np.array([0, 1, 9, 2, 3])).tolist() == [3, 6, 12]


def test_both_directions_learn_what_there_is_to_know() -> None:
    """A word, drawn evenly from four, then three times its own echo: one prediction of five is open in each direction, the
    first word of the text for one reader and the first echo from the end for the other."""

    def rows(seed: int) -> Sequences:
        drawn = np.random.default_rng(seed).integers(0, 4, 32).tolist()
        return make_rows([[[word, *[4 + word] * 3]] for word in drawn])

    model, objective = spelt_model(), spelt_objective()
    train(objective, model, rows, steps=150, learning_rate=2e-2)
    found = measure(objective, model, rows(UNSEEN)).loss
    assert found["forward"] == pytest.approx(math.log(4) / 5, abs=0.05)
    assert found["backward"] == pytest.approx(math.log(4) / 5, abs=0.05)


def test_it_is_for_such_models_only() -> None:
    objective = BidirectionalLM(vocab_size=VOCAB_SIZE, unknown_id=1)
    batch = objective.prepare(make_rows(ROWS), 0.0)
    with pytest.raises(ModelError, match="both ends"):
        objective.losses(make_model(vocabulary_head("mlm", 32)), batch)
    masked = MaskedLM(make_masker())
    with pytest.raises(ModelError, match="no 'mlm' head"):
        masked.losses(table_model(), masked.prepare(make_rows(ROWS), 0.0))
