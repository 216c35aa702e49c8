"""Tiny random `transformers` models that write, and how they are made ours; all sizes differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from bertworks.hub.checkpoint import load_module
from tests.hub.reference import randomise

SIZES: dict[str, dict[str, Any]] = {
    "marian": {
        "vocab_size": 211,
        "d_model": 24,
        "max_position_embeddings": 64,
        "encoder_layers": 3,
        "encoder_ffn_dim": 37,
        "encoder_attention_heads": 3,
        "decoder_layers": 2,
        "decoder_ffn_dim": 41,
        "decoder_attention_heads": 4,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": 210,
        "decoder_start_token_id": 210,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
    },
    "bart": {
        "vocab_size": 213,
        "d_model": 20,
        "max_position_embeddings": 64,
        "encoder_layers": 2,
        "encoder_ffn_dim": 33,
        "encoder_attention_heads": 2,
        "decoder_layers": 3,
        "decoder_ffn_dim": 47,
        "decoder_attention_heads": 5,
        "pad_token_id": 1,
        "forced_eos_token_id": 2,
        "forced_bos_token_id": 0,
    },
}
CLASSES = {"marian": "MarianMTModel", "bart": "BartForConditionalGeneration"}


def make_translator(model_type: str, *, ending: float = 0.0, seed: int = 0, **options: Any) -> Any:
    """A random model in evaluation mode; `ending` is added to the logit of the token that ends a text."""
    model_class = getattr(transformers, CLASSES[model_type])
    model = model_class(model_class.config_class(**(SIZES[model_type] | options))).eval()
    randomise(model, seed)
    if model_type == "marian":  # sinusoids, which no file holds
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.data.copy_(stack.embed_positions.create_weight())
    with torch.no_grad():
        generator = torch.Generator().manual_seed(seed + 1)
        bias = 0.3 * torch.randn(model.final_logits_bias.shape, generator=generator)
        bias[0, model.config.eos_token_id] += ending
        model.final_logits_bias.copy_(bias)
    return model


def ours(model: Any, directory: Path) -> Any:
    """Our model out of the directory that theirs was saved to."""
    model.save_pretrained(directory)
    return load_module(directory)


def generated(model: Any, inputs: list[list[int]], *, left: bool = False, **options: Any) -> list[list[int]]:
    """What `generate` writes for a batch, per returned sequence: only the new tokens, up to the one that ends them.

    left: pad on the left, as a language model needs it; what it returns then begins with the prompt
    """
    longest = max(map(len, inputs))
    pad = model.config.pad_token_id
    rows, masks = [], []
    for row in inputs:
        gap = longest - len(row)
        rows.append([pad] * gap + row if left else row + [pad] * gap)
        masks.append([0] * gap + [1] * len(row) if left else [1] * len(row) + [0] * gap)
    found = model.generate(torch.tensor(rows), attention_mask=torch.tensor(masks), **options)
    skip = longest if left else 1
    end = model.config.eos_token_id
    new = [row[skip:].tolist() for row in found]
    return [row[: row.index(end)] if end in row else row for row in new]
