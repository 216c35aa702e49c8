"""What the tests of the layer study share: a tiny model of five layers, and files of tagged words."""

from __future__ import annotations

from pathlib import Path

import torch

from bertworks import hub
from tests.finetune.small import NOUNS, rows
from tests.tasks.small import make_model


def make_files(folder: Path, sentences: int = 16) -> dict[str, Path]:
    """Three nouns are places."""
    torch.manual_seed(3)
    model, tokenizer = make_model("bert", num_hidden_layers=5)
    hub.save(model, tokenizer, folder / "model")
    found = {"model": folder / "model"}
    for name, seed in (("train", 0), ("dev", 1)):
        blocks = [
            "\n".join(f"{word} {'B-LOC' if word in NOUNS[:3] else 'O'}" for word in text.split())
            for text, _ in rows(sentences, seed=seed)
        ]
        found[name] = folder / f"{name}.conll"
        found[name].write_text("\n\n".join(blocks) + "\n")
    return found
