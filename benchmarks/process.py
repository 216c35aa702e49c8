"""One engine in one child process: load it, run passes over a list of calls, tell its time and memory.

A fresh interpreter per engine ("spawn") makes peak memory the engine's own, and lets the thread counts be set in the
environment before any library reads them. The parent and the child speak over a pipe: (command, arguments) one way,
(ok, value) the other.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Idle thread pools spin for a few milliseconds before they sleep; the next engine must not share the cores with them.
SETTLE_SECONDS = 0.3
# Long enough for the slowest honest pass; a child that is silent for longer is stuck.
PASS_TIMEOUT_SECONDS = 1800.0


class EngineError(Exception):
    """An engine could not be loaded or raised while running; `details` is the child's traceback."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Something to be measured.

    `factory` names a function, "package.module:function", that is called in the child with `options` and `threads` and
    returns a callable `engine(call, **settings) -> result`; an attribute `notes` (a dict) on it goes into the report.
    `candidates` are the settings that the tuning sweep may choose from; the first one is used where there is no sweep.
    `prepare` names a function that is called with `options` in a process of its own before anything is measured
    (exports, conversions; it keeps what it made), so that neither its time nor its memory counts; what it returns
    (a dict) goes into the report.
    """

    name: str
    factory: str
    options: Mapping[str, Any] = field(default_factory=dict)
    candidates: Sequence[Mapping[str, Any]] = ({},)
    prepare: str | None = None


@dataclass(frozen=True)
class Pass:
    """One pass over a workload, measured inside the child."""

    seconds: float
    cpu_seconds: float
    call_seconds: list[float]
    others: float | None  # share of the machine's processor time that went to anything but this child meanwhile
    results: list[Any] | None


# --- in the child -----------------------------------------------------------------------------------------------------


def resolve(name: str) -> Callable[..., Any]:
    """Import "package.module:function"."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return function


def memory_mebibytes() -> dict[str, float]:
    """Resident memory of this process, now and at its highest, in MiB."""
    wanted = {"VmRSS": "resident", "VmHWM": "peak"}
    found: dict[str, float] = {}
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in wanted:
                found[wanted[key]] = int(value.split()[0]) / 1024
    except OSError:  # no /proc: the peak is all that the system tells
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found["peak"] = peak / 2**20 if sys.platform == "darwin" else peak / 1024
    return found


def _machine_busy_seconds() -> float | None:
    """Processor seconds spent by everything on this machine since boot, stolen time included; None where unknown."""
    try:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        )
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _run_pass(engine: Callable[..., Any], calls: Sequence[Any], settings: Mapping[str, Any], keep: bool) -> Pass:
    gc.collect()
    results: list[Any] = []
    call_seconds: list[float] = []
    busy_before = _machine_busy_seconds()
    cpu_before = time.process_time()
    start = time.perf_counter()
    for call in calls:
        call_start = time.perf_counter()
        result = engine(call, **settings)
        call_seconds.append(time.perf_counter() - call_start)
        if keep:
            results.append(result)
    seconds = time.perf_counter() - start
    cpu_seconds = time.process_time() - cpu_before
    busy_after = _machine_busy_seconds()
    others = None
    if busy_before is not None and busy_after is not None and seconds > 0:
        total = seconds * (os.cpu_count() or 1)
        others = min(1.0, max(0.0, (busy_after - busy_before - cpu_seconds) / total))
    return Pass(seconds, cpu_seconds, call_seconds, others, results if keep else None)


