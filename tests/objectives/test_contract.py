"""Every objective keeps the contract."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import nn

from bertworks.data.pretraining import Sequences
from bertworks.models.config import EmbeddingConfig, ModelConfig, RecurrentConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Objective
from bertworks.objectives.bilm import BidirectionalLM
from bertworks.objectives.causal_lm import CausalLM
from bertworks.objectives.distill import Distillation, Transfer
from bertworks.objectives.masked_lm import MaskedLM
from bertworks.objectives.replaced_tokens import GeneratorAndDiscriminator, ReplacedTokens
from bertworks.objectives.sentence_pairs import MaskedLMWithPairs
from bertworks.train.recurrent import recurrent_head
from tests.objectives.bilms import spelt_model, spelt_objective, table_model
from tests.objectives.contract import ObjectiveContract
from tests.objectives.language import (
    NUM_WORDS,
    RTD_HEAD,
    VOCAB_SIZE,
    counter_pairs,
    make_masker,
    make_model,
    make_rows,
    pair_head,
    topic_pairs,
    vocabulary_head,
)

LENGTHS = (3, 5, 5, 9, 12, 12, 14)


def single_rows() -> Sequences:
    """Sequences of several lengths; their numbers in the data are not their places in the batch."""
    texts = [[[(7 * number + 3 * place) % NUM_WORDS for place in range(n)]] for number, n in enumerate(LENGTHS)]
    rows = make_rows(texts, index=[11, 4, 90, 2, 33, 34, 8], epoch=3)
    return Sequences(rows.ids, rows.lengths, rows.index, rows.epoch, rows.special)  # without segments


def seeded(module: nn.Module) -> nn.Module:
    """Biases and norms with values that matter."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return module


class TestMaskedLM(ObjectiveContract):
    def objective(self) -> Objective:
        return MaskedLM(make_masker())

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        return seeded(make_model(vocabulary_head("mlm", 32), segments=0))

    def rows(self) -> Sequences:
        return single_rows()


class TestNextSentence(ObjectiveContract):
    kind = "nsp"

    def objective(self) -> Objective:
        return MaskedLMWithPairs(make_masker(), self.kind)

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        return seeded(make_model(vocabulary_head("mlm", 32), pair_head(self.kind)))

    def rows(self) -> Sequences:
        texts, labels = topic_pairs(7, seed=0) if self.kind == "nsp" else counter_pairs(7, seed=0)
        texts = [[a, b[: 1 + number // 2]] for number, (a, b) in enumerate(texts)]
        return make_rows(texts, labels={self.kind: labels})


class TestSentenceOrder(TestNextSentence):
    kind = "sop"


class TestReplacedTokens(ObjectiveContract):
    def objective(self) -> Objective:
        return ReplacedTokens(make_masker(rate=0.3), seed=9)

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        generator = make_model(vocabulary_head("mlm", 20), hidden_size=16, embedding_size=20, segments=0)
        discriminator = make_model(RTD_HEAD, hidden_size=32, embedding_size=20, segments=0)
        return seeded(GeneratorAndDiscriminator(generator, discriminator))

    def rows(self) -> Sequences:
        return single_rows()


class TestCausalLM(ObjectiveContract):
    def objective(self) -> Objective:
        return CausalLM()

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        return seeded(make_model(vocabulary_head("lm", 32), causal=True, segments=0))

    def rows(self) -> Sequences:
        return single_rows()


class TestRecurrentLM(TestCausalLM):
    cell: Literal["rnn", "lstm", "gru"] = "lstm"

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        body = RecurrentConfig(
            embeddings=EmbeddingConfig(vocab_size=VOCAB_SIZE, size=20, norm=False),
            cell=self.cell,
            hidden_size=28,
            num_hidden_layers=2,
            initializer_range=0.3,
        )
        return seeded(Model(ModelConfig(family="bertworks", body=body, heads=(recurrent_head(body, "lm"),))))


class TestSimpleRecurrentLM(TestRecurrentLM):
    cell = "rnn"


class TestGatedRecurrentLM(TestRecurrentLM):
    cell = "gru"


class TestBidirectionalLM(ObjectiveContract):
    """ELMo: words from their characters, some of them predicted as unknown."""

    def objective(self) -> Objective:
        return spelt_objective()

    def module(self) -> nn.Module:
        return seeded(spelt_model())

    def rows(self) -> Sequences:
        return single_rows()


class TestSampledBidirectionalLM(TestBidirectionalLM):
    def objective(self) -> Objective:
        return spelt_objective(softmax_words=8)


class TestBidirectionalLMOfCharacters(TestBidirectionalLM):
    def objective(self) -> Objective:
        return BidirectionalLM(vocab_size=VOCAB_SIZE, unknown_id=1)

    def module(self) -> nn.Module:
        return seeded(table_model())


class TestDistillation(ObjectiveContract):
    options: dict[str, float] = {}  # noqa: RUF012

    def objective(self) -> Objective:
        torch.manual_seed(1)
        teacher = make_model(vocabulary_head("mlm", 32), num_layers=3, segments=2)
        return Distillation(teacher, make_masker(), **self.options)

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        return seeded(make_model(vocabulary_head("mlm", 32), segments=0))

    def rows(self) -> Sequences:
        return single_rows()


class TestDistillationWithoutCosine(TestDistillation):
    options = {"cosine_weight": 0.0, "temperature": 3.0}  # noqa: RUF012


class TestTransfer(ObjectiveContract):
    width = 24
    layers: dict[int, int] | None = None
    hidden_weight = 1.0

    def transfer(self) -> Transfer:
        torch.manual_seed(1)
        teacher = make_model(num_layers=4, hidden_size=32, segments=0)
        return Transfer(teacher, layers=self.layers, sentence_distance="squared", hidden_weight=self.hidden_weight)

    def objective(self) -> Objective:
        return self.transfer()

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        student = make_model(hidden_size=self.width, num_layers=2, segments=0)
        return seeded(self.transfer().wrap(student))

    def rows(self) -> Sequences:
        return single_rows()


class TestTransferInTheSameWidth(TestTransfer):
    width = 32
    layers = {2: 4}  # noqa: RUF012


class TestTransferOfSentencesOnly(TestTransfer):
    hidden_weight = 0.0


def test_the_contract_is_not_collected_by_itself() -> None:
    assert not ObjectiveContract.__name__.startswith("Test")
    with pytest.raises(NotImplementedError):
        ObjectiveContract().rows()
