"""Search by meaning: which of many texts are nearest to a question, by the cosine of their vectors.

    DIR/search.json     model, number of texts, kind of index, and how much of the truth it finds
    DIR/vectors.npy     (n, W) float32, each of length 1
    DIR/texts.arrow     the texts
    DIR/graph.usearch   for many texts: a graph of neighbours

Up to some ten thousand texts all vectors are compared, which takes a few milliseconds and is exact. Beyond that a graph of
neighbours (HNSW, Malkov and Yashunin 2018) is walked instead; what it finds is scored again with the vectors themselves,
so scores are exact either way, and what it misses is measured when it is built: recall@10, the share of the ten nearest
that it finds, over some of the texts as questions.

Files are mapped into memory, not read: an index opens at once, however large it is.

Legend: n texts, W width of a vector, Q questions, K results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import CheckpointError, UsageError
from bertworks.hub.files import read_object
from bertworks.infer.embed import normalize_rows
from bertworks.infer.loaded import LoadedModel, load, strings
from bertworks.infer.search_files import GRAPH, MANIFEST, TEXTS, VECTORS, VERSION

if TYPE_CHECKING:
    import pyarrow

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]

KINDS = ("exact", "usearch")
ROWS_AT_ONCE = 16_384
EXPANSION = 128
"""How many candidates a walk through the graph keeps; more find more and take longer."""
NUMBERS_AT_ONCE = 2**23
"""How many numbers a block of questions may need: many questions at once take no more memory than some."""
SAME_MODEL = 0.98
"""The least mean cosine between some texts' vectors in the index and now, if the model is still that of the index. int8
turns vectors a little; those of another model have nothing to do with each other."""
COMPARED_TEXTS = 8


@dataclass(frozen=True)
class Hit:
    """A text that was found."""

    row: int
    """Its number in the file, from 0."""
    score: float
    """The cosine of its vector and the question's."""
    text: str


@dataclass(frozen=True, kw_only=True)
class SearchFacts:
    """What `search.json` says."""

    model: str
    rows: int
    width: int
    index: str
    """exact or usearch"""
    recall: float
    """recall@10 against comparing all vectors; 1 where that is what is done"""
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class SearchIndex:
    """An index, opened. The model is loaded with the first question that is a text."""

    def __init__(
        self, directory: str | Path, *, model: str | Path | LoadedModel | None = None, device: str = "cpu"
    ) -> None:
        """model: where it is not found any more under the name that the index remembers."""
        self.directory = Path(directory)
        self.facts = read_facts(self.directory)
        self._named = model or self.facts.model
        self._model: LoadedModel | None = None
        self._device = device
        self.vectors = _open_vectors(self.directory / VECTORS)  # (n, W)
        self._texts = _open_texts(self.directory / TEXTS)
        self._graph = open_graph(self.directory / GRAPH, self.facts.width) if self.facts.index == "usearch" else None
        rows, width = self.facts.rows, self.facts.width
        sizes = {VECTORS: self.vectors.shape == (rows, width), TEXTS: len(self._texts) == rows}
        sizes[GRAPH] = self._graph is None or (len(self._graph), self._graph.ndim) == (rows, width)
        for name, fits in sizes.items():
            if not fits:
                raise CheckpointError(
                    f"{self.directory / name} does not belong to the {MANIFEST} beside it, which says {rows:,} texts and "
                    f"vectors of width {width}; build the index again"
                )

    def __len__(self) -> int:
        return self.facts.rows

    def text(self, row: int) -> str:
        """The text with that number."""
        return str(self._texts[row].as_py())

    @property
    def model(self) -> LoadedModel:
        """The model of the index; an error where it is another one, whose vectors mean nothing here."""
        if self._model is None:
            named = self._named
            loaded = named if isinstance(named, LoadedModel) else load(named, device=self._device)
            if self.agreement(loaded) < SAME_MODEL:
                raise UsageError(
                    f"the model {(loaded.directory or 'given') if loaded is named else named} is not the one that "
                    f"{self.directory} was built with ({self.facts.model}): its vectors of the same texts are others; "
                    "give that model, or build the index again"
                )
            self._model = loaded
        return self._model

    def agreement(self, model: LoadedModel) -> float:
        """The mean cosine of some texts' vectors in the index and the model's: 1 for the model of the index."""
        rows = np.unique(np.linspace(0, self.facts.rows - 1, COMPARED_TEXTS).astype(np.int64))
        again = normalize_rows(np.asarray(model.embed([self.text(row) for row in rows])))
        if again.shape[1] != self.facts.width:
            return 0.0
        return float(np.einsum("nw,nw->n", again, self.vectors[rows]).mean())

    def search(self, questions: str | Sequence[str], k: int = 10, *, exact: bool = False) -> Any:
        """The k nearest texts, the nearest first: a list of hits for one question, a list of lists for several.

        exact: compare all vectors, whatever the index
        """
        vectors = np.asarray(self.model.embed(strings(questions)))
        rows, scores = self.search_vectors(vectors, k, exact=exact)
        found = [
            [Hit(row, score, self.text(row)) for row, score in zip(*pair, strict=True) if row >= 0]
            for pair in zip(rows.tolist(), scores.tolist(), strict=True)
        ]
        return found[0] if isinstance(questions, str) else found

    def search_vectors(self, vectors: Vectors, k: int = 10, *, exact: bool = False) -> tuple[Numbers, Vectors]:
        """(Q, W) -> numbers of the texts (Q, K), and their cosines (Q, K); K is k, or as many texts as there are."""
        if k < 1:
            raise UsageError(f"k is {k}; it must be at least 1")
        if vectors.ndim != 2 or vectors.shape[1] != self.facts.width:
            raise UsageError(
                f"the questions have the shape {vectors.shape}; it must be (questions, {self.facts.width})"
            )
        questions = normalize_rows(vectors.astype(np.float32))
        k = min(k, self.facts.rows)
        graph = None if exact else self._graph
        found = []
        size = questions_at_once(k, self.facts.width)
        for start in range(0, max(len(questions), 1), size):
            block = questions[start : start + size]
            found.append(
                nearest(self.vectors, block, k) if graph is None else through_graph(graph, self.vectors, block, k)
            )
        rows, scores = zip(*found, strict=True)
        return np.concatenate(rows), np.concatenate(scores)


