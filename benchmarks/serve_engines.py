"""The servers of `benchmarks.serve`, each a process of its own, and the library without one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.options import ROOT
from benchmarks.process import thread_environment

START_SECONDS = 180.0
LIBRARY = """
import json, sys, time, bertworks
from bertworks.infer.few_rows import expect_few_rows
expect_few_rows()()
model = bertworks.load(sys.argv[1])
model.embed(["a first text"])
print("ready", flush=True)
for line in sys.stdin:
    times = []
    for text in json.loads(line):
        begun = time.perf_counter()
        model.embed([text])
        times.append(time.perf_counter() - begun)
    print(json.dumps(times), flush=True)
"""


@dataclass(frozen=True)
class Server:
    """How a server is started; {port}, {model} and {threads} are filled in."""

    name: str
    command: tuple[str, ...]


SERVERS = {
    server.name: server
    for server in (
        Server(
            "bertworks",
            ("bertworks", "serve", "model={model}", "--port", "{port}", "--threads", "{threads}"),
        ),
        Server(
            "bertworks int8",
            (
                "bertworks",
                *("serve", "model={model}", "--port", "{port}", "--threads", "{threads}", "--precision", "int8"),
            ),
        ),
        Server(
            "20 lines, threads",
            ("uvicorn", "benchmarks.serve_twenty:app", "--port", "{port}", "--no-access-log"),
        ),
        Server(
            "20 lines, one by one",
            ("uvicorn", "benchmarks.serve_twenty:blocking_app", "--port", "{port}", "--no-access-log"),
        ),
    )
}


class Running:
    """A server that has answered once."""

    def __init__(self, server: Server, model: str, threads: int, log: Path) -> None:
        self.name = server.name
        self.host = "127.0.0.1"
        self.port = free_port()
        filled = [part.format(port=self.port, model=model, threads=threads) for part in server.command]
        environment = {"MODEL": model, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "HF_HUB_OFFLINE": "1"}
        with thread_environment(threads), log.open("w") as lines:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *filled], env=os.environ | environment, stdout=lines, stderr=lines, cwd=ROOT
            )
        self._log = log
        self._watched = psutil.Process(self.process.pid)
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                sys.exit(f"{self.name} ended with {self.process.returncode}: {self._log.read_text()[-2000:]}")
            try:
                socket.create_connection((self.host, self.port), timeout=5).close()
            except OSError:
                time.sleep(0.2)
                continue
            if self.load({"clients": 1, "seconds": 0.1, "texts": ["a first text"]})["seconds"].get("200"):
                return
        sys.exit(f"{self.name} did not answer within {START_SECONDS:.0f} seconds: {self._log.read_text()[-2000:]}")

    def load(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """A stretch of load from another process."""
        with self.loading(plan) as client:
            found: dict[str, Any] = json.loads(client.communicate()[0])
            return found

    @contextmanager
    def loading(self, plan: Mapping[str, Any]) -> Iterator[subprocess.Popen[str]]:
        """The process that makes the load, while it does."""
        client = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.serve_load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert client.stdin is not None
        client.stdin.write(json.dumps({"host": self.host, "port": self.port, **plan}))
        client.stdin.close()
        client.stdin = None
        try:
            yield client
        finally:
            client.kill()
            client.wait()

    def memory_mib(self) -> float:
        return float(self._watched.memory_info().rss) / 2**20

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Library:
    """`bertworks.load(…).embed([text])` in a process of its own: what a lone request is held against."""

    def __init__(self, model: str, threads: int) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        with thread_environment(threads):
            self.process = subprocess.Popen(
                [sys.executable, "-c", LIBRARY, model],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment | {"OMP_NUM_THREADS": str(threads)},
            )
        self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the library's process died")
        return line

    def times(self, texts: Sequence[str]) -> list[float]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(list(texts)) + "\n")
        self.process.stdin.flush()
        found: list[float] = json.loads(self._line())
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
