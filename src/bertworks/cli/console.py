"""What the user sees: results on standard output; progress, notes and errors on standard error.

On a terminal progress is a bar (rich); elsewhere it is a plain line every few seconds, so that a log file stays
readable.
"""

from __future__ import annotations

import json
import sys
import time
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import rich.progress

PLAIN_INTERVAL_SECONDS = 5.0
LEAST_SHARE, LEAST_SECONDS = 0.002, 1.0
"""What must be done before the time left is worth telling: the first step is often a slow one."""


def print_result(text: str) -> None:
    """Print a result for people, on standard output."""
    typer.echo(text)


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Print rows of text below their names, on standard output, each column as wide as it needs."""
    widths = [max(_width(line[column]) for line in [head, *rows]) for column in range(len(head))]
    for line in [head, *rows]:
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True))
        print_result("  ".join(cells).rstrip())


def _width(text: str) -> int:
    """How many columns of a terminal a text takes: two for a wide (East Asian) character, none for a combining one."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def print_facts(facts: Mapping[str, Any]) -> None:
    """Names and values in two columns."""
    width = max(map(len, facts))
    for name, value in facts.items():
        print_result(f"{name.replace('_', ' '):<{width}}  {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)


def print_json(value: Any) -> None:
    """Print a result for machines: one JSON value on one line of standard output."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_note(text: str, *, quiet: bool = False) -> None:
    """Say something beside the result, on standard error."""
    if not quiet:
        typer.echo(text, err=True)


def print_error(sentence: str) -> None:
    """Print `error: sentence` on standard error, as plain text: brackets in a path are not markup."""
    typer.secho("error:", fg="red", bold=True, err=True, nl=False)
    typer.echo(f" {sentence}", err=True)


def duration(seconds: float) -> str:
    """A time in words: `4.2 s`, `3 min 05 s`, `2 h 40 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


class Progress:
    """Progress over chunks of an input whose number of rows is not known beforehand, but whose size mostly is.

    The rate counts the rows of this run; the time left supposes that the rest of the bytes hold rows like those so far.
    """

    def __init__(self, label: str, total_bytes: int | None, *, finished_rows: int = 0, quiet: bool = False) -> None:
        self.label = label
        self.total_bytes = total_bytes
        self._rows = self._first_row = finished_rows
        self._chunk_rows = 0
        self._bytes_read: int | None = None
        self._quiet = quiet
        self._started = self._printed = time.monotonic()
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> Progress:
        self._started = self._printed = time.monotonic()
        if not self._quiet and sys.stderr.isatty():
            self._bar = _bar()
            self._bar.add_task(self.label, total=self.total_bytes, detail="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin_chunk(self, rows: int, bytes_read: int | None) -> None:
        """The next `rows` have been read, the last of them at `bytes_read`."""
        self._chunk_rows, self._bytes_read = rows, bytes_read

    def within_chunk(self, done: int, total: int) -> None:
        """`done` of `total` steps of the current chunk are finished."""
        self._show(self._rows + self._chunk_rows * done // max(total, 1))

    def end_chunk(self) -> None:
        """All rows of the current chunk are finished."""
        self._show(self._rows + self._chunk_rows)
        self._rows += self._chunk_rows
        self._chunk_rows = 0

    def _show(self, rows: int) -> None:
        if self._bar is None and (self._quiet or time.monotonic() - self._printed < PLAIN_INTERVAL_SECONDS):
            return
        position = None
        if self._bytes_read is not None:  # the chunk was read whole, but only some of its rows are finished
            position = self._bytes_read * rows // max(self._rows + self._chunk_rows, 1)
        detail = self._detail(rows, position)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=position or 0, detail=detail)
        else:
            self._printed = time.monotonic()
            print_note(f"{self.label}: {detail}")

    def _detail(self, rows: int, position: int | None) -> str:
        rate = (rows - self._first_row) / max(time.monotonic() - self._started, 1e-9)
        parts = [f"{rows:,} rows", f"{rate:,.0f} rows/s"]
        if self.total_bytes and position and rate > 0:
            share = min(position / self.total_bytes, 1.0)
            parts += [f"{share:.0%}", f"{duration(rows * (1 - share) / share / rate)} left"]
        return ", ".join(parts)


class StageProgress:
    """Progress of work in stages, each of which knows what share of it is done."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._stage = ""
        self._started = self._printed = time.monotonic()
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> StageProgress:
        if not self._quiet and sys.stderr.isatty():
            self._bar = _bar()
            self._bar.add_task(self._stage, total=1.0, detail="")
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while lines are printed, so that each stands alone."""
        if self._bar is not None:
            self._bar.stop()
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.start()

    def note(self, text: str) -> None:
        """`print_note`, beside the bar."""
        with self.aside():
            print_note(text, quiet=self._quiet)

    def update(self, stage: str, share: float, detail: str, *, first: float = 0.0) -> None:
        """`share` (0 to 1) of `stage` is done, of which `first` was done before; `detail` says how much that is."""
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._started = stage, now
        if self._bar is None and (self._quiet or now - self._printed < PLAIN_INTERVAL_SECONDS):
            return
        if first + LEAST_SHARE < share < 1 and now - self._started > LEAST_SECONDS:
            detail += f", {duration((now - self._started) * (1 - share) / (share - first))} left"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=stage, completed=share, detail=detail)
        else:
            self._printed = now
            print_note(f"{stage}: {share:.0%}, {detail}")


def _bar() -> rich.progress.Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
