"""Under which names a server answers.

A server on the loopback can be asked by every program of this machine, also by a browser that shows somebody's page: a
name of theirs that suddenly means 127.0.0.1 makes the page and the server one site (DNS rebinding). The request still
says which name was asked for, so a server that answers to its own names only is not reached that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from bertworks.serve.problems import problem

ANY = "*"


def is_address(host: str) -> bool:
    """Whether it is an address in numbers. A website can make its name lead anywhere, but it is never called by a number."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine gets there."""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def requested_host(headers: Headers) -> str:
    """Under which name a request was sent, in small letters and without the port; "" where that cannot be read."""
    try:
        return urlsplit("//" + headers.get("host", "")).hostname or ""
    except ValueError:  # brackets that do not match
        return ""


def allowed_hosts(host: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """The names for a server that listens at `host`: any, unless it is the loopback."""
    return (host, "localhost", "127.0.0.1", "::1", *more) if is_loopback(host) else (ANY,)


class HostCheck:
    """Lets requests pass that name one of the hosts."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self.app = app
        self.hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or ANY in self.hosts or (host := requested_host(Headers(scope=scope))) in self.hosts:
            await self.app(scope, receive, send)
            return
        sentence = f"this server does not answer under the name {host[:100]!r}; allow it with --allow-host"
        await problem(400, sentence, path=scope["path"])(scope, receive, send)
