"""A model that was made for a task here gives the same numbers in `transformers`, which opens its directory by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertworks import hub
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.tasks import for_examples
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Task
from bertworks.tasks.run import outputs_of, predict_examples
from bertworks.text.tokenizer import Tokenizer
from tests.hub.reference import randomise, single_thread
from tests.tasks import small

FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "mpnet", "modernbert", "gpt2", "openai-gpt")
WINDOW = 100
TOLERANCE = 2e-5


def save(task: Task[Any, Any], model_type: str, directory: Path) -> tuple[Model, Tokenizer, Task[Any, Any]]:
    """A random model with the task's head, finished and saved."""
    torch.manual_seed(2)
    model, tokenizer = small.make_model(model_type)
    tokenizer = attach(task, model, tokenizer)
    randomise(model, seed=4)
    task = task.finish(model)
    hub.save(model, tokenizer, directory)
    return model, tokenizer, task


def theirs(directory: Path, architecture: Any, texts: Sequence[Any], pairs: Sequence[Any] | None = None) -> Any:
    """What a user of `transformers` would write, padding and all; returns the inputs and the outputs."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model, loading = architecture.from_pretrained(directory, output_loading_info=True)
    assert not loading["mismatched_keys"]
    assert not [name for name in loading["missing_keys"] if "lm_head" not in name]
    assert not loading["unexpected_keys"]
    assert model.dtype == torch.float32
    inputs = tokenizer(list(texts), None if pairs is None else list(pairs), padding=True, return_tensors="pt")
    if not getattr(model.config, "type_vocab_size", 0):
        inputs.pop("token_type_ids", None)
    with single_thread():
        return inputs, model.eval()


@pytest.mark.parametrize("model_type", FAMILIES)
@pytest.mark.parametrize("kind", ["classify", "multi-label", "pair", "regress", "poisson"])
def test_whole_texts(model_type: str, kind: str, tmp_path: Path) -> None:
    examples: list[Any] = {
        "classify": small.texts(),
        "multi-label": small.texts((("a",), ("a", "b"), (), ("c", "d"))),
        "pair": small.texts(pairs=True),
        "regress": small.texts((1000.0, 1003.5, 1009.0), pairs=True),
        "poisson": small.texts((0, 1, 7)),
    }[kind]
    name = {"multi-label": "classify", "poisson": "regress"}.get(kind, kind)
    options = {"distribution": "poisson"} if kind == "poisson" else {}
    model, tokenizer, task = save(for_examples(name, examples, **options), model_type, tmp_path)
    units = task.encode(examples, tokenizer, window=WINDOW, training=False)
    ours = np.array(outputs_of(task, model, units))

    pairs = [example.pair for example in examples] if examples[0].pair is not None else None
    inputs, reference = theirs(
        tmp_path, transformers.AutoModelForSequenceClassification, [example.text for example in examples], pairs
    )
    with single_thread():
        logits = reference(**inputs).logits.numpy()
    scale = max(1.0, float(np.abs(logits).max()))
    np.testing.assert_allclose(ours, logits, rtol=0, atol=TOLERANCE * scale)
    predictions = predict_examples(task, model, examples, tokenizer=tokenizer, window=WINDOW, decision={})
    if kind in ("classify", "pair"):
        assert reference.config.problem_type == "single_label_classification"
        assert [p.label for p in predictions] == [reference.config.id2label[row] for row in logits.argmax(axis=1)]
    elif kind == "multi-label":
        assert reference.config.problem_type == "multi_label_classification"
        names = reference.config.id2label
        assert [set(p.label) for p in predictions] == [{names[n] for n in np.flatnonzero(row > 0)} for row in logits]
    else:
        assert reference.config.problem_type == "regression"
        values = np.exp(logits[:, 0]) if kind == "poisson" else logits[:, 0]
        np.testing.assert_allclose([p.value for p in predictions], values, rtol=1e-4)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_choice(model_type: str, tmp_path: Path) -> None:
    examples = small.choices()
    model, tokenizer, task = save(for_examples("choice", examples), model_type, tmp_path)
    units = task.encode(examples, tokenizer, window=WINDOW, training=False)
    ours = outputs_of(task, model, units)

    texts = [example.text for example in examples for _ in example.options]
    options = [option for example in examples for option in example.options]
    gpt = {"gpt2": transformers.GPT2DoubleHeadsModel, "openai-gpt": transformers.OpenAIGPTDoubleHeadsModel}
    architecture = gpt.get(model_type, transformers.AutoModelForMultipleChoice)
    inputs, reference = theirs(tmp_path, architecture, texts, options)
    ends = inputs["attention_mask"].sum(dim=1) - 1
    with single_thread():
        first = 0
        for example, row in zip(examples, ours, strict=True):
            own = slice(first, first + len(example.options))
            first = own.stop
            one = {name: tensor[own][None] for name, tensor in inputs.items()}
            if model_type in gpt:
                logits = reference(one["input_ids"], mc_token_ids=ends[own][None]).mc_logits[0]
            else:
                logits = reference(**one).logits[0]
            np.testing.assert_allclose(row, logits.numpy(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("model_type", [name for name in FAMILIES if name != "openai-gpt"])
@pytest.mark.parametrize("name", ["tag", "qa"])
def test_tokens(model_type: str, name: str, tmp_path: Path) -> None:
    examples: list[Any] = small.tagged() if name == "tag" else small.questions()
    model, tokenizer, task = save(for_examples(name, examples), model_type, tmp_path)
    texts = small.SENTENCES
    rows = tokenizer.encode_batch(texts, texts[::-1])
    packed = Packed.from_sequences([row.ids for row in rows], [row.segments for row in rows])
    architecture = {
        "tag": transformers.AutoModelForTokenClassification,
        "qa": transformers.AutoModelForQuestionAnswering,
    }
    inputs, reference = theirs(tmp_path, architecture[name], texts, texts[::-1])
    with single_thread():
        ours = model.logits(packed, name)
        found = reference(**inputs)
        logits = found.logits if name == "tag" else torch.stack([found.start_logits, found.end_logits], dim=-1)
        wanted = torch.cat([row[: len(encoding)] for row, encoding in zip(logits, rows, strict=True)])
    torch.testing.assert_close(ours, wanted, rtol=0, atol=TOLERANCE)
    if name == "tag":
        assert tuple(reference.config.id2label[number] for number in range(len(task.labels))) == task.labels


def test_a_head_that_the_family_lacks_is_saved_in_our_own_format(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    examples = small.tagged()
    model, tokenizer, task = save(for_examples("tag", examples), "openai-gpt", tmp_path)
    assert "our own format" in caplog.text
    loaded = hub.load(tmp_path)
    options: dict[str, Any] = {"window": WINDOW, "decision": {}}
    before = predict_examples(task, model, examples, tokenizer=tokenizer, **options)
    after = predict_examples(task, loaded.model, examples, tokenizer=loaded.tokenizer, **options)
    assert [prediction.tags for prediction in before] == [prediction.tags for prediction in after]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("model_type", ["bert", "roberta", "mpnet", "modernbert", "gpt2"])
def test_similarity_in_sentence_transformers(model_type: str, pooling: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    examples = small.similar("scored")
    torch.manual_seed(2)
    model, tokenizer = small.make_model(model_type)
    task: Any = for_examples("similarity", examples, pooling=pooling, normalize=pooling == "mean")
    tokenizer = attach(task, model, tokenizer)
    randomise(model, seed=4)
    window = 20  # some texts are longer
    hub.save(model, tokenizer, tmp_path, settings=task.sentence_settings(window))
    predictions = predict_examples(task, model, examples, tokenizer=tokenizer, window=window, decision={})

    reference = SentenceTransformer(str(tmp_path), device="cpu")
    with single_thread():
        first, second = (
            reference.encode([example.texts[side] for example in examples], convert_to_tensor=True, batch_size=3)
            for side in (0, 1)
        )
    cosines = torch.nn.functional.cosine_similarity(first, second)
    np.testing.assert_allclose([p.similarity for p in predictions], cosines.numpy(), rtol=0, atol=TOLERANCE)
