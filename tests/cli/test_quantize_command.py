"""`bertworks quantize` from file to directory, what it says, what it refuses; and int8 in the commands that use models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bertworks.cli.main import main
from bertworks.infer.predict import Predictor
from tests.infer.foreign import Foreign

TEXTS = [
    "The river runs past the old mill.",
    "Seventeen geese",
    "the mill",
    "A day with no wind at all",
    "geese walked",
]
LABELS = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("classifier")
    Foreign(directory, "bert", "ForSequenceClassification", **LABELS)
    return directory


@pytest.fixture(scope="module")
def data(classifier: Path) -> Path:
    """Texts with the labels that the model gives."""
    path = classifier.parent / "dev.tsv"
    predictions = Predictor(classifier).predict(TEXTS)
    rows = [f"{text}\t{one.label}" for text, one in zip(TEXTS, predictions, strict=True)]
    path.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    return path


def test_a_classifier(classifier: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "int8"
    assert main(["quantize", str(classifier), "--data", str(data), "--max-drop", "100", "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert f"{out}: " in said.out
    assert "linear layers in int8" in said.out
    assert "accuracy on 5 rows: fp32 100.00, int8 " in said.out
    assert main(["evaluate", str(out), "--data", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "classify"
    assert main(["quantize", str(out), "--data", str(data), "-o", str(tmp_path / "again"), "--max-drop", "100"]) == 2
    assert "is in int8 already; quantize the model that it was made of" in capsys.readouterr().err
    assert main(["quantize", str(classifier), "--data", str(data), "-o", str(out)]) == 2
    assert "exists already and is not empty" in capsys.readouterr().err


def test_json(classifier: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--data", str(data), "--max-drop", "100", "-o", str(tmp_path / "int8"), "--json", "--quiet"]
    assert main(["quantize", str(classifier), *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["task"], told["metric"], told["rows"], told["fp32"]) == ("classify", "accuracy", 5, 1.0)
    assert told["float_layers"] == []
    assert told["worst_cosine"] is None
    notes = json.loads((tmp_path / "int8" / "bertworks.json").read_text(encoding="utf-8"))["int8"]
    assert (notes["fp32"], notes["data"], notes["float_layers"]) == (1.0, str(data), [])


def test_a_refusal(minilm_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS[:2]) + "\n", encoding="utf-8")
    arguments = ["--data", str(tmp_path / "texts.txt"), "-o", str(tmp_path / "int8"), "--quiet"]
    assert main(["quantize", str(minilm_directory), *arguments, "--min-cosine", "1", "--max-float-layers", "0"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: int8 turns a vector to a cosine of 0.9")
    assert "the layers that cost most are body.blocks." in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "int8").exists()
    assert main(["quantize", str(minilm_directory), *arguments]) == 0
    assert "worst cosine to the vectors in fp32: 0.9" in capsys.readouterr().out


def test_predict_in_int8(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    found = {}
    for precision in ("fp32", "int8"):
        out = tmp_path / f"{precision}.jsonl"
        arguments = [str(classifier), str(tmp_path / "texts.txt"), "-o", str(out), "--precision", precision]
        assert main(["predict", *arguments, "--quiet"]) == 0
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        found[precision] = [row["probabilities"]["yes"] for row in rows]
    np.testing.assert_allclose(found["int8"], found["fp32"], atol=0.05)
    assert found["int8"] != found["fp32"]
    capsys.readouterr()
    assert main(["predict", str(classifier), str(tmp_path / "texts.txt"), "--precision", "int9"]) == 2
    assert "unknown precision 'int9'" in capsys.readouterr().err


def test_embed_in_int8(classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    for precision in ("fp32", "int8"):
        arguments = ["-o", str(tmp_path / f"{precision}.npy"), "--precision", precision, "--normalize", "--quiet"]
        assert main(["embed", str(tmp_path / "texts.txt"), "--model", str(classifier), *arguments]) == 0
    exact, int8 = np.load(tmp_path / "fp32.npy"), np.load(tmp_path / "int8.npy")
    assert (exact * int8).sum(axis=1).min() > 0.98
    assert not np.array_equal(exact, int8)
