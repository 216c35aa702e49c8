"""A run's directory: when it may be begun, continued and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bertworks.errors import CheckpointError, OutputError, UsageError
from bertworks.train import directory


def check(output: Path, *, resume: bool = False, overwrite: bool = False, needed: Sequence[str] = ()) -> bool:
    return directory.check_output(
        output, resume=resume, overwrite=overwrite, commands=("pretrain",), left_over=("words.txt",), needed=needed
    )


def test_what_may_be_done_with_a_directory(tmp_path: Path) -> None:
    output = tmp_path / "run"
    assert not check(output)
    output.mkdir()
    (output / "words.txt").write_text("")  # from a run that was killed as it began
    assert not check(output, resume=True)
    (output / "letter.txt").write_text("")
    with pytest.raises(OutputError, match="not empty and holds no run"):
        check(output)
    (output / "letter.txt").unlink()
    directory.begin(output, {"config.toml": '[run]\ncommand = "pretrain"\n'})
    assert directory.is_run(output)
    assert directory.command_of(output) == "pretrain"
    with pytest.raises(OutputError, match="can be continued with --resume"):
        check(output)
    assert check(output, resume=True)
    assert not check(output, overwrite=True)
    (output / "metrics.json").write_text('{"metrics": {}, "seconds": 1}')
    with pytest.raises(OutputError, match="is finished"):
        check(output)
    assert directory.read_result(output) == {"metrics": {}, "seconds": 1.0}
    with pytest.raises(UsageError, match="exclude each other"):
        check(output, resume=True, overwrite=True)
    directory.begin(output, {"config.toml": '[run]\ncommand = "finetune"\n'})  # the one that was there is gone
    assert not directory.is_finished(output)
    with pytest.raises(UsageError, match="one of bertworks finetune"):
        check(output, resume=True)
    with pytest.raises(OutputError, match="is a file"):
        check(output / "config.toml")
    with pytest.raises(OutputError, match=r"config\.toml is not a directory that can be written to"):
        check(output / "config.toml" / "run")
    with pytest.raises(OutputError, match=r"--overwrite would delete .*toml, which the run is to read"):
        check(output, overwrite=True, needed=["minilm", str(output / "config.toml")])
    assert not check(output, overwrite=True, needed=["minilm", str(tmp_path)])
    assert directory.near(tmp_path / "rnu") == " (did you mean 'run'?)"
    directory.begin(tmp_path / "another", {"config.toml": ""})
    assert directory.near(tmp_path / "nothere") == ""
    assert directory.near(tmp_path / "no" / "where") == ""


def test_changes() -> None:
    stored = {"train": {"steps": 3, "log_steps": 5}}
    asked = {"train": {"steps": 3, "log_steps": 6}}
    assert directory.changes(stored, asked, ("train.log_steps",)) == ["train.log_steps: 5 -> 6"]
    with pytest.raises(UsageError, match=r"other settings \(train.log_steps: 5 -> 6\); .* directory \(or so\)"):
        directory.changes(stored, asked, (), " (or so)")


def test_a_damaged_result(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text("{")
    with pytest.raises(CheckpointError, match="delete it and run with --resume"):
        directory.read_result(tmp_path)
