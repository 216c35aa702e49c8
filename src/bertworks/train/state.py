"""Checkpoints: everything a training needs to go on exactly, as tensors and plain JSON, whole or not there at all.

    checkpoints/step-00000100/
        model.safetensors        every parameter and persistent buffer of the trained module
        optimizer.safetensors    "exp_avg/body.blocks.0.…": the optimiser's tensors by kind and parameter
        average.safetensors      the averaged weights, where there are any
        best.safetensors         the best evaluation's weights, where that step has no checkpoint of its own
        state.json               how far it is, what its step was like, the best so far, the settings, the files' SHA-256

There is no random state and no position in the data to save: batches, masks and dropout are functions of the seed and the
step. A checkpoint is written under a temporary name, synced, and renamed; only then are older ones deleted, down to the
last two and the best's, where it has one. One that is damaged is passed over for the one before it. Nothing here is ever a
pickle.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from bertworks.atomic import TEMPORARY_SUFFIX, sync_directory, usual_mode
from bertworks.config import dotted
from bertworks.errors import CheckpointError, OutputError
from bertworks.train.average import Average
from bertworks.train.parallel import Parallel

MODEL, OPTIMIZER, AVERAGE, BEST = (f"{name}.safetensors" for name in ("model", "optimizer", "average", "best"))
STATE = "state.json"
FORMAT = 1
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
KEPT = 2
"""How many of the newest checkpoints stay, beside the best's."""
_NAME = re.compile(r"step-(\d{8,})")

Tensors = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best evaluation so far."""

    step: int
    value: float
    loss: float | None = None
    """Where the evaluation gives it: it decides between equal values."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a training is: all that is not tensors."""

    step: int = 0
    """Steps done."""
    total_steps: int
    best: Best | None = None
    stale: int = 0
    """Evaluations in a row without a better one."""
    bad_in_a_row: int = 0
    """Steps in a row that were left out because something was not a number."""
    rollbacks: int = 0
    finished: bool = False
    """All steps are done, or it was stopped early for good; nothing is left to train."""
    scaler: Mapping[str, float] | None = None
    """fp16's gradient scale."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint whose files were found whole."""

    path: Path
    progress: Progress
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """Damaged checkpoints that were passed over, in words."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 by file name."""
    report: Mapping[str, Any] | None = None
    """What the loop reported of the step, as plain values: its line in a log can be written again where it is missing."""

    @property
    def step(self) -> int:
        return self.progress.step

    @property
    def total_steps(self) -> int:
        return self.progress.total_steps

    @property
    def best(self) -> Best | None:
        return self.progress.best

    @property
    def finished(self) -> bool:
        return self.progress.finished


# Finding.


def latest(directory: Path) -> Saved | None:
    """The newest whole checkpoint in `directory`, None where there is none, an error where every one is damaged."""
    notes: list[str] = []
    for path in reversed(checkpoints(directory)):
        try:
            return dataclasses.replace(read(path), notes=tuple(notes))
        except CheckpointError as error:
            notes.append(f"{error}; the checkpoint before it is used")
    if notes:
        raise CheckpointError(
            f"every checkpoint in {directory} is damaged: {'; '.join(note.rsplit('; ', 1)[0] for note in notes)}; "
            "start the training again in a new directory"
        )
    return None


