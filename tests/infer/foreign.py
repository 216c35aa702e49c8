"""Fine-tuned directories as `transformers` writes them, tiny and random, with tokenizers that go with them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertworks.text.encoding import Encoding
from bertworks.text.tokenizer import Tokenizer
from tests.hub.reference import make_reference
from tests.text import tiny

TOKENIZERS = {
    "bert": tiny.bert,
    "distilbert": tiny.bert,
    "electra": tiny.bert,
    "ernie": tiny.bert,
    "roberta": tiny.roberta,
    "xlm-roberta": tiny.unigram,
    "camembert": tiny.unigram,
    "mpnet": tiny.roberta,
    "modernbert": tiny.roberta,
    "albert": tiny.unigram,
    "gpt2": tiny.gpt2,
    "openai-gpt": tiny.openai_gpt,
}
ENCODERS = tuple(family for family in TOKENIZERS if "gpt" not in family)
POSITIONS = 70


class Foreign:
    """A model of `transformers` in a directory, and its outputs for one sequence at a time."""

    def __init__(self, directory: Path, model_type: str, architecture: str, **options: Any) -> None:
        self.directory = directory
        self.tokenizer = Tokenizer(TOKENIZERS[model_type]())
        positions = "n_positions" if "gpt" in model_type else "max_position_embeddings"
        known: dict[str, Any] = {"vocab_size": self.tokenizer.vocab_size, positions: POSITIONS}
        if self.tokenizer.pad_id is not None:
            known["pad_token_id"] = self.tokenizer.pad_id
        self.model = make_reference(model_type, architecture, **known | options)
        self.model.save_pretrained(directory)
        self.tokenizer.save(directory)
        self._takes = inspect.signature(self.model.forward).parameters

    @torch.no_grad()
    def outputs(self, encoding: Encoding) -> Any:
        return self.model(**self._inputs([encoding]))

    @torch.no_grad()
    def choice_logits(self, encodings: list[Encoding]) -> Tensor:
        """(options,)"""
        return self.model(**{name: value[None] for name, value in self._inputs(encodings).items()}).logits[0]

    def _inputs(self, encodings: list[Encoding]) -> dict[str, Tensor]:
        longest = max(map(len, encodings))

        def padded(rows: list[Any], value: int) -> Tensor:
            return torch.tensor([[*map(int, row), *[value] * (longest - len(row))] for row in rows])

        inputs = {
            "input_ids": padded([e.ids for e in encodings], self.tokenizer.pad_id or 0),
            "attention_mask": padded([[1] * len(e) for e in encodings], 0),
            "token_type_ids": padded([e.segments for e in encodings], 0),
        }
        table = getattr(self.model.config, "type_vocab_size", 0)
        use_segments = "token_type_ids" in self._takes and table
        return {name: value for name, value in inputs.items() if name != "token_type_ids" or use_segments}
