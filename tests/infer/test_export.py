"""Exported graphs: what ONNX Runtime says is what the packed stack says, for every head of every family, padding included;
the program on each page works; and int8 is refused where it costs too much."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bertworks
from bertworks.errors import ModelError, UsageError
from bertworks.hub.families import FAMILIES
from bertworks.infer.export import _difference, export_onnx, packed_outputs
from bertworks.infer.onnx_graph import GraphKind, make_graph, takes_segments
from bertworks.infer.onnx_int8 import quantise
from bertworks.infer.onnx_run import GraphModel, Session, flat_tokens
from bertworks.infer.predict import Predictor
from bertworks.infer.quantize_gate import PrecisionError
from bertworks.models.config import (
    EmbeddingConfig,
    HeadConfig,
    LayerConfig,
    ModelConfig,
    PositionConfig,
    RecurrentConfig,
    TransformerConfig,
)
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from tests.hub.reference import convert, make_reference, make_texts, randomise, single_thread
from tests.infer.foreign import Foreign

pytest.importorskip("onnx", reason="ONNX is not installed: pip install 'bertworks[onnx]'")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: pip install 'bertworks[onnx]'")

TOLERANCE = 1e-4
EXPORTED = ("classify", "choice", "tag", "qa", "mlm")
HEADS = [(name, table) for name, family in FAMILIES.items() for table in family.heads if table.task in EXPORTED]
TEXTS = ["The river runs past the old mill.", "It's not what you'd expect, is it?", "Seventeen geese walked."]


def difference(model: Model, kind: GraphKind, batch: Packed) -> float:
    """Between the graph and the packed stack, the largest one."""
    with single_thread():
        session = Session(make_graph(model, kind).SerializeToString())
        given = session.run(batch)
        wanted = packed_outputs(model, kind, batch)
    if kind.head is not None and model.head(kind.head).config.reads == "tokens":
        given = [flat_tokens(output, batch.layout) for output in given]
    assert [one.shape for one in given] == [one.shape for one in wanted]
    return max(float(np.abs(one - other).max()) for one, other in zip(given, wanted, strict=True))


@pytest.mark.parametrize(("family", "table"), HEADS, ids=lambda value: getattr(value, "task", value))
def test_every_head_of_every_family(family: str, table: Any) -> None:
    options = {"num_labels": 6} if table.task in ("classify", "tag") else {}
    if "gpt" in family and table.task == "choice":
        options = {}
    model = convert(make_reference(family, table.architecture, **options))
    packed, _ = make_texts(model.config)
    batch = Packed(input_ids=packed.input_ids, layout=packed.layout, segments=packed.segments)
    assert difference(model, GraphKind(head=table.task), batch) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False), ("max", False)])
def test_embeddings_of_every_family(family: str, pooling: Any, normalize: bool) -> None:
    model = convert(make_reference(family, "Model"))
    packed, _ = make_texts(model.config)
    batch = Packed(input_ids=packed.input_ids, layout=packed.layout, segments=packed.segments)
    assert difference(model, GraphKind(pooling=pooling, normalize=normalize), batch) < TOLERANCE


def of_our_own(positions: PositionConfig, *, causal: bool = False, **layer: Any) -> Model:
    body = TransformerConfig(
        embeddings=EmbeddingConfig(vocab_size=53, size=14, type_vocab_size=3, scale=True),
        positions=positions,
        layer=LayerConfig(hidden_size=24, num_attention_heads=3, intermediate_size=31, **layer),
        num_hidden_layers=4,
        causal=causal,
        final_norm=causal,
        local_window=5,
        global_every=2,
    )
    heads = (
        HeadConfig(task="classify", reads="concat", num_labels=5),
        HeadConfig(task="regress", reads="mean", num_labels=1, transform_size=11, transform_act="silu", bias=False),
        HeadConfig(task="choice", reads="last", num_labels=1),
    )
    model = Model(ModelConfig(family="bertworks", body=body, heads=heads)).eval()
    randomise(model)
    return model


POSITIONS = {
    "sinusoidal": PositionConfig(absolute="sinusoidal", max_position_embeddings=40, offset=2),
    "halves": PositionConfig(absolute="sinusoidal", max_position_embeddings=40, halves=True),
    "buckets": PositionConfig(relative="buckets", max_position_embeddings=40, num_buckets=8, max_distance=16),
    "keys": PositionConfig(absolute="none", relative="keys", max_position_embeddings=13),
    "keys_queries": PositionConfig(relative="keys_queries", max_position_embeddings=40),
    "rotary": PositionConfig(
        absolute="none", relative="rotary", max_position_embeddings=40, theta=500.0, local_theta=100.0
    ),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", POSITIONS)
def test_every_kind_of_position_and_reading(kind: str, causal: bool) -> None:
    model = of_our_own(POSITIONS[kind], causal=causal, pre_norm=causal, gated=causal, norm_bias=not causal)
    longest = min(22, model.num_positions)
    batch, _ = make_texts(model.config, [3, longest, 9, 1])
    for head in ("classify", "regress", "choice"):
        assert difference(model, GraphKind(head=head), batch) < TOLERANCE, head


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_a_result_does_not_depend_on_its_batch(lengths: list[int]) -> None:
    batch, _ = make_texts(GIVEN.config, lengths)
    together = SESSION.run(batch)[0]
    for row, (start, length) in enumerate(zip(batch.layout.starts, lengths, strict=True)):
        alone = Packed.from_sequences(
            [batch.input_ids[start : start + length].numpy()],
            None if batch.segments is None else [batch.segments[start : start + length].numpy()],
        )
        np.testing.assert_allclose(together[row], SESSION.run(alone)[0][0], rtol=0, atol=1e-5)


GIVEN = of_our_own(POSITIONS["buckets"])
SESSION = Session(make_graph(GIVEN, GraphKind(head="classify")).SerializeToString())


def test_shared_weights_are_stored_once() -> None:
    model = convert(make_reference("albert", "Model"))
    graph = make_graph(model, GraphKind())
    stored = sum(len(tensor.raw_data) for tensor in graph.graph.initializer)
    assert stored < 1.02 * sum(4 * parameter.numel() for parameter in model.parameters())


def test_a_row_of_padding_alone_is_a_number() -> None:
    session = Session(make_graph(GIVEN, GraphKind(pooling="mean", normalize=True)).SerializeToString())
    nothing = np.zeros((2, 4), np.int64)
    inputs = {"input_ids": nothing, "attention_mask": nothing, "token_type_ids": nothing}
    assert np.isfinite(session._session.run(None, inputs)[0]).all()


# -- directories -------------------------------------------------------------------------------------------------------


def run_page(directory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The program of a directory's page, run where it stands; returns its names."""
    page = (directory / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    monkeypatch.chdir(directory)
    namespace: dict[str, Any] = {}
    exec(compile(program, "README.md", "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory, minilm_directory: Path) -> Path:
    directory = tmp_path_factory.mktemp("export") / "minilm"
    report = export_onnx("minilm", directory)
    assert report.difference < 1e-5
    assert report.outputs == ("embedding",)
    return directory


def test_the_embeddings_of_minilm(minilm: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    names = run_page(minilm, monkeypatch)
    given = names["run"]([*TEXTS, ""])[1][0]
    np.testing.assert_allclose(given, bertworks.load("minilm").embed([*TEXTS, ""]), rtol=0, atol=1e-5)
    assert names["cosines"][0, 1] > names["cosines"][0, 2]
    about = json.loads((minilm / "export.json").read_text())
    assert about["normalize"]
    assert about["pooling"] == "mean"


def exported(tmp_path: Path, family: str, architecture: str, **options: Any) -> Path:
    Foreign(tmp_path / "model", family, architecture, **options)
    export_onnx(tmp_path / "model", tmp_path / "out")
    return tmp_path / "out"


def labelled(*labels: str) -> dict[str, Any]:
    return {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "gpt2"])
def test_the_page_of_a_classifier(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    out = exported(tmp_path, family, "ForSequenceClassification", **labelled("bad", "fair", "good"))
    names = run_page(out, monkeypatch)
    wanted = Predictor(tmp_path / "model").predict(["A wonderful film.", "Two hours that I will not get back."])
    np.testing.assert_allclose(
        names["probabilities"], [list(one.probabilities.values()) for one in wanted], rtol=0, atol=1e-5
    )
    assert capsys.readouterr().out.split()[0] == wanted[0].label


def test_the_page_of_pairs_and_of_several_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    Foreign(tmp_path / "model", "bert", "ForSequenceClassification", **labelled("no", "yes"))
    export_onnx(tmp_path / "model", tmp_path / "pairs", task="pair")
    names = run_page(tmp_path / "pairs", monkeypatch)
    rows = [("A man is eating.", "Someone has a meal."), ("The sky is blue.", "It rains.")]
    wanted = Predictor(tmp_path / "model", task="pair").predict(rows)
    np.testing.assert_allclose(
        names["probabilities"], [list(one.probabilities.values()) for one in wanted], rtol=0, atol=1e-5
    )
    options = labelled("a", "b", "c") | {"problem_type": "multi_label_classification"}
    Foreign(tmp_path / "several", "bert", "ForSequenceClassification", **options)
    export_onnx(tmp_path / "several", tmp_path / "labels")
    names = run_page(tmp_path / "labels", monkeypatch)
    wanted = Predictor(tmp_path / "several").predict(["A wonderful film.", "Two hours that I will not get back."])
    np.testing.assert_allclose(
        names["probabilities"], [list(one.probabilities.values()) for one in wanted], rtol=0, atol=1e-5
    )


def test_the_pages_of_numbers_and_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    out = exported(tmp_path / "number", "distilbert", "ForSequenceClassification", num_labels=1)
    names = run_page(out, monkeypatch)
    rows = ["A wonderful film.", "Two hours that I will not get back."]
    wanted = [one.value for one in Predictor(tmp_path / "number" / "model").predict(rows)]
    np.testing.assert_allclose(names["values"], wanted, rtol=0, atol=1e-5)
    out = exported(tmp_path / "choice", "bert", "ForMultipleChoice")
    names = run_page(out, monkeypatch)
    wanted_choice = Predictor(tmp_path / "choice" / "model").predict((names["text"], names["options"]))
    np.testing.assert_allclose(names["probabilities"][:, 0], wanted_choice.probabilities, rtol=0, atol=1e-5)


def test_the_pages_of_tags_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    out = exported(tmp_path / "tag", "bert", "ForTokenClassification", **labelled("O", "B-PER", "I-PER"))
    capsys.readouterr()
    run_page(out, monkeypatch)
    printed = capsys.readouterr().out.splitlines()
    tags = Predictor(tmp_path / "tag" / "model").predict("Ada Lovelace lived in London.").tags
    assert printed[0].split()[-1] == tags[0]
    out = exported(tmp_path / "qa", "roberta", "ForQuestionAnswering")
    names = run_page(out, monkeypatch)
    wanted = Predictor(tmp_path / "qa" / "model").predict((names["question"], names["context"]))
    assert names["answer"] == wanted.text


def test_the_page_of_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    out = exported(tmp_path, "bert", "ForMaskedLM")
    capsys.readouterr()
    run_page(out, monkeypatch)
    found = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    wanted = bertworks.load(tmp_path / "model").fill("Paris is the [MASK] of France.", top_k=5)[0]
    loaded = bertworks.load(tmp_path / "model")
    assert [loaded.tokenizer.id(token) for token in found] == [one.id for one in wanted]


# -- int8 --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_int8_of_minilm_passes_its_gate(minilm: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    rows = [("A man is eating.", "Someone has a meal.", 4), ("The sky is blue.", "Cats sleep all day.", 0.5)]
    rows += [("The road is closed.", "You cannot drive there.", 3.5), ("She sings.", "A woman sings.", 5)]
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
    pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = export_onnx("minilm", tmp_path / "int8", int8=True, data=pairs)
    assert report.loss is not None
    assert report.loss.metric == "spearman"
    assert report.loss.worst_cosine is not None
    assert 0.98 <= report.loss.worst_cosine < 1
    assert report.bytes < 0.3 * (minilm / "model.onnx").stat().st_size
    assert 1e-4 < report.difference < 0.1, "the graph's own, not that of full precision"


def test_the_loss_of_a_task_is_its_figure_s(tmp_path: Path) -> None:
    Foreign(tmp_path / "model", "bert", "ForSequenceClassification", **labelled("bad", "good"))
    predictor = Predictor(tmp_path / "model")
    rows = [(text, predictor.predict(text).label) for text in TEXTS]  # the model is right about all of them
    data = tmp_path / "rows.csv"
    data.write_text("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows), encoding="utf-8")
    report = export_onnx(tmp_path / "model", tmp_path / "out", int8=True, data=data, max_drop=100)
    assert report.loss is not None
    assert (report.loss.metric, report.loss.fp32) == ("accuracy", 1.0)
    loaded = bertworks.load(tmp_path / "model")
    written = Session(tmp_path / "out" / "model.onnx")
    assert report.difference == _difference(loaded.model, GraphKind(head="classify"), written, math.inf) > TOLERANCE


def test_the_loss_of_several_labels(tmp_path: Path) -> None:
    options = labelled("a", "b", "c") | {"problem_type": "multi_label_classification"}
    Foreign(tmp_path / "model", "bert", "ForSequenceClassification", **options)
    data = tmp_path / "rows.csv"
    data.write_text("text,label\n" + "".join(f'"{text}",A;b\n' for text in TEXTS), encoding="utf-8")
    report = export_onnx(tmp_path / "model", tmp_path / "out", int8=True, data=data, max_drop=100)
    assert report.loss is not None
    assert (report.loss.metric, report.loss.rows) == ("f1_micro", 3)


def test_the_loss_of_vectors(tmp_path: Path) -> None:
    """As the gate of `quantize` has it: the figure of what the rows are, and the worst cosine."""
    Foreign(tmp_path / "model", "bert", "Model")
    pairs = [f"{one}\t{other}" for one, other in pairwise(TEXTS)]
    scored = [f"{pair}\t{score}" for score, pair in enumerate(pairs)]
    rows = {"texts.txt": TEXTS, "pairs.tsv": ["a\tb", *pairs], "score.tsv": ["a\tb\tscore", *scored]}
    found = []
    for name, lines in rows.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        loss = export_onnx(tmp_path / "model", tmp_path / name[:5], int8=True, data=tmp_path / name, max_drop=100).loss
        assert loss is not None
        found.append((loss.metric, loss.rows))
        assert 0.98 < (loss.worst_cosine or 0) < 1
    assert found == [(None, 3), ("accuracy", 2), ("spearman", 2)]


def test_too_great_a_loss_is_refused(tmp_path: Path) -> None:
    Foreign(tmp_path / "model", "bert", "Model")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    with pytest.raises(PrecisionError, match=r"turns a vector .* less than --min-cosine 0.99999"):
        export_onnx(tmp_path / "model", tmp_path / "out", int8=True, data=tmp_path / "texts.txt", min_cosine=0.99999)
    assert not (tmp_path / "out").exists()


def test_every_head_can_be_quantised(tmp_path: Path) -> None:
    for family in ("albert", "modernbert", "gpt2"):
        model = convert(make_reference(family, "ForTokenClassification", num_labels=6))
        import onnx

        onnx.save(make_graph(model, GraphKind(head="tag"), for_int8=True), tmp_path / "full.onnx")
        quantise(tmp_path / "full.onnx", tmp_path / "int8.onnx")
        packed, _ = make_texts(model.config)
        batch = Packed(input_ids=packed.input_ids, layout=packed.layout, segments=packed.segments)
        with torch.inference_mode():
            given = GraphModel(model, Session(tmp_path / "int8.onnx")).logits(batch, "tag")
            assert torch.corrcoef(torch.stack([given.flatten(), model.logits(batch, "tag").flatten()]))[0, 1] > 0.95


# -- errors ------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_exported_says_so(tmp_path: Path) -> None:
    Foreign(tmp_path / "model", "bert", "ForTokenClassification", **labelled("O", "B-PER"))
    with pytest.raises(ModelError, match="no 'mlm' head"):
        export_onnx(tmp_path / "model", tmp_path / "out", task="fill")
    with pytest.raises(UsageError, match="unknown task 'tags'"):
        export_onnx(tmp_path / "model", tmp_path / "out", task="tags")
    with pytest.raises(UsageError, match="for embeddings"):
        export_onnx(tmp_path / "model", tmp_path / "out", normalize=True)
    with pytest.raises(UsageError, match="ask for int8"):
        export_onnx(tmp_path / "model", tmp_path / "out", data="rows.csv")
    recurrent = RecurrentConfig(
        embeddings=EmbeddingConfig(vocab_size=9, size=4, norm=False), hidden_size=5, num_hidden_layers=1
    )
    with pytest.raises(ModelError, match="only Transformers"):
        make_graph(Model(ModelConfig(family="bertworks", body=recurrent)), GraphKind())
    model = of_our_own(POSITIONS["rotary"])
    model.set_heads([HeadConfig(task="tag", reads="tokens", num_labels=3, crf=True)])
    with pytest.raises(ModelError, match="CRF"):
        make_graph(model, GraphKind(head="tag"))
    assert takes_segments(model)
    assert not (tmp_path / "out").exists()
