"""A pretrained model made ready for a task: the head, the names of the labels, and for GPT the form of the input.

Which head it is, the model's family says (`bertworks.hub.families`), so that the saved directory opens in
`transformers`. A head of the same shape that stands there already is kept where it has the same meaning: question
answering, choice, or the very same labels. Everything else is drawn anew; seed `torch` before.

GPT (Radford et al. 2018, section 3.3 and figure 1) reads a task as one run of text between marks that are new to it:

    one text    start text extract                    a pair, an option    start text delimiter text extract

The hidden state at "extract", which has seen everything, goes into the head. The marks become part of the tokenizer's
template and get rows in the token table. Recurrent models are given the same marks. Left out: the paper's auxiliary
language-modelling loss, and its reading of symmetric pairs in both orders.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import torch
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing
from torch import nn

from bertworks.errors import ModelError
from bertworks.hub.checkpoint import OWN
from bertworks.hub.families import has_head
from bertworks.hub.tables import MULTI_LABEL
from bertworks.models.config import RecurrentConfig, TransformerConfig
from bertworks.models.model import Model
from bertworks.models.word_config import WordStackConfig
from bertworks.tasks.base import Task
from bertworks.tasks.classification import Classification
from bertworks.tasks.word_tagging import WordTagging
from bertworks.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

MARKS = {"bos": "<|start|>", "sep": "<|delimiter|>", "cls": "<|extract|>", "pad": "<|pad|>"}
"""What GPT's input gets, by the names that tokenizers have for such tokens; padding is never computed here, but
`transformers` finds the last token of a text by it."""


def attach(task: Task[Any, Any], model: Model, tokenizer: Tokenizer) -> Tokenizer:
    """Change `model` so that it can be trained for `task`; returns the tokenizer to use with it from here on."""
    head = task.head(model)
    if isinstance(model.config.body, WordStackConfig):
        more = task.more_heads(model) if isinstance(task, WordTagging) else ()
        model.set_heads(())
        model.set_heads([*([] if head is None else [head]), *more], task.labels)
        return tokenizer
    if model.config.body.causal or isinstance(model.config.body, RecurrentConfig):
        tokenizer = _marked(model, tokenizer)
    _check_segments(model, tokenizer)
    if head is not None and model.config.family != OWN and (head.crf or not has_head(model.config, head.task)):
        logger.warning(
            "the family %s has no head for %r: the model will be saved in our own format, which transformers does not open",
            model.config.family,
            f"{head.task} with a CRF" if head.crf else head.task,
        )
        model.config = replace(model.config, family=OWN)
    same_meaning = model.config.labels == task.labels and not (head and head.task == "regress")
    if not same_meaning:
        model.set_heads(())
    model.set_heads([] if head is None else [head], task.labels)
    if model.pooler is not None and (head is None or head.reads != "pooled"):
        if head is None:
            model.pooler.requires_grad_(False)  # part of the family's bare model, but nothing reads it
        else:
            model.pooler, model.config = None, replace(model.config, pooler_act=None)
    kinds = [("problem_type", MULTI_LABEL)] if isinstance(task, Classification) and task.multi_label else []
    source = [entry for entry in model.config.source if entry[0] != "problem_type"]
    model.config = replace(model.config, source=(*source, *kinds))
    return tokenizer


def _check_segments(model: Model, tokenizer: Tokenizer) -> None:
    if not isinstance(model.config.body, TransformerConfig):
        return  # no others have segments
    table = model.config.body.embeddings.type_vocab_size
    pair = tokenizer.template.pair
    highest = max((*pair.prefix.segments, *pair.middle.segments, *pair.suffix.segments, *pair.segments))
    if table and highest >= table:
        raise ModelError(
            f"the tokenizer puts texts into segment {highest}, but the model has vectors for only {table}; "
            "the two do not belong together"
        )


def _marked(model: Model, tokenizer: Tokenizer) -> Tokenizer:
    """GPT's marks in the tokenizer and the token table, unless the tokenizer has special tokens of its own."""
    if tokenizer.template.num_special(pair=True) == 0:
        backend = Backend.from_str(tokenizer.backend.to_str())
        backend.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in MARKS.values()])
        start, delimiter, extract = MARKS["bos"], MARKS["sep"], MARKS["cls"]
        backend.post_processor = TemplateProcessing(
            single=f"{start} $A {extract}",
            pair=f"{start} $A {delimiter} $B:0 {extract}",
            special_tokens=[(mark, backend.token_to_id(mark)) for mark in (start, delimiter, extract)],
        )
        # A class of GPT's own would be rebuilt by `transformers` without the template.
        config = {key: value for key, value in tokenizer.config.items() if key != "tokenizer_class"}
        tokenizer = Tokenizer(backend, config=config | {f"{name}_token": mark for name, mark in MARKS.items()})
        _grow_table(model, tokenizer.vocab_size)
    if tokenizer.pad_id is not None:
        source = tuple(entry for entry in model.config.source if entry[0] != "pad_token_id")
        model.config = replace(model.config, pad_token_id=tokenizer.pad_id, source=source)
    return tokenizer


def _grow_table(model: Model, vocab_size: int) -> None:
    """Rows for new tokens at the end of the token table, drawn as all were in the beginning."""
    config = model.config.body
    assert isinstance(config, TransformerConfig | RecurrentConfig)
    old = model.body.embeddings.tokens
    if vocab_size <= old.num_embeddings:
        return
    weight = torch.empty(vocab_size, old.embedding_dim, dtype=old.weight.dtype, device=old.weight.device)
    with torch.no_grad():
        weight.normal_(std=config.initializer_range)
        weight[: old.num_embeddings] = old.weight
    model.body.embeddings.tokens = nn.Embedding.from_pretrained(weight, freeze=False)
    body = replace(config, embeddings=replace(config.embeddings, vocab_size=vocab_size))
    model.config, model.body.config = replace(model.config, body=body), body
    model.set_heads([head for head in model.config.heads if head.task not in ("lm", "mlm")], model.config.labels)
