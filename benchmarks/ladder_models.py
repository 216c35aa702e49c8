"""The language models of `benchmarks.ladder`, pretrained by our own commands: an ELMo, a character model and a GPT.

    bertworks tokenizer train …  ->  bertworks corpus build …  ->  bertworks pretrain … --budget TIME

All three read the same files for the same time. What is there already is not made again; a pretraining that was stopped goes
on. Another budget, recipe or text is another model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.keys import content_of, key_of
from benchmarks.options import say
from benchmarks.study import run

FILES = ("wiki-en-00", "wiki-en-01")
"""Of the shared corpus: 50 million characters."""


@dataclass(frozen=True)
class Language:
    """How one model reads text, and what it is."""

    algorithm: str
    vocab_size: int
    recipe: str
    size: str

    def describe(self) -> str:
        """`--recipe elmo --size 2x128 (word, 200,000)`"""
        return f"`--recipe {self.recipe} --size {self.size}` ({self.algorithm}, {self.vocab_size:,})"


MODELS = {
    "bilm": Language("word", 200_000, "elmo", "2x128"),
    "charlm": Language("character", 300, "charlm", "1x512"),
    "gpt": Language("byte-bpe", 16_384, "gpt", "4x256x4"),
}


def prepared(name: str, *, data: Path, cache: Path, budget: str, threads: int) -> Path:
    """The directory of a model, pretrained for so long."""
    from bertworks.cli.main import main as bertworks
    from bertworks.config import to_toml
    from bertworks.train.recipes import load_recipe

    wanted = MODELS[name]
    files = [str(data / "corpus" / f"{stem}.txt.xz") for stem in FILES]
    contents = [content_of(file) for file in files]
    text = cache / "models" / key_of(wanted.algorithm, wanted.vocab_size, contents)
    place = cache / "models" / key_of(wanted, to_toml(load_recipe(wanted.recipe)), contents, budget, threads) / name
    tokenizer, corpus = text / "tokenizer", text / "corpus"
    if (place / "metrics.json").exists():
        return place
    say(f"{name}: pretraining for {budget}")
    text.mkdir(parents=True, exist_ok=True)
    if not (tokenizer / "tokenizer.json").exists():
        kind = ["--algorithm", wanted.algorithm, "--vocab-size", str(wanted.vocab_size)]
        run(bertworks, ["tokenizer", "train", *files, *kind, "-o", str(tokenizer), "-q"])
    if not (corpus / "manifest.json").exists():
        run(bertworks, ["corpus", "build", *files, "--tokenizer", str(tokenizer), "-o", str(corpus), "-q"])
    begun = (place / "config.toml").exists()
    asked = ["--resume"] if begun else ["--recipe", wanted.recipe, "--size", wanted.size, "--budget", budget]
    run(
        bertworks,
        ["pretrain", str(corpus), *asked, "--threads", str(threads), "--track", "none", "-o", str(place), "-q"],
    )
    return place
