"""Building a search index: texts and vectors, chunk by chunk, into files; then a graph, where they are many.

A build can be stopped at any moment: chunks that are embedded stay (`data.outputs`) until the index is whole, and the same
build continues after them. `search.json` is written last: a directory without it is no index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.atomic import replacing
from bertworks.data.outputs import ResumableOutput
from bertworks.data.writers import Rows
from bertworks.errors import DataError, UsageError, choice
from bertworks.hub.files import write_json, writing
from bertworks.infer.embed import normalize_rows
from bertworks.infer.loaded import LoadedModel, load, strings
from bertworks.infer.search import KINDS, SearchFacts, SearchIndex, batched, has_usearch, measured_recall, new_graph
from bertworks.infer.search_files import EMBEDDED, GRAPH, MANIFEST, TEXTS, VECTORS

INDEXES = ("auto", *KINDS)
EXACT_BELOW = 20_000
"""With fewer texts, comparing all is about as quick as a graph; measured with vectors of 384 numbers in one thread."""
CHUNK_TEXTS = 1024
GRAPH_ROWS = 4096

Progress = Callable[[str, float], None]
"""Called with what is being done and how much of it is done, 0 to 1."""


class SearchBuild:
    """An index in the making; a context manager.

    settings: what decides the vectors (file, model); builds with equal settings may continue one another
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        model: str,
        settings: Mapping[str, Any],
        index: str = "auto",
        restart: bool = False,
        resumable: bool = True,
    ) -> None:
        choice(index, INDEXES, "index")
        if index == "usearch" and not has_usearch():
            raise UsageError("usearch is not installed; pip install 'bertworks[index]', or use --index exact")
        self.directory = Path(directory)
        self.model = model
        self.index = index
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        self.output = ResumableOutput(
            self.directory / EMBEDDED, "vector", settings, restart=restart, resumable=resumable
        )

    @property
    def rows(self) -> int:
        """How many texts are embedded, those of earlier runs included."""
        return self.output.rows

    def append(self, texts: list[str], vectors: np.ndarray) -> None:
        """Add the next texts with their vectors; when this returns, they are on the disk for good."""
        self.output.append(Rows(start=self.rows, texts=texts, vectors=normalize_rows(vectors)))

    def finish(self, progress: Progress | None = None) -> SearchIndex:
        """Write the index."""
        tell = progress or (lambda what, done: None)
        if not self.rows:
            raise DataError("there are no texts to search in")
        rows, width = self.rows, self.output.width
        self.output.join()
        embedded = self.directory / EMBEDDED
        with writing(self.directory):
            (self.directory / MANIFEST).unlink(missing_ok=True)  # until everything is whole again
            _split(embedded, self.directory, rows, width)
            embedded.unlink()
            vectors = np.load(self.directory / VECTORS, mmap_mode="r")
            graph_path = self.directory / GRAPH
            graph_path.unlink(missing_ok=True)
            found = 1.0
            by_graph = self.index == "usearch" or (self.index == "auto" and rows >= EXACT_BELOW and has_usearch())
            if by_graph:
                graph = new_graph(width)
                for start in range(0, rows, GRAPH_ROWS):
                    block = np.asarray(vectors[start : start + GRAPH_ROWS])
                    graph.add(np.arange(start, start + len(block)), block)
                    tell("graph", (start + len(block)) / rows)
                with replacing(graph_path) as temporary:
                    graph.save(str(temporary))
                tell("recall", 0.0)
                found = measured_recall(graph, vectors)
            facts = SearchFacts(
                model=self.model, rows=rows, width=width, index="usearch" if by_graph else "exact", recall=found
            )
            write_json(self.directory / MANIFEST, facts.as_json())
        self.output.discard()
        return SearchIndex(self.directory)

    def __enter__(self) -> SearchBuild:
        return self

    def __exit__(self, *error: object) -> None:
        self.output.close()


def build_index(
    texts: Iterable[str],
    directory: str | Path,
    *,
    model: str | Path | LoadedModel = "minilm",
    index: str = "auto",
    device: str = "cpu",
    progress: Progress | None = None,
) -> SearchIndex:
    """An index over texts in memory, or from a generator. For a file, `bertworks search build` can be stopped.

    index  exact: compare all vectors; usearch: a graph of neighbours; auto: what their number asks for
    """
    named = model.directory if isinstance(model, LoadedModel) else model
    if named is None:
        raise UsageError("this model is in memory only, where no question would find it again; save it and load it")
    loaded = model if isinstance(model, LoadedModel) else load(model, device=device)
    name = model_name(named)
    with SearchBuild(directory, model=name, settings={}, index=index, restart=True, resumable=False) as build:
        for chunk in batched(texts, CHUNK_TEXTS):
            build.append(chunk, np.asarray(loaded.embed(strings(chunk))))
        found = build.finish(progress)
    return SearchIndex(found.directory, model=loaded)


def is_whole(directory: Path) -> bool:
    """Whether there is a finished index, and none in the making that would replace it."""
    return (directory / MANIFEST).exists() and not any(directory.glob(f"{EMBEDDED}*"))


def model_name(model: str | Path) -> str:
    """The name under which a question finds the model again, from whatever directory it is asked."""
    return str(Path(model).absolute()) if Path(model).is_dir() else str(model)


def _split(embedded: Path, directory: Path, rows: int, width: int) -> None:
    """One table of texts and vectors -> a matrix and a list of texts, both of which can be mapped into memory."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([("text", pyarrow.large_string())])
    with replacing(directory / VECTORS) as vector_path, replacing(directory / TEXTS) as text_path:
        vectors = np.lib.format.open_memmap(vector_path, mode="w+", dtype=np.float32, shape=(rows, width))
        start = 0
        with pyarrow.OSFile(str(text_path), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as writer:
            for batch in pyarrow.parquet.ParquetFile(embedded).iter_batches(GRAPH_ROWS, columns=["text", "vector"]):
                flat = batch.column("vector").flatten().to_numpy()
                vectors[start : start + len(batch)] = flat.reshape(len(batch), width)
                start += len(batch)
                writer.write_batch(
                    pyarrow.record_batch([batch.column("text").cast(pyarrow.large_string())], schema=schema)
                )
        vectors.flush()
        del vectors
