"""Runs in a folder: found by their files, read while they are written, served without the power to do anything."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from bertworks.errors import UsageError
from bertworks.studio import runs

STEPS = [{"step": 0, "held_out_loss": 5.0, "seconds": 0.1}] + [
    {"step": step, "loss": 5.0 / step, "learning_rate": 0.01, "seconds": float(step)} for step in range(1, 6)
]


def write_run(path: Path, config: str, lines: list[dict[str, object]], result: dict[str, object] | None = None) -> Path:
    """A run's directory as the commands write it."""
    path.mkdir(parents=True)
    (path / "config.toml").write_text(config)
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if result is not None:
        (path / "metrics.json").write_text(json.dumps(result))
        (path / "report.html").write_text("<!DOCTYPE html><title>r</title><script>alert(1)</script><p>the report")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    write_run(root / "pre", '[run]\ncommand = "pretrain"\nsteps = 10\nseed = 0\n[train]\nrate = 0.1\n', STEPS)
    write_run(
        root / "deep" / "fine",
        '[run]\ncommand = "finetune"\ntask = "classify"\nmodel = "minilm"\nseed = 1\n[train]\nrate = 0.2\n',
        [],
        {"task": "classify", "metric": "accuracy", "metrics": {"accuracy": 0.9}, "model": "minilm", "seconds": 3.5},
    )
    fine = root / "deep" / "fine"
    (fine / "metrics.jsonl").unlink()
    for seed in (0, 1, 10):
        (fine / "seeds" / str(seed)).mkdir(parents=True)
        (fine / "seeds" / str(seed) / "metrics.jsonl").write_text(json.dumps({"step": seed + 1, "loss": 1.0}) + "\n")
    vectors = write_run(
        root / "words",
        '[text]\nlower = true\n[training]\nalgorithm = "glove"\n',
        [],
        {"task": "vectors", "metrics": {"loss": 0.5}, "losses": [0.9, 0.5], "model": "glove", "seconds": 1},
    )
    (vectors / "metrics.jsonl").unlink()
    (root / "empty").mkdir()
    return root


def test_finding(folder: Path) -> None:
    assert sorted(runs.find_runs(folder)) == ["deep/fine", "pre", "words"]
    assert runs.find_runs(folder / "pre") == ["."]
    os.utime(folder / "words" / "metrics.json", (time.time() + 60, time.time() + 60))
    assert runs.find_runs(folder)[0] == "words"
    with pytest.raises(UsageError, match="not a folder"):
        runs.find_runs(folder / "nowhere")


def test_what_a_list_shows(folder: Path) -> None:
    pre = runs.describe(folder, "pre")
    assert (pre["command"], pre["state"], pre["step"], pre["steps"], pre["report"]) == (
        "pretrain",
        "running",
        5,
        10,
        False,
    )
    fine = runs.describe(folder, "deep/fine")
    assert (fine["command"], fine["task"], fine["state"], fine["metrics"]) == (
        "finetune", "classify", "finished", {"accuracy": 0.9},
    )  # fmt: skip
    assert fine["report"]
    words = runs.describe(folder, "words")
    assert (words["command"], words["step"], words["model"]) == ("vectors", 2, "glove")
    long_ago = time.time() - 1000
    for file in (folder / "pre").iterdir():
        os.utime(file, (long_ago, long_ago))
    assert runs.describe(folder, "pre")["state"] == "unfinished"


def test_curves(folder: Path) -> None:
    found = runs.curves(folder, "pre")
    assert found["names"] == ["held_out_loss", "loss", "learning_rate"]
    assert found["traces"] == [{"name": "", "lines": STEPS}]
    assert [trace["name"] for trace in runs.curves(folder, "deep/fine")["traces"]] == ["seed 0", "seed 1", "seed 10"]
    assert runs.curves(folder, "words")["traces"][0]["lines"] == [{"step": 1, "loss": 0.9}, {"step": 2, "loss": 0.5}]


def test_a_run_that_is_being_written(folder: Path) -> None:
    with (folder / "pre" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "loss": NaN, "seconds": 6.0}\n{"step": 7, "lo')
    lines = runs.curves(folder, "pre")["traces"][0]["lines"]
    assert lines[-1] == {"step": 6, "loss": None, "seconds": 6.0}
    assert runs.describe(folder, "pre")["step"] == 6
    (folder / "pre" / "config.toml").write_text("[run")
    assert runs.describe(folder, "pre")["command"] == "?"


def test_long_runs_are_thinned(folder: Path) -> None:
    lines = [{"step": step, "loss": 1.0} for step in range(1, 5001)]
    lines[1234] |= {"held_out_loss": 2.0}
    write_run(folder / "long", '[run]\ncommand = "pretrain"\n', lines)
    kept = [line["step"] for line in runs.curves(folder, "long")["traces"][0]["lines"]]
    assert len(kept) <= runs.MAX_LINES + 2
    assert (kept[0], kept[-1]) == (1, 5000)
    assert 1235 in kept


def test_what_differs(folder: Path) -> None:
    found = runs.compare(folder, ["pre", "deep/fine"])
    rows = {row["name"]: row["values"] for row in found["settings"]}
    assert rows["train.rate"] == [0.1, 0.2]
    assert rows["run.task"] == [None, "classify"]
    assert found["metrics"] == [{}, {"accuracy": 0.9}]
    assert found["shares"] == ["accuracy"]
    assert runs.compare(folder, ["pre", "pre"])["settings"] == []
    with pytest.raises(UsageError, match="at most are compared"):
        runs.compare(folder, ["pre"] * 13)


@pytest.mark.parametrize("run", ["../outside", "nothing", "empty", "/etc", "deep/../../outside", "link"])
def test_nothing_outside_the_folder(folder: Path, run: str) -> None:
    write_run(folder.parent / "outside", '[run]\ncommand = "pretrain"\n', STEPS, {"metrics": {}})
    (folder / "link").symlink_to(folder.parent / "outside")
    with pytest.raises(UsageError, match="there is no run"):
        runs.run_path(folder, run)


def test_routes(folder: Path) -> None:
    app = FastAPI()
    app.include_router(runs.router(folder))
    client = TestClient(app)
    listed = client.get("/api/runs").json()
    assert {run["run"] for run in listed["runs"]} == {"pre", "deep/fine", "words"}
    curves = client.get("/api/runs/curves", params={"run": ["pre", "words"]}).json()
    assert [one["run"] for one in curves["runs"]] == ["pre", "words"]
    report = client.get("/api/runs/report", params={"run": "deep/fine"})
    assert report.text.endswith("the report")
    assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "allow-scripts" not in report.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in report.headers["content-security-policy"]
    (folder.parent / "secret.html").write_text("secret")
    (folder / "words" / "report.html").unlink()
    (folder / "words" / "report.html").symlink_to(folder.parent / "secret.html")
    with pytest.raises(UsageError, match="leads out of the folder"):
        client.get("/api/runs/report", params={"run": "words"})
    with pytest.raises(UsageError, match="has no report"):
        client.get("/api/runs/report", params={"run": "pre"})


def test_without_a_folder() -> None:
    app = FastAPI()
    app.include_router(runs.router(None))
    client = TestClient(app)
    assert client.get("/api/runs").json() == {"folder": None, "runs": []}
    with pytest.raises(UsageError, match="bertworks studio --runs DIR"):
        client.get("/api/runs/curves", params={"run": "x"})
