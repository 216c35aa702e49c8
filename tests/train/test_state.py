"""Checkpoints: whole or not there, verified, kept few, and plain about what changed."""

from __future__ import annotations

import errno
import json

import pytest
import torch
from safetensors import SafetensorError

from bertworks.errors import CheckpointError, OutputError
from bertworks.train import state
from bertworks.train.config import OptimizerConfig, TrainConfig
from bertworks.train.loop import train
from tests.train.small import SmallData, SmallObjective, make_model

CONFIG = TrainConfig(checkpoint_steps=2, checkpoint_minutes=None, ema=0.9)
SETTINGS = {"train": {"batch_tokens": 512, "betas": (0.9, 0.98)}, "seed": 3}


def run(directory, *, steps=8, model=None, config=CONFIG, saved=None):
    objective = SmallObjective()
    return list(
        train(
            model or make_model(),
            objective,
            SmallData(objective),
            config,
            total_steps=steps,
            seed=3,
            directory=directory,
            settings=SETTINGS,
            state=saved,
        )
    )


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_last_two_are_kept(tmp_path):
    reports = run(tmp_path / "new" / "checkpoints")
    assert [report.checkpoint.name for report in reports if report.checkpoint] == [
        "step-00000002",
        "step-00000004",
        "step-00000006",
        "step-00000008",
    ]
    assert names(tmp_path / "new" / "checkpoints") == ["step-00000006", "step-00000008"]
    saved = state.latest(tmp_path / "new" / "checkpoints")
    assert (saved.step, saved.total_steps, saved.finished, saved.notes) == (8, 8, True, ())
    assert names(saved.path) == ["average.safetensors", "model.safetensors", "optimizer.safetensors", "state.json"]
    assert state.differences(saved.settings, SETTINGS) == []
    assert state.latest(tmp_path / "nothing") is None


@pytest.mark.parametrize("file", [state.MODEL, state.OPTIMIZER, state.AVERAGE, state.STATE])
@pytest.mark.parametrize("damage", ["cut", "flipped", "removed"])
def test_a_damaged_one_is_passed_over(file, damage, tmp_path):
    run(tmp_path)
    path = tmp_path / "step-00000008" / file
    content = path.read_bytes()
    if damage == "removed":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        place = len(content) - 20
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    saved = state.latest(tmp_path)
    assert saved.step == 6
    assert len(saved.notes) == 1
    assert "step-00000008 is damaged" in saved.notes[0]
    assert file in saved.notes[0]
    if file == state.MODEL:
        assert [report.step for report in run(tmp_path, saved=saved)] == [7, 8]
        assert state.latest(tmp_path).step == 8  # written anew over the damaged one
        assert names(tmp_path) == ["step-00000006", "step-00000008"]


def test_when_all_are_damaged_it_says_so(tmp_path):
    run(tmp_path)
    for path in tmp_path.iterdir():
        (path / state.STATE).write_text("{")
    with pytest.raises(CheckpointError, match=r"every checkpoint in .* is damaged: .*step-00000008.*step-00000006"):
        state.latest(tmp_path)


def test_leftovers_of_a_killed_process_are_ignored_and_removed(tmp_path):
    run(tmp_path, steps=4)
    left = tmp_path / "step-00000006.tmp"
    left.mkdir()
    (left / state.MODEL).write_bytes(b"half")
    assert state.latest(tmp_path).step == 4
    run(tmp_path, steps=6, saved=state.latest(tmp_path))
    assert names(tmp_path) == ["step-00000004", "step-00000006"]


def test_later_ones_go_when_training_goes_on_from_an_earlier_one(tmp_path):
    run(tmp_path)
    (tmp_path / "step-00000008" / state.MODEL).write_bytes(b"")
    run(tmp_path, steps=7, saved=state.latest(tmp_path))
    assert names(tmp_path) == ["step-00000006", "step-00000007"]


@pytest.mark.parametrize("at", [state.MODEL, state.AVERAGE])
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
    ids=["system", "safetensors"],
)
def test_no_space_left(at, error, tmp_path, monkeypatch):
    run(tmp_path, steps=4)
    write = state.save_file

    def full(tensors, path):
        if path.name == at:
            path.write_bytes(b"half a file")
            raise error
        write(tensors, path)

    monkeypatch.setattr(state, "save_file", full)
    with pytest.raises(OutputError, match=r"no space left on the disk; earlier checkpoints are untouched"):
        run(tmp_path, steps=8, saved=state.latest(tmp_path))
    assert names(tmp_path) == ["step-00000002", "step-00000004"]
    monkeypatch.undo()
    assert run(tmp_path, steps=8, saved=state.latest(tmp_path))[-1].step == 8


def test_a_file_that_cannot_grow_is_a_full_disk(tmp_path):
    """The real writer against a real limit."""
    resource = pytest.importorskip("resource")
    run(tmp_path, steps=2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OutputError, match="cannot be written"):
            run(tmp_path, steps=4, saved=state.latest(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert names(tmp_path) == ["step-00000002"]


def test_another_model_is_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(CheckpointError, match=r"of another model: \d+ tensors are missing"):
        run(tmp_path, steps=10, model=make_model(layers=4), saved=state.latest(tmp_path))
    with pytest.raises(CheckpointError, match="of another model"):
        state.load_weights(tmp_path / "step-00000008", make_model(gated=False))


def test_more_steps_continue_a_finished_training(tmp_path):
    run(tmp_path)
    assert [report.step for report in run(tmp_path, steps=10, saved=state.latest(tmp_path))] == [9, 10]


def test_tied_parameters_are_stored_once(tmp_path):
    model = make_model()
    twin = torch.nn.ModuleDict({"a": model, "b": torch.nn.Linear(24, 31)})
    twin["b"].weight = model.body.embeddings.tokens.weight
    tensors = state.module_tensors(twin)
    assert "a.body.embeddings.tokens.weight" in tensors
    assert "b.weight" not in tensors


def test_differences_are_named():
    old = {"train": {"batch_tokens": 512, "optimizer": {"betas": [0.9, 0.98]}, "gone": 1}, "seed": 3}
    new = {"train": {"batch_tokens": 1024, "optimizer": {"betas": (0.9, 0.98)}, "new": None}, "seed": 3}
    assert state.differences(old, new) == [
        "train.batch_tokens: 512 -> 1024",
        "train.gone: 1 -> not set",
        "train.new: not set -> null",
    ]
    assert state.differences(old, old) == []


def test_state_is_plain_json(tmp_path):
    run(tmp_path, steps=2, config=TrainConfig(optimizer=OptimizerConfig(name="lamb"), checkpoint_minutes=None))
    stored = json.loads((tmp_path / "step-00000002" / state.STATE).read_text())
    assert stored["progress"]["step"] == 2
    assert set(stored["files"]) == {state.MODEL, state.OPTIMIZER}
