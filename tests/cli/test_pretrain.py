"""`bertworks pretrain` and `bertworks distill`: what they say, how they stop, and that a killed run goes on exactly."""

from __future__ import annotations

import json
import os
import random
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
from bertworks.cli.common import StoppedError
from bertworks.cli.training import TrainingProgress
from bertworks.train import measure
from bertworks.train import run as runs
from bertworks.train.log import read_metrics
from bertworks.train.recipes import load_recipe
from tests.data.corpus_helpers import contents
from tests.train.runs import SMALL, make_corpus, timeless

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
    assert labels[:7] == ["model", "corpus", "vectors", "speed", "training", "baseline", "expected"]
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


@pytest.mark.parametrize("gain", [1.9, 3.04])
def test_a_processor_that_could_do_more(
    gain: float, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is told of where it gains much, to a run that begins in fp32."""
    assert measure.gain_of_bf16() > 0
    monkeypatch.setattr(measure, "gain_of_bf16", lambda: gain)
    said = "multiplies bf16 3.0 times as fast as fp32; --set train.precision=bf16"
    given = ["--steps", 1, "--threads", 1, "--track", "none", *SETTINGS]
    assert (said in run(capsys, "pretrain", corpus, "-o", tmp_path / "a", *given)[2]) == (gain > 2)
    narrow = ["--set", "train.precision=bf16"]
    code, _, err = run(capsys, "pretrain", corpus, "-o", tmp_path / "b", *given, *narrow)
    assert code == 0
    assert "bf16" not in err


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
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines()] == [str(tmp_path / "b"), "held-out text", "report"]


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


def test_the_time_left_is_not_told_from_loading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A minute to load a checkpoint and take a first step, 10 s for each further one."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    progress = TrainingProgress(quiet=False)
    progress.begin(SimpleNamespace(first_step=5, steps=10))  # type: ignore[arg-type]
    for step, seconds in ((6, 60.0), (7, 10.0), (8, 10.0)):
        clock[0] += seconds
        report = SimpleNamespace(step=step, total_steps=10, events=(), evaluation=None)
        progress.show(SimpleNamespace(report=report, loss=1.0, rate=2.0))  # type: ignore[arg-type]
    first, second, third = capsys.readouterr().err.splitlines()
    assert "left" not in first
    assert second.endswith(", 30.0 s left")
    assert third.endswith(", 20.0 s left")


# -- stopping ----------------------------------------------------------------------------------------------------------

STEPS = 40


def start(corpus: Path, output: Path, *more: str, steps: int = STEPS, recipe: str = "bert") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bertworks", "pretrain", str(corpus), "-o", str(output)]
    given = ["--recipe", recipe, "--steps", str(steps), "--threads", "1", "--track", "none", *SETTINGS]
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
    return uninterrupted(corpus, tmp_path_factory.mktemp("whole") / "run")


def uninterrupted(corpus: Path, output: Path, steps: int = STEPS, recipe: str = "bert") -> Path:
    process = start(corpus, output, steps=steps, recipe=recipe)
    assert process.wait() == 0, process.communicate()
    process.communicate()
    return output


def assert_same(output: Path, whole: Path, steps: int = STEPS) -> None:
    lines = timeless(output)
    assert lines == timeless(whole)
    assert [line["step"] for line in lines] == list(range(steps + 1))
    assert sum("held_out_loss" in line for line in lines) == 11  # the untrained model's, and ten
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
    assert command_line.main(["pretrain", str(corpus), "-o", str(output), "--resume", "--threads", "1", "-q"]) == 0
    assert_same(output, whole)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    told = process.communicate()
    assert process.returncode == -signal.SIGKILL, told  # it had not ended by itself


def test_killed_and_resumed_is_the_same(corpus: Path, whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    for count in (5, 17):
        process = start(corpus, output, "--resume")
        wait_for_steps(output, process, count)
        kill(process)
    assert command_line.main(["pretrain", str(corpus), "-o", str(output), "--resume", "--threads", "1", "-q"]) == 0
    assert_same(output, whole)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["bert", "modern"])
def test_killed_at_ten_random_moments_is_the_same(recipe: str, corpus: Path, tmp_path: Path) -> None:
    """Some of them while it begins or loads, most after a few more steps, of which every third is saved."""
    output, steps, chance = tmp_path / "run", 120, random.Random(8)
    whole = uninterrupted(corpus, tmp_path / "whole", steps, recipe)
    done = [0]
    for number in range(10):
        process = start(corpus, output, "--resume", steps=steps, recipe=recipe)
        if number in (0, 4):
            time.sleep(chance.uniform(0.0, 6.0))
        else:
            wait_for_steps(output, process, done[-1] + chance.randrange(8))
            time.sleep(chance.uniform(0.0, 0.1))
        kill(process)
        done.append(sum("loss" in line for line in read_metrics(output)))
    assert done[-1] < steps  # it was killed before its end, every time
    assert len(set(done)) > 5
    assert command_line.main(["pretrain", str(corpus), "-o", str(output), "--resume", "--threads", "1", "-q"]) == 0
    assert_same(output, whole, steps)


def test_stopped_while_a_resumed_run_loads(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was done, and nothing is lost; of a run that only begins, nothing was kept."""
    output = tmp_path / "run"
    given = ["pretrain", corpus, "-o", output, "--threads", 1, "--track", "none"]
    new = [*given, "--steps", 3, *SETTINGS]
    assemble = runs.assemble

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(runs, "assemble", interrupted)
    code, out, err = run(capsys, *new)
    assert (code, out, err) == (130, "", "stopped: training had not begun, nothing was kept\n")
    assert not output.exists()

    def stopped(*arguments: Any, **options: Any) -> Any:
        raise StoppedError("here")

    monkeypatch.setattr(runs, "assemble", assemble)
    monkeypatch.setattr("bertworks.train.course.train", stopped)
    assert run(capsys, *new)[0] == 130
    before = contents(output)
    monkeypatch.setattr(runs, "assemble", interrupted)
    code, out, err = run(capsys, *given, "--resume")
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == (
        "stopped: nothing new was done yet, and nothing is lost; "
        f"continue with: bertworks pretrain {corpus} -o {output} --resume"
    )
    assert contents(output) == before


# -- several processes -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("alone") / "run"
    trained_by(1, corpus, output)
    return output


def trained_by(
    processes: int,
    corpus: Path,
    output: Path,
    *settings: str,
    recipe: str = "bert",
    length: tuple[str, str] = ("--steps", "4"),
) -> subprocess.CompletedProcess[str]:
    """A few steps of `bertworks pretrain` by so many processes, without dropout."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), "-m", "bertworks"]
    given = ["pretrain", str(corpus), "-o", str(output), "--recipe", recipe, *length, "--threads", "1"]
    more = ["model.dropout=0", "train.ema=0.9", "train.evaluation.steps=2", *settings]
    done = subprocess.run(
        [*command, *given, "--track", "none", *SETTINGS, *(part for setting in more for part in ("--set", setting))],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done


@pytest.mark.parametrize(
    "kind", ["copies", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("shards", "few sequences in shards"))]
)
def test_two_processes_train_like_one(kind: str, corpus: Path, alone: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    output, more = tmp_path / "run", [] if kind == "copies" else ["train.sharded=true"]
    if kind.startswith("few"):  # fewer than micro-batches: in some of them a process has nothing to do
        few = ["train.batch_tokens=130", "train.micro_tokens=20"]
        alone = tmp_path / "alone"
        trained_by(1, corpus, alone, *few)
        more += few
    told = trained_by(2, corpus, output, *more).stdout
    assert told.count("model      bert 2x24x3") == 1  # one of the two speaks
    ours, theirs = timeless(output), timeless(alone)
    assert len(ours) == len(theirs) == 5
    for mine, expected in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(expected, rel=1e-6)
    weights, others = (dict(hub.load(path).model.named_parameters()) for path in (output, alone))
    for name, weight in others.items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-4, atol=1e-5)


def test_two_processes_agree_on_what_a_budget_covers(corpus: Path, tmp_path: Path) -> None:
    """Each measures its own speed and learns its own first vectors; with different lengths one would wait for the other."""
    pytest.importorskip("accelerate")
    output = tmp_path / "run"
    told = trained_by(2, corpus, output, recipe="modern", length=("--budget", "4s")).stdout
    assert told.count("vectors ") == 1
    settled = load_recipe(output / "config.toml").run
    assert settled is not None
    assert settled.vector_tokens
    assert settled.steps
    assert read_metrics(output)[-1]["step"] == settled.steps
