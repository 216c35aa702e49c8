"""What decides the content of a corpus, beside the inputs and the tokenizer."""

from __future__ import annotations

from dataclasses import dataclass

from bertworks.data.sentences import AUTO, LANGUAGES
from bertworks.data.source import checked_encoding
from bertworks.errors import UsageError, choice

DOCUMENTS = ("blank-line", "line", "row", "file")
MAX_SHARD_TOKENS = 2**31


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """The options of a build; the same words as on the command line.

    document: what a document is: lines between blank lines, a row of a table (for a text file that is a line, and
        "line" is another word for it), or a whole file; None means blank-line for text files and row for tables
    shard_tokens: a shard ends with the document that brings it to this many tokens
    """

    document: str | None = None
    text_column: str | None = None
    language: str = AUTO
    drop_duplicates: bool = False
    shard_tokens: int = 2**23
    encoding: str = "utf-8"
    file_format: str | None = None
    header: bool = True

    def __post_init__(self) -> None:
        if self.document is not None:
            choice(self.document, DOCUMENTS, "document")
            if self.document == "line":  # one name, so that builds with either are the same build
                object.__setattr__(self, "document", "row")
        choice(self.language, (AUTO, *LANGUAGES), "language")
        checked_encoding(self.encoding)
        if not 1 <= self.shard_tokens <= MAX_SHARD_TOKENS:
            raise UsageError(f"shard_tokens must be from 1 to {MAX_SHARD_TOKENS:,}, not {self.shard_tokens:,}")
