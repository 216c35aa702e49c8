"""What a server lets its clients do at once. Every limit has an answer of its own, which says the limit and the value.

A *token* here is an estimate, a punctuation mark or four other bytes of text, since a request must be judged before it
costs anything; in English and Chinese alike it is near the truth. Text made to be dear, of letters that never stand
together, can have up to four times as many.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

from bertworks.errors import ConfigError
from bertworks.serve.problems import RequestError

BYTES_PER_TOKEN = 4
SPECIAL_TOKENS = 2
PUNCTUATION = string.punctuation.encode("ascii")


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The limits of a server."""

    max_body_bytes: int = 4 * 2**20
    """The largest body; more is answered with 413."""
    max_items: int = 2048
    """The most texts (pairs, questions) of one request; more is answered with 413."""
    max_tokens: int = 65_536
    """The most tokens of one request, as estimated; more is answered with 413."""
    max_item_tokens: int = 16_384
    """The most tokens of one text (pair, question), as estimated: a text is not divided between batches, so others wait
    for all of it. More is answered with 413."""
    max_numbers: int = 4_000_000
    """The most numbers in one answer (vectors of tokens or words are many), or characters of texts that it repeats; more
    is answered with 413."""
    max_waiting: int = 128
    """The most requests that wait for one model; further ones are answered with 429 at once."""
    max_waiting_tokens: int = 131_072
    """The most tokens that wait for one model, as estimated, unless a single request has more; then 429 as well."""
    max_connections: int = 1024
    """The most connections; further ones are answered with 503."""
    batch_tokens: int = 2048
    """How many tokens, as estimated, go through a model before it looks at what has come in meanwhile."""
    timeout_seconds: float = 60.0
    """A request that is not answered by then gets 503."""
    client_seconds: float = 30.0
    """How long a client may take to send its body (then 408), or to take one piece of its answer."""
    drain_seconds: float = 1.0
    """After a TERM signal, how long new requests are still taken, so that no client is cut off in mid-sentence."""
    hosts: tuple[str, ...] = ("*",)
    """Under which names the server answers (`bertworks.serve.hosts`); `*` for any."""
    api_keys: tuple[str, ...] = ()
    """Where there are any, a request must bring one of them: `Authorization: Bearer KEY`."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int | float) and value <= 0 and name != "drain_seconds":
                raise ConfigError(f"{name} is {value}; it must be above 0")
        if self.drain_seconds < 0:
            raise ConfigError(f"drain_seconds is {self.drain_seconds}; it must not be below 0")
        if any(not key or key != key.strip() or not key.isascii() for key in self.api_keys):
            raise ConfigError("an API key is empty, has white space around it or is not ASCII; choose another")

    def check_items(self, count: int, what: str) -> None:
        """Refuse an empty list, and one that is too long."""
        if count == 0:
            raise RequestError(422, f"{what} is empty; give at least one")
        if count > self.max_items:
            raise RequestError(
                413,
                f"{what} has {count:,} entries; this server takes {self.max_items:,} at once: send several requests",
            )

    def check_tokens(self, sizes: Sequence[int]) -> None:
        """Refuse more work than one request may ask for."""
        if sum(sizes) > self.max_tokens:
            raise RequestError(
                413,
                f"the request has about {sum(sizes):,} tokens of work; this server takes {self.max_tokens:,} at once: "
                "send several requests, or shorter texts",
            )
        if max(sizes, default=0) > self.max_item_tokens:
            raise RequestError(
                413,
                f"entry {sizes.index(max(sizes))} has about {max(sizes):,} tokens of work; this server takes "
                f"{self.max_item_tokens:,} for one: divide it, or ask for less",
            )

    def check_numbers(self, count: int, what: str = "numbers", less: str = "ask for one vector per text") -> None:
        """Refuse an answer that is too large. `less` says how to ask for less."""
        if count > self.max_numbers:
            raise RequestError(
                413,
                f"the answer would hold {count:,} {what}; this server gives {self.max_numbers:,} at once: "
                f"send several requests, or {less}",
            )


def estimated_tokens(*texts: str) -> int:
    """About how many tokens a sequence of these texts has, special ones included."""
    written = b"".join(text.encode("utf-8") for text in texts)
    marks = len(written) - len(written.translate(None, PUNCTUATION))
    return SPECIAL_TOKENS + marks + (len(written) - marks) // BYTES_PER_TOKEN
