"""What a server has done, as numbers that Prometheus reads (its text format, version 0.0.4).

Counters only go up; a histogram counts how many values were at most so large. Labels must come from small sets (routes,
models, statuses), never from what a client sends. Left out: everything that one server with one process does not need.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
TOKENS = (16.0, 64.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 16384.0)

Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number that only grows, one for each set of labels."""

    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self._lock = threading.Lock()
        self._values: dict[Labels, float] = {}

    def add(self, amount: float = 1.0, **labels: str) -> None:
        key = tuple(labels.items())
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + amount

    def value(self, **labels: str) -> float:
        return self._values.get(tuple(labels.items()), 0.0)

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.about, "counter")
        for key, value in sorted(self._values.copy().items()):
            yield _line(self.name, key, value)


class Histogram:
    """How values are spread over ranges, for each set of labels."""

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self.name, self.about, self.bounds = name, about, tuple(bounds)
        self._lock = threading.Lock()
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, **labels: str) -> None:
        key = tuple(labels.items())
        place = next((index for index, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        with self._lock:
            counts = self._counts.setdefault(key, [0] * (len(self.bounds) + 1))
            counts[place] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.about, "histogram")
        with self._lock:
            found = [(key, list(counts), self._sums[key]) for key, counts in sorted(self._counts.items())]
        for key, counts, total in found:
            so_far = 0
            for bound, count in zip((*map(_number, self.bounds), "+Inf"), counts, strict=True):
                so_far += count
                yield _line(f"{self.name}_bucket", (*key, ("le", bound)), so_far)
            yield _line(f"{self.name}_sum", key, total)
            yield _line(f"{self.name}_count", key, so_far)


class Gauge:
    """Numbers that are looked up when somebody asks."""

    def __init__(self, name: str, about: str, look: Callable[[], Mapping[Labels, float]], kind: str = "gauge") -> None:
        self.name, self.about, self._look, self._kind = name, about, look, kind

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.about, self._kind)
        for key, value in sorted(self._look().items()):
            yield _line(self.name, key, value)


class Metrics:
    """All of a server's numbers."""

    def __init__(self) -> None:
        self.requests = Counter("bertworks_requests_total", "Requests answered, by route and status.")
        self.seconds = Histogram(
            "bertworks_request_seconds", "Time from a request's head to its answer's end.", SECONDS
        )
        self.queued = Histogram("bertworks_queue_seconds", "Time a request waited for its model.", SECONDS)
        self.refused = Counter("bertworks_refused_total", "Requests refused since too many waited.")
        self.dropped = Counter("bertworks_dropped_total", "Requests dropped since their client had left.")
        self.expired = Counter("bertworks_expired_total", "Requests that were not done in time.")
        self.tokens = Counter("bertworks_tokens_total", "Tokens of answered requests, as estimated.")
        self.batches = Histogram("bertworks_batch_tokens", "Tokens in a batch, as estimated.", TOKENS)
        self.computing = Counter("bertworks_computing_seconds_total", "Time the model was computing.")
        started = time.time()
        self.parts: list[Counter | Histogram | Gauge] = [
            self.requests,
            self.seconds,
            self.queued,
            self.refused,
            self.dropped,
            self.expired,
            self.tokens,
            self.batches,
            self.computing,
            Gauge("process_start_time_seconds", "When the process started, since 1970.", lambda: {(): started}),
            Gauge("process_cpu_seconds_total", "Processor time spent.", lambda: {(): time.process_time()}, "counter"),
            Gauge("process_resident_memory_bytes", "Memory in use.", resident_memory),
        ]

    def text(self) -> str:
        """All numbers in Prometheus' format."""
        return "".join(line + "\n" for part in self.parts for line in part.lines())


def resident_memory() -> dict[Labels, float]:
    """The process's memory in bytes, where the system tells it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return {}
    return {(): float(pages * os.sysconf("SC_PAGE_SIZE"))}


def _head(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
