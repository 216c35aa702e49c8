"""Models in and out of directories, strictly: every tensor that the model has must be in the file, in the right shape.

    config.json  --family-->  ModelConfig  -->  model without weights  <--rules--  model.safetensors

What is missing or mis-shaped is an error that names it; what is in the file but has no place in the model is logged
once; when all is right there is silence. The weights are not copied: the parameters are the memory-mapped tensors of
the file, except where several of theirs are stacked into one of ours (queries, keys and values), are transposed, or
are stored in another precision.

A model that no family of Hugging Face's can express (sinusoidal positions, say) has the `model_type` "bertworks": our
own names, and a `config.json` that is our own configuration.

Saving writes each file under a temporary name, syncs and renames it, `config.json` last: a new directory becomes a
model only once it is whole, and an interrupted save over an old one leaves no half file.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bertworks.atomic import replacing
from bertworks.config import from_dict, to_dict
from bertworks.errors import CheckpointError, ConfigError, ModelError, did_you_mean, first_few
from bertworks.hub.families import FAMILIES, SEQ2SEQ_FAMILIES
from bertworks.hub.files import listing, model_directory, read_object, write_json, writing
from bertworks.hub.rules import Rule
from bertworks.hub.tensors import INT8_SAFETENSORS, SAFETENSORS, WEIGHT_FILES, Integers, Tensors, read_tensors
from bertworks.models.config import ModelConfig
from bertworks.models.model import Model
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder, RnnSeq2SeqConfig
from bertworks.models.seq2seq import EncoderDecoder, EncoderDecoderConfig

logger = logging.getLogger(__name__)

OWN = "bertworks"
"""The `model_type` of our own format."""

GENERATION = "generation_config.json"
"""What later versions of `transformers` know about writing texts, beside `config.json`."""

KINDS: dict[str, tuple[type[Any], Callable[[Any], nn.Module]]] = {
    "model": (ModelConfig, Model),
    "encoder-decoder": (EncoderDecoderConfig, EncoderDecoder),
    "rnn-encoder-decoder": (RnnSeq2SeqConfig, RnnEncoderDecoder),
}
"""What our own format can hold, by the `kind` in its `config.json`: the configuration's class and its module."""


@dataclass(frozen=True)
class LoadReport:
    """What loading a directory finds, or would find."""

    directory: Path
    model_type: str
    config: ModelConfig
    files: tuple[Path, ...]
    dtypes: tuple[str, ...]
    """The precisions in the files, the most frequent first."""
    num_parameters: int
    missing: tuple[str, ...]
    mis_shaped: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    """Name, shape found, shape wanted."""
    unexpected: tuple[str, ...]
    """Tensors in the files that the model has no place for."""
    ignored: tuple[str, ...]
    """Tensors in the files that carry nothing, such as a second copy of a tied matrix."""

    @property
    def problem(self) -> str | None:
        """Why the weights cannot be used, in one sentence; None where they can."""
        if self.missing:
            what = f"lacks {len(self.missing)} of the tensors that its config.json asks for: {first_few(self.missing)}"
            stray = f" (and has {len(self.unexpected)} unexpected ones: {first_few(self.unexpected, 3)})"
            return f"{self.directory} {what}{stray if self.unexpected else ''}"
        if self.mis_shaped:
            shown = [f"{name} is {list(found)}, must be {list(wanted)}" for name, found, wanted in self.mis_shaped]
            return (
                f"{self.directory} has {len(shown)} tensors of a wrong shape for its config.json: {first_few(shown, 3)}"
            )
        return None


class Unfilled(TorchFunctionMode):
    """Build modules without weights: `torch.empty` gives tensors without memory, and initialisers do nothing.

    Not `torch.device("meta")` alone: drawing random numbers there makes PyTorch load its compiler, which takes
    seconds. Tables that are computed and not stored (sinusoids) are made for real.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        if func is torch.empty and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": "meta"}
        return func(*args, **kwargs)


# -- loading -----------------------------------------------------------------------------------------------------------


def load_model(directory: str | Path, *, dtype: torch.dtype = torch.float32) -> Model:
    """The model in a directory, in evaluation mode, its weights converted to `dtype` where they are in another."""
    model = load_module(directory, dtype=dtype)
    if not isinstance(model, Model):
        raise ModelError(
            f"{directory} holds a model of the kind {type(model).__name__}, which is no single encoder or decoder"
        )
    return model


def load_module(directory: str | Path, *, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Like `load_model`, for any of `KINDS`."""
    plan = _plan(directory)
    report = plan.report
    if report.problem:
        raise CheckpointError(report.problem)
    if report.unexpected:
        logger.warning(
            "%s: %d tensors have no place in the model and were not used: %s",
            report.directory,
            len(report.unexpected),
            first_few(report.unexpected),
        )
    _fill(plan.module, plan.rules, plan.tensors, dtype)
    return plan.module.eval()


