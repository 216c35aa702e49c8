"""An output that survives being stopped: whole chunks beside it while it grows, one atomic rename at the end.

While `OUT` is being made there is a directory `OUT.part` with

    state.json      the settings of the run: input, column, model, layers, pooling, …
    00000000.chunk  the first chunk, whole (it was renamed into place after it was synced); then 00000001.chunk, …
    chunks.jsonl    one line per whole chunk: file, bytes, rows and what else the run wants to remember of it

and nothing under the name `OUT` itself. A later run with the same settings continues after the last whole chunk; one
with other settings is refused, since its rows would not fit the ones that are there. `finish` joins the chunks inside
`OUT.part`, renames the result to `OUT` and removes the directory. Until then the rows are on the disk twice, the
price of being able to stop at any moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from bertworks.atomic import TEMPORARY_SUFFIX, sync_directory, write_text
from bertworks.data.writers import Kind, Rows, writer_for
from bertworks.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows has no flock; two runs at once on one output are then the user's to avoid
    fcntl = None  # type: ignore[assignment]

STATE, JOURNAL = "state.json", "chunks.jsonl"
STATE_VERSION = 1


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
        self.part = self.path.with_name(self.path.name + ".part")
        self.rows = 0  # finished rows, those of earlier runs included
        self.width = 0
        self.notes: list[dict[str, Any]] = []  # what `append` was told to remember, chunk by chunk
        self._chunks: list[Path] = []
        self._settings = json.loads(json.dumps(dict(settings)))  # as they will come back from the file
        self._writer = writer_for(self.path, kind)
        self._resumable = resumable
        self._check_place()
        with self._explained():
            self._prepare(restart)
        self.resumed_rows = self.rows

    def append(self, rows: Rows, notes: Mapping[str, Any] | None = None) -> None:
        """Add the next chunk; when this returns, it is on the disk for good."""
        assert rows.start == self.rows, f"rows must come in order: {rows.start} after {self.rows}"
        with self._explained():
            chunk = self.part / f"{len(self._chunks):08d}.chunk"
            temporary = chunk.with_name(chunk.name + TEMPORARY_SUFFIX)
            self._writer.write_chunk(temporary, rows)
            _sync(temporary)
            temporary.replace(chunk)
            sync_directory(self.part)
            entry = {
                "file": chunk.name,
                "bytes": chunk.stat().st_size,
                "rows": len(rows.texts),
                "width": rows.width,
                "notes": dict(notes or {}),
            }
            self._journal.write((json.dumps(entry) + "\n").encode())
            self._journal.flush()
            os.fsync(self._journal.fileno())
        self._count(entry)

    def finish(self) -> None:
        """Join the chunks to the final file, put it in its place and remove the parts."""
        if not self._chunks:
            raise OutputError(f"there is nothing to write to {self.path}")
        joined = self.part / ("joined" + TEMPORARY_SUFFIX)
        with self._explained():
            self._writer.join(self._chunks, joined)
            _sync(joined)
            joined.replace(self.path)
            sync_directory(self.path.parent)
        self._journal.close()
        shutil.rmtree(self.part, ignore_errors=True)  # the result is whole; a leftover is no reason to fail

    def close(self) -> None:
        """Let go of the parts: they stay for a later run, unless there are none or no later run could use them."""
        self._journal.close()
        if not self._chunks or not self._resumable:
            shutil.rmtree(self.part, ignore_errors=True)

    def __enter__(self) -> ResumableOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def kept(self) -> str:
        """A sentence on what a stop leaves behind."""
        if not self._resumable:
            return f"nothing was kept, since standard input cannot be read again; {self.path} was not touched"
        if not self.rows:
            return f"no rows were finished; {self.path} was not touched"
        return f"the {self.rows:,} finished rows are kept in {self.part}; the same command continues after them"

    # Opening.

    def _check_place(self) -> None:
        if self.path.is_dir():
            raise OutputError(f"cannot write {self.path}: it is a directory; give the name of a file")
        if not self.path.parent.is_dir():
            raise OutputError(f"cannot write {self.path}: there is no directory {self.path.parent}; make it first")

    def _prepare(self, restart: bool) -> None:
        self.part.mkdir(exist_ok=True)
        if not os.access(self.part, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            raise OutputError(f"cannot write {self.path}: no permission to write in {self.path.parent}")
        state = self.part / STATE
        foreign = [path for path in self.part.iterdir() if path.name != JOURNAL and path.suffix != TEMPORARY_SUFFIX]
        if foreign and not state.exists():  # never remove what we did not make
            raise OutputError(f"{self.part} is in the way and is not an unfinished run; move it or choose another name")
        self._open_journal()  # locks, so before anything is changed
        found = _read_state(state)
        if state.exists() and not restart and (problem := self._difference(found)):
            self._journal.close()
            raise OutputError(
                f"{self.part} holds an unfinished run {problem}; "
                "use --restart to drop it and start again, or choose another name"
            )
        if restart:
            state.unlink(missing_ok=True)
        if not state.exists():
            self._journal.truncate(0)
            write_text(state, json.dumps({"version": STATE_VERSION, "settings": self._settings}, indent=2) + "\n")
        self._continue()

    def _open_journal(self) -> None:
        self._journal: IO[bytes] = (self.part / JOURNAL).open("a+b")
        if fcntl is not None:
            try:
                fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._journal.close()
                raise OutputError(
                    f"another run is writing {self.path} right now; wait for it or choose another name"
                ) from None
            except OSError:
                pass  # a file system without locks

    def _difference(self, found: Mapping[str, Any] | None) -> str:
        """How the unfinished run differs from this one, or nothing where it can be continued."""
        if found is None:
            return "whose state.json is damaged"
        if not self._resumable:
            return "that cannot be continued, since standard input cannot be read again"
        old, new = found, self._settings
        changed = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
        shown = ", ".join(f"{name}: {old.get(name)!r} there, {new.get(name)!r} now" for name in changed)
        return f"with other settings ({shown})" if changed else ""

    def _continue(self) -> None:
        """Take over the whole chunks of an earlier run and drop whatever follows them."""
        self._journal.seek(0)
        good = 0
        for line in self._journal:
            try:
                entry = json.loads(line)
                chunk = self.part / entry["file"]
                whole = line.endswith(b"\n") and chunk.stat().st_size == entry["bytes"]
            except (ValueError, KeyError, TypeError, OSError):
                break  # the line was cut by a crash, or its chunk is gone
            if not whole:
                break
            self._count(entry)
            good += len(line)
        self._journal.truncate(good)
        kept = {STATE, JOURNAL, *(chunk.name for chunk in self._chunks)}
        for leftover in self.part.iterdir():
            if leftover.name not in kept:
                leftover.unlink()

    def _count(self, entry: Mapping[str, Any]) -> None:
        self._chunks.append(self.part / entry["file"])
        self.rows += entry["rows"]
        self.width = self.width or entry["width"]
        self.notes.append(entry["notes"])

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the system's refusals (disk full, no permission) into one sentence that says what was kept."""
        try:
            yield
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}; {self.kept()}") from error


def _read_state(path: Path) -> dict[str, Any] | None:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        return state["settings"] if state["version"] == STATE_VERSION and isinstance(state["settings"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
