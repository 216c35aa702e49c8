"""A result in the making, which survives being stopped at any moment: a directory `OUT.part` of whole parts.

    state.json      the settings that decide the result: inputs, tokenizer or model, options
    journal.jsonl   one line per finished part: its file, its size, and what is needed to continue after it
    …               the parts, each renamed into place after it was synced

Nothing has the name `OUT` before everything is whole. A later run with the same settings continues after the last
whole part; one with other settings is refused, since its parts would not fit those that are there. What becomes of
the parts is not decided here: embeddings are joined to one file (`outputs`), a corpus is the directory itself under
its final name (`corpus.build`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bertworks.atomic import TEMPORARY_SUFFIX, replacing, write_text
from bertworks.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows has no flock; two runs at once on one output are then the user's to avoid
    fcntl = None  # type: ignore[assignment]

STATE, JOURNAL = "state.json", "journal.jsonl"
PART_SUFFIX = ".part"
Json = dict[str, Any]


class Unfinished:
    """The directory of an unfinished result.

    settings: JSON values that decide the content; runs with equal settings may continue one another
    unit, units_in: what the parts hold and how many of it, for `kept`: a part is one shard, or holds so many rows
    restart: drop what an earlier run has left, whatever its settings
    resumable: whether a later run could continue this one (not from standard input)
    """

    def __init__(
        self,
        final: Path,
        settings: Mapping[str, Any],
        *,
        unit: str,
        units_in: Callable[[Json], int] = lambda entry: 1,
        restart: bool = False,
        resumable: bool = True,
    ) -> None:
        self.final = final
        self.path = final.with_name(final.name + PART_SUFFIX)
        self.entries: list[Json] = []  # of the journal: one per whole part
        self._settings = json.loads(json.dumps(dict(settings)))  # as they will come back from the file
        self._unit, self._units_in = unit, units_in
        self._resumable = resumable
        if not final.parent.is_dir():
            raise OutputError(f"cannot write {final}: there is no directory {final.parent}; make it first")
        with self.explained():
            self._open(restart)

    def add(self, name: str, write: Callable[[Path], Mapping[str, Any]]) -> None:
        """Add the next part: `write` writes the file and tells what to remember of it.

        When this returns, the part is on the disk for good.
        """
        with self.explained():
            with replacing(self.path / name) as temporary:
                facts = write(temporary)
            entry = {"file": name, "bytes": (self.path / name).stat().st_size, **facts}
            self._journal.write((json.dumps(entry) + "\n").encode())
            self._journal.flush()
            os.fsync(self._journal.fileno())
        self.entries.append(entry)

    def close(self) -> None:
        """Let go; the parts stay for a later run, unless there are none or no later run could use them."""
        with contextlib.suppress(OSError):  # after a full disk it would try once more to write, and fail once more
            self._journal.close()
        if not (self.entries and self._resumable):
            self.discard()

    def discard(self) -> None:
        """Remove the directory with all that is left in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def kept(self) -> str:
        """A sentence on what a stop leaves behind."""
        if not self._resumable:
            return f"nothing was kept, since standard input cannot be read again; {self.final} was not touched"
        if not self.entries:
            return f"no {self._unit} was finished, so nothing was kept; {self.final} was not touched"
        count = sum(map(self._units_in, self.entries))
        units = f"1 finished {self._unit} is" if count == 1 else f"{count:,} finished {self._unit}s are"
        return f"the {units} kept in {self.path}; the same command continues after that"

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the system's refusals (disk full, no permission) into one sentence that says what was kept."""
        try:
            yield
        except OSError as error:
            denied = f"no permission in {self.final.parent}" if isinstance(error, PermissionError) else None
            raise OutputError(
                f"cannot write {self.final}: {denied or error.strerror or error}; {self.kept()}"
            ) from error

    # --- opening ------------------------------------------------------------------------------------------------------

    def _open(self, restart: bool) -> None:
        state = self.path / STATE
        if self.path.exists() and not state.exists() and not self._is_empty():  # never remove what we did not make
            raise OutputError(f"{self.path} is in the way and is not an unfinished run; move it or choose another name")
        if not os.access(self.final.parent, os.W_OK):
            raise OutputError(f"cannot write {self.final}: no permission in {self.final.parent}")
        self.path.mkdir(exist_ok=True)
        try:
            self._lock()  # before anything is changed
        except BaseException:
            with contextlib.suppress(OSError):
                self.path.rmdir()  # nothing but an empty directory
            raise
        try:
            if state.exists() and not restart:
                self._check_settings(state)
            if state.exists() and (restart or not self._resumable):
                self._empty()
            if not state.exists():
                self._journal.truncate(0)
                write_text(state, json.dumps(self._settings, indent=1) + "\n")
            self._continue()
        except BaseException:
            self._journal.close()
            if not state.exists():
                self.discard()
            raise

    def _is_empty(self) -> bool:
        """Whether there is nothing here, or no more than a run has left that was killed as it began."""
        return self.path.is_dir() and all(
            path.name == JOURNAL or path.suffix == TEMPORARY_SUFFIX for path in self.path.iterdir()
        )

    def _lock(self) -> None:
        self._journal: IO[bytes] = (self.path / JOURNAL).open("a+b")
        if fcntl is None:
            return
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._journal.close()
            raise OutputError(
                f"another run is writing {self.final} right now; wait for it or choose another name"
            ) from None
        except OSError:
            pass  # a file system without locks

    def _check_settings(self, state: Path) -> None:
        try:
            found = json.loads(state.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        problem = difference(found, self._settings) if isinstance(found, dict) else "whose state.json is damaged"
        if problem:
            raise OutputError(
                f"{self.path} holds an unfinished run {problem}; "
                "use --restart to drop it and start again, or choose another name"
            )

    def _empty(self) -> None:
        self._journal.truncate(0)
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != JOURNAL:
                path.unlink()

    def _continue(self) -> None:
        """Take over the whole parts of an earlier run; what follows them is made again."""
        self._journal.seek(0)
        good = 0
        for line in self._journal:
            try:
                entry = json.loads(line)
                whole = line.endswith(b"\n") and (self.path / entry["file"]).stat().st_size == entry["bytes"]
            except (ValueError, KeyError, TypeError, OSError):
                break  # the line was cut by a crash, or its part is gone
            if not whole:
                break
            self.entries.append(entry)
            good += len(line)
        self._journal.truncate(good)
        for leftover in self.path.glob(f"*{TEMPORARY_SUFFIX}"):
            leftover.unlink()


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """How two runs' settings differ, in words; nothing where they are the same."""
    changed = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    shown = "; ".join(f"{name}: {_shown(old.get(name))} there, {_shown(new.get(name))} now" for name in changed)
    return f"that differs from this one ({shown})" if changed else ""


def _shown(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)
