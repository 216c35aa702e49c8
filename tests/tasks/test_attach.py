"""Making a model ready for a task: which heads, poolers and labels stay or go, and GPT's marks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertworks import hub
from bertworks.errors import ModelError
from bertworks.hub.families import has_head, new_head
from bertworks.models.config import HeadConfig
from bertworks.tasks import for_examples
from bertworks.tasks.attach import MARKS, attach
from bertworks.text.tokenizer import Tokenizer
from tests.hub.reference import convert, make_reference
from tests.tasks import small
from tests.tasks.small import make_model
from tests.train.small import make_model as make_own


def test_pretraining_heads_go_and_the_pooler_stays_where_it_is_read() -> None:
    reference = make_reference("bert", "ForPreTraining", vocab_size=300)
    model, tokenizer = convert(reference), small.make_tokenizer("bert")
    pooler = model.pooler
    attach(for_examples("classify", small.texts()), model, tokenizer)
    assert list(model.heads) == ["classify"]
    assert model.config.labels == ("maybe", "no", "yes")
    assert model.pooler is pooler
    attach(for_examples("tag", small.tagged()), model, tokenizer)
    assert list(model.heads) == ["tag"]
    assert model.pooler is None
    attach(for_examples("choice", small.choices()), model, tokenizer)
    assert model.pooler is not None


def test_similarity_keeps_the_pooler_as_it_is() -> None:
    model, tokenizer = make_model("bert")
    attach(for_examples("similarity", small.similar("pairs")), model, tokenizer)
    assert model.pooler is not None
    assert not any(parameter.requires_grad for parameter in model.pooler.parameters())
    assert not model.heads


def test_a_head_with_the_same_meaning_is_kept() -> None:
    model, tokenizer = make_model("bert")
    task = for_examples("classify", small.texts())
    attach(task, model, tokenizer)
    head = model.head("classify")
    attach(task, model, tokenizer)
    assert model.head("classify") is head
    attach(for_examples("classify", small.texts(("x", "y", "z"))), model, tokenizer)
    assert model.head("classify") is not head
    qa = for_examples("qa", small.questions())
    attach(qa, model, tokenizer)
    answers = model.head("qa")
    attach(qa, model, tokenizer)
    assert model.head("qa") is answers


def test_numbers_always_start_anew() -> None:
    """A finished head gives numbers on the file's scale, training begins on a scale of its own."""
    model, tokenizer = make_model("bert")
    task = for_examples("regress", small.texts((1.0, 2.0, 9.0)))
    attach(task, model, tokenizer)
    head = model.head("regress")
    attach(task, model, tokenizer)
    assert model.head("regress") is not head


def test_several_labels_leave_no_trace_in_the_next_task() -> None:
    model, tokenizer = make_model("bert")
    attach(for_examples("classify", small.texts((("a",), ("b",)))), model, tokenizer)
    assert ("problem_type", "multi_label_classification") in model.config.source
    attach(for_examples("classify", small.texts()), model, tokenizer)
    assert not [entry for entry in model.config.source if entry[0] == "problem_type"]


@pytest.mark.parametrize("model_type", ["gpt2", "openai-gpt"])
def test_gpt_reads_texts_between_marks(model_type: str, tmp_path: Path) -> None:
    model, tokenizer = make_model(model_type)
    old_rows, old_size = model.body.embeddings.tokens.weight.detach().clone(), tokenizer.vocab_size
    task = for_examples("pair", small.texts(pairs=True))
    marked = attach(task, model, tokenizer)
    start, delimiter, extract, pad = (marked.id(mark) for mark in MARKS.values())
    assert [start, delimiter, extract, pad] == list(range(old_size, old_size + 4))
    plain = tokenizer.encode("the old mill", special=False).ids.tolist()
    assert marked.encode("the old mill").ids.tolist() == [start, *plain, extract]
    pair = marked.encode("the old mill", "the old mill")
    assert pair.ids.tolist() == [start, *plain, delimiter, *plain, extract]
    assert not pair.segments.any()
    assert model.config.body.embeddings.vocab_size == model.body.embeddings.tokens.num_embeddings == old_size + 4
    assert torch.equal(model.body.embeddings.tokens.weight[:old_size], old_rows)
    assert model.config.pad_token_id == pad
    assert attach(task, model, marked) is marked  # once is enough
    hub.save(model, marked, tmp_path)
    again = Tokenizer.from_directory(tmp_path)
    assert again.encode("the old mill", "geese").ids.tolist() == marked.encode("the old mill", "geese").ids.tolist()
    assert again.pad_id == pad
    assert tokenizer.vocab_size == old_size  # the one given is as it was


def test_segments_that_the_model_does_not_have_are_refused() -> None:
    model, _ = make_model("bert", type_vocab_size=1)
    with pytest.raises(ModelError, match="segment 1, but the model has vectors for only 1"):
        attach(for_examples("classify", small.texts()), model, small.make_tokenizer("bert"))


def test_models_of_our_own_get_heads_of_our_own() -> None:
    config = make_own().config
    assert not has_head(config, "classify")
    assert new_head(config, "classify", 3) == HeadConfig(
        task="classify", reads="first", num_labels=3, transform_size=24, transform_act="tanh"
    )
    assert new_head(config, "tag", 5) == HeadConfig(task="tag", reads="tokens", num_labels=5)


def test_every_family_has_its_own_head() -> None:
    bert, _ = make_model("bert")
    roberta, _ = make_model("roberta")
    gpt, _ = make_model("openai-gpt")
    assert new_head(bert.config, "classify", 3).reads == "pooled"
    assert new_head(roberta.config, "regress", 1).reads == "first"
    assert new_head(roberta.config, "regress", 1).task == "regress"
    assert new_head(gpt.config, "choice", 1).reads == "last"
    assert has_head(bert.config, "regress")
    assert not has_head(gpt.config, "tag")
    assert new_head(gpt.config, "tag", 4).reads == "tokens"
