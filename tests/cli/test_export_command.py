"""`bertworks export`: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.cli.main import main
from tests.infer.foreign import Foreign

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: pip install 'bertworks[onnx]'")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    Foreign(directory, "bert", "ForSequenceClassification", id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    return directory


def test_the_report(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(model), "--onnx", "-o", str(tmp_path / "out"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["task"], report["precision"], report["outputs"]) == ("classify", "fp32", ["logits"])
    assert report["difference"] < 1e-4
    assert report["loss"] is None
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"model.onnx", "tokenizer.json", "export.json", "README.md"} <= written
    assert not any(name.startswith(".") for name in written)
    assert json.loads((tmp_path / "out" / "export.json").read_text())["labels"] == ["no", "yes"]


def test_int8_and_its_loss(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "rows.csv"
    data.write_text('text,label\n"The river runs.",yes\n"A goose walked.",no\n', encoding="utf-8")
    command = ["export", str(model), "--onnx", "--int8", "-o", str(tmp_path / "out")]
    assert main([*command, "--data", str(data), "--max-drop", "100"]) == 0
    said = capsys.readouterr().out
    assert "int8 on 2 rows: accuracy" in said
    assert main([*command, "--overwrite"]) == 0
    assert "nobody knows what int8 costs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "add --onnx"),
        (["--onnx", "--task", "fill"], "no 'mlm' head"),
        (["--onnx", "--task", "tag"], "made for 'classify', not for 'tag'"),
        (["--onnx", "--pooling", "mean"], "for embeddings"),
        (["--onnx", "--data", "rows.csv"], "ask for int8"),
    ],
)
def test_what_is_refused(
    options: list[str], message: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(model), *options, "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_full_directory_and_a_missing_library(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    assert main(["export", str(model), "--onnx", "-o", str(tmp_path / "full")]) == 2
    assert "is not empty" in capsys.readouterr().err
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError("No module named 'onnxruntime'")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["export", str(model), "--onnx", "-o", str(tmp_path / "out")]) == 2
    assert "pip install 'bertworks[onnx]'" in capsys.readouterr().err
