"""The corpus build as a Ray Data job.

Every input is read and encoded by a task wherever there is a free core, the results come back in the order of the inputs,
and this process writes the shards. They are the same bytes as those of a local build, and an unfinished build can be
continued by either. A task takes a whole file, so give at least as many files as cores; the output directory, where the
tokenizer waits, must be seen by every machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.data.corpus.build import InputFacts, Report, input_facts
from bertworks.data.corpus.build import build_corpus as build_with
from bertworks.data.corpus.documents import Place, read_blocks
from bertworks.data.corpus.encode import EncodedBlock, Encoder
from bertworks.data.corpus.layout import file_sha256
from bertworks.data.corpus.options import CorpusOptions
from bertworks.data.source import STANDARD_INPUT
from bertworks.errors import BertworksError, UsageError
from bertworks.ray.cluster import connect, in_order, unless_error

__all__ = ["RayEngine", "build_corpus"]

# A Ray Data row holds one block: these arrays as bytes, beside the digests and how far the file has been read.
ARRAYS: dict[str, str] = {
    "sentence_lengths": "<u2",
    "num_sentences": "<i8",
    "num_tokens": "<i8",
    "num_bytes": "<i8",
    "files": "<i8",
    "units": "<i8",
    "cut": "?",
}


def build_corpus(
    paths: Sequence[str | Path],
    tokenizer: str | Path,
    output: str | Path,
    options: CorpusOptions | None = None,
    *,
    restart: bool = False,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Build a corpus on the Ray cluster that `ray.init` has connected to (or one on this machine).

    The arguments are those of `bertworks.data.corpus.build_corpus`, and so are the shards.
    """
    return build_with(paths, tokenizer, output, options, engine=RayEngine(), restart=restart, progress=progress)


class RayEngine:
    """A Ray cluster as the place where a corpus is built."""

    def __init__(self) -> None:
        connect()

    def facts(self, paths: Sequence[str]) -> list[InputFacts]:
        """Hash the inputs, one task each."""
        import ray

        if STANDARD_INPUT in paths:
            raise UsageError("standard input (-) cannot be read by a cluster; give files")
        task = ray.remote(_facts)
        rows = ray.get([task.remote(str(Path(path).absolute())) for path in paths])
        facts = [InputFacts(**unless_error(row)) for row in rows]
        for path, found in zip(paths, facts, strict=True):
            if found.size is None:
                raise UsageError(f"{path} is a pipe, which a cluster cannot read; give files")
        return facts

    def encode(
        self, paths: Sequence[str], tokenizer: Path, options: CorpusOptions, start: Place
    ) -> Generator[EncodedBlock]:
        """Encode the files, one task each; rows arrive in the order of the files."""
        import ray.data

        absolute = [str(Path(path).absolute()) for path in paths]
        digest = "".join(file_sha256(path) for path in sorted(tokenizer.iterdir()))
        items = [{"file": number} for number in range(start.file, len(paths))]
        with in_order():
            files: Any = ray.data.from_items(items, override_num_blocks=len(items))
            rows = files.map_batches(
                _encode_file,
                batch_size=1,
                fn_kwargs={
                    "paths": absolute,
                    "tokenizer": str(tokenizer.absolute()),
                    "digest": digest,
                    "options": dataclasses.asdict(options),
                    "start": dataclasses.asdict(start),
                },
            )
            for row in rows.iter_rows():
                yield _from_row(unless_error(row))


# --- in the tasks; errors of the user's come back as rows, since Ray would wrap them in its own ---------------------


def _facts(path: str) -> dict[str, Any]:
    try:
        return dataclasses.asdict(input_facts(path))
    except BertworksError as error:
        return {"error": str(error)}


def _encode_file(
    batch: dict[str, Any],
    paths: list[str],
    tokenizer: str,
    digest: str,
    options: dict[str, Any],
    start: dict[str, int],
) -> Iterator[dict[str, Any]]:
    settings, first = CorpusOptions(**options), Place(**start)
    for number in batch["file"].tolist():
        place = first if number == first.file else Place(number)
        try:
            encoder = _encoder(tokenizer, digest, settings)
            for block in read_blocks(paths, settings, place, stop_file=number + 1):
                yield _to_row(encoder.encode(block))
        except BertworksError as error:
            yield {**_to_row(None), "error": [str(error)]}


@lru_cache(maxsize=1)
def _encoder(tokenizer: str, digest: str, options: CorpusOptions) -> Encoder:
    """One per process, however many files it is given.

    Processes outlive a build, and a later one may put another tokenizer under the same path: hence the digest.
    """
    return Encoder(tokenizer, options)


def _to_row(block: EncodedBlock | None) -> dict[str, Any]:
    """A batch of one row; an empty row for None."""
    row: dict[str, Any] = dict.fromkeys((*ARRAYS, "ids", "digests"), b"")
    row |= {"token_bytes": 0, "bytes_read": 0, "error": ""}
    if block is not None:
        row |= {name: getattr(block, name).astype(kind).tobytes() for name, kind in ARRAYS.items()}
        row |= {"ids": block.ids.tobytes(), "token_bytes": block.ids.dtype.itemsize, "digests": block.digests}
        row["bytes_read"] = block.bytes_read
    return {name: [value] for name, value in row.items()}


def _from_row(row: dict[str, Any]) -> EncodedBlock:
    arrays: dict[str, Any] = {name: np.frombuffer(row[name], kind) for name, kind in ARRAYS.items()}
    ids = np.frombuffer(row["ids"], f"<u{row['token_bytes']}")
    return EncodedBlock(ids=ids, digests=row["digests"], bytes_read=int(row["bytes_read"]), **arrays)
