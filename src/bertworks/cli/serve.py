"""`bertworks serve`: models over HTTP, each head at a route of its own, and embeddings as OpenAI's clients expect them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DEFAULT_MODEL,
    DeviceOption,
    JsonOption,
    PrecisionOption,
    QuietOption,
    ThreadsOption,
    prepare,
)
from bertworks.cli.console import print_json, print_note, print_result
from bertworks.errors import DataError, UsageError

KEYS_VARIABLE = "BERTWORKS_API_KEYS"
NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)")


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODEL…",
            help="Aliases, model directories or Hub ids, each with the name that requests call it by.",
            show_default=DEFAULT_MODEL,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; 0.0.0.0 lets other machines in.", metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0: any free one.", min=0, max=65535, metavar="N")] = 8000,
    indexes: Annotated[
        list[str] | None,
        typer.Option(
            "--index",
            help="An index made by `bertworks search build`, to be asked at /search; may be repeated.",
            metavar="[NAME=]DIR",
        ),
    ] = None,
    api_keys: Annotated[
        Path | None,
        typer.Option(
            "--api-keys",
            help=f"A file with one API key per line; or the variable {KEYS_VARIABLE}, with commas between the keys.",
            metavar="FILE",
        ),
    ] = None,
    allowed_names: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            help="A further name under which a server on the loopback answers; * for any; may be repeated.",
            metavar="NAME",
        ),
    ] = None,
    precision: PrecisionOption = None,
    max_waiting: Annotated[
        int, typer.Option("--max-waiting", help="Requests that may wait for one model.", min=1, metavar="N")
    ] = 128,
    max_items: Annotated[int, typer.Option("--max-items", help="Texts in one request.", min=1, metavar="N")] = 2048,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", help="Tokens in one request, as estimated.", min=1, metavar="N")
    ] = 65_536,
    max_item_tokens: Annotated[
        int, typer.Option("--max-item-tokens", help="Tokens in one text, as estimated.", min=1, metavar="N")
    ] = 16_384,
    max_numbers: Annotated[
        int, typer.Option("--max-numbers", help="Numbers in one answer.", min=1, metavar="N")
    ] = 4_000_000,
    max_connections: Annotated[
        int, typer.Option("--max-connections", help="Connections at once.", min=1, metavar="N")
    ] = 1024,
    batch_tokens: Annotated[
        int, typer.Option("--batch-tokens", help="Tokens that are computed together.", min=1, metavar="N")
    ] = 2048,
    max_body: Annotated[int, typer.Option("--max-body", help="Bytes of one request.", min=1, metavar="N")] = 4 * 2**20,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds after which a request is given up.", min=0.1, metavar="SECONDS")
    ] = 60.0,
    client_seconds: Annotated[
        float,
        typer.Option(
            "--client-seconds",
            help="How long a client may take to send a request, or to take a piece of the answer.",
            min=0.1,
            metavar="SECONDS",
        ),
    ] = 30.0,
    drain: Annotated[
        float, typer.Option("--drain", help="Seconds of grace after TERM.", min=0.0, metavar="SECONDS")
    ] = 1.0,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Serve models over HTTP: vectors, labels, tags, answers.

    Whoever runs this machine can ask it at http://127.0.0.1:8000; /docs says
    how. /v1/embeddings speaks as OpenAI's service does, so its clients work.
    Requests that come together are computed together; when too many wait,
    further ones are refused at once (429) and told when to come back. The
    log is one JSON object per line, on standard error. TERM stops the server
    after it has answered everything that it has accepted.

    \b
    Examples:
      bertworks serve
      bertworks serve minilm sentiment=runs/sst2 ner=runs/conll --port 9000
      bertworks serve minilm --index library=runs/library
      bertworks serve --host 0.0.0.0 --api-keys keys.txt
      curl http://127.0.0.1:8000/embed -H 'Content-Type: application/json' -d '{"texts": ["A cat."]}'
    """
    keys = read_keys(api_keys)
    named = names_of(models or [DEFAULT_MODEL])
    import bertworks
    from bertworks.infer.few_rows import expect_few_rows
    from bertworks.infer.search import SearchIndex

    try:
        from bertworks.serve.hosts import allowed_hosts, is_loopback
        from bertworks.serve.http import create_app
        from bertworks.serve.logs import write_logs
        from bertworks.serve.run import bind, run
        from bertworks.serve.settings import ServeSettings
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serving needs the package {error.name}; install it with: pip install 'bertworks[serve]'"
        ) from None

    settings = ServeSettings(
        max_waiting=max_waiting,
        max_items=max_items,
        max_tokens=max_tokens,
        max_item_tokens=max_item_tokens,
        max_numbers=max_numbers,
        max_connections=max_connections,
        batch_tokens=batch_tokens,
        max_waiting_tokens=2 * max_tokens,
        max_body_bytes=max_body,
        timeout_seconds=timeout,
        client_seconds=client_seconds,
        drain_seconds=drain,
        hosts=allowed_hosts(host, allowed_names or ()),
        api_keys=keys,
    )
    bound = bind(host, port)  # before the models are loaded: a taken port is told at once
    prepare(seed=0, threads=threads)
    compiled = expect_few_rows()
    loaded = {name: bertworks.load(model, device=device, precision=precision) for name, model in named.items()}
    opened = {name: SearchIndex(directory) for name, directory in names_of(indexes or []).items()}
    app = create_app(loaded, settings, indexes=opened)
    compiled()
    for served in app.state.server.models.values():
        served.warm_up()
    if not is_loopback(host) and not keys:
        print_note(f"note: {host} lets other machines in, and no API key is asked for (--api-keys)", quiet=quiet)

    def ready(address: str) -> None:
        if json:
            print_json({"address": address, "models": list(loaded)})
        else:
            print_result(f"serving {', '.join(loaded)} at {address} (how to ask: {address}/docs)")

    if not quiet:
        write_logs()
    run(app, bound, on_ready=ready)


def names_of(models: Sequence[str]) -> dict[str, str]:
    """`NAME=MODEL` and plain models (or indexes) by their names: the last part of a path, or the alias or Hub id itself."""
    found: dict[str, str] = {}
    for given in models:
        match = None if Path(given).exists() else NAMED.fullmatch(given)
        name, model = (
            match.groups() if match else (Path(given).resolve().name if Path(given).exists() else given, given)
        )
        if name in found:
            raise UsageError(f"two are called {name!r}; give one another name: NAME={given}")
        found[name] = model
    return found


def read_keys(file: Path | None) -> tuple[str, ...]:
    """The API keys of the file, or of the environment."""
    if file is None:
        keys = [key.strip() for key in os.environ.get(KEYS_VARIABLE, "").split(",")]
        return tuple(key for key in keys if key)
    try:
        keys = [line.strip() for line in file.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the API keys cannot be read: {error}", path=file) from None
    found = tuple(key for key in keys if key and not key.startswith("#"))
    if not found:
        raise DataError("holds no API key; write one per line", path=file)
    return found
