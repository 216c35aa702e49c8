"""Every family in int8, on disk and back; and the gate that refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import bertworks
from bertworks import hub
from bertworks.data.labelled.examples import Place, SimilarityExample, TextExample
from bertworks.errors import CheckpointError, ModelError, UsageError
from bertworks.hub.tensors import INT8_SAFETENSORS
from bertworks.infer import quantize_gate
from bertworks.infer.predict import Predictor
from bertworks.infer.quantize import Switch, is_int8, quantize, save_int8
from bertworks.infer.quantize_gate import Loss, PrecisionError, quantize_measured
from bertworks.infer.quantize_layers import Int8FeedForward, Int8Linear
from tests.infer.foreign import TOKENIZERS, Foreign

TEXTS = ["The river runs past the old mill.", "Seventeen geese walked 3.5 miles", "x", "Där går en älv, 河边"]
LABELS = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}
PLACE = Place("rows")


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / lengths


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("classifier")
    Foreign(directory, "bert", "ForSequenceClassification", **LABELS)
    return directory


# -- every family ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", TOKENIZERS)
def test_a_family(family: str, tmp_path: Path) -> None:
    Foreign(tmp_path / "fp32", family, "ForSequenceClassification", **LABELS)
    exact = bertworks.load(tmp_path / "fp32")
    int8 = bertworks.load(tmp_path / "fp32", precision="int8")
    assert (exact.precision, int8.precision) == ("fp32", "int8")
    assert is_int8(int8.model)
    assert not is_int8(exact.model)
    for pooling in ("mean", "cls"):  # cls: the last layer at some rows only
        wanted, found = exact.embed(TEXTS, pooling=pooling), int8.embed(TEXTS, pooling=pooling)
        assert cosines(wanted, found).min() > 0.98
        assert not np.array_equal(wanted, found)
    for one, other in zip(exact.predict(TEXTS), int8.predict(TEXTS), strict=True):
        assert other.probabilities["yes"] == pytest.approx(one.probabilities["yes"], abs=0.05)

    int8.save(tmp_path / "int8")
    again = bertworks.load(tmp_path / "int8")
    assert again.precision == "int8"
    linears = {name: part for name, part in int8.model.named_modules() if isinstance(part, Int8Linear)}
    kept = {name: part for name, part in again.model.named_modules() if isinstance(part, Int8Linear)}
    assert linears.keys() == kept.keys()
    for name, part in linears.items():
        assert torch.equal(part.integers, kept[name].integers), name
        torch.testing.assert_close(part.scales, kept[name].scales, rtol=1e-6, atol=0)
    table = int8.model.body.embeddings.tokens.weight
    step = table.abs().amax(dim=1, keepdim=True) / 127
    assert ((again.model.body.embeddings.tokens.weight - table).abs() <= 0.501 * step).all(), "the table is rounded"
    assert cosines(exact.embed(TEXTS), again.embed(TEXTS)).min() > 0.98


def test_only_gelu_is_fused(tmp_path: Path) -> None:
    for family, hidden_act, count in (("bert", "gelu", True), ("bert", "relu", False)):
        Foreign(tmp_path / hidden_act, family, "ForMaskedLM", hidden_act=hidden_act)
        model = bertworks.load(tmp_path / hidden_act, precision="int8").model
        assert any(isinstance(part, Int8FeedForward) for part in model.modules()) is count


def test_other_uses_of_an_int8_model(tmp_path: Path) -> None:
    Foreign(tmp_path, "bert", "ForMaskedLM")
    exact, int8 = bertworks.load(tmp_path), bertworks.load(tmp_path, precision="int8")
    (wanted,), (found,) = exact.fill("the [MASK] mill", top_k=3), int8.fill("the [MASK] mill", top_k=3)
    assert found[0].probability == pytest.approx(wanted[0].probability, abs=0.02)
    assert int8.attend("the mill").tokens == exact.attend("the mill").tokens
    assert [len(words) for words in int8.embed_words(TEXTS)] == [len(words) for words in exact.embed_words(TEXTS)]


def test_a_text_does_not_depend_on_its_batch(classifier: Path) -> None:
    model = bertworks.load(classifier, precision="int8")
    together = model.embed([*TEXTS, "mill " * 50])
    np.testing.assert_allclose(together[:4], np.stack([model.embed(text) for text in TEXTS]), rtol=0, atol=1e-6)


def test_generation(tmp_path: Path) -> None:
    Foreign(tmp_path, "gpt2", "LMHeadModel")
    assert len(bertworks.load(tmp_path, precision="int8").generate("The river", max_tokens=4)) == 1


# -- on disk -----------------------------------------------------------------------------------------------------------


def test_an_int8_directory(classifier: Path, tmp_path: Path) -> None:
    from transformers import AutoModel

    model = bertworks.load(classifier, precision="int8")
    model.save(tmp_path)
    assert not (tmp_path / "model.safetensors").exists()
    assert json.loads((tmp_path / "bertworks.json").read_text())["int8"]["float_layers"] == []
    with pytest.raises(OSError, match=r"model\.safetensors"):
        AutoModel.from_pretrained(tmp_path)
    floats = bertworks.load(tmp_path, precision="fp32")
    assert floats.precision == "fp32"
    assert cosines(floats.embed(TEXTS), model.embed(TEXTS)).min() > 0.98
    assert set(hub.load_report(tmp_path).dtypes) == {"int8", "float32"}
    floats.save(tmp_path)  # over it
    assert not (tmp_path / INT8_SAFETENSORS).exists()
    assert bertworks.load(tmp_path).precision == "fp32"
    assert AutoModel.from_pretrained(tmp_path) is not None


def test_it_is_a_quarter_of_the_size(tmp_path: Path) -> None:
    Foreign(tmp_path / "a", "bert", "ForMaskedLM", hidden_size=192, intermediate_size=768, num_attention_heads=3)
    bertworks.load(tmp_path / "a", precision="int8").save(tmp_path / "b")
    sizes = [(tmp_path / "a" / "model.safetensors").stat().st_size, (tmp_path / "b" / INT8_SAFETENSORS).stat().st_size]
    assert sizes[0] / sizes[1] > 3.5


def test_layers_that_stay_in_floats(classifier: Path, tmp_path: Path) -> None:
    model = bertworks.load(classifier)
    name = "body.blocks.0.feed_forward.down"
    quantize(model.model, float_layers=[name])
    assert isinstance(model.model.get_submodule(name), torch.nn.Linear)
    save_int8(model.model, model.tokenizer, tmp_path)
    again = bertworks.load(tmp_path)
    assert isinstance(again.model.get_submodule(name), torch.nn.Linear)
    assert isinstance(again.model.get_submodule("body.blocks.0.feed_forward.up"), Int8Linear)
    with pytest.raises(UsageError, match=r"no linear layer 'body.blocks.0.feed_forward.dwn' \(did you mean"):
        quantize(bertworks.load(classifier).model, float_layers=["body.blocks.0.feed_forward.dwn"])


def test_a_directory_without_its_notes(classifier: Path, tmp_path: Path) -> None:
    bertworks.load(classifier, precision="int8").save(tmp_path)
    (tmp_path / "bertworks.json").unlink()
    with pytest.raises(CheckpointError, match=r"does not say under 'int8' which layers are in fp32"):
        bertworks.load(tmp_path)


def test_what_cannot_be_in_int8(classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown precision 'int4'"):
        bertworks.load(classifier, precision="int4")
    model = bertworks.load(classifier, precision="int8")
    with pytest.raises(UsageError, match="is in int8; load it in fp32"):
        Predictor(model).save(classifier)
    with pytest.raises(ModelError, match="in int8 already"):
        Switch(model.model)


# -- the gate ----------------------------------------------------------------------------------------------------------


def rows_for(predictor: Predictor) -> list[TextExample]:
    """Texts with the labels that the model itself gives, so that its accuracy is 1."""
    return [TextExample(text=text, label=predictor.predict(text).label, place=PLACE) for text in TEXTS]


def test_the_gate_lets_through(classifier: Path, tmp_path: Path) -> None:
    predictor = Predictor(classifier)
    quantized = quantize_measured(predictor, rows_for(predictor), max_drop=100)
    assert (quantized.loss.metric, quantized.loss.fp32, quantized.loss.rows) == ("accuracy", 1.0, 4)
    assert quantized.loss.worst_cosine is None
    assert quantized.float_layers == ()
    assert is_int8(predictor.loaded.model)
    assert predictor.loaded.precision == "int8"
    predictor.loaded.save(tmp_path)
    np.testing.assert_allclose(bertworks.load(tmp_path).embed(TEXTS), predictor.loaded.embed(TEXTS), atol=1e-5)
    with pytest.raises(UsageError, match="in int8 already"):
        quantize_measured(predictor, rows_for(predictor))


@pytest.mark.parametrize("allowed", [0, 3])
def test_the_gate_refuses_and_names_layers(classifier: Path, allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor(classifier)
    examples = rows_for(predictor)
    before = predictor.loaded.embed(TEXTS)
    monkeypatch.setattr(quantize_gate.MeasuredRows, "figure", _figures(predictor, enough=99))
    with pytest.raises(PrecisionError) as error:
        quantize_measured(predictor, examples, max_float_layers=allowed)
    said = str(error.value)
    assert "int8 costs 10.00 points of accuracy (90.00 -> 80.00), more than --max-drop 0.5" in said
    assert ("even with the 3 worst in fp32" in said) == (allowed == 3)
    assert said.count("body.blocks.") == 5
    assert predictor.loaded.precision == "fp32", "the model is as it was"
    assert not is_int8(predictor.loaded.model)
    np.testing.assert_array_equal(predictor.loaded.embed(TEXTS), before)


def test_the_worst_layers_stay_in_floats(classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor(classifier)
    examples = rows_for(predictor)
    monkeypatch.setattr(quantize_gate.MeasuredRows, "figure", _figures(predictor, enough=2))
    quantized = quantize_measured(predictor, examples, max_float_layers=3)
    assert quantized.float_layers == tuple(name for name, _ in quantized.damages[:2])
    assert [damage for _, damage in quantized.damages] == sorted((d for _, d in quantized.damages), reverse=True)
    assert len(quantized.damages) == quantized.num_layers
    parts = dict(predictor.loaded.model.named_modules())
    assert all(isinstance(parts[name], torch.nn.Linear) for name in quantized.float_layers)


def _figures(predictor: Predictor, enough: int):
    """0.9 in fp32, and in int8 as soon as `enough` layers are in fp32; else 0.8."""
    num_layers = len(Switch(predictor.loaded.model).layers)

    def figure(rows: quantize_gate.MeasuredRows, outputs: object) -> float:
        rows.metric = "accuracy"
        names = {name for name, part in predictor.loaded.model.named_modules() if isinstance(part, Int8Linear)}
        return 0.9 if not names or num_layers - len(names) >= enough else 0.8

    return figure


def test_damage_is_found_where_it_is(classifier: Path) -> None:
    predictor = Predictor(classifier)
    with torch.no_grad():  # one huge weight in every row leaves nothing for the others
        predictor.loaded.model.body.blocks[1].attention.out.weight[:, 3] = 50.0
    switch = Switch(predictor.loaded.model)
    damages = quantize_gate._damages(switch, predictor, rows_for(predictor), lambda what, done: None)
    assert damages[0][0] == "body.blocks.1.attention.out"


def test_vectors_are_judged_by_their_cosines(minilm_directory: Path) -> None:
    texts = ["A man is playing a guitar.", "Someone plays music.", "The stock fell.", "Markets went down today."]
    pairs = [
        SimilarityExample(texts=(one, other), score=float(score), place=PLACE)
        for score, (one, other) in enumerate([(texts[0], texts[2]), (texts[0], texts[1]), (texts[2], texts[3])])
    ]
    predictor = Predictor(minilm_directory)
    quantized = quantize_measured(predictor, pairs)
    assert (quantized.loss.metric, quantized.loss.drop, quantized.num_layers) == ("spearman", 0.0, 24)
    assert 0.98 < (quantized.loss.worst_cosine or 0) < 1.0
    predictor = Predictor(minilm_directory)
    singles = [SimilarityExample(texts=(text,), place=PLACE) for text in texts]
    with pytest.raises(
        PrecisionError, match=r"to the one in fp32, less than --min-cosine 1; the layers that cost most"
    ):
        quantize_measured(predictor, singles, min_cosine=1.0, max_float_layers=0)


def test_what_is_too_much() -> None:
    loss = Loss(rows=3, metric="f1", fp32=0.9, int8=0.88, worst_cosine=None)
    assert loss.drop == pytest.approx(2.0)
    assert loss.problem(2.5, 0.98) is None
    assert "int8 costs 2.00 points of f1 (90.00 -> 88.00), more than --max-drop 0.5" in str(loss.problem(0.5, 0.98))
    turned = Loss(rows=3, metric=None, fp32=None, int8=None, worst_cosine=0.97)
    assert turned.problem(0.5, 0.96) is None
    assert "cosine of 0.9700" in str(turned.problem(0.5, 0.98))
    broken = Loss(rows=3, metric="f1", fp32=0.9, int8=math.nan, worst_cosine=None)
    assert "int8 costs nan points" in str(broken.problem(0.5, 0.98))
    assert Loss(rows=3, metric=None, fp32=None, int8=None, worst_cosine=math.nan).problem(0.5, 0.98) is not None


def test_no_rows(classifier: Path) -> None:
    with pytest.raises(UsageError, match="no rows to measure"):
        quantize_measured(Predictor(classifier), [])


# -- the real model ----------------------------------------------------------------------------------------------------


def test_minilm_keeps_its_quality(minilm_directory: Path, shared_data: Path) -> None:
    lines = (shared_data / "sst2" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    texts = sorted((line.split("\t")[0] for line in lines), key=len)[:150]  # short ones suffer most
    wanted = bertworks.load(minilm_directory).embed(texts)
    found = bertworks.load(minilm_directory, precision="int8").embed(texts)
    assert cosines(wanted, found).min() > 0.98
    assert cosines(wanted, found).mean() > 0.995
