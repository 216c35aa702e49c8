"""A corpus in the making: a directory `OUT.part` of whole shards, which becomes `OUT` by one rename.

    state.json     the settings of the build: tokenizer, inputs, options
    shards.jsonl   one line per whole shard: its counts, and what is needed to continue behind it
    shard-*.bin    renamed into place after they were synced; beside them what else a build keeps per shard

A later build with the same settings continues behind the last whole shard; one with other settings is refused. Nothing
has the name `OUT` before everything is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bertworks.atomic import TEMPORARY_SUFFIX, replacing, sync_directory, write_text
from bertworks.data.corpus.layout import MANIFEST
from bertworks.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows has no flock; two builds at once of one corpus are then the user's to avoid
    fcntl = None  # type: ignore[assignment]

STATE, JOURNAL = "state.json", "shards.jsonl"
Json = dict[str, Any]


class Unfinished:
    """The directory of an unfinished build.

    settings: JSON values that decide the content; builds with equal settings may continue one another
    restart: drop what an earlier build has left, whatever its settings
    resumable: whether a later build could continue this one (not from standard input)
    """

    def __init__(
        self, final: Path, settings: Mapping[str, Any], *, restart: bool = False, resumable: bool = True
    ) -> None:
        self.final = final
        self.path = final.with_name(final.name + ".part")
        self.entries: list[Json] = []  # of the journal: one per whole shard
        self._settings = json.loads(json.dumps(dict(settings)))  # as they will come back from the file
        self._resumable = resumable
        if not final.parent.is_dir():
            raise OutputError(f"cannot write {final}: there is no directory {final.parent}; make it first")
        new = not self.path.exists()
        try:
            with self.explained():
                self._prepare(new, restart)
        except BaseException:
            if new:
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    def add(self, name: str, write: Callable[[Path], None]) -> None:
        """Write a file beside the shards; it is whole and on the disk when this returns."""
        with self.explained(), replacing(self.path / name) as temporary:
            write(temporary)

    def commit(self, entry: Json) -> None:
        """Note that the shard `entry["file"]` and all that belongs to it are on the disk."""
        with self.explained():
            self._journal.write((json.dumps(entry) + "\n").encode())
            self._journal.flush()
            os.fsync(self._journal.fileno())
        self.entries.append(entry)

    def finish(self, manifest: Json) -> None:
        """Write the manifest and give the directory its final name; an older corpus there makes room."""
        with self.explained():
            write_text(self.path / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
            old = self.final.with_name(self.final.name + ".old")
            if self.final.exists():
                shutil.rmtree(old, ignore_errors=True)
                self.final.replace(old)
            self.path.replace(self.final)
            sync_directory(self.final.parent)
            shutil.rmtree(old, ignore_errors=True)
            wanted = {MANIFEST, *(entry["file"] for entry in self.entries)}
            for leftover in self.final.iterdir():
                if leftover.is_file() and leftover.name not in wanted:
                    leftover.unlink()
        self._journal.close()

    def close(self) -> None:
        """Let go; the shards stay for a later build, unless there are none or no later build could use them."""
        self._journal.close()
        if self.path.is_dir() and not (self.entries and self._resumable):
            shutil.rmtree(self.path, ignore_errors=True)

    def kept(self) -> str:
        """A sentence on what a stop leaves behind."""
        if not self._resumable:
            return "nothing was kept, since standard input cannot be read again"
        if not self.entries:
            return "no shard was finished, so nothing was kept"
        count = len(self.entries)
        shards = "1 finished shard is" if count == 1 else f"{count} finished shards are"
        return f"the {shards} kept in {self.path}; the same command continues after that"

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the system's refusals (disk full, no permission) into one sentence that says what was kept."""
        try:
            yield
        except OSError as error:
            raise OutputError(f"cannot write {self.final}: {error.strerror or error}; {self.kept()}") from error

    def _prepare(self, new: bool, restart: bool) -> None:
        self.path.mkdir(exist_ok=True)
        if not os.access(self.path, os.W_OK):
            raise OutputError(f"cannot write {self.final}: no permission to write in {self.path}")
        state = self.path / STATE
        ours = {JOURNAL, STATE + TEMPORARY_SUFFIX}
        if not new and not state.exists() and any(path.name not in ours for path in self.path.iterdir()):
            raise OutputError(
                f"{self.path} is in the way and is not an unfinished build; move it or choose another name"
            )
        self._open_journal()  # locks, so before anything is changed
        if state.exists() and (not self._resumable or restart):
            self._empty()
        elif state.exists():
            found = _read_state(state)
            problem = "whose state.json is damaged" if found is None else difference(found, self._settings)
            if problem:
                self._journal.close()
                raise OutputError(
                    f"{self.path} holds an unfinished build {problem}; "
                    "use --restart to drop it and start again, or choose another name"
                )
        if not state.exists():
            self._journal.truncate(0)
            write_text(state, json.dumps(self._settings, indent=1) + "\n")
        self._continue()

    def _open_journal(self) -> None:
        self._journal: IO[bytes] = (self.path / JOURNAL).open("a+b")
        if fcntl is None:
            return
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._journal.close()
            raise OutputError(
                f"another build is writing {self.final} right now; wait for it or choose another name"
            ) from None
        except OSError:
            pass  # a file system without locks

    def _empty(self) -> None:
        self._journal.truncate(0)
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != JOURNAL:
                path.unlink()

    def _continue(self) -> None:
        """Take over the whole shards of an earlier build."""
        self._journal.seek(0)
        good = 0
        for line in self._journal:
            try:
                entry = json.loads(line)
                whole = line.endswith(b"\n") and (self.path / entry["file"]).stat().st_size == entry["bytes"]
            except (ValueError, KeyError, TypeError, OSError):
                break  # the line was cut by a crash, or its shard is gone
            if not whole:
                break
            self.entries.append(entry)
            good += len(line)
        self._journal.truncate(good)


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """How two builds' settings differ, in words; nothing where they are the same."""
    changed = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    shown = "; ".join(f"{name}: {_shown(old.get(name))} there, {_shown(new.get(name))} now" for name in changed)
    return f"that differs from this one ({shown})" if changed else ""


def _shown(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def _read_state(path: Path) -> Json | None:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return settings if isinstance(settings, dict) else None
