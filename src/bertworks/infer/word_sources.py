"""Sources of word vectors by name, opened: what a tagger over words can be given (`bertworks.tasks.word_inputs`).

    a file or a directory of static vectors      one vector per word, whatever stands around it (GloVe, word2vec …)
    a model directory, an alias, a Hub id        BERT-like, GPT or recurrent: every layer's vector of every word
    an ELMo or a character language model        every layer's vector of every word

Which it is, is told by what the name leads to. A source that a saved tagger was trained with must be the very same when the
tagger is opened again: it is known by a hash of its files. It is looked for where it was, beside the tagger, and in the
folders that the environment variable `BERTWORKS_VECTORS` names, so that taggers can be moved.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertworks import hub
from bertworks.errors import BertworksError, DataError, ModelError, did_you_mean_beside
from bertworks.infer.bilm import LoadedBiLM
from bertworks.infer.embed import embed_tokens
from bertworks.infer.layers import LayerChoice
from bertworks.infer.loaded import LoadedModel, load
from bertworks.models.transformer import Transformer
from bertworks.tasks.base import Task
from bertworks.tasks.word_classification import WordClassification
from bertworks.tasks.word_inputs import NamedSource, WordInputs
from bertworks.tasks.word_tagging import WordTagging
from bertworks.tasks.word_vectors import WordSource
from bertworks.text.encoding import Encoding
from bertworks.vectors.words import WordVectors

MODEL_FILES = ("config.json", "options.json")
"""A directory with one of these is a model."""
HASHED = (".safetensors", ".hdf5", ".bin", ".npy", ".npz", ".kv", ".txt", ".vec", ".tsv", ".gz", ".xz", ".json")
"""Files of a directory that decide its vectors, by how their names end."""
NOT_HASHED = ("metrics.json", "bertworks.json")
PLACES = "BERTWORKS_VECTORS"
"""The environment variable that names more folders in which sources are looked for."""
BLOCK = 2**20

Floats = NDArray[np.float32]
TaskT = TypeVar("TaskT", bound="Task[Any, Any]")


class StaticSource:
    """A table of words. A word that is not in it, as written or in small letters, is all zeros."""

    num_layers = 1

    def __init__(self, name: str, table: WordVectors) -> None:
        self.name, self.table = name, table

    @property
    def width(self) -> int:
        return int(self.table.matrix.shape[1])

    def coverage(self, sentences: Sequence[Sequence[str]]) -> float:
        """The share of the running words that have a vector."""
        counts = Counter(word for words in sentences for word in words)
        known = sum(count for word, count in counts.items() if self.table.find(word) is not None)
        return known / max(counts.total(), 1)

    def vectors(self, sentences: Sequence[Sequence[str]]) -> list[Floats]:
        """(1, words, width) each."""
        found = []
        for words in sentences:
            numbers = np.array([-1 if (n := self.table.find(word)) is None else n for word in words], np.int64)
            rows = self.table.matrix[numbers]
            rows[numbers < 0] = 0.0
            found.append(rows[None])
        return found


class EncoderSource:
    """A model that reads tokens. A word of several tokens has the mean of theirs; layer 0 are the embeddings where they
    are as wide as the rest."""

    def __init__(self, name: str, loaded: LoadedModel) -> None:
        self.name, self.loaded = name, loaded
        model = loaded.model
        first = 0 if isinstance(model.body, Transformer) else 1
        self._layers = LayerChoice(tuple(range(first, model.num_layers + 1)), "concat")

    @property
    def num_layers(self) -> int:
        return len(self._layers.layers)

    @property
    def width(self) -> int:
        return self.loaded.model.hidden_size

    def vectors(self, sentences: Sequence[Sequence[str]]) -> list[Floats]:
        """(num_layers, words, width) each."""
        runner = self.loaded.runner
        before = len(runner.prefix)
        encodings = self.loaded.tokenizer.encode_words_batch(sentences, special=False)
        arrays = embed_tokens(runner, encodings, layers=self._layers)
        found = []
        for encoding, rows in zip(encodings, arrays, strict=True):
            words = per_word(encoding, rows[before : before + len(encoding)])  # (words, layers * width)
            found.append(words.reshape(len(words), self.num_layers, self.width).swapaxes(0, 1))
        return found


def per_word(encoding: Encoding, vectors: Floats, *, first: bool = False) -> Floats:
    """Token vectors (tokens, …) of a sentence given as words -> one per word (words, …): the mean of its tokens', or the
    first one's."""
    starts = np.flatnonzero(np.diff(encoding.words, prepend=-1))  # words are in order, and each has a token
    if first or len(starts) == 0:
        return vectors[starts]
    counts = np.diff(starts, append=len(encoding))
    return (np.add.reduceat(vectors, starts, axis=0) / counts[:, None]).astype(np.float32)