def checkpoints(directory: Path) -> list[Path]:
    """The checkpoints in a directory, oldest first."""
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=_step_of)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def path_of(directory: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return directory / f"step-{step:08d}"


def read(path: Path) -> Saved:
    """Read a checkpoint's state and verify its files, or say what is wrong with it."""
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        checksum = state.pop("checksum")
        if checksum != _checksum(state):
            raise CheckpointError(f"the checkpoint {path} is damaged: {STATE} was changed")
        if state["format"] != FORMAT:
            raise CheckpointError(f"the checkpoint {path} has format {state['format']}; this version reads {FORMAT}")
        values = dict(state["progress"])
        values["best"] = None if values["best"] is None else Best(**values["best"])
        saved = Saved(
            path=path,
            progress=Progress(**values),
            settings=state["settings"],
            files=state["files"],
            report=state.get("report"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"the checkpoint {path} is damaged: {STATE} cannot be read ({error})") from error
    for name, expected in saved.files.items():
        try:
            found = _sha256(path / name)
        except OSError as error:
            raise CheckpointError(f"the checkpoint {path} is damaged: {name}: {error.strerror}") from error
        if found != expected:
            raise CheckpointError(f"the checkpoint {path} is damaged: {name} does not have its SHA-256")
    return saved


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two nested settings, by dotted name: `train.batch_tokens: 4096 -> 8192`."""
    before, after = (
        {name: list(value) if isinstance(value, tuple) else value for name, value in dotted(settings)}
        for settings in (old, new)
    )
    lines = []
    for name in {**before, **after}:
        if before.get(name, "nothing") != after.get(name, "nothing"):
            lines.append(f"{name}: {_shown(before, name)} -> {_shown(after, name)}")
    return lines


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return json.dumps(settings[name], ensure_ascii=False) if name in settings else "not set"


# Writing.


def save(
    directory: Path,
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: Average | None,
    progress: Progress,
    settings: Mapping[str, Any],
    parallel: Parallel,
    report: Mapping[str, Any] | None = None,
    best: Tensors | None = None,
) -> Path:
    """Write a checkpoint, then delete those that are no longer kept. Every process calls it; the main one writes."""
    files = {MODEL: module_tensors(module), OPTIMIZER: _optimizer_tensors(module, optimizer)}
    if average is not None:
        files[AVERAGE] = average.weights
    if best is not None:
        files[BEST] = best
    whole: dict[str, Tensors] = {}
    for file, tensors in files.items():
        whole[file] = {}
        for name, tensor in tensors.items():
            full = parallel.full(tensor)  # every process takes part in this
            if parallel.main:
                whole[file][name] = full.detach().to("cpu").contiguous()
    path = path_of(directory, progress.step)
    if parallel.main:
        state = {
            "progress": dataclasses.asdict(dataclasses.replace(progress, scaler=parallel.scaler_state())),
            "report": report,
            "settings": settings,
        }
        _write(path, whole, state)
        _prune(directory, progress)
    parallel.barrier()
    return path


def _write(path: Path, files: Mapping[str, Tensors], content: Mapping[str, Any]) -> None:
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with _explained(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _clean(path.parent)
            temporary.mkdir()
            hashes = {}
            for name, tensors in files.items():
                with usual_mode(temporary / name):
                    save_file(tensors, temporary / name)
                hashes[name] = _sha256(temporary / name, sync=True)
            # Tuples become lists before the checksum is made.
            state = json.loads(json.dumps({"format": FORMAT, **content, "files": hashes}))
            text = json.dumps({**state, "checksum": _checksum(state)}, indent=1, ensure_ascii=False)
            (temporary / STATE).write_text(text, encoding="utf-8")
            _sha256(temporary / STATE, sync=True)
            sync_directory(temporary)
            if path.exists():  # a damaged one that was passed over
                _delete(path)
            temporary.rename(path)
            sync_directory(path.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        full = getattr(error, "errno", None) in NO_SPACE or any(
            f"os error {number})" in str(error) for number in NO_SPACE
        )
        reason = "there is no space left on the disk" if full else str(error)
        raise OutputError(
            f"the checkpoint {path} cannot be written: {reason}; earlier checkpoints are untouched; "
            "make room and resume the training"
        ) from error


def _prune(directory: Path, progress: Progress) -> None:
    """Keep the newest two and the best. Later ones are left from before a fall back: their steps are done anew."""
    found = checkpoints(directory)
    kept = {progress.step} if progress.best is None else {progress.step, progress.best.step}
    earlier = [_step_of(path) for path in found if _step_of(path) < progress.step]
    kept |= set(earlier[-(KEPT - 1) :])
    for path in found:
        if _step_of(path) not in kept:
            _delete(path)


def _delete(path: Path) -> None:
    """Rename first: a deletion that is interrupted must not look like a damaged checkpoint."""
    gone = path.with_name(f"{path.name}.old{TEMPORARY_SUFFIX}")
    shutil.rmtree(gone, ignore_errors=True)
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _clean(directory: Path) -> None:
    """Remove what an interrupted process left."""
    for path in directory.glob(f"step-*{TEMPORARY_SUFFIX}"):
        shutil.rmtree(path, ignore_errors=True)


def _sha256(path: Path, *, sync: bool = False) -> str:
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


# Tensors out of and into a training.


def module_tensors(module: nn.Module) -> Tensors:
    """Parameters (each once, however often it is used) and persistent buffers."""
    parameters: Tensors = dict(module.named_parameters())
    stored = module.state_dict(keep_vars=True)
    return parameters | {name: buffer for name, buffer in module.named_buffers() if name in stored}


def weights_sha256(module: nn.Module) -> str:
    """One hash of all weights by name, whatever files they came in."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module_tensors(module).items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().to("cpu").reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _optimizer_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    tensors = {}
    for name, parameter in module.named_parameters():
        for kind, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{kind}/{name}"] = value
    return tensors


def restore(
    saved: Saved,
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: Average | None,
    parallel: Parallel,
) -> None:
    """Put a checkpoint's tensors back, bit for bit."""
    _fill(saved.path / MODEL, module_tensors(module), parallel)
    parameters = dict(module.named_parameters())
    optimizer.state.clear()
    with _opened(saved.path / OPTIMIZER) as stored:
        for entry, value in stored.items():
            kind, _, name = entry.partition("/")
            if name not in parameters:
                raise CheckpointError(f"{saved.path} is of another model: it has {name}, which this one has not")
            parameter = parameters[name]
            if kind == "step":  # torch's fused AdamW counts its steps on the device, everyone else on the CPU
                kept = value.clone().to(parameter.device if _is_fused(optimizer) else "cpu")
            else:
                kept = parallel.share(value, parameter)
            optimizer.state[parameter][kind] = kept
    if average is not None:
        _fill(saved.path / AVERAGE, average.weights, parallel)
    parallel.load_scaler_state(saved.progress.scaler)


def best_weights(saved: Saved, parameters: Mapping[str, nn.Parameter], parallel: Parallel) -> Tensors | None:
    """The weights of the best evaluation, where they came with a later step's checkpoint."""
    if BEST not in saved.files:
        return None
    with _opened(saved.path / BEST) as stored:
        if not parallel.sharded:  # as they were held before the stop: on the CPU
            return {name: tensor.clone() for name, tensor in stored.items()}
        return {name: parallel.share(tensor, parameters[name]) for name, tensor in stored.items()}


def load_best(saved: Saved, module: nn.Module) -> None:
    """The weights of the best evaluation until a checkpoint into a module."""
    assert saved.best is not None
    if BEST not in saved.files:
        load_weights(path_of(saved.path.parent, saved.best.step), module)
        return
    load_weights(saved.path, module)
    _fill_some(saved.path / BEST, module_tensors(module), None)


def load_weights(path: Path, module: nn.Module, parallel: Parallel | None = None) -> None:
    """The weights to keep of a checkpoint into a module: the averaged ones where there are any."""
    tensors = module_tensors(module)
    _fill(path / MODEL, tensors, parallel)
    if (path / AVERAGE).exists():
        _fill_some(path / AVERAGE, tensors, parallel)


def _is_fused(optimizer: torch.optim.Optimizer) -> bool:
    return any(group.get("fused") for group in optimizer.param_groups)


def _fill_some(file: Path, tensors: Tensors, parallel: Parallel | None) -> None:
    """Those of the tensors that the file has."""
    with _opened(file) as stored:
        targets = {name: tensors[name] for name in stored if name in tensors}
    _fill(file, targets, parallel)


@torch.no_grad()
def _fill(file: Path, targets: Tensors, parallel: Parallel | None) -> None:
    with _opened(file) as stored:
        missing, strange = sorted(targets.keys() - stored.keys()), sorted(stored.keys() - targets.keys())
        wrong = [name for name in targets.keys() & stored.keys() if stored[name].shape != targets[name].shape]
        if missing or strange or wrong:
            named = ", ".join([*missing, *strange, *wrong][:3])
            raise CheckpointError(
                f"{file} is of another model: {len(missing)} tensors are missing, {len(strange)} have no place, "
                f"{len(wrong)} have another shape ({named} …); resume with the settings that the run was started with"
            )
        for name, target in targets.items():
            sharded = parallel is not None and parallel.sharded
            target.copy_(parallel.share(stored[name], target) if parallel and sharded else stored[name])


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Tensors]:
    """The file's tensors: views of it, to be copied from while it is open."""
    try:
        with safe_open(file, framework="pt") as stored:
            yield {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