def load_report(directory: str | Path) -> LoadReport:
    """What loading would find, without reading any weights; only what cannot be understood at all is an error."""
    return _plan(directory).report


@dataclass(frozen=True)
class _Plan:
    module: nn.Module  # without weights
    rules: Sequence[Rule]
    tensors: Tensors
    report: LoadReport


def _plan(directory: str | Path) -> _Plan:
    path = model_directory(directory)
    if not (path / "config.json").exists():
        if (path / "words.tsv").exists():
            raise CheckpointError(f"{path} holds word vectors, and no model; look at them with `bertworks vectors …`")
        raise CheckpointError(f"{path} has no config.json, so it is not a model directory; it has: {listing(path)}")
    hf = read_object(path / "config.json")
    model_type = _model_type(hf, path / "config.json")
    tensors = read_tensors(path)
    ignored: tuple[str, ...] = ()
    try:
        if model_type == OWN:
            module, config = _own_module(hf)
            rules = [Rule(name, name) for name, _ in module.named_parameters()]
        else:
            family: Any = SEQ2SEQ_FAMILIES.get(model_type) or FAMILIES[model_type]
            if model_type in SEQ2SEQ_FAMILIES and (path / GENERATION).exists():
                hf = family.with_generation(hf, read_object(path / GENERATION))
            tensors = tensors.renamed(family.spelling)
            config = family.read_config(hf, tensors.shapes)
            with Unfilled():
                module = family.build(config)
                rules = family.rules(config, family.has_prefix(tensors), tensors.keys())
            ignored = family.ignored
    except (ConfigError, CheckpointError) as error:
        raise CheckpointError(f"{path / 'config.json'}: {error}") from error
    found = _compare(module, rules, tensors, ignored)
    report = LoadReport(directory=path, model_type=model_type, config=config, files=tensors.files, **found)
    return _Plan(module, rules, tensors, report)


def _model_type(hf: Mapping[str, Any], path: Path) -> str:
    known = [*FAMILIES, *SEQ2SEQ_FAMILIES, OWN]
    model_type = hf.get("model_type")
    if model_type is None:
        raise CheckpointError(f"{path} has no model_type; known: {', '.join(known)}")
    if model_type not in known:
        hint = did_you_mean(str(model_type), known)
        raise CheckpointError(f"{path} has the unknown model_type {model_type!r}{hint}; known: {', '.join(known)}")
    return str(model_type)


def _own_module(hf: Mapping[str, Any]) -> tuple[nn.Module, Any]:
    data = {key: value for key, value in hf.items() if key not in ("model_type", "kind", "dtype")}
    kind = hf.get("kind", "model")
    if kind not in KINDS:
        raise CheckpointError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    config_class, module_class = KINDS[kind]
    source = data.pop("source", [])  # free values, which a strict configuration does not take
    config = from_dict(config_class, data)
    if source:
        config = replace(config, source=tuple((str(key), value) for key, value in source))
    with Unfilled():
        return module_class(config), config


def _compare(module: nn.Module, rules: Sequence[Rule], tensors: Tensors, ignored: Sequence[str]) -> dict[str, Any]:
    """What the model wants against what the files hold: fields of a `LoadReport`."""
    shapes = tensors.shapes
    parameters = dict(module.named_parameters())
    wanted: dict[str, tuple[int, ...]] = {}
    for rule in rules:
        wanted.update((name, rule.shape(parameters[rule.ours].shape)) for name in rule.theirs)
    stray = [name for name in shapes if name not in wanted]
    nothing = [name for name in stray if any(re.fullmatch(pattern, name) for pattern in ignored)]
    there = {name: shape for name, shape in wanted.items() if name in shapes}
    dtypes = tensors.dtypes
    return {
        "dtypes": tuple(dtype for dtype, _ in Counter(dtypes[name] for name in there).most_common()),
        "num_parameters": sum(parameter.numel() for parameter in parameters.values()),
        "missing": tuple(name for name in wanted if name not in there),
        "mis_shaped": tuple((name, shapes[name], shape) for name, shape in there.items() if shapes[name] != shape),
        "unexpected": tuple(name for name in stray if name not in nothing),
        "ignored": tuple(nothing),
    }