# -- opening -----------------------------------------------------------------------------------------------------------


def open_source(name: str, *, device: str = "cpu") -> WordSource:
    """What a name leads to."""
    path = Path(name)
    if path.exists() and not _is_model(path):
        return StaticSource(name, WordVectors.load(path))
    loaded = load(name, device=device)
    return loaded if isinstance(loaded, LoadedBiLM) else EncoderSource(name, loaded)


def is_contextual(source: WordSource) -> bool:
    """Whether a word's vector depends on the words around it."""
    return not isinstance(source, StaticSource)


def named_source(name: str, *, last: bool = False) -> NamedSource:
    """How a source is written into settings: paths in full, since they are read from elsewhere later."""
    path = Path(name)
    full = str(path.resolve()) if path.exists() else name
    return NamedSource(name=full, sha256=fingerprint(name), last=last)


def fingerprint(name: str) -> str:
    """A hash of the files that decide a source's vectors."""
    if not (path := Path(name)).exists():
        if path.suffix in HASHED:
            raise DataError(f"no such file{did_you_mean_beside(path)}", path=name)
        path = hub.resolve(name)
    if path.is_file():
        beside = (file for file in path.parent.iterdir() if file.name.startswith(f"{path.name}."))
        files = [path, *sorted(file for file in beside if file.suffix == ".npy")]  # where gensim puts large arrays
    else:
        kept = (file for file in path.iterdir() if file.suffix in HASHED and file.name not in NOT_HASHED)
        files = sorted(file for file in kept if file.is_file())
    digest = hashlib.sha256()
    for file in files:
        if path.is_dir():
            digest.update(file.name.encode() + b"\0")
        with file.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()


def open_inputs(
    inputs: WordInputs, *, device: str = "cpu", cache: Path | None = None, directory: Path | None = None
) -> WordInputs:
    """The same with its sources open; an error where one is not what it was. `directory` is the model's own."""
    sources = []
    for named in inputs.named:
        try:
            place, found = _found(named, directory)
            sources.append(open_source(place, device=device))
        except (BertworksError, OSError) as error:
            if directory is None:  # of a model that is only being made
                raise
            raise ModelError(
                f"this model reads word vectors from {named.name}, which cannot be opened: {error}; if they have moved, put "
                f"them into the model's directory, or name their folder in the environment variable {PLACES}"
            ) from error
        if found != named.sha256:
            raise ModelError(
                f"this model was trained with other word vectors than {place} holds now (SHA-256 {named.sha256[:12]}…, "
                f"there {found[:12]}…); bring the old ones back, or train the model again"
            )
    return replace(inputs, sources=tuple(sources), cache=cache)


def _found(named: NamedSource, directory: Path | None) -> tuple[str, str]:
    """Where a source is now, and the hash of what is there: a place with the right content, else where it was."""
    folders = [Path(folder) for folder in os.environ.get(PLACES, "").split(os.pathsep) if folder]
    for folder in folders if directory is None else [directory, *folders]:
        moved = folder / Path(named.name).name
        if moved.exists() and fingerprint(str(moved)) == named.sha256:
            return str(moved), named.sha256
    return named.name, fingerprint(named.name)


def opened(task: TaskT, *, device: str = "cpu", directory: Path | None = None) -> TaskT:
    """A task with the sources of its word vectors open; one that has none as it is. `directory` is its model's."""
    if isinstance(task, WordTagging | WordClassification):
        return replace(task, inputs=open_inputs(task.inputs, device=device, directory=directory))
    return task


def _is_model(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in MODEL_FILES)