def read_facts(directory: Path) -> SearchFacts:
    """What an index says of itself."""
    path = directory / MANIFEST
    if not path.exists():
        raise CheckpointError(
            f"{directory} is not a search index; make one: bertworks search build FILE -o {directory}"
        )
    content = read_object(path)
    if content.get("version") != VERSION:
        raise CheckpointError(f"{path} has the version {content.get('version')!r}; this Bertworks reads {VERSION}")
    kinds = {"model": str, "rows": int, "width": int, "index": str, "recall": int | float}
    for name, kind in kinds.items():
        if not isinstance(content.get(name), kind) or (kind is int and content[name] < 1):
            raise CheckpointError(f"{path} has {name} = {content.get(name)!r}; build the index again")
    if content["index"] not in KINDS:
        raise CheckpointError(f"{path} has the index {content['index']!r}; this Bertworks knows {', '.join(KINDS)}")
    return SearchFacts(**{name: content[name] for name in kinds})


# -- comparing all ------------------------------------------------------------------------------------------------------


def nearest(vectors: Vectors, questions: Vectors, k: int) -> tuple[Numbers, Vectors]:
    """The k rows of (n, W) with the largest products with each of (Q, W): numbers and products, (Q, k) each."""
    rows = np.zeros((len(questions), 0), np.int64)
    scores = np.zeros((len(questions), 0), np.float32)
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        products = questions @ np.asarray(vectors[start : start + ROWS_AT_ONCE]).T  # (Q, rows of the block)
        kept = np.argpartition(-products, min(k, products.shape[1]) - 1, axis=1)[:, :k]
        rows = np.concatenate([rows, kept + start], axis=1)
        scores = np.concatenate([scores, np.take_along_axis(products, kept, 1)], axis=1)
        rows, scores = _best(rows, scores, k)
    return rows, scores


