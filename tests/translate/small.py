"""What the tests of translation share: the sample pairs that come with the package, and models of a few numbers."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from bertworks.data.parallel import ParallelText
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder
from bertworks.models.seq2seq import EncoderDecoder
from bertworks.text.tokenizer import Tokenizer
from bertworks.translate.assemble import new_model, new_tokenizer
from bertworks.translate.config import DataSection, ModelSection
from bertworks.translate.run import Event, Finished, Stepped, TranslateOptions, train_translator

MAX_LENGTH = 24
SMALL_OF = {
    "transformer": ("model.num_attention_heads=4", "model.intermediate_size=48"),
    "rnn-attention": ("model.embedding_size=20",),
}
"""What only one kind of model reads, by recipe."""
SHARED = (
    "model.num_layers=2",
    "model.hidden_size=32",
    "data.vocab_size=120",
    "data.max_length=24",
    "data.dev_fraction=0.03",
    "train.evaluation.steps=3",
    "train.batch_tokens=600",
    "train.log_steps=1",
    "search.beam=3",
)


SMALL = (*SHARED, *SMALL_OF["transformer"])


@cache
def _rows() -> list[list[str]]:
    text = files("bertworks").joinpath("samples/pairs.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


def make_text(count: int) -> ParallelText:
    """The first pairs of the sample."""
    rows = _rows()[:count]
    return ParallelText(name="sample", sources=[a for a, _ in rows], targets=[b for _, b in rows])


def make_tokenizer(text: ParallelText | None = None) -> Tokenizer:
    return new_tokenizer(text or make_text(200), DataSection(vocab_size=120, max_length=MAX_LENGTH))


def make_transformer(tokenizer: Tokenizer, **changes: Any) -> EncoderDecoder:
    section = ModelSection(
        **{
            "num_layers": 2,
            "hidden_size": 24,
            "num_attention_heads": 3,
            "intermediate_size": 40,
            "dropout": 0.0,
            **changes,
        }
    )
    torch.manual_seed(1)
    model = new_model(section, tokenizer, max_length=MAX_LENGTH)
    assert isinstance(model, EncoderDecoder)
    return model.eval()


def make_rnn(tokenizer: Tokenizer, **changes: Any) -> RnnEncoderDecoder:
    section = ModelSection(
        **{"kind": "rnn", "num_layers": 2, "hidden_size": 18, "embedding_size": 14, "dropout": 0.0, **changes}
    )
    torch.manual_seed(1)
    model = new_model(section, tokenizer, max_length=MAX_LENGTH)
    assert isinstance(model, RnnEncoderDecoder)
    return model.eval()


def write_pairs(folder: Path, count: int = 200) -> tuple[str, str]:
    """The source's and the target's file."""
    text = make_text(count)
    paths = (folder / "text.en", folder / "text.de")
    for path, side in zip(paths, (text.sources, text.targets), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return str(paths[0]), str(paths[1])


def run(output: Path, train: tuple[str, ...], *settings: str, **more: Any) -> list[Event]:
    """All events of a short run."""
    more = {"track": (), "steps": 4, **more}
    small = (*SHARED, *SMALL_OF.get(str(more.get("recipe")), SMALL_OF["transformer"]))
    return list(train_translator(TranslateOptions(output=output, train=train, settings=(*small, *settings), **more)))


def finished(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def losses(events: list[Event]) -> list[float]:
    return [event.loss for event in events if isinstance(event, Stepped)]
