"""A file of texts, embedded on a cluster, with the results in the order of the texts: what writes one output file.

    one task reads the file, chunk by chunk  ->  workers embed whole chunks, any of them any chunk  ->  here, in order

The chunks are those of a run without Ray, so the output is the same to the last bit, and an output that one began the
other can finish. One reader is enough: it reads a chunk in a moment, and a worker takes seconds to embed it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.readers import CHUNK_CHARACTERS, CHUNK_ROWS, TextReader
from bertworks.data.source import STANDARD_INPUT
from bertworks.errors import BertworksError, UsageError
from bertworks.ray.cluster import connect, in_order, unless_error
from bertworks.ray.operators import load_model, model_path, worker_options

if TYPE_CHECKING:
    from bertworks.infer.loaded import LoadedModel

ONE_ROW = 1
"""In bytes, the size beyond which a block is split: every chunk becomes a block of its own, which any worker can take."""


@dataclass(frozen=True, kw_only=True)
class EmbeddedChunk:
    """The next texts and their vectors."""

    texts: list[str]
    vectors: NDArray[np.float32]
    """(rows, width)"""
    windowed: int
    """How many of the texts were longer than the model's window."""
    bytes_read: int | None
    """How far the file had been read with the last of them."""


def embed_file(
    path: str | Path,
    *,
    model: str | Path = "minilm",
    reading: Mapping[str, Any] | None = None,
    skip: int = 0,
    chunk_rows: int = CHUNK_ROWS,
    chunk_characters: int = CHUNK_CHARACTERS,
    layers: str | int = "last",
    pooling: str | None = None,
    normalize: bool | None = None,
    precision: str | None = None,
    batch_tokens: int | None = None,
    workers: int | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> Iterator[EmbeddedChunk]:
    """The vectors of a file's texts from number `skip` on, chunk by chunk, in order.

    reading  what `TextReader` must be told about the file
    """
    if str(path) == STANDARD_INPUT:
        raise UsageError("standard input (-) cannot be read by a cluster; give a file")
    connect()
    import ray.data

    asked = {
        "path": str(Path(path).absolute()),
        "reading": dict(reading or {}),
        "skip": skip,
        "rows": chunk_rows,
        "characters": chunk_characters,
    }
    settings = {
        "model": model_path(model),
        "layers": layers,
        "pooling": pooling,
        "normalize": normalize,
        "precision": precision,
        "batch_tokens": batch_tokens,
        "threads": threads,
        "device": device,
        "num_bytes": Path(path).stat().st_size if Path(path).exists() else None,
    }
    warnings.filterwarnings("ignore", "The minimum number of concurrent actors")  # a short file keeps one of them busy
    with in_order(block_bytes=ONE_ROW):
        file: Any = ray.data.from_items([{"file": 0}])
        # Without a processor of its own the reader never waits for one; it also keeps the two steps apart.
        chunks = file.map_batches(_read, batch_size=1, num_cpus=0, fn_kwargs={"asked": asked})
        embedded = chunks.map_batches(
            ChunkWorker,
            fn_constructor_kwargs={"settings": settings},
            batch_size=1,
            **worker_options(workers, threads, device),
        )
        for row in embedded.iter_rows():
            unless_error(row)
            texts = [str(text) for text in row["texts"]]
            vectors = np.frombuffer(row["vectors"], "<f4").reshape(len(texts), -1)
            yield EmbeddedChunk(
                texts=texts,
                vectors=vectors,
                windowed=int(row["windowed"]),
                bytes_read=None if row["bytes_read"] < 0 else int(row["bytes_read"]),
            )


# --- in the tasks -----------------------------------------------------------------------------------------------------


def _read(batch: dict[str, Any], asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row for each chunk, as the file is read; or one with what is wrong with it."""
    try:
        with TextReader(asked["path"], **asked["reading"]) as reader:
            for texts in reader.chunks(rows=asked["rows"], characters=asked["characters"], skip=asked["skip"]):
                far = -1 if reader.bytes_read is None else reader.bytes_read
                yield {"texts": [texts], "bytes_read": [far], "error": [""]}
    except BertworksError as error:
        yield {"texts": [[""]], "bytes_read": [-1], "error": [str(error)]}


class ChunkWorker:
    """Holds a model; called with a chunk, gives its vectors."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from bertworks.infer.few_rows import settle_few_rows

        settle_few_rows(settings["num_bytes"])  # as a run without Ray does: results are equal to the last bit
        self.settings = settings
        self.model: LoadedModel | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A mistake of the user's comes back as a row, since an error here would be Ray's, with a traceback."""
        try:
            if not batch["error"][0]:
                return {**batch, **self._embed([str(text) for text in batch["texts"][0]])}
        except BertworksError as error:
            batch = {**batch, "error": [str(error)]}
        return {**batch, "vectors": [b""], "windowed": [0]}

    def _embed(self, texts: list[str]) -> dict[str, Any]:
        from bertworks.infer.embed import EmbedReport

        self.model = self.model or load_model(self.settings)
        report = EmbedReport()
        vectors = self.model.embed(
            texts,
            layers=self.settings["layers"],
            pooling=self.settings["pooling"],
            normalize=self.settings["normalize"],
            report=report,
        )
        return {"vectors": [vectors.astype("<f4").tobytes()], "windowed": [report.windowed]}
