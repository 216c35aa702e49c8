"""The directory of an unfinished result; what becomes of it is tested with outputs and corpora."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.data.unfinished import JOURNAL, STATE, Unfinished, difference
from bertworks.errors import OutputError

SETTINGS = {"input": "a.txt", "layers": [1, 2], "model": None}


def opened(final: Path, settings: dict[str, Any] = SETTINGS, **options: Any) -> Unfinished:
    return Unfinished(final, settings, unit="part", **options)


def add(unfinished: Unfinished, name: str) -> None:
    def write(path: Path) -> dict[str, Any]:
        path.write_text(name)
        return {"length": len(name)}

    unfinished.add(name, write)


def test_parts_are_found_again(tmp_path: Path) -> None:
    first = opened(tmp_path / "out")
    add(first, "one")
    assert first.kept().startswith("the 1 finished part is kept in")
    add(first, "seven")
    assert first.kept().startswith("the 2 finished parts are kept in")
    first.close()
    again = opened(tmp_path / "out")
    assert again.entries == [
        {"file": "one", "bytes": 3, "length": 3},
        {"file": "seven", "bytes": 5, "length": 5},
    ]
    again.close()
    assert not (tmp_path / "out").exists()


def test_nothing_is_left_where_nothing_was_done(tmp_path: Path) -> None:
    opened(tmp_path / "out").close()
    assert not list(tmp_path.iterdir())


def test_a_run_that_was_killed_as_it_began(tmp_path: Path) -> None:
    part = tmp_path / "out.part"
    part.mkdir()
    (part / JOURNAL).touch()
    (part / f"{STATE}.tmp").write_text("{")
    unfinished = opened(tmp_path / "out")
    assert json.loads((part / STATE).read_text()) == SETTINGS
    assert not list(part.glob("*.tmp"))
    unfinished.close()


def test_what_cannot_be_continued_is_dropped_only_if_it_is_the_same(tmp_path: Path) -> None:
    """A run that reads standard input was killed; it may begin again, but may not drop another run's parts."""
    final = tmp_path / "out"
    add(killed := opened(final, resumable=False), "one")
    killed._journal.close()
    with pytest.raises(OutputError, match=r"differs from this one \(model: none there, m now\).*--restart"):
        opened(final, {**SETTINGS, "model": "m"}, resumable=False)
    again = opened(final, resumable=False)
    assert again.entries == []
    assert not (again.path / "one").exists()
    again.close()
    assert not again.path.exists()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out.part").write_text("mine")
    with pytest.raises(OutputError, match="is in the way and is not an unfinished run"):
        opened(tmp_path / "out", restart=True)
    assert (tmp_path / "out.part").read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_disk_that_is_full_at_the_journal(tmp_path: Path) -> None:
    unfinished = opened(tmp_path / "out")
    add(unfinished, "one")
    unfinished._journal.close()
    unfinished._journal = Path("/dev/full").open("a+b")  # noqa: SIM115 - closed below
    with pytest.raises(OutputError, match="No space left on device; the 1 finished part is kept"):
        add(unfinished, "seven")
    unfinished.close()
    again = opened(tmp_path / "out")
    assert [entry["file"] for entry in again.entries] == ["one"]
    again.close()


def test_a_disk_that_is_full_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bertworks.data.unfinished.write_text", full)
    with pytest.raises(OutputError, match="No space left on device; no part was finished"):
        opened(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_differences_in_words() -> None:
    assert difference(SETTINGS, dict(SETTINGS)) == ""
    changed = {"input": "b.txt", "layers": [1], "model": None}
    assert difference(SETTINGS, changed) == (
        "that differs from this one (input: a.txt there, b.txt now; layers: [1, 2] there, [1] now)"
    )
