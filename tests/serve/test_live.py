"""A real server on the loopback: clients that leave, dawdle or send too much, and OpenAI's own client."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np
import openai
import pytest
from starlette.types import Message, Receive, Scope, Send

from bertworks.infer.loaded import LoadedModel
from bertworks.serve import ServeSettings, create_app
from bertworks.serve.answers import ServerState
from bertworks.serve.clients import Intake
from bertworks.serve.run import server_for
from tests.serve.conftest import tiny
from tests.serve.live import metric, running, until

GREETING = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


class Held:
    """A tiny model that waits before each batch until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loaded = tiny()
        self.running, self.go = threading.Semaphore(0), threading.Semaphore(0)
        embed = self.loaded.embed

        def held(texts: Any, **options: Any) -> Any:
            self.running.release()
            self.go.acquire()
            return embed(texts, **options)

        monkeypatch.setattr(self.loaded, "embed", held)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


@contextmanager
def connection(address: str) -> Iterator[socket.socket]:
    place = urlsplit(address)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=30) as found:
        yield found


def request(body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    return GREETING + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


def read_all(connected: socket.socket) -> bytes:
    found = b""
    while piece := connected.recv(65_536):
        found += piece
    return found


@pytest.fixture(scope="module")
def minilm_address(minilm: LoadedModel) -> Iterator[str]:
    with running(create_app({"minilm": minilm}, ServeSettings(api_keys=("a-key",)))) as address:
        yield address


@pytest.mark.parametrize("encoding", [openai.omit, "float", "base64"])
def test_openai_s_client_gets_our_vectors(minilm_address: str, minilm: LoadedModel, encoding: Any) -> None:
    texts = ["A cat sat on the mat.", "", "Ett djur låg på golvet.", "long " * 400]
    with openai.OpenAI(base_url=f"{minilm_address}/v1", api_key="a-key") as client:
        found = client.embeddings.create(model="minilm", input=texts, encoding_format=encoding)
        assert [model.id for model in client.models.list()] == ["minilm"]
        assert client.models.retrieve("minilm").id == "minilm"
    vectors = [
        np.frombuffer(base64.b64decode(one.embedding), "<f4") if encoding == "base64" else one.embedding
        for one in found.data
    ]
    np.testing.assert_allclose(vectors, minilm.embed(texts), atol=1e-6)
    assert found.usage.prompt_tokens == sum(len(minilm.tokenizer.encode(text)) for text in texts)


def test_openai_s_client_understands_our_errors(minilm_address: str) -> None:
    with openai.OpenAI(base_url=f"{minilm_address}/v1", api_key="a-key", max_retries=0) as client:
        assert len(client.embeddings.create(model="minilm", input="a", dimensions=7).data[0].embedding) == 7
        with pytest.raises(openai.NotFoundError, match="is not served here; served: minilm"):
            client.embeddings.create(model="text-embedding-3-small", input="a")
        with pytest.raises(openai.BadRequestError, match="token numbers"):
            client.embeddings.create(model="minilm", input=[1, 2, 3])
    with (
        openai.OpenAI(base_url=f"{minilm_address}/v1", api_key="another", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError, match="needs an API key"),
    ):
        client.embeddings.create(model="minilm", input="a")


def test_a_client_that_leaves_is_dropped(held: Held) -> None:
    with running(create_app({"tiny": held.loaded})) as address, connection(address) as first:
        first.sendall(request({"texts": ["first"]}))
        held.running.acquire()
        with connection(address) as second:
            second.sendall(request({"texts": ["second"]}))
            until(address, 'bertworks_waiting_requests{model="tiny"}', 1)
        until(address, 'bertworks_dropped_total{model="tiny"}', 1)
        assert metric(address, 'bertworks_waiting_requests{model="tiny"}') == 0
        held.go.release()
        assert b"200 OK" in first.recv(65_536)
        assert metric(address, 'bertworks_batch_tokens_count{model="tiny"}') == 1  # the second was never computed


def test_a_full_queue_says_when_to_come_back(held: Held) -> None:
    settings = ServeSettings(max_waiting=1)
    with running(create_app({"tiny": held.loaded}, settings)) as address, connection(address) as first:
        first.sendall(request({"texts": "first"}))
        held.running.acquire()
        with connection(address) as second:
            second.sendall(request({"texts": "second"}))
            until(address, 'bertworks_waiting_requests{model="tiny"}', 1)
            refused = httpx2.post(f"{address}/embed", json={"texts": "third"})
            assert refused.status_code == 429
            assert refused.headers["Retry-After"] == "1"
            with httpx2.Client(base_url=address) as client:  # nothing is read of a body that has no chance
                assert [client.post("/embed", content=b"not JSON").status_code for _ in range(2)] == [429, 429]
                assert client.get("/health").status_code == 200
                assert client.post("/v1/embeddings", content=bytes(10**6)).json()["error"]["type"] == "rate_limit_error"
            held.go.release()
            held.go.release()
            assert b"200 OK" in first.recv(65_536)
            assert b"200 OK" in second.recv(65_536)


def test_a_hundred_megabytes_are_refused_and_the_answer_arrives() -> None:
    with running(create_app({"tiny": tiny()})) as address:
        body = bytes(100 * 10**6)
        known = httpx2.post(f"{address}/embed", content=body, headers={"Content-Type": "application/json"}, timeout=60)
        pieces = (bytes(10**6) for _ in range(100))
        unknown = httpx2.post(
            f"{address}/embed", content=pieces, headers={"Content-Type": "application/json"}, timeout=60
        )
        for answer in (known, unknown):
            assert answer.status_code == 413
            assert "larger than 4,194,304 bytes" in answer.json()["error"]
        with connection(address) as careful:  # who asks before sending is told at once
            careful.sendall(GREETING + b"Expect: 100-continue\r\nContent-Length: 100000000\r\n\r\n")
            said = read_all(careful)
            assert said.startswith(b"HTTP/1.1 413")
            assert b"100 Continue" not in said
        assert httpx2.post(f"{address}/embed", json={"texts": "a"}).status_code == 200


def test_slow_bodies_end() -> None:
    settings = ServeSettings(client_seconds=0.2)
    with running(create_app({"tiny": tiny()}, settings)) as address:
        with connection(address) as slow:
            slow.sendall(GREETING + b"Content-Length: 100\r\n\r\n{")
            said = read_all(slow)
            assert said.startswith(b"HTTP/1.1 408")
            assert b"the body was not there within 0.2 seconds" in said
        with connection(address) as gone:
            gone.sendall(GREETING + b"Content-Length: 100\r\n\r\n{")
        with connection(address) as odd:
            odd.sendall(b"this is not HTTP\r\n\r\n")
            assert read_all(odd).startswith(b"HTTP/1.1 400")
        assert httpx2.post(f"{address}/embed", json={"texts": "a"}).status_code == 200


def test_slow_readers_end() -> None:
    """Whoever does not take the next piece of an answer in time is given up."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(200_000)})

    taken: list[int] = []

    async def send(message: Message) -> None:
        taken.append(len(message.get("body", b"")))
        if len(taken) == 3:
            await asyncio.Event().wait()

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    intake = Intake(application, ServeSettings(client_seconds=0.05))
    with pytest.raises(TimeoutError):
        asyncio.run(intake({"type": "http", "method": "POST", "path": "/", "headers": []}, nothing, send))
    assert taken == [0, 65_536, 65_536]


@pytest.mark.parametrize("size", [10, 65_536])
def test_slow_readers_of_small_answers_end(size: int) -> None:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": bytes(size)})

    async def stuck(message: Message) -> None:
        await asyncio.Event().wait()

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    intake = Intake(application, ServeSettings(client_seconds=0.05))
    with pytest.raises(TimeoutError):
        asyncio.run(intake({"type": "http", "method": "POST", "path": "/", "headers": []}, nothing, stuck))


def gone(state: ServerState, left: int = 0) -> None:
    """Wait until the server has no more connections than that."""
    end = time.monotonic() + 60
    while state.connections() > left:
        assert time.monotonic() < end, f"{state.connections()} connections are left"
        time.sleep(0.01)


def test_connections_that_do_nothing_end() -> None:
    app = create_app({"tiny": tiny()}, ServeSettings(client_seconds=0.3))
    state = app.state.server
    with running(app) as address:
        with connection(address) as silent, connection(address) as half:
            half.sendall(GREETING)
            with suppress(ConnectionResetError):
                assert silent.recv(10) == b""
            with suppress(ConnectionResetError):
                assert half.recv(10) == b""
        gone(state)
        with connection(address) as second_half:  # a head after the first one has the same time
            second_half.sendall(request({"texts": "a"}))
            assert b"200 OK" in second_half.recv(65_536)
            second_half.sendall(b"GET /hea")
            gone(state)
        with socket.socket() as deaf:  # asks and never reads: what is written stays in the connection's buffer
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((urlsplit(address).hostname or "", urlsplit(address).port or 0))
            deaf.settimeout(0.1)
            with suppress(OSError):
                deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 300)
            while state.connections() == 0:
                time.sleep(0.01)
            gone(state)
        assert httpx2.get(f"{address}/health").status_code == 200


def test_too_many_connections() -> None:
    app = create_app({"tiny": tiny()}, ServeSettings(max_connections=2))
    with running(app) as address:
        with connection(address), connection(address):
            refused = httpx2.get(f"{address}/health")
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            assert refused.json()["error"].startswith("there are more than 2 connections")
        gone(app.state.server)
        assert httpx2.get(f"{address}/health").status_code == 200


def test_stopping_waits_as_long_as_a_request_may_take() -> None:
    settings = ServeSettings(timeout_seconds=5, client_seconds=2.5)
    assert server_for(create_app({"tiny": tiny()}, settings)).config.timeout_graceful_shutdown == 10


def test_large_answers_arrive_whole() -> None:
    model = tiny()
    with running(create_app({"tiny": model})) as address:
        texts = [f"text {number}" for number in range(1000)]
        answer = httpx2.post(f"{address}/embed", json={"texts": texts}, timeout=60)
        assert len(answer.content) > 5 * 65_536
        np.testing.assert_allclose(np.array(answer.json()["vectors"]), model.embed(texts), atol=2e-6)


def test_many_clients_get_their_own_answers() -> None:
    model = tiny()
    expected = {text: model.embed(text) for text in (f"the mill number {number}" for number in range(40))}

    async def ask(client: httpx2.AsyncClient, text: str) -> tuple[str, list[float]]:
        return text, (await client.post("/embed", json={"texts": text})).json()["vectors"][0]

    async def all_of_them(address: str) -> list[tuple[str, list[float]]]:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            return await asyncio.gather(*(ask(client, text) for text in expected))

    with running(create_app({"tiny": model})) as address:
        for text, vector in asyncio.run(all_of_them(address)):
            np.testing.assert_allclose(vector, expected[text], atol=2e-6)
