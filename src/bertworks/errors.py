"""One family of exceptions: everything a user can cause derives from `BertworksError`.

The message is one clear sentence that says what was wrong, the value, what is allowed and what to do.
The command line prints it and exits with 2; anything that is not a `BertworksError` is our own bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


class BertworksError(Exception):
    """Base of every error whose cause lies in the input, not in the code."""


class UsageError(BertworksError):
    """An argument or an option has a value that is not allowed."""


class ConfigError(BertworksError):
    """A configuration has an unknown key, a wrong type or values that do not fit together."""


class ModelError(BertworksError):
    """A model cannot be found, or cannot do what was asked of it."""


class CheckpointError(ModelError):
    """A model directory is damaged, incomplete or of an unknown kind."""


class TokenizerError(BertworksError):
    """A tokenizer cannot be read, or lacks a token that is needed."""


class DataError(BertworksError):
    """A data file is missing, damaged or not of the expected form; carries file and line where they are known."""

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.path = None if path is None else str(path)
        self.line = line
        self.message = message
        """Without the place."""
        place = "" if self.path is None else self.path + (f":{line}" if line is not None else "") + ": "
        super().__init__(place + message)


class OutputError(BertworksError):
    """A result cannot be written where it was asked for."""


def first_few(names: Sequence[str], limit: int = 5) -> str:
    """Names for a message: `a, b, c and 7 more`."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def did_you_mean(value: str, allowed: Iterable[str]) -> str:
    """A suggestion to append to an error: ` (did you mean 'x'?)`, or nothing where no allowed value is near."""
    near = difflib.get_close_matches(value, list(allowed), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def did_you_mean_beside(path: Path, fits: Callable[[Path], bool] = Path.is_dir) -> str:
    """The same for a directory that is not there, from the names of those beside it that fit.

    A slip of the hand seldom changes the first letter. Without that, `another` would be near `nothere`: such names are
    anybody's words, not those of a list.
    """
    first = path.name[:1].casefold()
    try:
        beside = [each.name for each in path.absolute().parent.iterdir() if each.name[:1].casefold() == first]
        return did_you_mean(path.name, sorted(name for name in beside if fits(path.absolute().with_name(name))))
    except (OSError, ValueError):  # the folder is not there either, or may not be read
        return ""


def choice(value: str, allowed: Iterable[str], what: str) -> str:
    """Return `value` if it is one of `allowed`, else raise a `UsageError` that lists them."""
    options = list(allowed)
    if value not in options:
        listed = ", ".join(options)
        raise UsageError(f"unknown {what} {value!r}{did_you_mean(value, options)}; allowed: {listed}")
    return value
