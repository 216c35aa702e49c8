"""`bertworks pretrain` and `bertworks distill`: what they say, how they stop, and that a killed run goes on exactly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bertworks import hub
from bertworks.cli import console
from bertworks.cli import main as command_line
from bertworks.cli.training import TrainingProgress
from bertworks.train.log import read_metrics
from tests.train.runs import SMALL, make_corpus

SETTINGS = [part for setting in SMALL for part in ("--set", setting)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("corpus"), "bert")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = command_line.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_what_it_says(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "run"
    given = ["pretrain", corpus, "-o", output, "--steps", 3, "--threads", 1, "--track", "none", *SETTINGS]
    code, out, err = run(capsys, *given)
    assert code == 0
    labels = [line.split()[0] for line in out.splitlines()]
    assert labels[:6] == ["model", "corpus", "speed", "training", "baseline", "expected"]
    assert "modernbert 2x24x3" in out
    assert "3 steps" in out
    assert "held-out text: loss" in out
    assert "step 3: held-out loss" in err
    assert not (output / "tensorboard").exists()
    code, told, _ = run(capsys, "info", output)
    assert code == 0
    assert "made by" in told
    assert str(corpus) in told

    code, out, err = run(capsys, *given)
    assert (code, out) == (2, "")
    assert (
        err
        == f"error: there is a run in {output} already, which is finished; choose another directory or --overwrite\n"
    )
    code, out, err = run(capsys, "pretrain", corpus, "-o", output, "--resume")
    assert (code, err) == (0, "")
    assert "finished already, after 3 steps" in out


def test_json_and_quiet(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--steps", 2, "--threads", 1, *SETTINGS]
    code, out, err = run(capsys, "pretrain", corpus, "-o", tmp_path / "a", *given, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["steps"] == 2
    assert result["metrics"]["loss"] > 0
    assert (tmp_path / "a" / "tensorboard").is_dir()  # where it is installed
    code, out, err = run(
        capsys, "distill", corpus, "--teacher", tmp_path / "a", "-o", tmp_path / "b", *given, "--quiet"
    )
    assert (code, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume"], "there is no run in"),
        (["--steps", "5", "--size", "mini", "--from", "x"], "--size and --from exclude each other"),
        (["--steps", "5", "--set", "train.schedule.name=linaer"], "error: train.schedule.name must be one of"),
        ([], "say how long to train: --budget 30m, or --steps 10000"),
        (["--budget", "soon"], "a budget must look like 30m, 1h30m or 90s, not 'soon'"),
        (["--steps", "5", "--budget", "5s"], "give --budget or --steps, not both"),
        (["--steps", "5", "--recipe", "brt"], "unknown recipe 'brt' (did you mean 'bert'?)"),
        (["--steps", "5", "--size", "2x2"], "model.size is '2x2'"),
        (["--steps", "5", "--set", "train.batch_token=5"], "train.batch_token"),
        (["--steps", "5", "--track", "neptune"], "unknown tracker 'neptune'"),
        (["--steps", "5", "--track", "wandb"], "the tracker 'wandb' is not installed"),
        (["--steps", "5", "--device", "cuda:9"], "device"),
        (["--steps", "0"], "--steps"),
    ],
)
def test_wrong_options_are_one_sentence(
    arguments: list[str], words: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "pretrain", corpus, "-o", tmp_path / "run", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err
    assert not (tmp_path / "run").exists()


def test_lines_stand_alone_beside_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The bar is away while a line is printed, and back afterwards; a resumed run counts all of its steps."""
    told: list[Any] = []
    bar = SimpleNamespace(
        start=lambda: told.append("start"),
        stop=lambda: told.append("stop"),
        add_task=lambda label, **_: told.append(label),
        update=lambda _, *, completed, **__: told.append(completed),
        task_ids=[0],
    )
    monkeypatch.setattr(console, "_bar", lambda: bar)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with TrainingProgress(quiet=False) as progress:
        assert isinstance(progress, TrainingProgress)
        progress.begin(SimpleNamespace(first_step=5, steps=20))  # type: ignore[arg-type]
        report = SimpleNamespace(step=10, total_steps=20, events=("a word",), evaluation=None)
        progress.show(SimpleNamespace(report=report, loss=1.0, rate=2.0))  # type: ignore[arg-type]
    assert told == ["measuring", "start", 0.25, 0.5, "stop", "start", "stop"]
    assert capsys.readouterr().err == "step 10: a word\n"


# -- stopping ----------------------------------------------------------------------------------------------------------

STEPS = 40


def start(corpus: Path, output: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bertworks.cli.main", "pretrain", str(corpus), "-o", str(output)]
    given = ["--recipe", "bert", "--steps", str(STEPS), "--threads", "1", "--track", "none", *SETTINGS]
    return subprocess.Popen(
        [*command, *given, "--set", "train.checkpoint_steps=3", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def wait_for_steps(output: Path, process: subprocess.Popen[str], count: int) -> None:
    while process.poll() is None and sum("loss" in line for line in read_metrics(output)) < count:
        time.sleep(0.005)


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "run"
    process = start(corpus, output)
    assert process.wait() == 0, process.communicate()
    process.communicate()
    return output


def assert_same(output: Path, whole: Path) -> None:
    losses = [
        [(line["step"], line["loss"]) for line in read_metrics(path) if "loss" in line] for path in (output, whole)
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == STEPS
    ours, theirs = (dict(hub.load(path).model.named_parameters()) for path in (output, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_saves_and_says_how_to_go_on(number: signal.Signals, corpus: Path, whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = start(corpus, output)
    wait_for_steps(output, process, 4)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 130, err
    told = err.splitlines()[-1]
    assert told.startswith("stopped: step ")
    assert err.count("stopped") == 1
    assert command_line.main(["info", str(output)]) == 0
    assert told.endswith(f"is saved; continue with: bertworks pretrain {corpus} -o {output} --resume")
    assert command_line.main(["pretrain", str(corpus), "-o", str(output), "--resume", "--track", "none", "-q"]) == 0
    assert_same(output, whole)


def test_killed_and_resumed_is_the_same(corpus: Path, whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    for count in (5, 17):
        process = start(corpus, output, "--resume")
        wait_for_steps(output, process, count)
        process.kill()
        process.communicate()
    assert command_line.main(["pretrain", str(corpus), "-o", str(output), "--resume", "--track", "none", "-q"]) == 0
    assert_same(output, whole)
