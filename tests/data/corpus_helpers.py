"""What the tests of corpora share: a tiny tokenizer, a few documents, and files compared byte by byte."""

from __future__ import annotations

from pathlib import Path

from tests.text import tiny

DOCUMENTS = [
    "The river runs past the old mill. The miller's daughter runs past the river!\nIt's not what you'd expect.",
    "Seventeen geese (17!) walked 3.5 miles to the market; nobody stopped them. They were late.",
    "Där går en älv förbi kvarnen, sade flickan och skrattade åt gässen. Det är sant.",
    "河边有一座旧磨坊。磨坊主的女儿每天都去河边！",
    "Walking, walked, walker; running, runner; milling, miller, mills.",
]


def tokenizer_directory(path: Path, kind: str = "bert") -> Path:
    """A directory with the tokenizer.json of one of the tiny tokenizers."""
    path.mkdir()
    tiny.KINDS[kind]().save(str(path / "tokenizer.json"))
    return path


def write_documents(path: Path, documents: list[str]) -> Path:
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


def many(count: int) -> list[str]:
    """Documents that all differ."""
    return [f"{DOCUMENTS[number % len(DOCUMENTS)]}\nNumber {number} of the mill." for number in range(count)]


def contents(directory: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
