"""`bertworks serve` as a program: what it says at its start, what stops it, and that TERM loses no request."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bertworks.cli.main import main
from bertworks.cli.serve import names_of, read_keys
from bertworks.errors import DataError, UsageError
from bertworks.infer.search_build import build_index
from bertworks.serve import ServeSettings
from tests.finetune import small

SOURCE = Path(__file__).parents[2] / "src"
CLIENTS = 6


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The program, and what it says once it listens."""
    program = [sys.executable, "-m", "bertworks", "serve", "--port", "0", "--json", *arguments]
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line, running.communicate()[1]
        yield running, json.loads(line)
    finally:
        running.kill()
        running.communicate()


class Client(threading.Thread):
    """Asks again and again over kept connections, until the server takes no more."""

    def __init__(self, address: str, enough: threading.Semaphore) -> None:
        super().__init__(daemon=True)
        self.address, self.enough = address, enough
        self.statuses: list[int] = []

    def run(self) -> None:
        with httpx2.Client(base_url=self.address, timeout=60) as client:
            while True:
                try:
                    answer = client.post("/embed", json={"texts": ["The river runs past the old mill."] * 20})
                except httpx2.TransportError:  # not taken: the server's log has an entry for whatever it took
                    return
                self.statuses.append(answer.status_code)
                self.enough.release()


def test_term_under_load_loses_nothing(tmp_path: Path) -> None:
    model = small.write_model(tmp_path / "model")
    with started(f"tiny={model}", "--drain", "0.5") as (program, said), ThreadPoolExecutor(1) as reader:
        assert said["models"] == ["tiny"]
        ended = reader.submit(program.communicate, timeout=90)  # meanwhile: a full pipe would stop the program
        enough = threading.Semaphore(0)
        clients = [Client(said["address"], enough) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for _ in range(5 * CLIENTS):
            enough.acquire()
        program.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(60)
            assert not client.is_alive()
        _, log = ended.result()
    assert program.returncode == 0
    assert {status for client in clients for status in client.statuses} == {200}
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert len(requests) == sum(len(client.statuses) for client in clients)  # each that was taken has been answered
    assert {"stopping: finishing what was accepted"} < {line["event"] for line in lines}


def test_options_reach_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but the running itself."""
    ran: list[Any] = []

    def run(app: Any, bound: socket.socket, *, on_ready: Any) -> None:
        on_ready("http://127.0.0.1:1")
        ran.append(app.state.server)
        bound.close()

    monkeypatch.setattr("bertworks.serve.run.run", run)
    monkeypatch.setattr("bertworks.serve.logs.write_logs", lambda: None)  # it would outlive this test
    model = small.write_model(tmp_path / "model")
    build_index(["The mill.", "The river."], tmp_path / "texts", model=str(model))
    (tmp_path / "keys").write_text("a-key\n")
    given = [str(model), f"other={model}", "--index", str(tmp_path / "texts"), "--api-keys", str(tmp_path / "keys")]
    given += ["--max-items", "7", "--timeout", "5", "--port", "0", "--host", "0.0.0.0", "--quiet"]
    given += ["--max-item-tokens", "11", "--max-numbers", "12", "--max-connections", "13", "--batch-tokens", "14"]
    given += ["--client-seconds", "15"]
    assert main(["serve", *given]) == 0
    assert "serving model, other at http://127.0.0.1:1 (how to ask: http://127.0.0.1:1/docs)" in capsys.readouterr().out
    (state,) = ran
    assert state.models["model"].about()["precision"] == "fp32"
    assert list(state.models) == ["model", "other"]
    assert state.indexes["texts"].served.name == "model"
    assert (state.settings.max_items, state.settings.timeout_seconds, state.settings.api_keys) == (7, 5.0, ("a-key",))
    limits = ("max_item_tokens", "max_numbers", "max_connections", "batch_tokens", "client_seconds")
    assert [getattr(state.settings, name) for name in limits] == [11, 12, 13, 14, 15.0]
    assert state.settings.hosts == ("*",)
    assert main(["serve", str(model), "--port", "0", "--allow-host", "my.name", "--quiet"]) == 0
    assert ran[-1].settings == ServeSettings(hosts=("127.0.0.1", "localhost", "127.0.0.1", "::1", "my.name"))
    assert "lets other machines in" not in capsys.readouterr().err
    assert main(["serve", str(model), "--port", "0", "--host", "0.0.0.0"]) == 0
    assert "lets other machines in, and no API key is asked for" in capsys.readouterr().err


def test_each_model_has_its_own_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --precision a directory that was made for int8 is served in int8."""
    asked: list[Any] = []

    def load(model: str, **options: Any) -> Any:
        asked.append(options["precision"])
        raise UsageError("enough")

    monkeypatch.setattr("bertworks.load", load)
    assert main(["serve", "minilm-int8", "--port", "0"]) == 2
    assert main(["serve", "minilm-int8", "--port", "0", "--precision", "fp32"]) == 2
    assert asked == [None, "fp32"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/no/such/directory"], "/no/such/directory"),
        (["a=minilm", "a=minilm"], "two are called 'a'; give one another name"),
        (["--host", "999.1.1.1"], "cannot listen on 999.1.1.1 port 8000"),
        (["--api-keys", "/no/such/file"], "the API keys cannot be read"),
        (["--port", "70000"], "--port 70000 is too large; it must be at most 65535"),
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--port" not in arguments and "--host" not in arguments:
        arguments = [*arguments, "--port", "0"]
    assert main(["serve", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words in said
    assert said.count("\n") == 1


def test_a_damaged_model_stops_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small.write_model(tmp_path / "model")
    (model / "model.safetensors").write_bytes(b"no weights")
    assert main(["serve", str(model), "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "model.safetensors" in said
    assert said.count("\n") == 1


def test_a_taken_port_is_told_before_models_are_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "/no/such/model", "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1 port {port}: address already in use" in capsys.readouterr().err


def test_names(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    odd = tmp_path / "a=b"
    odd.mkdir()
    assert names_of(["minilm", f"mood={tmp_path}/runs", str(tmp_path / "runs") + "/", str(odd), "org/model"]) == {
        "minilm": "minilm",
        "mood": f"{tmp_path}/runs",
        "runs": str(tmp_path / "runs") + "/",
        "a=b": str(odd),
        "org/model": "org/model",
    }
    with pytest.raises(UsageError, match="two are called"):
        names_of(["minilm", "minilm"])


def test_keys_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("# ours\nfirst\n\n second \n")
    assert read_keys(file) == ("first", "second")
    monkeypatch.setenv("BERTWORKS_API_KEYS", "third, fourth,")
    assert read_keys(None) == ("third", "fourth")
    monkeypatch.delenv("BERTWORKS_API_KEYS")
    assert read_keys(None) == ()
    file.write_text("\n")
    with pytest.raises(DataError, match="holds no API key"):
        read_keys(file)
