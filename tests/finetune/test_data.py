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


def test_examples_on_both_sides_are_told(tmp_path: Path) -> None:
    dev = tmp_path / "dev.csv"
    dev.write_text("text,label\nsentence number 3,no\nsentence number 30,yes\n", encoding="utf-8")
    (tmp_path / "train.csv").write_text("\n".join(ROWS), encoding="utf-8")
    run = RunSection(task="classify", model="m", train=str(tmp_path / "train.csv"), dev=str(dev))
    told = read_data(run, DataSection()).understood
    assert told[-1] == "1 of 2 evaluation examples are trained on as well, word for word"
    assert not any("word for word" in sentence for sentence in read(tmp_path / "train.csv", ROWS).understood)


def test_a_label_that_nothing_judges_is_told(tmp_path: Path) -> None:
    train, dev = tmp_path / "train.csv", tmp_path / "dev.csv"
    train.write_text("text,label\na b,x\nc d,y\ne f,z\n")
    dev.write_text("text,label\ng h,x\n")
    said = read_data(RunSection(task="classify", train=str(train), dev=str(dev), model="m"), DataSection()).understood
    assert "no evaluation example has the label y, z: nothing is said of how well it is told" in said


def test_dev_and_its_fraction_exclude_each_other() -> None:
    run = RunSection(task="classify", model="m", train="a.csv", dev="b.csv")
    with pytest.raises(UsageError, match="not both"):
        read_data(run, DataSection(dev_fraction=0.1))


def test_one_document_is_split_unless_the_user_groups(tmp_path: Path) -> None:
    grouped = ["document,text,label", *(f"7,{row}" for row in ROWS[1:])]
    data = read(tmp_path / "train.csv", grouped)
    assert (len(data.train), len(data.dev)) == (18, 2)
    assert any("is one document" in sentence for sentence in data.understood)
    with pytest.raises(DataError, match="all examples belong to one group"):
        read(tmp_path / "train.csv", grouped, group_column="document")


def test_other_files_are_read_as_the_training_file(tmp_path: Path) -> None:
    train, dev = tmp_path / "train.csv", tmp_path / "dev.csv"
    train.write_text("text,a,b,label\n" + "It is,so,not so,1\nIt is,not so,so,2\n", encoding="utf-8")
    dev.write_text("text,a,b,label\n" + "It is,so,not so,1\n", encoding="utf-8")
    run = RunSection(task="choice", model="m", train=str(train), dev=str(dev))
    data = read_data(run, DataSection(option_columns=("a", "b")))
    assert [example.label for example in data.dev] == [0]  # type: ignore[union-attr]
    assert data.columns["first_option"] == 1
