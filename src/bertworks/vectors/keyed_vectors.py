"""gensim's KeyedVectors (`.kv`, and the `.model` of a Word2Vec), read and written without gensim and without its code.

gensim pickles its objects and puts large arrays beside them (`NAME.vectors.npy`). A pickle can name any function to be
called, so it is read here by an unpickler that knows a short list of names: classes of gensim become empty shells that
only hold what was stored, the functions that rebuild numpy arrays are allowed, and every other name is an error. No
code of the file's choosing ever runs. Arrays beside it are read with `allow_pickle=False`.

A `.kv` is written as gensim's load expects it (version 4): a pickled KeyedVectors whose vectors lie beside it.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.atomic import replacing, write_bytes
from bertworks.errors import DataError
from bertworks.vectors.words import WordVectors

SHELLS = ("gensim.", "numpy.random")  # modules whose names become shells
ALLOWED = {
    "_codecs": ("encode",),
    "builtins": ("object", "hash", "int", "float", "str", "list", "dict", "set", "frozenset", "bytearray"),
    "collections": ("OrderedDict", "defaultdict"),
    "copyreg": ("_reconstructor",),
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy.core.numeric": ("_frombuffer",),
    "numpy._core.numeric": ("_frombuffer",),
}
WORDS = ("index_to_key", "index2word")  # since version 4, and before
MATRIX = ("vectors", "syn0")


class Shell:
    """Stands for an object of gensim: holds its attributes and does nothing."""

    def __new__(cls, *arguments: Any, **named: Any) -> Shell:
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {})


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(SHELLS):
            return Shell
        if name in ALLOWED.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no word vectors need")


def load(path: Path) -> WordVectors:
    """Read a `.kv`, or the vectors of a `.model`."""
    try:
        with path.open("rb") as file:
            stored = _Unpickler(file).load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"cannot be read as gensim's KeyedVectors: {error}", path=path) from error
    beside = str(path)
    if isinstance(getattr(stored, "wv", None), Shell):  # a whole model
        stored, beside = stored.wv, f"{beside}.wv"
    state = vars(stored) if isinstance(stored, Shell) else {}
    words = next((state[name] for name in WORDS if name in state), None)
    if not isinstance(words, list):
        raise DataError("is a pickle, but not of gensim's KeyedVectors", path=path)
    matrix = _array(state, MATRIX, beside, path)
    if matrix.ndim != 2 or len(matrix) != len(words):
        raise DataError(f"has {len(words):,} words, but vectors of the shape {matrix.shape}", path=path)
    counts = (state.get("expandos") or {}).get("count")
    has_counts = (
        counts is not None and len(counts) == len(words) and np.issubdtype(np.asarray(counts).dtype, np.integer)
    )
    return WordVectors([str(word) for word in words], matrix, counts=counts if has_counts else None)


def _array(state: dict[str, Any], names: tuple[str, ...], beside: str, path: Path) -> np.ndarray:
    """An array by one of its names: in the pickle, or in the file beside it."""
    for name in names:
        if name in state.get("__numpys", ()):
            file = Path(f"{beside}.{name}.npy")
            try:
                return np.asarray(np.load(file, allow_pickle=False))
            except FileNotFoundError:
                raise DataError(f"its vectors lie in {file.name}, which is not there; copy both", path=path) from None
            except (OSError, ValueError) as error:
                raise DataError(f"is damaged or cut off ({error})", path=file) from error
        if isinstance(state.get(name), np.ndarray):
            return np.asarray(state[name])
    raise DataError("holds no vectors", path=path)


def save(vectors: WordVectors, path: Path) -> None:
    """Write a `.kv` and its `.vectors.npy`, which `gensim.models.KeyedVectors.load` opens."""
    state: dict[str, Any] = {
        "vector_size": vectors.dim,
        "index_to_key": vectors.words,
        "key_to_index": vectors.index,
        "next_index": len(vectors),
        "norms": None,
        "expandos": {} if vectors.counts is None else {"count": vectors.counts},
        "mapfile_path": None,
        "__numpys": ["vectors"],
        "__scipys": [],
        "__ignoreds": [],
        "__recursive_saveloads": [],
    }
    with replacing(path.with_name(f"{path.name}.vectors.npy")) as temporary, temporary.open("wb") as file:
        np.save(file, vectors.matrix, allow_pickle=False)
    # The state as Python pickles it, between the opcodes for "a new KeyedVectors" and "give it this state": gensim need
    # not be here for that. Protocol 3 has no frames around its parts.
    inner = pickle.dumps(state, protocol=3)
    new_object = b"cgensim.models.keyedvectors\nKeyedVectors\n)\x81"
    write_bytes(path, inner[:2] + new_object + inner[2:-1] + b"b" + b".")