def _child_main(connection: Connection, factory: str, options: dict[str, Any]) -> None:
    """Load the engine, then answer commands until told to stop. Every answer is (ok, value)."""
    try:
        start = time.perf_counter()
        engine = resolve(factory)(**options)
        seconds = time.perf_counter() - start
        notes = dict(getattr(engine, "notes", {}))
        connection.send((True, {"load_seconds": seconds, "loaded": memory_mebibytes(), "notes": notes}))
        calls: Sequence[Any] = ()
        while True:
            command, arguments = connection.recv()
            if command == "stop":
                return
            if command == "calls":
                calls = arguments
                connection.send((True, None))
            elif command == "pass":
                connection.send((True, _run_pass(engine, calls, **arguments)))
            elif command == "memory":
                connection.send((True, memory_mebibytes()))
    except BaseException as error:  # whatever happened in there, the parent must hear of it
        message = " ".join(str(error).split()) or "no message"
        connection.send((False, (f"{type(error).__name__}: {message}", traceback.format_exc())))


# --- in the parent ----------------------------------------------------------------------------------------------------


@contextmanager
def thread_environment(threads: int) -> Iterator[None]:
    """Children started inside use `threads` threads in every library that asks the environment, no GPU, no network."""
    changes = {
        **dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), str(threads)
        ),
        "TOKENIZERS_PARALLELISM": "true",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TQDM_DISABLE": "1",
    }
    before = {key: os.environ.get(key) for key in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


class EngineProcess:
    """A running engine. Starting loads it; use as a context manager, or call `close`."""

    def __init__(self, engine: Engine, threads: int) -> None:
        self.name = engine.name
        context = multiprocessing.get_context(
            "spawn"
        )  # a fresh interpreter: nothing inherited, memory counted from zero
        self._connection, theirs = context.Pipe()
        options = {**engine.options, "threads": threads}
        self._process = context.Process(target=_child_main, args=(theirs, engine.factory, options), daemon=True)
        with thread_environment(threads):
            self._process.start()
        theirs.close()  # so that a dead child is seen as end of file
        loaded = self._receive()
        self.load_seconds: float = loaded["load_seconds"]
        self.loaded: dict[str, float] = loaded["loaded"]
        self.notes: dict[str, Any] = loaded["notes"]

    def _receive(self) -> Any:
        try:
            if not self._connection.poll(PASS_TIMEOUT_SECONDS):
                self.close()
                raise EngineError(f"silent for {PASS_TIMEOUT_SECONDS:.0f} seconds, so it was stopped")
            ok, value = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join(5)
            raise EngineError(
                f"the process died with exit code {self._process.exitcode} (-9: out of memory?)"
            ) from None
        if not ok:
            message, details = value
            self.close()
            raise EngineError(message, details)
        return value

    def _ask(self, command: str, arguments: Any = None) -> Any:
        with suppress(ConnectionError):  # the answer, or its absence, says why
            self._connection.send((command, arguments))
        return self._receive()

    def set_calls(self, calls: Sequence[Any]) -> None:
        self._ask("calls", list(calls))

    def run(self, settings: Mapping[str, Any] | None = None, keep: bool = False) -> Pass:
        """One pass over the calls that were set; `keep` brings the results back."""
        result: Pass = self._ask("pass", {"settings": dict(settings or {}), "keep": keep})
        time.sleep(SETTLE_SECONDS)
        return result

    def memory(self) -> dict[str, float]:
        result: dict[str, float] = self._ask("memory")
        return result

    def close(self) -> None:
        with suppress(OSError, ValueError):  # already gone
            self._connection.send(("stop", None))
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._connection.close()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prepare(engine: Engine, threads: int) -> dict[str, Any]:
    """Run the engine's `prepare` function in a process of its own; its answer, or {} where there is none."""
    if engine.prepare is None:
        return {}
    context = multiprocessing.get_context("spawn")
    try:
        with thread_environment(threads), ProcessPoolExecutor(1, mp_context=context) as pool:
            return dict(pool.submit(_call, engine.prepare, dict(engine.options)).result())
    except Exception as error:
        message = " ".join(str(error).split())
        raise EngineError(
            f"could not be prepared: {type(error).__name__}: {message}", traceback.format_exc()
        ) from error


def _call(function: str, options: dict[str, Any]) -> Any:
    return resolve(function)(**options)
