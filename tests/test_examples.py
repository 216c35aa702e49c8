"""The scripts in examples/ do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.infer.foreign import Foreign

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_frozen_features() -> None:
    said = run("frozen_features.py")
    assert said.startswith("154 texts, ")
    assert float(said.split("accuracy ")[1].split("%")[0]) > 70


@pytest.mark.slow
def test_finetune_classifier(tmp_path: Path) -> None:
    said = run("finetune_classifier.py", str(tmp_path / "model"))
    assert "accuracy on the other 34: " in said
    assert "LabelPrediction(label=" in said
    assert (tmp_path / "model" / "model.safetensors").exists()


def test_find_entities(tmp_path: Path) -> None:
    names = {0: "O", 1: "B-LOC", 2: "I-LOC"}
    Foreign(tmp_path / "model", "bert", "ForTokenClassification", id2label=names)
    (tmp_path / "text.txt").write_text("The river runs\npast the old mill. " * 20, encoding="utf-8")
    assert " LOC " in run("find_entities.py", str(tmp_path / "model"), str(tmp_path / "text.txt"))
