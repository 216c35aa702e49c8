"""Weight files as one mapping from names to tensors, whatever they are: one file or shards, safetensors or `.bin`.

Nothing is read before it is asked for. Tensors are views of the memory-mapped file (private: writing to one changes a
copy of the page, never the file), so opening a model costs the time and the memory of the parts that are used. A
`.bin` file is a pickle, which can hold any program; it is read by PyTorch's restricted unpickler, which knows tensors
and nothing else.

In our own int8 files a tensor is stored as integers beside its scales (`Integers`), and read as floats.

Left out: TensorFlow, Flax and ONNX weights, other quantised formats, adapters.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bertworks.errors import CheckpointError, first_few
from bertworks.hub.files import listing, model_directory, read_object, reading
from bertworks.hub.rules import Rule

SAFETENSORS = "model.safetensors"
SAFETENSORS_INDEX = "model.safetensors.index.json"
BIN = "pytorch_model.bin"
BIN_INDEX = "pytorch_model.bin.index.json"
INT8_SAFETENSORS = "int8.safetensors"
"""A name that no other program looks for: they would take the integers for the weights themselves."""
WEIGHT_FILES = (SAFETENSORS, SAFETENSORS_INDEX, BIN, BIN_INDEX, INT8_SAFETENSORS)
"""What a directory may hold, in the order in which it is looked for."""

DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I8": "int8",
}
SCALE = ".scale"
"""What the scales of a tensor of integers are called: its own name with this behind."""
AGAIN = "copy or download it again"


@dataclass(frozen=True)
class Integers:
    """A matrix as integers (O, K) int8 and a scale (O,) for each row."""

    values: Tensor
    scales: Tensor

    def floats(self) -> Tensor:
        return self.values.float() * self.scales[:, None]

    def write(self, rule: Rule) -> dict[str, Tensor]:
        """Both as `rule` spells the matrix; the scales stay a column, or a row where theirs is transposed."""
        values, scales = rule.write(self.values), rule.write(self.scales[:, None])
        return values | {name + SCALE: tensor for name, tensor in scales.items()}


@dataclass(frozen=True)
class Entry:
    """One tensor of a file, not read yet."""

    file: Path
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Tensor]


class Tensors(Mapping[str, Tensor]):
    """Names to tensors, read at each access."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> Tensor:
        return self._entries[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor, known without reading it."""
        return {name: entry.shape for name, entry in self._entries.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """The precision of each tensor as it is stored, such as `float16`."""
        return {name: entry.dtype for name, entry in self._entries.items()}

    @property
    def files(self) -> tuple[Path, ...]:
        """Where they are."""
        return tuple(sorted({entry.file for entry in self._entries.values()}))

    def renamed(self, spelling: Callable[[str], str]) -> Tensors:
        """The same tensors under other names."""
        return Tensors({spelling(name): entry for name, entry in self._entries.items()})

    def release(self, name: str) -> None:
        """Forget a tensor, so that one that was loaded rather than mapped can be freed."""
        del self._entries[name]


def read_tensors(directory: str | Path) -> Tensors:
    """The weights of a model directory."""
    path = model_directory(directory)
    for name in WEIGHT_FILES:
        if (path / name).exists():
            opened = _open_shards(path / name) if name.endswith(".json") else _open(path / name)
            return Tensors(opened)
    raise CheckpointError(f"{path} holds no weights: looked for {', '.join(WEIGHT_FILES)}; it has: {listing(path)}")


def _open(path: Path) -> dict[str, Entry]:
    with reading(path), path.open("rb") as file:
        start = file.read(64)
    if not start:
        raise CheckpointError(f"{path} is an empty file; {AGAIN}")
    if start.startswith(b"version https://git-lfs"):
        raise CheckpointError(f"{path} is a Git LFS pointer, not the weights; run `git lfs pull` in its repository")
    if path.suffix == ".safetensors":
        return _open_safetensors(path)
    if not start.startswith((b"PK", b"\x80")):  # a zip archive, or a bare pickle as before PyTorch 1.6
        raise CheckpointError(f"{path} is cut off or damaged (it does not begin like a PyTorch file); {AGAIN}")
    return _open_bin(path, is_zip=start.startswith(b"PK"))


def _open_safetensors(path: Path) -> dict[str, Entry]:
    try:
        with reading(path):
            file = safe_open(path, framework="pt")
    except SafetensorError as error:
        raise CheckpointError(f"{path} is cut off or damaged ({error}); {AGAIN}") from error
    entries = {}
    for name in file.keys():  # noqa: SIM118 - not a mapping
        header = file.get_slice(name)
        dtype = header.get_dtype()
        entries[name] = Entry(
            path, tuple(header.get_shape()), DTYPES.get(dtype, dtype.lower()), partial(file.get_tensor, name)
        )
    return _scaled(entries) if path.name == INT8_SAFETENSORS else entries


def _scaled(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Integers and their scales joined: each is read as floats."""

    def floats(values: Entry, scales: Entry) -> Tensor:
        return values.read().float() * scales.read()

    joined = {name: entry for name, entry in entries.items() if not name.endswith(SCALE)}
    for name, entry in joined.items():
        if entry.dtype == "int8":
            if name + SCALE not in entries:
                raise CheckpointError(f"{entry.file} has no scales for {name}; {AGAIN}")
            joined[name] = replace(entry, read=partial(floats, entry, entries[name + SCALE]))
    return joined


def _open_bin(path: Path, *, is_zip: bool) -> dict[str, Entry]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on pickle protocols; what matters is raised
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} was refused: it holds something other than tensors, which may be code; nothing of it was run; "
            "get the model as safetensors"
        ) from error
    except Exception as error:  # a damaged pickle can raise anything
        detail = str(error).split("\n")[0].split(". ")[0]
        raise CheckpointError(f"{path} is cut off or damaged ({detail or type(error).__name__}); {AGAIN}") from error
    if not isinstance(loaded, Mapping):
        raise CheckpointError(f"{path} must hold tensors by name, not a {type(loaded).__name__}")
    tensors = {str(name): tensor.detach() for name, tensor in loaded.items() if isinstance(tensor, Tensor)}
    if not tensors:
        raise CheckpointError(
            f"{path} holds no tensors by name; its keys are: {first_few([str(key) for key in loaded])}"
        )

    def entry(tensor: Tensor) -> Entry:
        return Entry(path, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), lambda: tensor)

    return {name: entry(tensor) for name, tensor in tensors.items()}


def _open_shards(index: Path) -> dict[str, Entry]:
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f"{index} has no weight_map from tensor names to file names; {AGAIN}")
    names = sorted(set(places.values()))
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise CheckpointError(f"{index} names files outside its directory: {first_few(outside)}")
    lost = [name for name in names if not (index.parent / name).is_file()]
    if lost:
        raise CheckpointError(f"{index} names {len(names)} files, of which {len(lost)} are missing: {first_few(lost)}")
    entries: dict[str, Entry] = {}
    for name in names:
        entries.update(_open(index.parent / name))
    absent = [name for name in places if name not in entries]
    if absent:
        raise CheckpointError(f"{index} names tensors that its files do not hold: {first_few(absent)}")
    return entries