def _fill(module: nn.Module, rules: Sequence[Rule], tensors: Tensors, dtype: torch.dtype) -> None:
    """Give each parameter its tensor. A source that was loaded rather than mapped is dropped once it was used."""
    parameters = dict(module.named_parameters())
    owners: dict[int, list[tuple[nn.Module, str]]] = defaultdict(list)  # a shared parameter has several
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False, remove_duplicate=False):
            owners[id(parameter)].append((part, name))
    uses = Counter(name for rule in rules for name in rule.theirs)
    for rule in rules:
        empty = parameters.pop(rule.ours)
        filled = nn.Parameter(rule.read(tensors).to(dtype), requires_grad=empty.requires_grad)
        for part, name in owners[id(empty)]:
            setattr(part, name, filled)
        for name in rule.theirs:
            uses[name] -= 1
            if not uses[name]:
                tensors.release(name)
    if parameters:
        raise AssertionError(f"no rule for {', '.join(parameters)}")


# -- saving ------------------------------------------------------------------------------------------------------------


def save_model(
    model: nn.Module,
    directory: str | Path,
    *,
    dtype: torch.dtype | None = None,
    tensors: Mapping[str, Tensor | Integers] | None = None,
) -> None:
    """Write `config.json` and `model.safetensors`, the weights in `dtype` (None = as they are).

    A pooler that none of the heads reads is left out, as `transformers` has no place for it in the class of such heads.

    tensors: what to write under each parameter's name instead of the model's own; with integers among them the file is
             `int8.safetensors`
    """
    path = Path(directory)
    config: Any = model.config
    ours = tensors or {name: parameter.detach() for name, parameter in model.named_parameters()}
    if getattr(config, "family", OWN) == OWN:
        hf = _own_config(config)
        rules = [Rule(name, name) for name in ours]
    else:
        known: dict[str, Any] = {**FAMILIES, **SEQ2SEQ_FAMILIES}
        if config.family not in known:
            raise CheckpointError(f"unknown family {config.family!r}; known: {', '.join([*known, OWN])}")
        family = known[config.family]
        hf = family.write_config(config)
        with Unfilled():
            if config.family in SEQ2SEQ_FAMILIES:
                rules = family.rules(config, True)
            else:
                rules = family.rules(family.stored(config), bool(config.heads))
    theirs: dict[str, Tensor] = {}
    for rule in rules:
        value = ours[rule.ours]
        theirs |= value.write(rule) if isinstance(value, Integers) else rule.write(value.to(device="cpu", dtype=dtype))
    hf["dtype"] = _dtype_name({name: tensor for name, tensor in theirs.items() if tensor.is_floating_point()})
    name = INT8_SAFETENSORS if any(isinstance(value, Integers) for value in ours.values()) else SAFETENSORS
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        with replacing(path / name) as temporary:
            save_file(theirs, temporary, metadata={"format": "pt"})
        for other in {INT8_SAFETENSORS, *WEIGHT_FILES[: WEIGHT_FILES.index(name)]} - {name}:
            (path / other).unlink(missing_ok=True)  # of a model that was here before, and would be read instead
    if hf["model_type"] in SEQ2SEQ_FAMILIES:
        write_json(path / GENERATION, SEQ2SEQ_FAMILIES[hf["model_type"]].generation(config))
    write_json(path / "config.json", hf)


def _own_config(config: Any) -> dict[str, Any]:
    for kind, (config_class, _) in KINDS.items():
        if isinstance(config, config_class):
            return {"model_type": OWN, "kind": kind, **to_dict(config)}
    raise CheckpointError(f"cannot save a model with a {type(config).__name__}; known kinds: {', '.join(KINDS)}")


def _dtype_name(tensors: Mapping[str, Tensor]) -> str:
    most, _ = Counter(tensor.dtype for tensor in tensors.values()).most_common(1)[0]
    return str(most).removeprefix("torch.")
