"""Every family and head against `transformers`: same hidden states and outputs, in both directions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from bertworks.hub.checkpoint import save_model
from bertworks.hub.families import FAMILIES
from bertworks.models.model import Model
from bertworks.nn.cache import KeyValueCache
from bertworks.nn.packed import Layout, Packed
from tests.hub.reference import (
    assert_close,
    config_of,
    convert,
    make_reference,
    make_texts,
    randomise,
    save,
    shapes_of,
    single_thread,
    unpad,
)

ENCODERS = tuple(family for family in FAMILIES if "gpt" not in family)
HEADS = {
    "ForMaskedLM": ("mlm",),
    "ForSequenceClassification": ("classify",),
    "ForTokenClassification": ("tag",),
    "ForMultipleChoice": ("choice",),
    "ForQuestionAnswering": ("qa",),
}
Case = tuple[str, str, tuple[str, ...], dict[str, Any]]
CASES: list[Case] = [
    *((family, "Model", (), {}) for family in FAMILIES),
    *((family, head, tasks, {}) for family in ENCODERS for head, tasks in HEADS.items()),
    ("bert", "ForNextSentencePrediction", ("nsp",), {}),
    ("bert", "ForPreTraining", ("mlm", "nsp"), {}),
    ("ernie", "ForNextSentencePrediction", ("nsp",), {}),
    ("ernie", "ForPreTraining", ("mlm", "nsp"), {}),
    ("albert", "ForPreTraining", ("mlm", "sop"), {}),
    ("electra", "ForPreTraining", ("rtd",), {}),
    ("openai-gpt", "LMHeadModel", ("lm",), {}),
    ("openai-gpt", "ForSequenceClassification", ("classify",), {}),
    ("openai-gpt", "DoubleHeadsModel", ("lm", "choice"), {}),
    ("gpt2", "LMHeadModel", ("lm",), {}),
    ("gpt2", "ForSequenceClassification", ("classify",), {}),
    ("gpt2", "ForTokenClassification", ("tag",), {}),
    ("gpt2", "ForQuestionAnswering", ("qa",), {}),
    ("gpt2", "DoubleHeadsModel", ("lm", "choice"), {}),
    # one number per text is a regression
    ("bert", "ForSequenceClassification", ("regress",), {"num_labels": 1}),
    ("roberta", "ForSequenceClassification", ("regress",), {"num_labels": 3, "problem_type": "regression"}),
    # an output matrix of its own
    *((family, "ForMaskedLM", ("mlm",), {"tie_word_embeddings": False}) for family in ENCODERS),
    ("openai-gpt", "LMHeadModel", ("lm",), {"tie_word_embeddings": False}),
    ("gpt2", "LMHeadModel", ("lm",), {"tie_word_embeddings": False}),
    # options of single families
    ("bert", "ForMaskedLM", ("mlm",), {"hidden_act": "relu"}),
    ("ernie", "Model", (), {"use_task_id": False}),
    ("albert", "ForMaskedLM", ("mlm",), {"embedding_size": 36}),
    ("electra", "ForMaskedLM", ("mlm",), {"embedding_size": 36}),
    ("electra", "ForMultipleChoice", ("choice",), {"summary_activation": "tanh"}),
    ("openai-gpt", "LMHeadModel", ("lm",), {"afn": "relu"}),
    ("gpt2", "LMHeadModel", ("lm",), {"activation_function": "gelu", "n_inner": None}),
    ("modernbert", "ForSequenceClassification", ("classify",), {"classifier_pooling": "mean", "classifier_bias": True}),
    ("modernbert", "ForMultipleChoice", ("choice",), {"classifier_pooling": "mean"}),
    ("modernbert", "ForMaskedLM", ("mlm",), {"decoder_bias": False, "norm_eps": 1e-3, "classifier_activation": "silu"}),
    ("modernbert", "Model", (), {"attention_bias": True, "mlp_bias": True, "norm_bias": True}),
    ("modernbert", "Model", (), {"global_attn_every_n_layers": 1}),
]


@pytest.fixture(autouse=True)
def _plain_numbers() -> Iterator[None]:
    with single_thread():
        yield


def name_of(case: Case) -> str:
    family, architecture, _, options = case
    return "-".join([family, architecture, *(f"{key}={value}" for key, value in options.items())])


MADE: dict[str, Any] = {}


def reference_for(case: Case) -> Any:
    """The case's `transformers` model, made once."""
    family, architecture, _, options = case
    if architecture in ("ForSequenceClassification", "ForTokenClassification"):
        options = {"num_labels": 5} | options
    if name_of(case) not in MADE:
        MADE[name_of(case)] = make_reference(family, architecture, **options)
    return MADE[name_of(case)]


