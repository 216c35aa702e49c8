"""The model of a run that is not over."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertworks import hub
from bertworks.cli.main import main
from bertworks.errors import CheckpointError
from bertworks.train.run import Planned, RunOptions, Stepped, pretrain
from bertworks.train.unfinished import is_unfinished, load_unfinished
from tests.train.runs import SMALL, finished, make_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("corpus"), "bert")


@pytest.mark.parametrize("ema", ["none", "0.9"])
def test_its_last_checkpoint_becomes_a_model(
    ema: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As good as that of a run which ends there, and the run goes on as if nothing had been."""
    settings = (*SMALL, "train.schedule.name=constant", "objective.masking.final_rate=none", f"train.ema={ema}")
    options = RunOptions(corpus=corpus, output=tmp_path / "run", settings=settings, steps=4, track=())
    stop = threading.Event()
    for event in pretrain(options, stop=stop):
        if isinstance(event, Stepped) and event.report.step == 1:  # the step in hand is finished
            stop.set()
    assert is_unfinished(tmp_path / "run")
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "run"), "--overwrite"]) == 2
    assert "is a run that is not over, and would be spoilt" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "so-far")]) == 0
    assert ", as of step 2" in capsys.readouterr().out
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "small"), "--dtype", "int8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 2

    finished(list(pretrain(replace(options, output=tmp_path / "two", steps=2))))
    ours, theirs = (hub.load(tmp_path / name).model.state_dict() for name in ("so-far", "two"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)

    finished(list(pretrain(replace(options, resume=True))))
    assert not is_unfinished(tmp_path / "run")
    finished(list(pretrain(replace(options, output=tmp_path / "whole"))))
    ours, theirs = (hub.load(tmp_path / name).model.state_dict() for name in ("run", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_without_a_checkpoint_or_its_corpus(corpus: Path, tmp_path: Path) -> None:
    moved = corpus.with_name("moved")
    options = RunOptions(corpus=corpus, output=tmp_path / "run", settings=SMALL, steps=4, track=())
    stop = threading.Event()
    for event in pretrain(options, stop=stop):
        if isinstance(event, Planned):
            with pytest.raises(CheckpointError, match="has no checkpoint yet"):
                load_unfinished(tmp_path / "run")
            stop.set()
    corpus.rename(moved)
    try:
        with pytest.raises(CheckpointError, match="cannot be opened without what it was begun with"):
            load_unfinished(tmp_path / "run")
    finally:
        moved.rename(corpus)
