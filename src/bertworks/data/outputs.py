"""An output file that can be continued: whole chunks of rows in `OUT.part`, joined by one rename at the end.

How the directory survives a stop is told in `unfinished`; here its parts are chunks of rows, and `finish` joins them to
the final file. Until then the rows are on the disk twice, the price of being able to stop at any moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from bertworks.atomic import replacing, sync_directory
from bertworks.data.unfinished import Json, Unfinished
from bertworks.data.writers import Kind, Rows, writer_for
from bertworks.errors import OutputError

JOINED = "joined"


def not_an_input(output: Path, *inputs: str | Path) -> None:
    """A file that is read is never what is written."""
    for path in inputs:
        if Path(path).exists() and output.exists() and output.samefile(path):
            raise OutputError(f"{output} is what is read, and would be lost; choose another name for the output")


class ResumableOutput:
    """One output file in the making; a context manager.

    `settings` are JSON values that decide the content; runs with equal settings may continue one another (never where
    `resumable` is false, as for standard input). `restart` drops the parts of an unfinished run. A final file that is
    there already stays until the new one is whole.
    """

    def __init__(
        self,
        path: str | Path,
        kind: Kind,
        settings: Mapping[str, Any],
        *,
        restart: bool = False,
        resumable: bool = True,
    ) -> None:
        self.path = Path(path)
        self._writer = writer_for(self.path, kind)
        if self.path.is_dir():
            raise OutputError(f"cannot write {self.path}: it is a directory; give the name of a file")
        self._unfinished = Unfinished(
            self.path,
            settings,
            unit="row",
            units_in=lambda entry: int(entry["rows"]),
            restart=restart,
            resumable=resumable,
        )
        self.part = self._unfinished.path
        self.resumed_rows = self.rows

    @property
    def rows(self) -> int:
        """How many rows are finished, those of earlier runs included."""
        return sum(entry["rows"] for entry in self._unfinished.entries)

    @property
    def width(self) -> int:
        """The size of a vector; 0 where none has told it yet."""
        return next((int(entry["width"]) for entry in self._unfinished.entries if entry["width"]), 0)

    @property
    def notes(self) -> list[Json]:
        """What `append` was told to remember, chunk by chunk."""
        return [entry["notes"] for entry in self._unfinished.entries]

    def append(self, rows: Rows, notes: Mapping[str, Any] | None = None) -> None:
        """Add the next chunk; when this returns, it is on the disk for good."""
        assert rows.start == self.rows, f"rows must come in order: {rows.start} after {self.rows}"

        def write(path: Path) -> Json:
            self._writer.write_chunk(path, rows)
            return {"rows": len(rows), "width": rows.width, "notes": dict(notes or {})}

        self._unfinished.add(f"{len(self._unfinished.entries):08d}.chunk", write)

    def finish(self) -> None:
        """Join the chunks to the final file, put it in its place and remove the parts."""
        self.join()
        self.discard()

    def join(self) -> None:
        """Join the chunks to the final file and put it in its place; the parts stay, for whoever has more to do with it."""
        chunks = [self.part / entry["file"] for entry in self._unfinished.entries]
        if not chunks:
            raise OutputError(f"there is nothing to write to {self.path}")
        with self._unfinished.explained():
            with replacing(self.part / JOINED) as temporary:
                self._writer.join(chunks, temporary)
            (self.part / JOINED).replace(self.path)
            sync_directory(self.path.parent)

    def discard(self) -> None:
        """Remove the parts: nobody will need them again."""
        self._unfinished.discard()

    def close(self) -> None:
        """Let go of the parts: they stay for a later run, unless there are none or no later run could use them."""
        self._unfinished.close()

    def __enter__(self) -> ResumableOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def kept(self) -> str:
        """A sentence on what a stop leaves behind."""
        return self._unfinished.kept()
