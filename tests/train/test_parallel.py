"""Two processes on this machine (gloo, loopback) against one: the same losses, the same weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertworks.train import state
from tests.train import process

pytest.importorskip("accelerate")
ROOT = Path(__file__).parents[2]


def run(output: Path, processes: int, **job) -> tuple[list[dict], dict[str, torch.Tensor]]:
    """One process is this one; several are started by torchrun."""
    output.mkdir(exist_ok=True)
    if processes == 1:
        process.main(output, job)
    else:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        done = subprocess.run(
            [sys.executable, *launcher, process.__file__, str(output), json.dumps(job)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=ROOT,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
    return json.loads((output / "reports.json").read_text()), load_file(output / "kept.safetensors")


def agree(one, two) -> None:
    (first, weights), (second, others) = one, two
    assert [report["step"] for report in first] == [report["step"] for report in second]
    for here, there in zip(first, second, strict=True):
        assert there["losses"] == pytest.approx(here["losses"], rel=1e-6)
        assert there["accuracy"] == pytest.approx(here["accuracy"])
        assert there["norm"] == pytest.approx(here["norm"], rel=3e-6)
        assert there["tokens"] == here["tokens"]
        assert (there["evaluation"] is None) == (here["evaluation"] is None)
        if here["evaluation"]:
            assert there["evaluation"] == pytest.approx(here["evaluation"], rel=1e-6)
    for name, weight in weights.items():
        difference = (weight - others[name]).norm()
        assert difference <= 1e-6 * weight.norm() + 1e-7 * weight.numel() ** 0.5, name


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return run(tmp_path_factory.mktemp("alone"), 1, ema=0.9)


def test_two_copies_equal_one_process(alone, tmp_path):
    together = run(tmp_path, 2, ema=0.9, measure=True)
    agree(alone, together)
    assert all(
        torch.equal(together[1][name], other) for name, other in load_file(tmp_path / "kept-1.safetensors").items()
    )


def test_two_shards_equal_one_process(alone, tmp_path):
    agree(alone, run(tmp_path, 2, ema=0.9, sharded=True, measure=True, gradient_checkpointing=True))


@pytest.mark.parametrize(
    "optimizer", ["adamw", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lamb", "muon"))]
)
def test_begun_alone_and_continued_in_shards(optimizer, tmp_path):
    """A checkpoint does not know how many processes wrote it."""
    whole = run(tmp_path / "whole", 1, optimizer=optimizer)
    run(tmp_path / "cut", 1, optimizer=optimizer, until=2)
    reports, weights = run(tmp_path / "cut", 2, optimizer=optimizer, sharded=True)
    agree((whole[0][2:], whole[1]), (reports, weights))


def test_a_best_model_of_one_process_is_kept_in_shards(tmp_path):
    job = {"evaluation": {"steps": 1, "goal": "highest", "keep": "best"}}  # the first is the best
    whole = run(tmp_path / "whole", 1, **job)
    run(tmp_path / "cut", 1, until=2, **job)
    (saved,) = (tmp_path / "cut" / "checkpoints").iterdir()
    assert (saved / state.BEST).exists()
    reports, weights = run(tmp_path / "cut", 2, sharded=True, **job)
    agree((whole[0][2:], whole[1]), (reports, weights))


@pytest.mark.parametrize("sharded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_processes_with_nothing_to_do_do_not_block(sharded, tmp_path):
    reports, _ = run(tmp_path, 2, uneven=True, ema=0.9, sharded=sharded)
    assert [report["step"] for report in reports] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_bf16_in_shards(tmp_path):
    reports, _ = run(tmp_path, 2, sharded=True, double=False, precision="bf16")
    alone, _ = run(tmp_path / "alone", 1, double=False)
    assert reports[-1]["losses"]["mlm"] == pytest.approx(alone[-1]["losses"]["mlm"], rel=0.03)
    assert reports[0]["losses"]["mlm"] != pytest.approx(alone[0]["losses"]["mlm"], rel=1e-6)