def questions_at_once(k: int, width: int) -> int:
    """How many questions to compare at once: what they need is a block of products, or the vectors of what is found."""
    return max(1, NUMBERS_AT_ONCE // max(ROWS_AT_ONCE, wanted_of(k) * width))


def wanted_of(k: int) -> int:
    """How many texts a graph is asked for, to have the k best among them."""
    return max(2 * k, k + 10)


def _best(rows: Numbers, scores: Vectors, k: int) -> tuple[Numbers, Vectors]:
    """The k best of each row, the best first; of equal ones the text that comes first."""
    order = np.lexsort((rows, -scores), axis=1)[:, :k]
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)


# -- walking through a graph --------------------------------------------------------------------------------------------


def has_usearch() -> bool:
    """Whether the library of the graph is installed."""
    try:
        import usearch.index  # noqa: F401
    except ImportError:
        return False
    return True


def new_graph(width: int) -> Any:
    """An empty graph of neighbours; it holds its vectors in half precision, since results are scored again."""
    from usearch.index import Index

    return Index(ndim=width, metric="ip", dtype="f16", connectivity=16, expansion_add=128, expansion_search=EXPANSION)


def open_graph(path: Path, width: int) -> Any:
    """A graph that was saved, mapped into memory."""
    if not has_usearch():
        raise UsageError("this index is a graph, for which usearch is not installed; pip install 'bertworks[index]'")
    graph = new_graph(width)
    try:
        graph.view(str(path))
    except Exception as error:  # the library has no class of its own for them
        raise CheckpointError(f"{path} cannot be read ({error}); build the index again") from error
    return graph


def through_graph(graph: Any, vectors: Vectors, questions: Vectors, k: int) -> tuple[Numbers, Vectors]:
    """As `nearest`, but among what a walk through the graph meets; number -1 where it meets fewer than k."""
    wanted = min(len(vectors), wanted_of(k))
    matches = graph.search(questions, wanted)
    found = np.asarray(matches.keys, np.int64).reshape(len(questions), -1)
    counts = np.asarray(getattr(matches, "counts", [found.shape[1]])).reshape(-1)  # a walk may meet fewer
    keys = np.zeros((len(questions), wanted), np.int64)
    keys[:, : found.shape[1]] = found
    there = np.arange(wanted) < counts[:, None]  # (Q, wanted)
    keys[~there] = 0
    scores = np.einsum("qw,qkw->qk", questions, np.asarray(vectors[keys]), dtype=np.float32)
    return _best(np.where(there, keys, -1), np.where(there, scores, -np.inf).astype(np.float32), k)


def recall(found: Numbers, wanted: Numbers) -> float:
    """The share of `wanted` (Q, K) that is in `found` (Q, …), row by row; 1 where nothing is wanted."""
    hits = [len(np.intersect1d(one, other)) for one, other in zip(found, wanted, strict=True)]
    return float(sum(hits) / wanted.size) if wanted.size else 1.0


def measured_recall(graph: Any, vectors: Vectors, *, k: int = 10, questions: int = 256) -> float:
    """recall@k of the graph, with some of the texts as questions, each without itself."""
    generator = np.random.default_rng(0)
    chosen = np.sort(generator.choice(len(vectors), min(questions, len(vectors)), replace=False))
    asked = np.asarray(vectors[chosen])
    exact, _ = nearest(vectors, asked, min(k + 1, len(vectors)))
    found, _ = through_graph(graph, vectors, asked, min(k + 1, len(vectors)))

    def others(rows: Numbers) -> Numbers:
        return np.stack([row[row != own][: len(row) - 1] for row, own in zip(rows, chosen, strict=True)])

    return recall(found, others(exact))


def _open_vectors(path: Path) -> Vectors:
    try:
        vectors: Vectors = np.lib.format.open_memmap(path, mode="r")
        if vectors.dtype != np.float32:
            raise ValueError(f"it holds {vectors.dtype}, not float32")
    except (OSError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); build the index again") from error
    return vectors


def _open_texts(path: Path) -> pyarrow.ChunkedArray:
    import pyarrow

    try:
        return pyarrow.ipc.open_file(pyarrow.memory_map(str(path))).read_all().column("text")
    except (OSError, KeyError, pyarrow.ArrowInvalid) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); build the index again") from error


def batched(items: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of at most `size` items."""
    batch: list[str] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
