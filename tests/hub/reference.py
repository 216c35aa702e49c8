"""The judge of the family tables: tiny random `transformers` models, and a few lines to turn them into ours and back.

On import, `transformers` is made quiet.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn

from bertworks.hub.families import FAMILIES
from bertworks.hub.family import Family
from bertworks.models.config import ModelConfig
from bertworks.models.model import Model
from bertworks.nn.packed import Layout, Packed

# All sizes differ, so that no swapped axis can pass. The padding id is not among the ids of any text.
ENCODER = {
    "vocab_size": 99,
    "hidden_size": 36,
    "num_hidden_layers": 5,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 41,
}
GPT = {"vocab_size": 99, "n_embd": 36, "n_layer": 5, "n_head": 3, "n_positions": 41, "pad_token_id": 2}
SPECIAL = {"bos_token_id": 0, "eos_token_id": 3, "cls_token_id": 0, "sep_token_id": 3}
SIZES: dict[str, dict[str, Any]] = {
    "bert": ENCODER | {"type_vocab_size": 4},
    "distilbert": {
        "vocab_size": 99,
        "dim": 36,
        "n_layers": 5,
        "n_heads": 3,
        "hidden_dim": 37,
        "max_position_embeddings": 41,
    },
    "roberta": ENCODER | {"type_vocab_size": 4, "pad_token_id": 4, "layer_norm_eps": 1e-5},
    "xlm-roberta": ENCODER | {"type_vocab_size": 1},
    "camembert": ENCODER | {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "albert": ENCODER | {"type_vocab_size": 4, "embedding_size": 20, "num_hidden_groups": 2, "inner_group_num": 3},
    "electra": ENCODER | {"type_vocab_size": 4, "embedding_size": 20, "hidden_act": "gelu_new"},
    "ernie": ENCODER | {"type_vocab_size": 4, "use_task_id": True, "task_type_vocab_size": 6},
    "mpnet": ENCODER,
    "modernbert": ENCODER | SPECIAL | {"pad_token_id": 2, "local_attention": 7, "global_attn_every_n_layers": 3},
    "openai-gpt": GPT,
    "gpt2": GPT | {"n_inner": 37, "bos_token_id": 0, "eos_token_id": 3},
}
PADDING = 4  # below every id of a text
TOLERANCE = 1e-5

transformers.utils.logging.disable_progress_bar()
logging.getLogger("transformers").setLevel(logging.CRITICAL)
LENGTHS = (7, 13, 7, 22, 1, 13)


@contextmanager
def single_thread() -> Iterator[None]:
    """No gradients, one thread: models this small only lose time with more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(before)


def randomise(model: nn.Module, seed: int = 0) -> None:
    """Give every parameter, biases and norms included, values that matter; outputs stay near 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 2:
                noise *= 0.25 if "embed" in name or "wte" in name or "wpe" in name else parameter.shape[1] ** -0.5
                parameter.copy_(noise)
            else:
                parameter.copy_(0.2 * noise + (1.0 if name.endswith("weight") else 0.0))


def make_reference(model_type: str, architecture: str, **options: Any) -> Any:
    """A random `transformers` model of the family in evaluation mode."""
    model_class = getattr(transformers, FAMILIES[model_type].class_prefix + architecture)
    config = model_class.config_class(**(SIZES[model_type] | options))
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    randomise(model)
    return model


def config_of(reference: Any) -> dict[str, Any]:
    """The `config.json` that `transformers` would write for the model."""
    content: dict[str, Any] = json.loads(reference.config.to_json_string())
    return content | {"model_type": reference.config.model_type, "architectures": [type(reference).__name__]}


def shapes_of(tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def load(family: Family, config: ModelConfig, tensors: dict[str, Tensor]) -> Model:
    """Our model from their tensors; every tensor must be used or known to carry nothing."""
    tensors = {family.spelling(name): tensor for name, tensor in tensors.items()}
    rules = family.rules(config, family.has_prefix(tensors), tensors.keys())
    model = Model(config).eval()
    model.load_state_dict({rule.ours: rule.read(tensors) for rule in rules}, strict=True)
    used = {name for rule in rules for name in rule.theirs}
    left = [name for name in tensors if name not in used and not any(re.fullmatch(p, name) for p in family.ignored)]
    assert not left, f"unexpected: {left}"
    return model


def convert(reference: Any) -> Model:
    """Our model with the weights of theirs."""
    family = FAMILIES[reference.config.model_type]
    tensors = dict(reference.state_dict())
    return load(family, family.read_config(config_of(reference), shapes_of(tensors)), tensors)


def save(model: Model, directory: Path) -> None:
    """Their directory with the weights of our model."""
    family = FAMILIES[model.config.family]
    state = model.state_dict()
    tensors: dict[str, Tensor] = {}
    for rule in family.rules(family.stored(model.config), bool(model.config.heads)):
        tensors.update(rule.write(state[rule.ours].clone()))
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(family.write_config(model.config)), encoding="utf-8")


def make_texts(config: ModelConfig, lengths: Iterable[int] = LENGTHS) -> tuple[Packed, dict[str, Tensor]]:
    """The same random texts packed for us and padded for `transformers`, with segments and tasks if there are any."""
    generator = torch.Generator().manual_seed(1)
    layout = Layout(list(lengths))
    embeddings = config.body.embeddings

    def draw(low: int, high: int) -> Tensor:
        return torch.randint(low, high, (layout.total,), generator=generator)

    segments = draw(0, embeddings.type_vocab_size) if embeddings.type_vocab_size else None
    tasks = draw(0, embeddings.task_vocab_size) if embeddings.task_vocab_size else None
    packed = Packed(input_ids=draw(PADDING + 1, embeddings.vocab_size), layout=layout, segments=segments, tasks=tasks)
    padded = {
        "input_ids": pad(packed.input_ids, layout, config.pad_token_id),
        "attention_mask": pad(torch.ones(layout.total, dtype=torch.long), layout, 0),
    }
    if segments is not None:
        padded["token_type_ids"] = pad(segments, layout, 0)
    if tasks is not None:
        padded["task_type_ids"] = pad(tasks, layout, 0)
    return packed, padded


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=0.0, atol=TOLERANCE)


def pad(flat: Tensor, layout: Layout, value: int) -> Tensor:
    """(T, …) -> (B, longest, …)"""
    return nn.utils.rnn.pad_sequence(list(flat.split(layout.lengths)), batch_first=True, padding_value=value)


def unpad(padded: Tensor, layout: Layout) -> Tensor:
    """(B, longest, …) -> (T, …)"""
    return torch.cat([row[:length] for row, length in zip(padded, layout.lengths, strict=True)])
