"""Each objective learns, on a made-up language, what chance cannot know. Held-out figures, seconds each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from bertworks.data.pretraining import Sequences
from bertworks.models.model import Model
from bertworks.nn.packed import mean_per_sequence
from bertworks.objectives.base import pack
from bertworks.objectives.causal_lm import CausalLM
from bertworks.objectives.distill import Distillation, Transfer
from bertworks.objectives.masked_lm import MaskedLM
from bertworks.objectives.replaced_tokens import GeneratorAndDiscriminator, ReplacedTokens
from bertworks.objectives.sentence_pairs import MaskedLMWithPairs
from bertworks.objectives.student import init_student
from tests.objectives.language import (
    NUM_WORDS,
    RTD_HEAD,
    UNSEEN,
    Words,
    counter_pairs,
    make_masker,
    make_model,
    make_rows,
    measure,
    noisy_texts,
    pair_head,
    theme_texts,
    topic_pairs,
    train,
    two_grammars,
    vocabulary_head,
)

BATCH = 32


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def themes(seed: int, count: int = BATCH) -> Sequences:
    return make_rows(theme_texts(count, seed), epoch=seed % 1000)


def noisy(seed: int, count: int = BATCH // 2) -> Sequences:
    return make_rows(noisy_texts(count, seed), epoch=seed % 1000)


def pairs(
    make: Callable[[int, int], tuple[list[Words], list[int]]], kind: str, seed: int, count: int = BATCH
) -> Sequences:
    texts, labels = make(count, seed)
    return make_rows(texts, labels={kind: labels}, epoch=seed % 1000)


def test_masked_lm_learns_which_words_go_together() -> None:
    objective, model = MaskedLM(make_masker()), make_model(vocabulary_head("mlm", 32))
    held_out = themes(UNSEEN, 200)
    assert measure(objective, model, held_out).accuracy["mlm"] < 0.25
    train(objective, model, themes, steps=100, learning_rate=5e-3)
    # The theme alone gives one in four, the place alone one in six.
    assert measure(objective, model, held_out).accuracy["mlm"] > 0.9


@pytest.mark.parametrize(("kind", "language"), [("nsp", topic_pairs), ("sop", counter_pairs)])
def test_sentence_pairs_learn_what_follows(
    kind: str, language: Callable[[int, int], tuple[list[Words], list[int]]]
) -> None:
    objective = MaskedLMWithPairs(make_masker(0.1), kind)
    model = make_model(vocabulary_head("mlm", 32), pair_head(kind))
    train(objective, model, lambda seed: pairs(language, kind, seed), steps=250)
    found = measure(objective, model, pairs(language, kind, UNSEEN, 300))
    assert found.accuracy[kind] > 0.9
    assert found.accuracy["mlm"] > 3 / NUM_WORDS


def test_replaced_tokens_learn_to_see_what_does_not_belong() -> None:
    objective = ReplacedTokens(make_masker(), seed=1)
    generator = make_model(vocabulary_head("mlm", 24), hidden_size=16, embedding_size=24)
    discriminator = make_model(RTD_HEAD, embedding_size=24)
    module = GeneratorAndDiscriminator(generator, discriminator)
    held_out = themes(UNSEEN, 200)
    train(objective, module, themes, steps=160, learning_rate=5e-3)
    found = measure(objective, module, held_out)
    assert found.accuracy["mlm"] > 0.4
    # Saying "original" of every token finds none of the replaced ones.
    assert found.shares["found"] > 0.7
    assert found.accuracy["rtd"] > 0.95


def test_causal_lm_learns_a_grammar_with_memory() -> None:
    objective, model = CausalLM(), make_model(vocabulary_head("lm", 32), causal=True)

    def rows(seed: int, count: int = BATCH) -> Sequences:
        return make_rows(two_grammars(count, seed))

    train(objective, model, rows, steps=250, learning_rate=5e-3)
    # Of eleven predictions the first two are free and the last, [SEP], is sure. For the other eight, who forgets the first
    # word has a choice between two: (8 / 2 + 1) / 11 = 0.45 at best.
    assert measure(objective, model, rows(UNSEEN, 200)).accuracy["lm"] > 0.75


def test_distillation_is_quicker_than_learning_alone() -> None:
    """The teacher says how likely each word is, where the text only shows one that was drawn."""
    alone = MaskedLM(make_masker())
    teacher = make_model(vocabulary_head("mlm", 32), num_layers=3)
    train(alone, teacher, lambda seed: noisy(seed, 64), steps=150, learning_rate=5e-3)
    held_out = noisy(UNSEEN, 300)
    best = 0.4 * math.log(1 / 0.4) + 0.3 * math.log(1 / 0.3) + 0.2 * math.log(1 / 0.2) + 0.1 * math.log(1 / 0.1)
    assert measure(alone, teacher, held_out).loss["mlm"] < best + 0.1
    taught = Distillation(teacher, make_masker())

    found = []
    for objective in (alone, taught):  # from nothing
        torch.manual_seed(1)
        student = make_model(vocabulary_head("mlm", 32), num_layers=1, segments=0)
        train(objective, student, noisy, steps=80)
        found.append(measure(alone, student, held_out).loss["mlm"])
    assert found[1] < found[0] - 0.1

    found = []
    for objective in (alone, taught):  # from the teacher's own layers
        student = init_student(teacher, num_layers=1)
        train(objective, student, noisy, steps=20)
        found.append(measure(alone, student, held_out).loss["mlm"])
    assert found[1] < found[0]
    assert found[1] < best + 0.1


def similarities(model: Model, rows: Sequences) -> np.ndarray:
    """The cosines between all pairs of sentence embeddings."""
    packed = pack(rows)
    with torch.no_grad():
        vectors = mean_per_sequence(model.body(packed).last, packed.layout)
    vectors = torch.nn.functional.normalize(vectors, dim=-1)
    found = (vectors @ vectors.t()).numpy()
    return found[np.triu_indices(len(found), 1)]


@pytest.mark.parametrize("width", [32, 20])
def test_transfer_gives_the_student_the_teachers_similarities(width: int) -> None:
    teacher = make_model(num_layers=4)
    student = make_model(num_layers=2, hidden_size=width)
    objective = Transfer(teacher)
    module = objective.wrap(student)
    held_out = noisy(UNSEEN, 60)
    wanted = similarities(teacher, held_out)
    before = np.corrcoef(similarities(student, held_out), wanted)[0, 1]
    start = measure(objective, module, held_out).loss
    train(objective, module, noisy, steps=150, learning_rate=5e-3)
    after = np.corrcoef(similarities(student, held_out), wanted)[0, 1]
    end = measure(objective, module, held_out).loss
    assert end["sentence"] < 0.1 * start["sentence"]
    assert end["hidden"] < 0.5 * start["hidden"]
    assert after > max(0.8, before)
