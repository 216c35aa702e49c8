"""A model in int8: which of its linear layers can be, switching them, and what the directory says about them.

    quantize(model)                      in place; every linear layer of the stack in int8 (`quantize_layers`)
    Switch(model)                        the same, layer by layer and back again, to measure what each one costs
    save_int8 / float_layers_of          one byte per weight on disk
    store_int8                           the same on disk, for a model that goes on computing in fp32

An int8 directory has the weights in `int8.safetensors`, not in `model.safetensors`: other programs would take the integers
for the weights themselves and compute nonsense. `config.json` and the tokenizer are as always. The token table is stored in
int8 as well (8 bits, a scale for each token) and computed with in fp32.

Left out: recurrent stacks, ELMo and translators, whose time does not go into large linear layers alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from bertworks import hub
from bertworks.errors import CheckpointError, ModelError, UsageError, did_you_mean
from bertworks.hub.files import read_object, write_json
from bertworks.hub.sentence import SentenceSettings
from bertworks.hub.tensors import INT8_SAFETENSORS, Integers
from bertworks.infer.quantize_layers import Int8Linear, fused, integer_weight
from bertworks.infer.saved import FILE
from bertworks.models.model import Model
from bertworks.models.transformer import Transformer
from bertworks.nn.blocks import FeedForward
from bertworks.text.tokenizer import Tokenizer

ENTRY = "int8"
"""Where `bertworks.json` says what was measured and which layers stayed in fp32."""
STORED = "stored_only"
"""In that entry: the integers save room, and nothing is computed with them."""
TABLE = "body.embeddings.tokens.weight"
TABLE_LIMIT = 127


class Switch:
    """The linear layers of a model's stack by name, each of which is in fp32 or in int8."""

    def __init__(self, model: Model) -> None:
        if not isinstance(model.body, Transformer):
            raise ModelError(f"int8 is for Transformers; this is {model.config.describe()}; use fp32")
        self.model = model
        self.layers = {
            name: part
            for name, part in model.named_modules()
            if name.startswith("body.") and isinstance(part, nn.Linear)
        }
        if not self.layers:
            raise ModelError("this model has no linear layers in fp32; it is in int8 already")
        self._owners = {name: model.get_submodule(name.rpartition(".")[0]) for name in self.layers}
        self._networks = [
            (model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], part)
            for name, part in model.named_modules()
            if isinstance(part, FeedForward)
        ]
        self._made: dict[str, Int8Linear] = {}

    def to_int8(self, names: Collection[str]) -> None:
        """These layers in int8, the others in fp32."""
        for name in names:
            if name not in self.layers:
                raise UsageError(f"there is no linear layer {name!r}{did_you_mean(name, self.layers)} in the stack")
        for name, linear in self.layers.items():
            if name in names and name not in self._made:
                self._made[name] = Int8Linear.of(linear)
            setattr(self._owners[name], name.rpartition(".")[2], self._made[name] if name in names else linear)
        for block, name, network in self._networks:
            setattr(block, name, fused(network) or network)


def quantize(model: Model, *, float_layers: Collection[str] = ()) -> None:
    """Put the linear layers of a model's stack into int8, but those of `float_layers`. In place, and for good."""
    switch = Switch(model)
    unknown = [name for name in float_layers if name not in switch.layers]
    if unknown:
        raise UsageError(
            f"there is no linear layer {unknown[0]!r}{did_you_mean(unknown[0], switch.layers)} in the stack"
        )
    switch.to_int8([name for name in switch.layers if name not in float_layers])


def is_int8(model: Model) -> bool:
    """Whether any layer is in int8."""
    return any(isinstance(part, Int8Linear) for part in model.modules())


def round_table(model: Model) -> None:
    """Round the token table to what an int8 directory holds of it."""
    table = model.get_parameter(TABLE)
    table.data = _integers(table).floats()


# -- on disk -----------------------------------------------------------------------------------------------------------


def save_int8(
    model: Model,
    tokenizer: Tokenizer,
    directory: str | Path,
    *,
    settings: SentenceSettings | None = None,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write a model that is in int8; `notes` go into `bertworks.json`, where they tell what was measured."""
    tensors: dict[str, Tensor | Integers] = {
        name: _integers(parameter) if name == TABLE else parameter.detach()
        for name, parameter in model.named_parameters()
    }
    float_layers = []
    for name, part in model.named_modules():
        if isinstance(part, Int8Linear):
            tensors[f"{name}.weight"] = Integers(part.integers, part.scales)
            tensors[f"{name}.bias"] = part.bias
        elif isinstance(part, nn.Linear) and name.startswith("body."):
            float_layers.append(name)
    hub.save(model, tokenizer, directory, settings=settings, tensors=tensors)
    _say(Path(directory), {**(notes or {}), "float_layers": float_layers})


def store_int8(
    model: Model, tokenizer: Tokenizer, directory: str | Path, *, settings: SentenceSettings | None = None
) -> None:
    """Write a model whose matrices take one byte a number (8 bits, a scale for each row) and are read as floats."""
    tensors: dict[str, Tensor | Integers] = {
        name: _integers(parameter) if parameter.dim() == 2 else parameter.detach()
        for name, parameter in model.named_parameters()
    }
    hub.save(model, tokenizer, directory, settings=settings, tensors=tensors)
    _say(Path(directory), {STORED: True})


def _say(directory: Path, entry: Mapping[str, Any]) -> None:
    """Write what `bertworks.json` says of the integers."""
    path = directory / FILE
    others = read_object(path) if path.exists() else {}
    write_json(path, {**others, ENTRY: dict(entry)})


def float_layers_of(directory: Path) -> list[str] | None:
    """Which layers a directory that is made for int8 keeps in fp32; None where the directory is not one."""
    if not (directory / INT8_SAFETENSORS).exists():
        return None
    found = read_object(directory / FILE).get(ENTRY) if (directory / FILE).exists() else None
    if isinstance(found, dict) and found.get(STORED) is True:
        return None
    names = found.get("float_layers") if isinstance(found, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CheckpointError(
            f"{directory} has {INT8_SAFETENSORS}, but its {FILE} does not say under {ENTRY!r} which layers are in fp32; "
            "copy the directory again, with all of its files"
        )
    return names


def _integers(table: Tensor) -> Integers:
    return Integers(*integer_weight(table, TABLE_LIMIT))
