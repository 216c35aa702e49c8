"""A corpus as an array of documents, for whoever trains on it.

What objectives need, and how it is had in constant time and memory:

- *documents by number*, so that sampling can be a function of (seed, epoch, index): `corpus.document(i)`;
- *sentence pairs* (next sentence, sentence order): `corpus.sentences(i)`, or `corpus.sentence_bounds(i)` to slice;
- *spans* of at most N tokens inside a document: slices of `corpus.document(i)`, planned from `corpus.document_lengths()`;
- *a stream of tokens* over documents: `corpus.locate(position)` says in which document a token is, and where.

Arrays are read-only views of mapped files: nothing is loaded before it is looked at, many processes share one copy,
and a `Corpus` can be sent to a worker process. They hold no special tokens; those depend on the objective.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.corpus.layout import (
    FORMAT,
    MANIFEST,
    TOKENIZER_FOLDER,
    VERSION,
    Shard,
    ShardSize,
    check_shard,
    file_sha256,
)
from bertworks.errors import DataError, UsageError
from bertworks.text.tokenizer import Tokenizer

Ids = NDArray[Any]  # uint16 or uint32
HOW_TO_BUILD = "make one: bertworks corpus build {files} --tokenizer {tokenizer} -o CORPUS"


class Corpus:
    """A finished corpus; open one with `Corpus.open`."""

    def __init__(self, directory: Path, manifest: dict[str, Any]) -> None:
        self.directory = directory
        self.manifest = manifest
        self.vocab_size = int(manifest["tokenizer"]["vocab_size"])
        self.tokenizer_sha256 = str(manifest["tokenizer"]["sha256"])  # of tokenizer.json
        token_bytes = int(manifest["token_bytes"])
        self._names = [str(entry["file"]) for entry in manifest["shards"]]
        self._sizes = [
            ShardSize(int(entry["documents"]), int(entry["sentences"]), int(entry["tokens"]), token_bytes)
            for entry in manifest["shards"]
        ]
        # Where each shard's documents and tokens end, (number of shards,).
        self._document_ends = np.cumsum([size.documents for size in self._sizes])
        self._token_ends = np.cumsum([size.tokens for size in self._sizes])
        self._shards: list[Shard | None] = [None] * len(self._sizes)

    @classmethod
    def open(cls, directory: str | Path) -> Corpus:
        """Open a corpus; checks the manifest, and that every shard is there with the right size and header."""
        directory = Path(directory)
        corpus = _checked(directory, _read_manifest(directory))
        for name, size in zip(corpus._names, corpus._sizes, strict=True):
            check_shard(directory / name, size)
        return corpus

    def __repr__(self) -> str:
        return f"Corpus({str(self.directory)!r}, {self.num_documents:,} documents, {self.num_tokens:,} tokens)"

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_document_lengths"}
        return {**state, "_shards": [None] * len(self._sizes)}  # a copy maps the files for itself

    @property
    def num_documents(self) -> int:
        """How many documents there are."""
        return int(self._document_ends[-1])

    @property
    def num_sentences(self) -> int:
        """How many sentences there are."""
        return sum(size.sentences for size in self._sizes)

    @property
    def num_tokens(self) -> int:
        """How many tokens there are."""
        return int(self._token_ends[-1])

    @property
    def num_bytes(self) -> int:
        """The size of the shards on disk."""
        return sum(size.file_bytes for size in self._sizes)

    def __len__(self) -> int:
        return self.num_documents

    def __iter__(self) -> Iterator[Ids]:
        """All documents in order."""
        for number, size in enumerate(self._sizes):
            shard = self._shard(number)
            for index in range(size.documents):
                yield shard.document(index)

    def document(self, index: int) -> Ids:
        """The ids of document number `index`: uint16 (or uint32) (length,), a read-only view."""
        shard, local = self._find(index)
        return shard.document(local)

    def document_length(self, index: int) -> int:
        """The number of tokens of a document."""
        shard, local = self._find(index)
        return int(shard.bounds[local + 1, 0]) - int(shard.bounds[local, 0])

    def document_lengths(self) -> NDArray[np.int64]:
        """The number of tokens of every document, int64 (documents,); made once and kept."""
        return self._document_lengths

    @cached_property
    def _document_lengths(self) -> NDArray[np.int64]:
        starts = [self._shard(number).bounds[:, 0].astype(np.int64) for number in range(len(self._sizes))]
        lengths = np.concatenate([np.diff(start) for start in starts])
        lengths.flags.writeable = False
        return lengths

    def sentence_bounds(self, index: int) -> NDArray[np.int64]:
        """Where the sentences of a document begin, and its end: int64 (sentences + 1,), from 0 to its length."""
        shard, local = self._find(index)
        lengths = shard.lengths(local)
        bounds = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=bounds[1:])
        return bounds

    def sentences(self, index: int) -> list[Ids]:
        """The sentences of a document, read-only views; a document has at least one, and each at least one token."""
        ids = self.document(index)
        bounds = self.sentence_bounds(index).tolist()
        return [ids[start:end] for start, end in itertools.pairwise(bounds)]

    def locate(self, position: int) -> tuple[int, int]:
        """The document that holds token number `position` of the whole corpus, and its place in that document."""
        if not 0 <= position < self.num_tokens:
            raise UsageError(f"there is no token {position}; the corpus has tokens 0 to {self.num_tokens - 1}")
        number = int(np.searchsorted(self._token_ends, position, side="right"))
        local = position - (int(self._token_ends[number - 1]) if number else 0)
        starts = self._shard(number).bounds[:, 0]
        document = int(np.searchsorted(starts, np.uint32(local), side="right")) - 1
        first = int(self._document_ends[number - 1]) if number else 0
        return first + document, local - int(starts[document])

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the ids, from its copy in the corpus."""
        return Tokenizer.from_directory(self.directory / TOKENIZER_FOLDER)

    def verify(self) -> None:
        """Compare every shard and tokenizer file with the manifest's SHA-256; a `DataError` names the first bad one."""
        expected = {entry["file"]: entry["sha256"] for entry in self.manifest["shards"]}
        files = self.manifest["tokenizer"]["files"].items()
        expected |= {f"{TOKENIZER_FOLDER}/{name}": sha256 for name, sha256 in files}
        for name, sha256 in expected.items():
            path = self.directory / name
            try:
                found = file_sha256(path)
            except OSError as error:
                raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
            if found != sha256:
                raise DataError("is damaged: its SHA-256 is not the manifest's; build the corpus again", path=path)

    def _find(self, index: int) -> tuple[Shard, int]:
        if not 0 <= index < self.num_documents:
            raise UsageError(f"there is no document {index}; the corpus has documents 0 to {self.num_documents - 1}")
        number = int(np.searchsorted(self._document_ends, index, side="right"))
        return self._shard(number), index - (int(self._document_ends[number - 1]) if number else 0)

    def _shard(self, number: int) -> Shard:
        shard = self._shards[number]
        if shard is None:
            shard = self._shards[number] = Shard(self.directory / self._names[number], self._sizes[number])
        return shard


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except NotADirectoryError:
        how = HOW_TO_BUILD.format(files=directory, tokenizer="DIR")
        raise DataError(f"is a file and no corpus; {how}", path=directory) from None
    except FileNotFoundError:
        if not directory.is_dir():
            unfinished = directory.with_name(directory.name + ".part").is_dir()
            again = "its build is not finished; run the same `bertworks corpus build` command again"
            hint = again if unfinished else "no such directory"
            raise DataError(hint, path=directory) from None
        tokenizer = directory if (directory / "tokenizer.json").is_file() else "DIR"
        how = HOW_TO_BUILD.format(files="FILES", tokenizer=tokenizer)
        raise DataError(f"is no corpus: it has no {MANIFEST}; {how}", path=directory) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    except ValueError as error:
        raise DataError(f"is damaged: not valid JSON ({error})", path=path) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"is not the manifest of a corpus: its format is not {FORMAT!r}", path=path)
    if manifest.get("version") != VERSION:
        message = f"has format version {manifest.get('version')}; this program reads version {VERSION}"
        raise DataError(f"{message}; build the corpus again", path=path)
    return manifest


def _checked(directory: Path, manifest: dict[str, Any]) -> Corpus:
    try:
        corpus = Corpus(directory, manifest)
        totals = (manifest["totals"]["documents"], manifest["totals"]["sentences"], manifest["totals"]["tokens"])
        fits = totals == (corpus.num_documents, corpus.num_sentences, corpus.num_tokens)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        message = f"is damaged: an entry is missing or wrong ({type(error).__name__}: {error})"
        raise DataError(message, path=directory / MANIFEST) from error
    if not fits:
        raise DataError("is damaged: its totals are not the sums of its shards", path=directory / MANIFEST)
    return corpus
