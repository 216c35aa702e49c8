"""Single properties of the objectives: hand-worked losses, what is refused, what the teacher may and may not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bertworks.data.pretraining import Sequences
from bertworks.errors import ConfigError, DataError, ModelError, UsageError
from bertworks.nn.packed import Packed
from bertworks.objectives.causal_lm import CausalLM
from bertworks.objectives.distill import (
    Distillation,
    Teacher,
    Transfer,
    distances,
)
from bertworks.objectives.masked_lm import MaskedLM
from bertworks.objectives.replaced_tokens import GeneratorAndDiscriminator, ReplacedTokens, detection_loss
from bertworks.objectives.sentence_pairs import MaskedLMWithPairs
from bertworks.objectives.student import even_pairs, init_student, start_layers
from tests.objectives.language import (
    RTD_HEAD,
    make_masker,
    make_model,
    make_rows,
    pair_head,
    theme_texts,
    topic_pairs,
    vocabulary_head,
)

MLM = vocabulary_head("mlm", 32)


def rows_of(count: int = 4) -> Sequences:
    return make_rows(theme_texts(count, seed=0))


# -- sentence pairs ----------------------------------------------------------------------------------------------------


def test_the_last_layer_is_computed_at_masked_places_and_first_tokens_only() -> None:
    texts, labels = topic_pairs(3, seed=0)
    objective = MaskedLMWithPairs(make_masker(), "nsp")
    batch = objective.prepare(make_rows(texts, labels={"nsp": labels}), 0.0)
    index = batch.rows.index
    assert len(index) == batch.counts["mlm"] + batch.counts["nsp"]
    assert index[batch.tensors["first"]].tolist() == list(batch.packed.layout.starts)
    masked = index[batch.tensors["masked"]]
    assert (batch.packed.input_ids[masked] != 0).all()
    assert not set(masked.tolist()) & set(batch.packed.layout.starts)


def test_pairs_need_labels_and_a_known_kind() -> None:
    with pytest.raises(DataError, match="no 'sop' labels"):
        MaskedLMWithPairs(make_masker(), "sop").prepare(rows_of(), 0.0)
    with pytest.raises(UsageError, match="nsp"):
        MaskedLMWithPairs(make_masker(), "next")


def test_a_pair_head_reads_the_first_token() -> None:
    texts, labels = topic_pairs(3, seed=0)
    objective = MaskedLMWithPairs(make_masker(), "nsp")
    model = make_model(MLM, replace(pair_head("nsp"), reads="mean"))
    with pytest.raises(ModelError, match="mean"):
        objective.losses(model, objective.prepare(make_rows(texts, labels={"nsp": labels}), 0.0))


# -- causal LM ---------------------------------------------------------------------------------------------------------


def test_every_token_predicts_the_next_of_its_own_sequence() -> None:
    batch = CausalLM().prepare(make_rows([[[0, 1]], [[2]]]), 0.0)  # [CLS] 5 6 [SEP]   [CLS] 7 [SEP]
    assert batch.tensors["places"].tolist() == [0, 1, 2, 4, 5]
    assert batch.tensors["targets"].tolist() == [5, 6, 3, 7, 3]
    assert batch.counts == {"lm": 5}


def test_a_model_that_sees_the_future_is_refused() -> None:
    objective = CausalLM()
    with pytest.raises(ModelError, match="causal"):
        objective.losses(make_model(vocabulary_head("lm", 32)), objective.prepare(rows_of(), 0.0))


def test_a_model_without_the_head_says_so() -> None:
    objective = MaskedLM(make_masker())
    with pytest.raises(ModelError, match="no 'mlm' head"):
        objective.losses(make_model(), objective.prepare(rows_of(), 0.0))


# -- replaced tokens ---------------------------------------------------------------------------------------------------


def electra(*, embedding_size: int = 20) -> GeneratorAndDiscriminator:
    generator = make_model(vocabulary_head("mlm", 20), hidden_size=16, embedding_size=embedding_size)
    return GeneratorAndDiscriminator(generator, make_model(RTD_HEAD, embedding_size=20))


def test_the_embeddings_are_the_same_tensors() -> None:
    module = electra()
    for name in ("tokens", "positions", "segments"):
        ours, theirs = (
            getattr(model.body.embeddings, name).weight for model in (module.generator, module.discriminator)
        )
        assert ours is theirs
    parts = (module.generator, module.discriminator)
    apart = sum(parameter.numel() for part in parts for parameter in part.parameters())
    shared = sum(parameter.numel() for parameter in module.parameters())
    assert apart - shared == 20 * (29 + 31 + 2)


def test_embeddings_that_cannot_be_shared_are_refused() -> None:
    with pytest.raises(ConfigError, match="width of the embeddings is 24 in the generator and 20"):
        electra(embedding_size=24)


def test_detection_by_hand() -> None:
    loss = detection_loss(torch.tensor([0.0, 2.0, -1.0]), torch.tensor([True, True, False]))
    expected = math.log(2) + math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1))
    assert float(loss.sum) == pytest.approx(expected)
    assert int(loss.correct) == 2
    assert tuple(int(part) for part in loss.shares["found"]) == (1, 2)


def test_a_sample_that_is_the_original_counts_as_original() -> None:
    """A generator that is sure of one word replaces all others by it, and leaves that one what it is."""
    module, objective = electra(), ReplacedTokens(make_masker(0.5), seed=0)
    with torch.no_grad():
        module.generator.head("mlm").output_bias[9] = 1e4
    rows = rows_of(20)
    batch = objective.prepare(rows, 0.0)
    replaced = objective.losses(module, batch)["rtd"].shares["found"][1]
    assert int(replaced) == int((batch.tensors["targets"] != 9).sum()) < batch.counts["mlm"]
    assert batch.counts["rtd"] == int((~rows.special).sum())


def test_samples_do_not_depend_on_the_batch_but_on_seed_and_epoch() -> None:
    def numbers(rows: Sequences, seed: int = 0) -> list[float]:
        return ReplacedTokens(make_masker(), seed=seed).prepare(rows, 0.0).tensors["uniform"].tolist()

    text = theme_texts(1, seed=0)
    alone = numbers(make_rows(text, index=[7]))
    among = numbers(make_rows([*theme_texts(2, seed=1), *text], index=[1, 2, 7]))
    assert among[-len(alone) :] == alone
    assert numbers(make_rows(text, index=[7]), seed=1) != alone
    assert numbers(make_rows(text, index=[7], epoch=1)) != alone


# -- distillation ------------------------------------------------------------------------------------------------------


def test_distances_by_hand() -> None:
    ours, theirs = torch.tensor([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([[0.0, 2.0], [6.0, 8.0]])
    assert distances(ours, theirs, "cosine").tolist() == pytest.approx([1.0, 0.0], abs=1e-6)
    assert distances(ours, theirs, "squared").tolist() == pytest.approx([2.5, 12.5])


def test_a_student_that_is_its_teacher_has_nothing_to_learn() -> None:
    teacher = make_model(MLM, num_layers=3)
    student = init_student(teacher, num_layers=3)
    objective = Distillation(teacher, make_masker())
    losses = objective.losses(student, objective.prepare(rows_of(), 0.0))
    assert float(losses["soft"].sum.detach()) == pytest.approx(0.0, abs=1e-4)
    assert float(losses["cosine"].sum.detach()) == pytest.approx(0.0, abs=1e-4)
    transfer = Transfer(teacher)
    losses = transfer.losses(transfer.wrap(student), transfer.prepare(rows_of(), 0.0))
    assert all(float(loss.sum.detach()) == pytest.approx(0.0, abs=1e-4) for loss in losses.values())


def test_the_teacher_is_only_asked() -> None:
    teacher = make_model(MLM, num_layers=3).train()
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    student = make_model(MLM)
    objective = Distillation(teacher, make_masker())
    losses = objective.losses(student, objective.prepare(rows_of(), 0.0))
    torch.stack([loss.sum for loss in losses.values()]).sum().backward()
    assert not teacher.training
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in teacher.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())


def test_the_teacher_follows_the_device() -> None:
    model = make_model(MLM)
    assert Teacher(model).on(torch.device("meta")).body.embeddings.tokens.weight.device.type == "meta"


def test_a_weight_of_zero_leaves_a_loss_out() -> None:
    teacher = make_model(MLM, num_layers=3)
    objective = Distillation(teacher, make_masker(), soft_weight=0.0, cosine_weight=0.0)
    batch = objective.prepare(rows_of(), 0.0)
    asked: list[object] = []
    teacher.body.register_forward_hook(lambda *arguments: asked.append(arguments))
    assert set(objective.losses(make_model(MLM), batch)) == set(batch.counts) == {"mlm"}
    assert not asked  # the teacher has nothing to say
    transfer = Transfer(teacher, hidden_weight=0.0)
    batch = transfer.prepare(rows_of(), 0.0)
    assert set(transfer.losses(transfer.wrap(make_model()), batch)) == set(batch.counts) == {"sentence"}


def test_what_a_distillation_refuses() -> None:
    teacher = make_model(MLM, num_layers=3)
    with pytest.raises(ModelError, match="no 'mlm' head"):
        Distillation(make_model(), make_masker())
    with pytest.raises(ConfigError, match="temperature"):
        Distillation(teacher, make_masker(), temperature=0.0)
    with pytest.raises(ConfigError, match="weights"):
        Distillation(teacher, make_masker(), soft_weight=0.0, mlm_weight=0.0, cosine_weight=0.0)
    with pytest.raises(ConfigError, match="weights"):
        Transfer(teacher, hidden_weight=0.0, sentence_weight=0.0)
    objective = Distillation(teacher, make_masker())
    narrow = make_model(vocabulary_head("mlm", 20), hidden_size=20)
    with pytest.raises(ModelError, match="width 20"):
        objective.losses(narrow, objective.prepare(rows_of(), 0.0))
    with pytest.raises(ConfigError, match="1: 9"):
        Transfer(teacher, layers={1: 9}).wrap(make_model(hidden_size=20))
    with pytest.raises(ConfigError, match="no layers"):
        Transfer(teacher, layers={})


def test_layers_are_paired_evenly() -> None:
    assert even_pairs(3, 6) == {0: 0, 1: 2, 2: 4, 3: 6}
    assert even_pairs(2, 5) == {0: 0, 1: 2, 2: 5}


def test_maps_are_not_part_of_the_student() -> None:
    teacher, student = make_model(num_layers=4), make_model(hidden_size=20)
    names = set(student.state_dict())
    module = Transfer(teacher).wrap(student)
    assert set(module.student.state_dict()) == names
    assert set(module.maps) == {"0", "1", "2"}
    hidden = torch.randn(5, 20)
    lengths = module.mapped(1, hidden).norm(dim=-1)
    torch.testing.assert_close(lengths, hidden.norm(dim=-1))  # orthogonal at the start
    assert not Transfer(teacher).wrap(make_model()).maps
    assert set(Transfer(teacher, hidden_weight=0.0).wrap(make_model(hidden_size=20)).maps) == {"2"}
    assert set(Transfer(teacher, layers={1: 2}, sentence_weight=0.0).wrap(make_model(hidden_size=20)).maps) == {"1"}


# -- students ----------------------------------------------------------------------------------------------------------


def test_layers_are_spread_evenly() -> None:
    def layers(student: int, teacher: int, **kinds: int) -> list[int]:
        body = make_model(num_layers=teacher).config.body
        return start_layers(replace(body, **kinds), student)

    assert layers(6, 12) == [2, 4, 6, 8, 10, 12]
    assert layers(3, 6) == [2, 4, 6]
    assert layers(1, 4) == [4]
    assert layers(4, 4) == [1, 2, 3, 4]
    # Layers 1 and 4 of the teacher are global, 2 and 3 local; the student's first is global, its second local.
    assert layers(2, 4, local_window=4, global_every=3) == [1, 3]


def test_a_student_has_its_teachers_layers() -> None:
    teacher = make_model(MLM, pair_head("nsp"), num_layers=5)
    student = init_student(teacher, num_layers=2)
    assert student.config.heads == teacher.config.heads
    ours, theirs = student.state_dict(), teacher.state_dict()
    for name, tensor in ours.items():
        origin = name.replace("blocks.1.", "blocks.4.").replace("blocks.0.", "blocks.1.")
        assert torch.equal(tensor, theirs[origin])
        assert tensor.data_ptr() != theirs[origin].data_ptr()


def test_a_student_without_local_layers_says_so_in_one_way() -> None:
    """Else a ModernBERT of one layer could not be written: its config has no place for a window that no layer has."""
    config = make_model(num_layers=4).config
    teacher = type(make_model())(replace(config, body=replace(config.body, local_window=4, global_every=3)))
    body = init_student(teacher, num_layers=1).config.body
    assert (body.local_window, body.global_every) == (None, 1)


def test_shared_layers_are_kept() -> None:
    config = make_model(num_layers=6).config
    teacher = type(make_model())(replace(config, body=replace(config.body, num_groups=2)))
    student = init_student(teacher, num_layers=3)
    assert len(student.body.blocks) == 2
    packed = Packed.from_sequences([np.array([2, 5, 6, 3])])
    torch.testing.assert_close(student.body(packed, layers=[1]).last, teacher.body(packed, layers=[1]).last)
    with pytest.raises(ConfigError, match="share 2"):
        init_student(teacher, num_layers=1)


def test_what_a_student_cannot_be() -> None:
    teacher = make_model(MLM, num_layers=4)
    for wrong in (5, 0):
        with pytest.raises(ConfigError, match="allowed: 1 to 4"):
            init_student(teacher, num_layers=wrong)


def test_cosine_is_what_torch_says() -> None:
    teacher, student = make_model(MLM, num_layers=3), make_model(MLM)
    objective = Distillation(teacher, make_masker())
    batch = objective.prepare(rows_of(), 0.0)
    with torch.no_grad():
        ours, theirs = (model.body(batch.packed).last for model in (student, teacher))
        expected = F.cosine_embedding_loss(ours, theirs, torch.ones(len(ours)), reduction="sum")
        torch.testing.assert_close(objective.losses(student, batch)["cosine"].sum, expected)
