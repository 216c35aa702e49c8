"""Taggers and classifiers over words: the tasks' contract, what a batch holds, the CRF's paths, and the partial views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from bertworks.data.labelled.examples import Place, TaggedExample
from bertworks.errors import DataError, ModelError
from bertworks.models.model import Model
from bertworks.models.words import PackedWords
from bertworks.tasks import for_examples, from_settings
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Chosen, Task, Units
from bertworks.tasks.run import outputs_of, predict_examples
from bertworks.tasks.word_classification import words_of as words_of_text
from bertworks.tasks.word_inputs import WordInputs
from bertworks.tasks.word_tagging import VIEWS, WordTagging
from bertworks.tasks.words import tagged_from_text
from bertworks.text.tokenizer import Tokenizer
from tests.tasks import small
from tests.tasks.contract import TaskContract
from tests.tasks.word_models import FakeSource, make_inputs, make_model, words_of


class OverWords(TaskContract):
    """Nothing is ever cut."""

    name = "tag"
    options: ClassVar[dict[str, Any]] = {}
    cell = "lstm"
    learnable = False  # not in forty small steps: nothing of it is pretrained

    def examples(self) -> list[Any]:
        return small.tagged()

    def task(self) -> Task[Any, Any]:
        return for_examples(self.name, self.examples(), inputs=WordInputs(), **self.options)

    def model(self) -> tuple[Model, Tokenizer]:
        torch.manual_seed(3)
        model, tokenizer = make_model(self.sentences(), cell=self.cell)
        return model, attach(self.task(), model, tokenizer)

    def sentences(self) -> list[Any]:
        return words_of(self.examples())

    def test_small_windows_hold_too(self) -> None:
        _, tokenizer = self.model()
        units = self.task().encode(self.examples(), tokenizer, window=2, training=False)
        assert np.diff(units.starts).tolist() == [len(words) for words in self.sentences()]


class TestTagOverWords(OverWords):
    cell = "gru"


class TestTagOverWordsWithCrf(OverWords):
    options: ClassVar[dict[str, Any]] = {"crf": True}


class TestClassifyOverWords(OverWords):
    name = "classify"

    def examples(self) -> list[Any]:
        return small.texts()

    def sentences(self) -> list[Any]:
        return [words_of_text(example) for example in self.examples()]


class TestTagWithCrf(TaskContract):
    """A CRF stands on any model."""

    def examples(self) -> list[Any]:
        return small.tagged()

    def task(self) -> Task[Any, Any]:
        return for_examples("tag", self.examples(), crf=True)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sentence(words: str, tags: str | None = None) -> TaggedExample:
    return TaggedExample(
        words=tuple(words.split()), tags=None if tags is None else tuple(tags.split()), place=Place("a.conll", 1)
    )


def learn(task: Task[Any, Any], model: Model, units: Units, *, steps: int = 60, rate: float = 0.03) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        loss = task.losses(model, task.prepare(Chosen(units, np.arange(len(units))), 0.0))["tag"]
        optimizer.zero_grad()
        (loss.sum / loss.count).backward()
        optimizer.step()


# -- inputs ------------------------------------------------------------------------------------------------------------


def test_a_batch_holds_every_spelling_once_and_every_words_vectors() -> None:
    source, other = FakeSource(), FakeSource("other", num_layers=1, width=2)
    inputs = make_inputs(source, other)
    sentences = [("Zoë", "saw", "Zoë"), ("a",), ("saw", "zoë")]
    _, tokenizer = make_model(sentences, inputs)
    units = inputs.units(sentences, tokenizer)
    batch = inputs.pack(Chosen(units, np.array([2, 0])))
    assert isinstance(batch, PackedWords)
    assert batch.layout.lengths == (2, 3)
    # Small letters in the table, as written in the letters: four bytes, and a mark at each end.
    words = tokenizer.tokens(batch.input_ids.tolist())
    assert words == ["saw", "zoë", "zoë", "saw", "zoë"]
    spelled = [
        bytes(batch.letters[start + 1 : start + length - 1].tolist()).decode()
        for start, length in zip(batch.letters_layout.starts, batch.letters_layout.lengths, strict=True)
    ]
    assert sorted(spelled) == ["Zoë", "saw", "zoë"]
    assert [spelled[number] for number in batch.spellings] == ["saw", "zoë", "Zoë", "saw", "Zoë"]
    assert batch.vectors[0].shape == (5, 2, 3)
    assert batch.vectors[0][:, 0, 1].tolist() == [0, 1, 0, 1, 2]
    assert batch.vectors[1].shape == (5, 1, 2)


def test_words_of_any_kind_are_one_token_each() -> None:
    sentences = [("[UNK]", " ", "", "a b", "\ud800", "x" * 999, "ΑΣ", "İ", "\u200b", "\n")]
    _, tokenizer = make_model(sentences, min_count=2)
    assert tokenizer.vocab_size == 1
    for least in (1, 2):
        _, tokenizer = make_model(sentences, min_count=least)
        units = WordInputs().units(sentences, tokenizer)
        assert units.num_tokens.tolist() == [10]
        WordInputs().pack(Chosen(units, np.array([0])))


def test_rare_words_are_unknown_and_the_frequent_come_first() -> None:
    _, tokenizer = make_model([("b", "A", "a", "c"), ("b", "a")], min_count=2)
    assert tokenizer.tokens(range(tokenizer.vocab_size)) == ["[UNK]", "a", "b"]


def test_sources_must_be_open() -> None:
    inputs = make_inputs(FakeSource())
    _, tokenizer = make_model([("a",)], inputs)
    closed = WordInputs.from_settings(inputs.settings())
    assert closed == inputs
    with pytest.raises(ModelError, match="not open"):
        closed.units([("a",)], tokenizer)


def test_a_pair_is_not_one_text() -> None:
    examples = small.texts(pairs=True)
    with pytest.raises(DataError, match="reads one text"):
        words_of_text(examples[0])


# -- tags --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("crf", "wanted"), [(False, ("A", "E")), (True, ("A", "D"))])
def test_a_crf_chooses_tags_that_go_together(crf: bool, wanted: tuple[str, str]) -> None:
    """Of ten sentences of the same words four are tagged A D, three B E and three C E: A is the likeliest first tag, E the
    likeliest second one, but A E never occurs. No layer that judges each word by itself can know that."""
    examples = [sentence("go now", tags) for tags in ["A D"] * 4 + ["B E"] * 3 + ["C E"] * 3]
    task = for_examples("tag", examples, inputs=WordInputs(), crf=crf)
    torch.manual_seed(0)
    model, tokenizer = make_model(words_of(examples))
    tokenizer = attach(task, model, tokenizer)
    learn(task, model, task.encode(examples, tokenizer, window=9, training=True), steps=150)
    prediction = predict_examples(task, model, examples[:1], tokenizer=tokenizer, window=9, decision={})[0]
    assert prediction.tags == wanted
    # The probability of a tag is that of the word's, whichever tags stand around it.
    assert prediction.probabilities == pytest.approx((0.4, 0.4 if crf else 0.6), abs=0.05)


def test_spans_of_a_crf_are_whole_and_have_exact_offsets() -> None:
    task = WordTagging(labels=("O", "B-LOC", "I-LOC", "B-PER", "I-PER"), scheme="bio", crf=True)
    text = "  In\u00a0Zürich, Jürgen  Müller-Lüdenscheidt's dog  barked. "
    example = tagged_from_text(text, Place("rows", 0))
    for seed in range(5):
        torch.manual_seed(seed)
        model, tokenizer = make_model([example.words])
        attach(task, model, tokenizer)
        torch.nn.init.normal_(model.head("tag").output.weight, std=3.0)  # type: ignore[union-attr]
        prediction = predict_examples(task, model, [example], tokenizer=tokenizer, window=9, decision={})[0]
        before = "O"
        for tag in prediction.tags:
            assert not tag.startswith("I-") or before[2:] == tag[2:]
            before = tag
        for span in prediction.spans:
            assert text[span.start : span.end] == span.text
            assert span.text.split() == list(example.words[span.first_word : span.stop_word]) or "'s" in span.text


def test_a_sentence_without_words_has_no_tags() -> None:
    task = WordTagging(labels=("O", "X"), scheme="plain", crf=True)
    model, tokenizer = make_model([("a",)])
    attach(task, model, tokenizer)
    examples = [tagged_from_text("", Place("rows", 0)), tagged_from_text("a a", Place("rows", 1))]
    found = predict_examples(task, model, examples, tokenizer=tokenizer, window=9, decision={})
    assert [len(prediction.tags) for prediction in found] == [0, 2]
    assert predict_examples(task, model, examples[:1], tokenizer=tokenizer, window=9, decision={})[0].tags == ()


def test_the_tagger_tells_words_apart_by_what_stands_far_away() -> None:
    """The bank's tag is the first word's doing, some words before it."""
    examples = [
        sentence(f"{first} {' '.join(['x'] * count)} bank", f"O {' '.join(['O'] * count)} {tag}")
        for first, tag in (("river", "B-LOC"), ("money", "B-ORG"))
        for count in (1, 3)
    ]
    task = for_examples("tag", examples, inputs=WordInputs())
    torch.manual_seed(0)
    model, tokenizer = make_model(words_of(examples))
    tokenizer = attach(task, model, tokenizer)
    learn(task, model, task.encode(examples, tokenizer, window=9, training=True), steps=120)
    news = [sentence(f"{first} x x bank") for first in ("river", "money")]
    found = predict_examples(task, model, news, tokenizer=tokenizer, window=9, decision={})
    assert [prediction.tags[-1] for prediction in found] == ["B-LOC", "B-ORG"]


# -- partial views -----------------------------------------------------------------------------------------------------


def views_task(**options: Any) -> tuple[WordTagging, Model, Tokenizer, Units, Units]:
    examples = small.tagged()
    task = for_examples("tag", examples, inputs=WordInputs(), views=0.5, **options)
    assert isinstance(task, WordTagging)
    torch.manual_seed(4)
    model, tokenizer = make_model(words_of(examples))
    tokenizer = attach(task, model, tokenizer)
    labelled = task.encode(examples, tokenizer, window=9, training=True)
    return task, model, tokenizer, labelled, task.encode(examples, tokenizer, window=9, training=False)


@pytest.mark.parametrize("crf", [False, True])
def test_labelled_and_unlabelled_batches_have_their_own_losses(crf: bool) -> None:
    task, model, _, labelled, unlabelled = views_task(crf=crf)
    assert task.weights == {"tag": 1.0, "views": 0.5}
    chosen = np.arange(3)
    words = int(labelled.num_tokens[:3].sum())
    for units, counts in ((labelled, {"tag": words, "views": 0}), (unlabelled, {"tag": 0, "views": words})):
        batch = task.prepare(Chosen(units, chosen), 0.0)
        losses = task.losses(model, batch)
        assert batch.counts == counts
        assert {name: loss.count for name, loss in losses.items()} == counts
        assert all((float(loss.sum.detach()) > 0) == (loss.count > 0) for loss in losses.values())


def test_the_views_learn_and_the_tagger_does_not() -> None:
    task, model, _, _, unlabelled = views_task()
    task.losses(model, task.prepare(Chosen(unlabelled, np.arange(len(unlabelled))), 0.0))["views"].sum.backward()
    touched = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
    assert {name.split(".")[1] for name in touched if name.startswith("heads.")} == set(
        VIEWS.values()
    )  # not the tagger
    assert not any(name.startswith("body.blocks.1") for name in touched)  # the views stand on the first layer
    assert any(name.startswith("body.blocks.0") for name in touched)


def test_the_loss_of_the_views_is_the_cross_entropy_with_what_the_tagger_says() -> None:
    task, model, _, _, unlabelled = views_task(crf=True)
    batch = task.prepare(Chosen(unlabelled, np.array([0])), 0.0)
    with torch.no_grad():
        found = float(task.losses(model.train(), batch)["views"].sum)
        model.eval()
        taught = task.probabilities(model, batch)
        for name in VIEWS.values():  # views that say nothing say every tag alike
            torch.nn.init.zeros_(model.head(name).output.weight)  # type: ignore[union-attr]
        silent = float(task.losses(model, batch)["views"].sum)
    count = batch.num_tokens
    assert silent == pytest.approx(count * np.log(len(task.labels)), rel=1e-5)
    entropy = -float((taught * taught.log()).sum())
    assert found > entropy  # no distribution is nearer than the tagger's own
    assert model.training is False


def test_a_finished_model_has_no_views() -> None:
    task, model, _, _, unlabelled = views_task(crf=True)
    before = outputs_of(task, model, unlabelled)
    finished = task.finish(model)
    assert list(model.heads) == ["tag"]
    assert finished.views == 0.0
    assert from_settings(finished.settings()) == replace(task, views=0.0)
    for one, other in zip(before, outputs_of(finished, model, unlabelled), strict=True):
        assert np.array_equal(one, other)
