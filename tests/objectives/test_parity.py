"""The same weights, the same texts: our losses are those that `transformers` computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertworks.data.pretraining import Masked, Sequences, Stream, uniform
from bertworks.models.model import Model
from bertworks.nn.packed import Layout
from bertworks.objectives.base import Loss
from bertworks.objectives.causal_lm import CausalLM
from bertworks.objectives.masked_lm import MaskedLM
from bertworks.objectives.replaced_tokens import GeneratorAndDiscriminator, ReplacedTokens
from bertworks.objectives.sentence_pairs import MaskedLMWithPairs
from bertworks.objectives.student import init_student
from tests.hub.reference import convert, make_reference, make_texts, pad, single_thread, unpad

IGNORED = -100
MASK = 98


@pytest.fixture(autouse=True)
def _plain_numbers() -> Iterator[None]:
    with single_thread():
        yield


@dataclass(frozen=True)
class FixedMasker:
    """Every fifth token is masked."""

    def apply(self, rows: Sequences, progress: float = 0.0) -> Masked:
        places = np.arange(2, len(rows.ids), 5)
        input_ids = rows.ids.copy()
        input_ids[places] = MASK
        return Masked(input_ids, places, rows.ids[places])


def texts_for(model: Model, **labels: np.ndarray) -> tuple[Sequences, dict[str, Tensor]]:
    """Our rows, and the padded tensors of `transformers`."""
    packed, padded = make_texts(model.config)
    lengths = np.array(packed.layout.lengths)
    rows = Sequences(
        ids=packed.input_ids.numpy(),
        lengths=lengths,
        index=np.arange(len(lengths)) + 40,
        epoch=2,
        special=np.zeros(len(packed.input_ids), np.bool_),
        segments=None if packed.segments is None else packed.segments.numpy(),
        labels=labels,
    )
    return rows, padded


def masked_for_them(rows: Sequences, padded: dict[str, Tensor]) -> dict[str, Tensor]:
    """The masked ids and the labels, padded."""
    masked = FixedMasker().apply(rows)
    layout = Layout(rows.lengths.tolist())
    labels = np.full(len(rows.ids), IGNORED)
    labels[masked.places] = masked.targets
    ids = pad(torch.from_numpy(masked.input_ids), layout, 0)
    return padded | {"input_ids": ids, "labels": pad(torch.from_numpy(labels), layout, IGNORED)}


def mean(loss: Loss) -> Tensor:
    return loss.sum / loss.count


def assert_equal_losses(ours: Tensor, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "distilbert", "modernbert", "electra"])
def test_masked_lm(family: str) -> None:
    reference = make_reference(family, "ForMaskedLM")
    model = convert(reference)
    rows, padded = texts_for(model)
    objective = MaskedLM(FixedMasker())
    ours = objective.losses(model, objective.prepare(rows, 0.0))["mlm"]
    assert_equal_losses(mean(ours), reference(**masked_for_them(rows, padded)).loss)


@pytest.mark.parametrize(
    ("family", "kind", "their_name"),
    [("bert", "nsp", "next_sentence_label"), ("albert", "sop", "sentence_order_label")],
)
def test_sentence_pairs(family: str, kind: str, their_name: str) -> None:
    reference = make_reference(family, "ForPreTraining")
    model = convert(reference)
    labels = np.array([0, 1, 1, 0, 0, 1])
    rows, padded = texts_for(model, **{kind: labels})
    objective = MaskedLMWithPairs(FixedMasker(), kind)
    ours = objective.losses(model, objective.prepare(rows, 0.0))
    theirs = reference(**masked_for_them(rows, padded), **{their_name: torch.from_numpy(labels)})
    assert_equal_losses(mean(ours["mlm"]) + mean(ours[kind]), theirs.loss)


@pytest.mark.parametrize("family", ["gpt2", "openai-gpt"])
def test_causal_lm(family: str) -> None:
    reference = make_reference(family, "LMHeadModel")
    model = convert(reference)
    rows, padded = texts_for(model)
    labels = padded["input_ids"].masked_fill(padded["attention_mask"] == 0, IGNORED)
    objective = CausalLM()
    ours = objective.losses(model, objective.prepare(rows, 0.0))["lm"]
    assert_equal_losses(mean(ours), reference(**padded, labels=labels).loss)


def test_replaced_tokens() -> None:
    """Generator and discriminator of different widths over the same embeddings; the samples are drawn once more here."""
    their_generator = make_reference("electra", "ForMaskedLM", hidden_size=24, intermediate_size=29)
    their_discriminator = make_reference("electra", "ForPreTraining")
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        table = getattr(their_discriminator.electra.embeddings, name).weight
        getattr(their_generator.electra.embeddings, name).weight.copy_(table)
    module = GeneratorAndDiscriminator(convert(their_generator), convert(their_discriminator))
    rows, padded = texts_for(module.discriminator)
    objective = ReplacedTokens(FixedMasker(), seed=3)
    ours = objective.losses(module, objective.prepare(rows, 0.0))

    out = their_generator(**masked_for_them(rows, padded))
    assert_equal_losses(mean(ours["mlm"]), out.loss)

    layout = Layout(rows.lengths.tolist())
    places = FixedMasker().apply(rows).places
    cumulative = unpad(out.logits, layout)[places].double().softmax(-1).cumsum(-1).numpy()
    numbers = uniform(Stream.SAMPLE, 3, 2, rows.index[rows.sequence_ids[places]], rows.positions[places])
    corrupted = torch.from_numpy(rows.ids.copy())
    corrupted[places] = torch.tensor([int(np.searchsorted(c, u)) for c, u in zip(cumulative, numbers, strict=True)])
    replaced = corrupted != torch.from_numpy(rows.ids)
    assert 0 < replaced.sum() <= len(places)
    theirs = their_discriminator(
        **padded | {"input_ids": pad(corrupted, layout, 0), "labels": pad(replaced.long(), layout, 0)}
    )
    assert_equal_losses(mean(ours["rtd"]), theirs.loss)
    assert int(ours["rtd"].shares["found"][1]) == int(replaced.sum())


def test_a_whole_student_is_its_teacher() -> None:
    teacher = convert(make_reference("bert", "ForPreTraining"))
    student = init_student(teacher, num_layers=teacher.num_layers).eval()
    packed, _ = make_texts(teacher.config)
    torch.testing.assert_close(student.logits(packed, "mlm"), teacher.logits(packed, "mlm"), rtol=0, atol=1e-5)
