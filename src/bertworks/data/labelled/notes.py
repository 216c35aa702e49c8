"""What is noticed while a file is read: how it was understood, which rows were bad, what else a user should know."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bertworks.errors import DataError

KEPT_ERRORS = 5


def explained(error: DataError) -> DataError:
    """The same error, with what can be done about it."""
    told = DataError(f"{error}; --skip-bad-rows leaves out what cannot be used")
    told.path, told.line = error.path, error.line
    return told


class Notes:
    """Collects facts about one file. `path` is what messages call it."""

    def __init__(self, path: str, *, skip_bad: bool = False) -> None:
        self.path = path
        self.facts: list[str] = []
        """How the file is read: "tab-separated, with header", "text = sentence, label = label"."""
        self.columns: dict[str, Any] = {}
        """Which columns were used (`LabelledData.columns`)."""
        self.counts: Counter[str] = Counter()
        """What was met how often: "rows with an empty text"."""
        self.left_out: Counter[str] = Counter()
        """Rows that were left out though nothing is wrong with them, by reason."""
        self.remarks: list[str] = []
        """What else is to be said when the file is read."""
        self.num_bad = 0
        self._errors: list[DataError] = []
        self._skip_bad = skip_bad

    def bad(self, error: DataError) -> None:
        """A row cannot be used: count it where the user asked for that, raise the error where not."""
        if not self._skip_bad:
            raise explained(error) from error.__cause__
        self.num_bad += 1
        if len(self._errors) < KEPT_ERRORS:
            self._errors.append(error)

    @property
    def errors(self) -> list[DataError]:
        """What was wrong with the first bad rows, in their order; some were met when the first rows were looked at."""
        return sorted(self._errors, key=lambda error: error.line or 0)

    @property
    def skipped(self) -> int:
        """How many rows were left out, for whatever reason."""
        return self.num_bad + self.left_out.total()

    def sentences(self) -> list[str]:
        """What is to be said about rows that are empty or left out."""
        said = [*self.remarks, *(f"{count:,} {what}" for what, count in self.counts.items())]
        said += [f"{count:,} {what} left out" for what, count in self.left_out.items()]
        if self.num_bad:
            said.append(f"{self.num_bad:,} bad row{'s' * (self.num_bad > 1)} left out, the first: {self.errors[0]}")
        return said
