"""`bertworks finetune`: what it says, how it stops, and that a killed run goes on exactly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertworks.cli import main as command_line
from bertworks.train.log import read_metrics
from tests.finetune.small import QUICK, assert_same_run, make_files, rows, write_csv

SETTINGS = [part for setting in QUICK for part in ("--set", setting)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_files(tmp_path_factory.mktemp("files"))


def given(files: dict[str, Path], output: Path) -> list[str]:
    paths = ["--train", files["train"], "--dev", files["dev"], "--model", files["model"], "-o", output]
    return ["finetune", "classify", *map(str, paths), "--threads", "1", "--track", "none", *SETTINGS]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = command_line.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_what_it_says(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "run"
    code, out, err = run(capsys, *given(files, output), "--seeds", 2)
    assert code == 0, err
    labels = list(dict.fromkeys(line.split()[0] for line in out.splitlines()))
    assert labels[:6] == ["data", "labels", "model", "settings", "baseline", "training"]
    assert "train.csv" in out
    assert "labels     2: quick, still" in out
    assert "batches of 8, 2 epochs, learning rate 0.002, best by accuracy" in out
    assert "training   seed 0 (1 of 2): " in out
    assert "40 examples, 10 steps, evaluation every 5" in out
    assert "seed 1 (2 of 2), step 10: dev accuracy" in err
    assert ": 2 seeds in " in out
    assert " ± " in out.splitlines()[-2]
    assert out.splitlines()[-1] == f"report: {output / 'report.html'}"
    code, told, _ = run(capsys, "info", output)
    assert code == 0
    assert "bertworks finetune classify" in told
    code, out, err = run(capsys, "finetune", "classify", "-o", output, "--resume", "--track", "none")
    assert code == 0
    assert "finished already" in out


def test_columns_are_remembered(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "".join(f"{text},nothing at all,{label}\n" for text, label in rows(40))
    (tmp_path / "train.csv").write_text(f"title,text,kind\n{table}", encoding="utf-8")
    chosen = ["--train", tmp_path / "train.csv", "--text-column", "title", "--label-column", "kind"]
    settings = [*SETTINGS, "--model", files["model"], "--track", "none"]
    code, _, err = run(capsys, "finetune", "classify", *chosen, *settings, "-o", tmp_path / "run", "-q")
    assert code == 0, err
    code, _, err = run(capsys, "predict", tmp_path / "run", tmp_path / "train.csv", "-o", tmp_path / "out.jsonl")
    assert code == 0, err
    assert "text = title" in err
    code, _, err = run(capsys, "evaluate", tmp_path / "run", "--data", tmp_path / "train.csv")
    assert code == 0, err
    assert "text = title, label = kind" in err


def test_json_and_quiet(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *given(files, tmp_path / "a"), "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["metric"] == "accuracy"
    assert 0 <= result["metrics"]["accuracy"] <= 1
    assert result["seeds"] == [0]
    kept = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert kept["metrics"] == result["metrics"]
    more = ["--balanced", "--lora", 2, "--batch-size", 20, "--learning-rate", 1e-3, "--patience", 3, "--epochs", 1]
    code, out, err = run(capsys, *given(files, tmp_path / "b"), *more, "--quiet")
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines()] == [str(tmp_path / "b"), "dev", "report"]
    stored = (tmp_path / "b" / "config.toml").read_text()
    for words in ('class_weights = "balanced"', "lora_rank = 2", "batch_size = 20", "patience = 3", "epochs = 1.0"):
        assert words in stored


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clasify", "--train", "x.csv"], "unknown task 'clasify' (did you mean 'classify'?)"),
        (["classify"], "say what to train on: --train FILE"),
        (["classify", "--resume"], "there is no run in"),
        (["classify", "--train", "nowhere.csv"], "nowhere.csv"),
        (["classify", "--train", "x.csv", "--set", "train.epoch=3"], "did you mean 'epochs'"),
        (["classify", "--train", "x.csv", "--track", "neptune"], "unknown tracker 'neptune'"),
    ],
)
def test_wrong_options_are_one_sentence(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "finetune", *arguments, "-o", tmp_path / "run")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err
    assert not (tmp_path / "run").exists()


def test_a_label_that_is_not_known_is_told_with_its_place(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev = write_csv(tmp_path / "dev.csv", [*rows(3), ("the old mill", "stil")])
    code, _, err = run(capsys, *given({**files, "dev": dev}, tmp_path / "run"))
    assert code == 2
    assert f"{dev}:5: " in err
    assert "stil" in err


# -- stopping ----------------------------------------------------------------------------------------------------------


def start(files: dict[str, Path], output: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bertworks", *given(files, output)]
    settings = ["--set", "train.checkpoint_steps=3", "--epochs", "4", "--seeds", "2"]
    return subprocess.Popen(
        [*command, *settings, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def wait_for_steps(output: Path, process: subprocess.Popen[str], count: int) -> None:
    def done() -> int:
        return sum(len(read_metrics(output / "seeds" / str(seed))) for seed in (0, 1))

    while process.poll() is None and done() < count:
        time.sleep(0.005)


@pytest.fixture(scope="module")
def whole(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "run"
    process = start(files, output)
    out, err = process.communicate()
    assert process.returncode == 0, (out, err)
    return output


def test_a_stop_saves_and_says_how_to_go_on(files: dict[str, Path], whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = start(files, output)
    wait_for_steps(output, process, 24)  # in the second seed
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    told = err.splitlines()[-1]
    assert told.startswith("stopped: step ")
    assert told.endswith(f"is saved; continue with: bertworks finetune classify -o {output} --resume")
    again = ["finetune", "classify", "-o", str(output), "--resume", "--track", "none", "--threads", "1", "-q"]
    assert command_line.main(again) == 0
    assert_same_run(output, whole)


def test_killed_and_resumed_is_the_same(files: dict[str, Path], whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    for count in (5, 27):
        process = start(files, output, "--resume")
        wait_for_steps(output, process, count)
        process.kill()
        process.communicate()
    again = ["finetune", "classify", "-o", str(output), "--resume", "--track", "none", "--threads", "1", "-q"]
    assert command_line.main(again) == 0
    assert_same_run(output, whole)
