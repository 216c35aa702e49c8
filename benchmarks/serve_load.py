"""Load for a server, from a process of its own: `python -m benchmarks.serve_load` reads a plan as JSON, prints what it saw.

    closed loop   so many clients, each asks again as soon as it is answered: what a server can do
    open loop     requests come at a rate, at random moments (Poisson), whether or not earlier ones are answered: what users do

The clients are a few lines over sockets, since every moment that they compute is taken from the server on a small machine.
Times are taken from the moment when a request should be sent: a client that is late does not make a server look quick.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_CONNECTIONS = 900
LAST_SECONDS = 30.0
"""How long the last answers are waited for."""


@dataclass
class Seen:
    """Times of answers by status, and what was never answered."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    lost: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def answered(self, status: int, seconds: float) -> None:
        self.seconds.setdefault(status, []).append(seconds)

    def failed(self, error: Exception) -> None:
        self.lost += 1
        name = type(error).__name__
        self.reasons[name] = self.reasons.get(name, 0) + 1


class Connections:
    """Open connections to one server, used again."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)

    async def ask(self, request: bytes) -> int:
        """Send a request, read the whole answer, return its status.

        A server may end a connection on which nothing was sent for a while. As every client does, this one then asks again:
        where not a byte of an answer came over an old connection, the request was not accepted.
        """
        async with self._places:
            while self._idle:
                try:
                    return await self._over(*self._idle.pop(), request)
                except ConnectionError:
                    continue
                except asyncio.IncompleteReadError as error:
                    if error.partial:
                        raise
            return await self._over(*await asyncio.open_connection(self.host, self.port), request)

    async def _over(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
        """The same over one connection."""
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
        except BaseException:
            writer.close()
            raise
        if b"connection: close" in head:
            writer.close()
        else:
            self._idle.append((reader, writer))
        return int(head.split(b" ", 2)[1])


def request_for(text: str, host: str) -> bytes:
    body = json.dumps({"texts": [text]}).encode()
    head = (
        f"POST /embed HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def ask(connections: Connections, request: bytes, due: float, seen: Seen) -> None:
    try:
        status = await connections.ask(request)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError, ValueError) as error:
        seen.failed(error)
    else:
        seen.answered(status, time.perf_counter() - due)


async def closed_loop(connections: Connections, requests: Sequence[bytes], clients: int, seconds: float) -> Seen:
    seen, end, number = Seen(), time.perf_counter() + seconds, 0

    async def client() -> None:
        nonlocal number
        while (now := time.perf_counter()) < end:
            number += 1
            await ask(connections, requests[number % len(requests)], now, seen)

    await asyncio.gather(*(client() for _ in range(clients)))
    return seen


async def open_loop(
    connections: Connections, requests: Sequence[bytes], rate: float, seconds: float, seed: int = 0
) -> Seen:
    seen, chance, tasks = Seen(), random.Random(seed), set()
    due = start = time.perf_counter()
    number = 0
    while (due := due + chance.expovariate(rate)) < start + seconds:
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        number += 1
        task = asyncio.create_task(ask(connections, requests[number % len(requests)], due, seen))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=LAST_SECONDS)
        for task in late:
            task.cancel()
        seen.lost += len(late)
        seen.reasons |= {"not answered in time": len(late)} if late else {}
    return seen


def run(plan: Mapping[str, Any]) -> dict[str, Any]:
    """One stretch of load; the answer is what JSON can hold."""

    async def load() -> Seen:
        host, port = plan["host"], plan["port"]
        requests = [request_for(text, host) for text in plan["texts"]]
        connections = Connections(host, port)
        if "rate" in plan:
            return await open_loop(connections, requests, plan["rate"], plan["seconds"])
        return await closed_loop(connections, requests, plan["clients"], plan["seconds"])

    start = time.perf_counter()
    seen = asyncio.run(load())
    return {
        "seconds": {str(status): times for status, times in seen.seconds.items()},
        "lost": seen.lost,
        "reasons": seen.reasons,
        "took": time.perf_counter() - start,
    }


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
