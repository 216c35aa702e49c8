"""Tiny models of every family with tokenizers that go with them, and a few examples of every task."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from typing import Any

from bertworks.data.labelled.examples import (
    Answer,
    ChoiceExample,
    Place,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer
from tests.hub import reference
from tests.text import tiny

TOKENIZERS = {
    "bert": tiny.bert,
    "distilbert": tiny.bert,
    "electra": tiny.bert,
    "ernie": tiny.bert,
    "roberta": tiny.roberta,
    "mpnet": tiny.roberta,
    "modernbert": tiny.roberta,
    "albert": tiny.unigram,
    "gpt2": tiny.gpt2,
    "openai-gpt": tiny.openai_gpt,
}
"""Which tiny tokenizer a family's tiny model has."""

SENTENCES = [
    "The river runs past the old mill.",
    "Seventeen geese walked to the market.",
    "It's not what you'd expect: nobody stopped them!",
    "The miller's daughter runs, and the geese run after her.",
    "Walking, walked, walker",
    "",
    "Där går en älv förbi kvarnen.",
    "the mill, the market, the river, the mill, the market, the river and the old mill again",
]


@lru_cache
def make_tokenizer(model_type: str) -> Tokenizer:
    return Tokenizer(TOKENIZERS[model_type]())


def make_model(model_type: str = "bert", **options: Any) -> tuple[Model, Tokenizer]:
    """A random model of a family without heads, in evaluation mode, and its tokenizer."""
    return deepcopy(_model(model_type, **options)), make_tokenizer(model_type)


@lru_cache
def _model(model_type: str, **options: Any) -> Model:
    tokenizer = make_tokenizer(model_type)
    known: dict[str, Any] = {"vocab_size": tokenizer.vocab_size}
    if "gpt" in model_type:
        known |= {"n_positions": 110, "n_layer": 2}
    else:
        known |= {"max_position_embeddings": 110, "n_layers" if model_type == "distilbert" else "num_hidden_layers": 2}
    if tokenizer.pad_id is not None:
        known["pad_token_id"] = tokenizer.pad_id
    return reference.convert(reference.make_reference(model_type, "Model", **known | options))


def place(number: int) -> Place:
    return Place("train.tsv", number + 2)


def texts(labels: tuple[Any, ...] = ("no", "yes", "maybe"), *, pairs: bool = False) -> list[TextExample]:
    """Each sentence with a label that its number decides."""
    return [
        TextExample(
            text=text,
            pair=SENTENCES[(number * 3 + 1) % len(SENTENCES)] if pairs else None,
            label=labels[number % len(labels)],
            place=place(number),
        )
        for number, text in enumerate(SENTENCES)
    ]


def choices() -> list[ChoiceExample]:
    """Two to four options each."""
    return [
        ChoiceExample(
            text=text,
            options=tuple(SENTENCES[(number + shift) % len(SENTENCES)] for shift in range(2 + number % 3)),
            label=number % 2,
            place=place(number),
        )
        for number, text in enumerate(SENTENCES)
    ]


def tagged() -> list[TaggedExample]:
    """Every sentence's words; the river and the mill are places, what begins with a capital letter is a name."""
    examples = []
    for number, text in enumerate(SENTENCES):
        words = tuple(text.split())
        tags = tuple("B-LOC" if w[:4] in ("rive", "mill") else "B-NAME" if w[:1].isupper() else "O" for w in words)
        if words:
            examples.append(TaggedExample(words=words, tags=tags, place=place(number)))
    return examples


def questions() -> list[QuestionExample]:
    """The answer is a word of the context, or there is none."""
    examples = []
    for number, text in enumerate(SENTENCES):
        if not text:
            continue
        word = text.split()[-1]
        answers = () if number % 3 == 2 else (Answer(word, text.rindex(word)),)
        examples.append(
            QuestionExample(
                id=f"q{number}", question="What is last?", context=text, answers=answers, place=place(number)
            )
        )
    return examples


def similar(kind: str) -> list[SimilarityExample]:
    """Scored pairs, texts with their words turned around and now and then a negative, or single texts."""
    filled = [text for text in SENTENCES if text]
    examples = []
    for number, text in enumerate(filled):
        other, turned = filled[(number + 1) % len(filled)], " ".join(text.split()[::-1])
        many = (text, turned, f"{other} {number}") if number % 2 else (text, turned)
        by_kind = {"scored": (text, other), "pairs": many, "unlabelled": (text,)}
        score = number % 4 * 1.5 if kind == "scored" else None
        examples.append(SimilarityExample(texts=by_kind[kind], score=score, place=place(number)))
    return examples
