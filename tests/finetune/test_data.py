"""Files become examples: what is told about rows that are left out, and how many are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertworks.errors import DataError, UsageError
from bertworks.finetune.config import DataSection, RunSection
from bertworks.finetune.data import RunData, read_data

ROWS = ["text,label", *(f"sentence number {number},{'yes' if number % 2 else 'no'}" for number in range(20))]


def read(path: Path, lines: list[str], **section: object) -> RunData:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_data(RunSection(task="classify", model="m", train=str(path)), DataSection(**section))  # type: ignore[arg-type]


def test_each_bad_row_is_told_once(tmp_path: Path) -> None:
    bad = [*ROWS[:4], "a,b,c", *ROWS[4:9], "d,e,f", *ROWS[9:]]
    data = read(tmp_path / "train.csv", bad, skip_bad_rows=True)
    assert len(data.train) + len(data.dev) == 20
    told = "\n".join(data.understood)
    assert "2 bad rows left out, the first: " in told
    assert [told.count(f"train.csv:{line}:") for line in (5, 11)] == [1, 1]
    with pytest.raises(DataError, match=r"train.csv:5: "):
        read(tmp_path / "train.csv", bad)


def test_the_first_examples_may_be_enough(tmp_path: Path) -> None:
    data = read(tmp_path / "train.csv", ROWS, max_examples=8, dev_fraction=0.25)
    numbers = sorted(int(example.text.split()[-1]) for example in (*data.train, *data.dev))  # type: ignore[union-attr]
    assert numbers == list(range(8))
    assert (len(data.train), len(data.dev)) == (6, 2)
    assert any("only the first 8 of 20 examples are used" in sentence for sentence in data.understood)
    assert not any(
        "only the first" in sentence for sentence in read(tmp_path / "a.csv", ROWS, max_examples=20).understood
    )


def test_dev_and_its_fraction_exclude_each_other() -> None:
    run = RunSection(task="classify", model="m", train="a.csv", dev="b.csv")
    with pytest.raises(UsageError, match="not both"):
        read_data(run, DataSection(dev_fraction=0.1))
