"""The formats of an output of many rows: how a chunk of rows is written, and how whole chunks become the final file.

A writer has two verbs. `write_chunk` writes one chunk as a file of its own; `join` makes the final file of all
chunks, streaming, so that memory does not grow with the number of rows. Neither knows of temporary names or of
resuming: that is `outputs.py`.

    .npy       one float32 matrix (rows, width); only for one vector per text
    .parquet   index, text, vector (float32, fixed size) — or index, text, tokens | words (text, start, end), vectors
    .jsonl     {"index", "vector"} — or {"index", "tokens" | "words": [{"text", "start", "end", "vector"}]}
               — or, for predictions, {"index", …} and whatever a record holds
    any        for translations asked for as lines: the text of each record, nothing else

Vectors of tokens or words differ in number from text to text; a .npy could hold them only pickled, which we never
write.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import UsageError, choice

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["vector", "tokens", "words", "record", "line"]
"""One vector per text, one per piece of it (the name of the pieces' column), one JSON object, or one line of text."""
Vectors = NDArray[np.float32]

PARQUET_GROUP_BYTES = 64 * 1024 * 1024


class Piece(Protocol):
    """A token or a word of a text: its characters `text[start:end]` and its vector, float32 (width,)."""

    @property
    def text(self) -> str:
        """As it is written in the text."""

    @property
    def start(self) -> int:
        """Its first character."""

    @property
    def end(self) -> int:
        """The character after its last one."""

    @property
    def vector(self) -> Vectors:
        """float32 (width,)."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Results for texts numbered from `start`: `vectors`, float32 (rows, width), or `pieces`, a list per text.

    Predictions are `records` instead, one JSON object each, and need no texts.
    """

    start: int
    texts: Sequence[str] = ()
    vectors: Vectors | None = None
    pieces: Sequence[Sequence[Piece]] | None = None
    records: Sequence[Mapping[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.texts if self.records is None else self.records)

    @property
    def width(self) -> int:
        """The size of a vector; 0 where there is none at all to tell it."""
        if self.vectors is not None:
            return int(self.vectors.shape[1])
        return next((len(piece.vector) for pieces in self.pieces or () for piece in pieces), 0)


class Writer(Protocol):
    """What a format must be able to do."""

    def write_chunk(self, path: Path, rows: Rows) -> None:
        """Write `rows` to a new file at `path`."""

    def join(self, chunks: Sequence[Path], final: Path) -> None:
        """Write the content of all `chunks`, in order, to a new file at `final`."""


class NumpyWriter:
    """A .npy of all vectors: a chunk is a .npy too; joined, one header and then the raw bytes of every chunk."""

    def write_chunk(self, path: Path, rows: Rows) -> None:
        """A .npy of its own."""
        assert rows.vectors is not None
        with path.open("wb") as file:
            np.lib.format.write_array(
                file, np.ascontiguousarray(rows.vectors, dtype="<f4"), version=(1, 0), allow_pickle=False
            )

    def join(self, chunks: Sequence[Path], final: Path) -> None:
        """One header with the final shape, then the bytes after each chunk's header."""
        total, width = 0, 0
        for chunk in chunks:
            with chunk.open("rb") as file:
                count, width = self._read_header(file)
                total += count
        with final.open("wb") as joined:
            header = {"descr": "<f4", "fortran_order": False, "shape": (total, width)}
            np.lib.format.write_array_header_1_0(joined, header)
            for chunk in chunks:
                with chunk.open("rb") as file:
                    self._read_header(file)
                    shutil.copyfileobj(file, joined, 1024 * 1024)

    @staticmethod
    def _read_header(file: Any) -> tuple[int, int]:
        """Move past the header; returns the shape (rows, width)."""
        np.lib.format.read_magic(file)
        shape, _, _ = np.lib.format.read_array_header_1_0(file)
        return int(shape[0]), int(shape[1])


class ParquetWriter:
    """A .parquet whose chunks are .parquet files; joined, chunks are put together to row groups of a useful size."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def write_chunk(self, path: Path, rows: Rows) -> None:
        """A .parquet of its own, built from flat buffers."""
        import pyarrow
        import pyarrow.parquet

        columns: dict[str, pyarrow.Array] = {
            "index": pyarrow.array(range(rows.start, rows.start + len(rows.texts)), pyarrow.int64()),
            "text": pyarrow.array(list(rows.texts), pyarrow.string()),
        }
        if rows.vectors is not None:
            flat = np.ascontiguousarray(rows.vectors, dtype=np.float32).reshape(-1)  # (rows * width)
            columns["vector"] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), rows.width)
        else:
            columns[self.kind], columns["vectors"] = self._piece_columns(rows)
        pyarrow.parquet.write_table(pyarrow.table(columns), path, use_dictionary=False)

    @staticmethod
    def _piece_columns(rows: Rows) -> tuple[pyarrow.Array, pyarrow.Array]:
        import pyarrow

        pieces = [piece for of_text in rows.pieces or () for piece in of_text]
        counts = np.cumsum(
            [0, *(len(of_text) for of_text in rows.pieces or ())], dtype=np.int32
        )  # where each text's pieces begin
        described = pyarrow.StructArray.from_arrays(
            [
                pyarrow.array([piece.text for piece in pieces], pyarrow.string()),
                pyarrow.array([piece.start for piece in pieces], pyarrow.int32()),
                pyarrow.array([piece.end for piece in pieces], pyarrow.int32()),
            ],
            names=["text", "start", "end"],
        )
        flat = np.concatenate([piece.vector for piece in pieces]) if pieces else np.zeros(0)
        bounds = np.arange(len(pieces) + 1, dtype=np.int32) * rows.width
        vectors = pyarrow.ListArray.from_arrays(pyarrow.array(bounds), pyarrow.array(flat.astype(np.float32)))
        return (
            pyarrow.ListArray.from_arrays(pyarrow.array(counts), described),
            pyarrow.ListArray.from_arrays(pyarrow.array(counts), vectors),
        )

    def join(self, chunks: Sequence[Path], final: Path) -> None:
        """Read chunk by chunk, written as row groups of some 64 MB."""
        import pyarrow
        import pyarrow.parquet

        schema = pyarrow.parquet.read_schema(chunks[0])
        with pyarrow.parquet.ParquetWriter(final, schema, use_dictionary=False) as joined:
            group: list[pyarrow.Table] = []
            for chunk in chunks:
                group.append(pyarrow.parquet.read_table(chunk, memory_map=True))
                if sum(table.nbytes for table in group) >= PARQUET_GROUP_BYTES:
                    joined.write_table(pyarrow.concat_tables(group))
                    group = []
            if group:
                joined.write_table(pyarrow.concat_tables(group))


class JsonLinesWriter:
    """A .jsonl with one object per text; joining is copying one chunk after the other."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def write_chunk(self, path: Path, rows: Rows) -> None:
        """The lines of these rows."""
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for offset in range(len(rows)):
                if rows.records is not None:
                    record = {"index": rows.start + offset, **rows.records[offset]}
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                    continue
                if rows.vectors is not None:
                    content = _json_vector(rows.vectors[offset])
                else:
                    assert rows.pieces is not None
                    content = f"[{', '.join(self._json_piece(piece) for piece in rows.pieces[offset])}]"
                file.write(f'{{"index": {rows.start + offset}, "{self.kind}": {content}}}\n')

    @staticmethod
    def _json_piece(piece: Piece) -> str:
        text = json.dumps(piece.text, ensure_ascii=False)
        return f'{{"text": {text}, "start": {piece.start}, "end": {piece.end}, "vector": {_json_vector(piece.vector)}}}'

    def join(self, chunks: Sequence[Path], final: Path) -> None:
        """The chunks one after the other."""
        _concatenate(chunks, final)


class LinesWriter:
    """A text file with the translation of each record on a line of its own; joining is copying one chunk after the other."""

    def write_chunk(self, path: Path, rows: Rows) -> None:
        """The lines of these rows."""
        assert rows.records is not None
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{record['translation']}\n" for record in rows.records)

    def join(self, chunks: Sequence[Path], final: Path) -> None:
        """The chunks one after the other."""
        _concatenate(chunks, final)


def _concatenate(chunks: Sequence[Path], final: Path) -> None:
    with final.open("wb") as joined:
        for chunk in chunks:
            with chunk.open("rb") as file:
                shutil.copyfileobj(file, joined, 1024 * 1024)


def _json_vector(vector: Vectors) -> str:
    """Nine significant digits tell every float32 apart, in half the space of the float64 that Python would write."""
    return f"[{', '.join([f'{number:.9g}' for number in vector.tolist()])}]"


WRITERS: dict[str, Callable[[Kind], Writer]] = {
    ".npy": lambda kind: NumpyWriter(),
    ".parquet": ParquetWriter,
    ".jsonl": JsonLinesWriter,
}


def writer_for(path: Path, kind: Kind) -> Writer:
    """The writer for the extension of `path`; a `UsageError` where that format cannot hold this kind of result."""
    if kind == "line":
        return LinesWriter()
    if kind == "record" and path.suffix.lower() != ".jsonl":
        raise UsageError(f"{path} cannot hold predictions, which are one JSON object a line; use .jsonl")
    extension = choice(path.suffix.lower(), WRITERS, "output extension")
    if extension == ".npy" and kind != "vector":
        raise UsageError(
            f"{path} cannot hold one vector per {kind.removesuffix('s')}: a .npy has one a text; use .parquet or .jsonl"
        )
    return WRITERS[extension](kind)
