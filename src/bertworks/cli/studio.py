"""`bertworks studio`: the local page to look inside models."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from bertworks.cli.common import MODEL_AT_HAND, OWN_MODEL, DeviceOption, SeedOption, ThreadsOption, prepare
from bertworks.cli.console import print_note, print_result
from bertworks.errors import UsageError


def studio(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...", help="Aliases, model directories or Hub ids; NAME=MODEL gives one a name."
        ),
    ] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="A folder of training runs to watch.")] = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen; this machine alone by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0 takes any free one.", min=0, max=65535)] = 8421,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    device: DeviceOption = "cpu",
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
) -> None:
    """Look inside models in a browser, without a network.

    \b
    Attention, cloze, tokens, maps of meaning, fine-tuned tasks, training runs. Nothing leaves this machine.

    \b
    Examples:
      bertworks studio
      bertworks studio minilm my-bert/ reviews=runs/reviews --runs runs
      bertworks studio --no-open --port 9000
    """
    if runs is not None and not runs.is_dir():
        raise UsageError(f"--runs {runs} is not a folder")
    prepare(seed=seed, threads=threads)
    try:
        import uvicorn

        from bertworks.serve.hosts import is_loopback
        from bertworks.serve.run import bind
        from bertworks.studio.app import LOCAL, create_studio
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "pydantic"):
            raise
        raise UsageError("the studio needs FastAPI and uvicorn: pip install 'bertworks[studio]'") from None

    listening = bind(host, port)  # before the models are loaded: a taken port is told at once
    listening.listen()
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"
    print_note("loading models …")
    given = models or list(dict.fromkeys((MODEL_AT_HAND, OWN_MODEL)))
    app = create_studio(given, runs, hosts=(*LOCAL, host), device=device, seed=seed)
    print_result(f"studio at {address} (Ctrl-C ends it)")
    if not is_loopback(host):
        print_note(f"note: everyone who reaches {host} can use this page and read the runs")
    if browser:
        webbrowser.open(address)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[listening])
