"""Parallel texts out of files: pairs that belong together, or an error that says where they do not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bertworks.data.parallel import ParallelText, read_parallel, split_pairs
from bertworks.errors import DataError, UsageError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_two_files_line_by_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", 'A dog.\r\nA "cat" \u2028 runs.\n')
    target = tmp_path / "a.de.gz"
    target.write_bytes(gzip.compress(b"Ein Hund.\nEine Katze rennt."))
    text = read_parallel([source, target])
    assert list(text.sources) == ["A dog.", 'A "cat" \u2028 runs.']
    assert list(text.targets) == ["Ein Hund.", "Eine Katze rennt."]
    assert len(text) == 2
    assert text.empty == 0


@pytest.mark.parametrize(("first", "second", "ended", "line"), [(3, 5, "a", 3), (5, 3, "b", 3), (1, 0, "b", 0)])
def test_files_of_different_length_say_where_one_ends(
    tmp_path: Path, first: int, second: int, ended: str, line: int
) -> None:
    a, b = write(tmp_path / "a", "x\n" * first), write(tmp_path / "b", "y\n" * second)
    with pytest.raises(DataError, match=rf"/{ended}:{line}: ends after {line} line.* has {max(first, second)} line"):
        read_parallel([a, b])


def test_a_file_of_pairs_has_no_quoting_and_spare_columns_are_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", 'Go.\tVa !\tCC-BY\n"Hi.\tSalut\u202f!\tCC-BY\n')
    text = read_parallel([path])
    assert list(text.sources) == ["Go.", '"Hi.']
    assert list(text.targets) == ["Va !", "Salut\u202f!"]
    assert list(read_parallel([path], columns=("2", "1")).sources) == ["Va !", "Salut\u202f!"]


def test_columns_by_name(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", "id\ten\tde\n1\tyes\tja\n")
    assert list(read_parallel([tsv], columns=("de", "en")).sources) == ["ja"]
    lines = write(tmp_path / "a.jsonl", '{"en": "yes", "de": "ja"}\n{"en": "no", "de": "nein"}\n')
    assert list(read_parallel([lines]).targets) == ["ja", "nein"]
    three = write(tmp_path / "b.jsonl", '{"en": "yes", "de": "ja", "sv": "jo"}\n')
    with pytest.raises(DataError, match="3 columns of text"):
        read_parallel([three])
    one = write(tmp_path / "c.jsonl", '{"en": "yes"}\n')
    with pytest.raises(DataError, match="give two files, source and target, or one with both in a row"):
        read_parallel([one])


def test_a_row_without_its_translation_has_a_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pairs.tsv:2: has 1 field where 2"):
        read_parallel([write(tmp_path / "pairs.tsv", "a\tb\nc\nd\te\n")])
    with pytest.raises(DataError, match=r"lines.txt:1: .*no tab"):
        read_parallel([write(tmp_path / "lines.txt", "no pairs\nhere\n")])


def test_empty_sides_are_left_out_and_counted(tmp_path: Path) -> None:
    a = write(tmp_path / "a", "one\n\n \nfour\n")
    b = write(tmp_path / "b", "eins\nzwei\ndrei\nvier\n")
    text = read_parallel([a, b])
    assert list(text.targets) == ["eins", "vier"]
    assert (text.empty, text.first_empty) == (2, 2)
    with pytest.raises(DataError, match="one side of every line is empty"):
        read_parallel([write(tmp_path / "c", "\n\n"), write(tmp_path / "d", "x\ny\n")])


def test_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3 files"):
        read_parallel(["a", "b", "c"])
    with pytest.raises(UsageError, match="line by line"):
        read_parallel(["a", "b"], columns=("1", "2"))
    with pytest.raises(DataError, match="no such file"):
        read_parallel([tmp_path / "absent.tsv"])


def test_the_hash_tells_pairs_apart() -> None:
    def of(*pairs: tuple[str, str]) -> str:
        return ParallelText(name="", sources=[a for a, _ in pairs], targets=[b for _, b in pairs]).sha256

    assert of(("a", "b")) == of(("a", "b"))
    assert len({of(("a", "b")), of(("b", "a")), of(("a", "b"), ("a", "b")), of(("a b", ""))}) == 4


def test_pairs_with_one_source_stay_on_one_side() -> None:
    sources = [f"sentence {number // 3}" for number in range(300)]
    text = ParallelText(name="x", sources=sources, targets=[str(number) for number in range(300)])
    train, dev = split_pairs(text, 0.1, seed=3)
    assert 30 <= len(dev) <= 32
    assert len(train) + len(dev) == 300
    assert not set(train.sources) & set(dev.sources)
    assert list(split_pairs(text, 0.1, seed=3)[1].targets) == list(dev.targets)
    assert list(split_pairs(text, 0.1, seed=4)[1].targets) != list(dev.targets)
    with pytest.raises(DataError, match="one source sentence only"):
        split_pairs(text.take([0, 1]), 0.5, seed=0)


def test_real_files(shared_data: Path) -> None:
    folder = shared_data / "multi30k"
    text = read_parallel([folder / "train.en", folder / "train.de"])
    assert (len(text), text.empty) == (29000, 0)
    french = read_parallel([shared_data / "fra-eng" / "pairs.tsv"])
    assert len(french) == 51976
    assert (french.sources[0], french.targets[0]) == ("Go.", "Va !")