def their_outputs(reference: Any, padded: dict[str, Tensor], layout: Layout) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Hidden states of every layer, and outputs by task, all without padding."""
    name = type(reference).__name__
    if name.endswith(("ForMultipleChoice", "DoubleHeadsModel")):  # two choices per question
        tasks = padded.get("task_type_ids")
        padded = {key: value.unflatten(0, (-1, 2)) for key, value in padded.items()}
        if tasks is not None:
            padded["task_type_ids"] = tasks  # which ERNIE does not flatten itself
        if name.endswith("DoubleHeadsModel"):
            padded["mc_token_ids"] = torch.tensor(layout.lengths).view(-1, 2) - 1
            del padded["attention_mask"]  # which GPT does not flatten itself; a causal model does not need it
    out = reference(**padded, output_hidden_states=True)
    every = getattr(reference.config, "inner_group_num", 1)  # ALBERT reports each part of a layer
    hidden = [unpad(state.flatten(0, -3), layout) for state in out.hidden_states[::every]]
    tokens = {"mlm": "prediction_logits"} if "prediction_logits" in out else {"mlm": "logits", "lm": "logits"}
    outputs: dict[str, Tensor] = {}
    if name.endswith("Model") and "last_hidden_state" in out:
        if out.get("pooler_output") is not None:
            outputs["pooler"] = out.pooler_output
        return hidden, outputs
    for task, key in tokens.items():
        if name.endswith(("ForMaskedLM", "LMHeadModel", "DoubleHeadsModel")) or "prediction_logits" in out:
            outputs[task] = unpad(out[key].flatten(0, -3), layout)
    if name.endswith("QuestionAnswering"):
        outputs["qa"] = unpad(torch.stack([out.start_logits, out.end_logits], dim=-1), layout)
    elif name.endswith("ForTokenClassification"):
        outputs["tag"] = unpad(out.logits, layout)
    elif name.endswith("ForSequenceClassification"):
        outputs["classify"] = outputs["regress"] = out.logits
    elif name.endswith("ForMultipleChoice"):
        outputs["choice"] = out.logits.view(-1, 1)
    elif name.endswith("DoubleHeadsModel"):
        outputs["choice"] = out.mc_logits.view(-1, 1)
    elif name.endswith("ForNextSentencePrediction"):
        outputs["nsp"] = out.logits
    elif name == "ElectraForPreTraining":
        outputs["rtd"] = unpad(out.logits[..., None], layout)
    elif name.endswith("ForPreTraining"):
        outputs["sop" if "sop_logits" in out else "nsp"] = out.get("sop_logits", out.get("seq_relationship_logits"))
    return hidden, outputs


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_same_numbers_in_both_directions(case: Case, tmp_path: Path) -> None:
    reference = reference_for(case)
    model = convert(reference)
    packed, padded = make_texts(model.config)
    layout = packed.layout
    assert tuple(head.task for head in model.config.heads) == case[2]

    hidden, outputs = their_outputs(reference, padded, layout)
    ours = model.body(packed, layers=range(model.num_layers + 1)).layers
    assert len(hidden) == model.num_layers + 1
    for layer, theirs in enumerate(hidden):
        assert_close(ours[layer], theirs)
    if "pooler" in outputs:
        assert_close(model.pool(ours[model.num_layers][layout.first().index]), outputs["pooler"])
    for task in case[2]:
        assert_close(model.logits(packed, task), outputs[task])

    # And back, as if the model had been born here: without anything remembered of the source.
    model.config = replace(model.config, source=())
    save(model, tmp_path)
    again, report = type(reference).from_pretrained(tmp_path, output_loading_info=True, attn_implementation="eager")
    assert not any(report.values()), report
    hidden_again, outputs_again = their_outputs(again.eval(), padded, layout)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [type(reference).__name__]
    for first, second in itertools.chain(
        zip(hidden, hidden_again, strict=True), zip(outputs.values(), outputs_again.values(), strict=True)
    ):
        assert_close(second, first)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_parameter_has_one_rule_and_configs_survive(case: Case) -> None:
    reference = reference_for(case)
    family = FAMILIES[case[0]]
    shapes = shapes_of(dict(reference.state_dict()))
    config = family.read_config(config_of(reference), shapes)
    for prefixed in (True, False):
        rules = family.rules(config, prefixed)
        ours = [rule.ours for rule in rules]
        theirs = [name for rule in rules for name in rule.theirs + rule.copies]
        assert sorted(ours) == sorted(name for name, _ in Model(config).named_parameters())
        assert len(set(theirs)) == len(theirs)
    written = family.write_config(config)
    assert family.read_config(written, shapes) == config
    # Nothing that the source said is lost or changed, but for entries that we make ourselves.
    before = config_of(reference)
    made = {"transformers_version", "id2label", "label2id", "problem_type", "dtype"}
    made |= {"local_attention", "classifier_dropout", "n_inner"}  # other numbers or null for the same thing
    assert {key: value for key, value in before.items() if key not in made and written.get(key) != value} == {}


@pytest.mark.parametrize("family", ENCODERS)
def test_labels_are_kept(family: str) -> None:
    labels = ("bad", "so so", "good")
    numbered = {label: number for number, label in enumerate(labels)}
    reference = make_reference(family, "ForSequenceClassification", id2label=dict(enumerate(labels)), label2id=numbered)
    model = convert(reference)
    assert model.config.labels == labels
    written = FAMILIES[family].write_config(model.config)
    assert written["id2label"] == {"0": "bad", "1": "so so", "2": "good"}
    assert written["label2id"] == numbered


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "modernbert"])
def test_new_heads_open_in_transformers(family: str, tmp_path: Path) -> None:
    model = convert(make_reference(family, "Model"))
    head = FAMILIES[family].head(model.config, "classify", 3)
    model.set_heads([head])
    model.config = replace(model.config, labels=("a", "b", "c"))
    randomise(model)
    save(model, tmp_path)
    model_class = transformers.AutoModelForSequenceClassification
    reference, report = model_class.from_pretrained(tmp_path, output_loading_info=True)
    assert not {name for names in report.values() for name in names}
    packed, padded = make_texts(model.config)
    assert_close(model.eval().logits(packed, "classify"), reference.eval()(**padded).logits)
    assert reference.config.id2label == {0: "a", 1: "b", 2: "c"}


WITH_POOLER = ("bert", "ernie", "roberta", "albert", "mpnet")


@pytest.mark.parametrize("family", WITH_POOLER)
@pytest.mark.parametrize("task", ["mlm", "classify", "choice", "tag", "qa"])
def test_a_pooler_is_written_where_their_class_has_one(family: str, task: Any, tmp_path: Path) -> None:
    model = convert(make_reference(family, "Model"))
    assert model.pooler is not None
    model.set_heads([FAMILIES[family].head(model.config, task, 3 if task in ("classify", "tag") else None)])
    save_model(model, tmp_path)
    model_class = getattr(transformers, json.loads((tmp_path / "config.json").read_text())["architectures"][0])
    _, report = model_class.from_pretrained(tmp_path, output_loading_info=True)
    assert not {name for names in report.values() for name in names}


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_attention_weights(family: str) -> None:
    reference = make_reference(family, "Model")
    model = convert(reference)
    packed, padded = make_texts(model.config, (7, 7, 13, 22))
    theirs = reference(**padded, output_attentions=True).attentions
    ours = model.body(packed, attentions=True).attentions
    assert len(ours) == len(theirs) == 5
    for spans, padded_weights in zip(ours, theirs, strict=True):
        weights = [matrix for span in spans for matrix in span]
        for matrix, expected, length in zip(weights, padded_weights, packed.layout.lengths, strict=True):
            assert matrix.shape == (3, length, length)
            assert_close(matrix, expected[:, :length, :length])


@pytest.mark.parametrize("family", ["gpt2", "openai-gpt"])
def test_greedy_generation_with_a_cache(family: str) -> None:
    reference = make_reference(family, "LMHeadModel")
    model = convert(reference)
    prompts, steps = [[7, 9, 11], [20, 21, 22, 23, 24], [50]], 12
    cache = KeyValueCache(num_layers=5, num_sequences=len(prompts), capacity=30)
    batch = Packed.from_sequences(prompts)
    ours = [list(prompt) for prompt in prompts]
    for _ in range(steps):
        hidden = model.body(batch, cache=cache, rows=batch.layout.last()).last
        chosen = model.apply_head("lm", hidden, batch.layout).argmax(-1).tolist()
        for tokens, token in zip(ours, chosen, strict=True):
            tokens.append(token)
        batch = Packed.from_sequences([[token] for token in chosen])
    for prompt, tokens in zip(prompts, ours, strict=True):
        ids = torch.tensor([prompt])
        expected = reference.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=steps, do_sample=False, eos_token_id=None
        )
        assert tokens == expected[0].tolist()
