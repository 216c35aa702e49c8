"""Word vectors in files: ours, word2vec's text and binary, GloVe's text, and gensim's KeyedVectors.

    directory          vectors.safetensors (`vectors`, and `deviations` where there is a posterior) and words.tsv (word,
                       count): what `bertworks vectors train` writes
    word2vec           a line `V D`, then a line per word: the word and D numbers (also fastText's .vec)
    word2vec-binary    a line `V D`, then per word: the word, a space, D little-endian float32
    glove              as word2vec without the first line; D is that of the first row
    gensim             see `keyed_vectors`

What a file is, it tells itself; compressed files (.gz, .xz) are read as they are, and written where the name says so. A row
that does not fit is an error with file and line, and nothing is written before all of it is known to fit. A word that is
there twice keeps its first vector, as in gensim. Text is written with as many digits as bring every number back.
"""

from __future__ import annotations

import gzip
import itertools
import logging
import lzma
import mmap
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from bertworks.atomic import replacing
from bertworks.data.source import Source, compression_of, extension_of
from bertworks.errors import DataError, OutputError, choice
from bertworks.vectors import keyed_vectors
from bertworks.vectors.words import WordVectors

TENSORS, WORDS = "vectors.safetensors", "words.tsv"
FORMATS = ("directory", "word2vec", "word2vec-binary", "glove", "gensim")
BY_SUFFIX = {".bin": "word2vec-binary", ".kv": "gensim", ".txt": "word2vec", ".vec": "word2vec", "": "directory"}
BLOCK_ROWS = 4096  # written at once
FIRST_BYTES = 1 << 20  # enough to tell the format
FASTTEXT_MAGIC = b"\xba\x16\x4f\x2f"
PICKLE = b"\x80"

logger = logging.getLogger(__name__)


def load(path: Path) -> WordVectors:
    """Read vectors in any format."""
    vectors = _load(path)
    if not len(vectors):
        raise DataError("holds no vectors", path=path)
    return vectors


def _load(path: Path) -> WordVectors:
    if path.is_dir():
        return _load_directory(path)
    kind = _kind_of(path)
    if kind == "gensim":
        return keyed_vectors.load(path)
    return _load_binary(path) if kind == "word2vec-binary" else _load_text(path, header=kind == "word2vec")


def save(vectors: WordVectors, path: Path, kind: str | None = None) -> None:
    """Write vectors; without `kind` the name decides."""
    if kind is None:
        suffix = extension_of(path)
        if suffix not in BY_SUFFIX:
            known = ", ".join(suffix for suffix in BY_SUFFIX if suffix)
            raise OutputError(f"{path}: what format is {suffix!r}? Known: {known}, a directory; or name one")
        kind = BY_SUFFIX[suffix]
    choice(kind, FORMATS, "format of vectors")
    if kind in ("directory", "gensim") and (compression := compression_of(path)):
        raise OutputError(f"{path}: vectors of the format {kind} are not written in {compression}; leave that out")
    writers: dict[str, Callable[[WordVectors, Path], None]] = {
        "directory": _save_directory,
        "word2vec": lambda vectors, path: _save_text(vectors, path, header=True),
        "word2vec-binary": _save_binary,
        "glove": lambda vectors, path: _save_text(vectors, path, header=False),
        "gensim": keyed_vectors.save,
    }
    try:
        writers[kind](vectors, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


# --- which format ----------------------------------------------------------------------------------------------------


def _kind_of(path: Path) -> str:
    with closing(Source(path)) as source:
        begin = source.read(FIRST_BYTES)
    if not begin:
        raise DataError("is empty; it should hold word vectors", path=path)
    if begin.startswith(FASTTEXT_MAGIC):
        raise DataError("is a fastText model; give the .vec file that lies beside it", path=path)
    if begin.startswith(PICKLE):
        return "gensim"
    first, _, rest = begin.partition(b"\n")
    sizes = first.split()
    if len(sizes) != 2 or not (sizes[0].isdigit() and sizes[1].isdigit()):
        return "glove"
    if not int(sizes[1]):
        raise DataError("says that vectors have 0 numbers", path=path, line=1)
    row = rest.partition(b"\n")[0]
    is_text = not rest or _are_numbers(row.split()[1:])
    return "word2vec" if is_text else "word2vec-binary"


def _are_numbers(fields: list[bytes]) -> bool:
    """Whether this is a row of text, right or broken; the bytes of a binary row are neither numbers nor text."""
    try:
        text = b" ".join(fields).decode()
    except UnicodeDecodeError:
        return False
    return bool(fields) and all(character.isprintable() for character in text)


# --- the directory ----------------------------------------------------------------------------------------------------


def _load_directory(path: Path) -> WordVectors:
    for name in (TENSORS, WORDS):
        if not (path / name).is_file():
            raise DataError(f"is a directory without {name}; give one that `bertworks vectors train` made", path=path)
    try:
        tensors = load_file(path / TENSORS)
    except (SafetensorError, OSError) as error:
        raise DataError(f"is damaged or cut off ({error})", path=path / TENSORS) from error
    words: list[str] = []
    counts = array("q")
    source = Source(path / WORDS)
    for line, text in source.lines():
        word, tab, count = text.rstrip("\n").partition("\t")
        if not word or (tab and not count.isdigit()):
            raise DataError(f"is not a word and its count ({text!r:.40})", path=path / WORDS, line=line)
        words.append(word)
        counts.extend([int(count)] if tab else [])
    source.close()
    matrix = tensors.get("vectors")
    if matrix is None or matrix.ndim != 2 or len(matrix) != len(words):
        shape = "no tensor `vectors`" if matrix is None else f"vectors of the shape {matrix.shape}"
        raise DataError(f"holds {shape}, but {WORDS} has {len(words):,} words", path=path / TENSORS)
    known = np.frombuffer(counts, np.int64) if len(counts) == len(words) and words else None
    return WordVectors(words, matrix, counts=known, deviations=tensors.get("deviations"))


def _save_directory(vectors: WordVectors, path: Path) -> None:
    for word in vectors.words:
        if not word or "\t" in word or "\n" in word:
            raise OutputError(f"the word {word!r} cannot be written to {WORDS}: it is empty or holds a tab or line end")
    path.mkdir(parents=True, exist_ok=True)
    tensors = {"vectors": vectors.matrix}
    if vectors.deviations is not None:
        tensors["deviations"] = vectors.deviations
    with replacing(path / TENSORS) as temporary:
        save_file(tensors, temporary)
    counts = [""] * len(vectors) if vectors.counts is None else [f"\t{count}" for count in vectors.counts]
    with replacing(path / WORDS) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}{count}\n" for word, count in zip(vectors.words, counts, strict=True))


# --- text -------------------------------------------------------------------------------------------------------------


def _load_text(path: Path, *, header: bool) -> WordVectors:
    """word2vec's text, or GloVe's. Words may hold spaces (some of GloVe's do): the last D fields are the numbers."""
    words: dict[str, None] = {}
    numbers, lines = array("f"), array("q")
    expected = dim = None
    repeated = rows = 0
    source = Source(path)
    try:
        for line, text in source.lines():
            fields = text.rstrip("\r\n\t ").replace("\t", " ").split(" ")
            if header and line == 1:
                expected, dim = int(fields[0]), int(fields[1])
                continue
            if fields == [""]:
                continue
            if dim is None:
                dim = sum(1 for _ in itertools.takewhile(_is_number, reversed(fields[1:])))
                if not dim:
                    message = f"does not end with numbers ({text!r:.40}); is it a file of vectors?"
                    raise DataError(message, path=path, line=line)
            rows += 1
            if len(fields) <= dim or (len(fields) > dim + 1 and _is_number(fields[-dim - 1])):
                says = "the first line says" if header else "the first row has"
                raise DataError(f"has {len(fields) - 1} numbers, not {dim} as {says}", path=path, line=line)
            word = " ".join(fields[:-dim])
            if not word:
                raise DataError("has numbers without a word", path=path, line=line)
            try:
                values = list(map(float, fields[-dim:]))
            except ValueError:
                bad = next(field for field in fields[-dim:] if not _is_number(field))
                raise DataError(f"has {bad!r:.40} where a number should be", path=path, line=line) from None
            if word in words:
                repeated += 1
                continue
            words[word] = None
            numbers.extend(values)
            lines.append(line)
    finally:
        source.close()
    if expected is not None and rows != expected:
        how = "it was cut off" if rows < expected else "the first line is wrong"
        words_said = f"{expected:,} word{'' if expected == 1 else 's'}"
        message = f"the first line says {words_said}, but there are {rows:,}: {how}"
        raise DataError(message, path=path, line=1)
    if repeated:
        logger.warning("%s: words that are there more than once: %d; the first vector of each is kept", path, repeated)
    matrix = np.frombuffer(numbers, np.float32).reshape(len(words), dim or 0)
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(1))[0])
        raise DataError("has a number that is not finite", path=path, line=lines[row])
    return WordVectors(list(words), matrix)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _save_text(vectors: WordVectors, path: Path, *, header: bool) -> None:
    _check_words(vectors.words, " \t\n" if header else "\t\n", path)
    if not header:  # the numbers begin where the last word ends
        _check_words([word for word in vectors.words if " " in word and _is_number(word.rpartition(" ")[2])], " ", path)
    with _writing(path) as file:
        if header:
            file.write(f"{len(vectors)} {vectors.dim}\n".encode())
        for word, row in zip(vectors.words, _rows_of_text(vectors.matrix), strict=True):
            file.write(f"{word} {row}\n".encode())


@contextmanager
def _writing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name when all of it is there, compressed where the name says so."""
    openers: dict[str, Callable[[Path, Literal["wb"]], Any]] = {".gz": gzip.open, ".xz": lzma.open, "": Path.open}
    with replacing(path) as temporary, openers[compression_of(path)](temporary, "wb") as file:
        yield file


def _rows_of_text(matrix: NDArray[np.float32]) -> Iterator[str]:
    for start in range(0, len(matrix), BLOCK_ROWS):
        yield from map(" ".join, matrix[start : start + BLOCK_ROWS].astype(str))  # the shortest digits that come back


def _check_words(words: list[str], forbidden: str, path: Path) -> None:
    for word in words:
        if not word or any(character in word for character in forbidden):
            raise OutputError(
                f"cannot write {path}: this format has no way to spell the word {word!r}; "
                "a directory or a .kv file has one"
            )


# --- binary -----------------------------------------------------------------------------------------------------------


def _load_binary(path: Path) -> WordVectors:
    if compression_of(path):
        with closing(Source(path)) as source:
            return _parsed_binary(source.read(), path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _parsed_binary(content, path)


def _parsed_binary(content: bytes | mmap.mmap, path: Path) -> WordVectors:
    place = content.find(b"\n") + 1
    count, dim = map(int, content[:place].split())
    size = 4 * dim
    if count * (size + 2) > len(content):
        message = (
            f"the first line says {count:,} words of {dim} numbers, which needs more than its {len(content):,} bytes"
        )
        raise DataError(f"{message}: it was cut off, or is not word2vec's binary format", path=path)
    words: dict[str, None] = {}
    matrix = np.empty((count, dim), np.float32)
    for number in range(count):
        end = content.find(b" ", place)
        if end < 0 or end + 1 + size > len(content):
            raise DataError(f"ends within word {number + 1:,} of {count:,} (byte {place:,}): it was cut off", path=path)
        try:
            word = content[place:end].lstrip(b"\n").decode()  # the original program ends each vector with a line end
        except UnicodeDecodeError:
            message = f"word {number + 1:,} (byte {place:,}) is not valid UTF-8; is {dim} the number of dimensions?"
            raise DataError(message, path=path) from None
        if word not in words:
            matrix[len(words)] = np.frombuffer(content, "<f4", dim, end + 1)
            words[word] = None
        place = end + 1 + size
    if content[place:].strip(b"\n"):
        message = f"{len(content) - place:,} bytes follow the {count:,} words of the first line, which is wrong"
        raise DataError(message, path=path)
    matrix = matrix[: len(words)]
    if not np.isfinite(matrix).all():
        number = int(np.flatnonzero(~np.isfinite(matrix).all(1))[0])
        raise DataError(f"the vector of word {number + 1:,} has a number that is not finite", path=path)
    if len(words) < count:
        repeated = count - len(words)
        logger.warning("%s: words that are there more than once: %d; the first vector of each is kept", path, repeated)
    return WordVectors(list(words), matrix)


def _save_binary(vectors: WordVectors, path: Path) -> None:
    _check_words(vectors.words, " \n", path)
    with _writing(path) as file:
        file.write(f"{len(vectors)} {vectors.dim}\n".encode())
        for word, row in zip(vectors.words, vectors.matrix.astype("<f4"), strict=True):
            file.write(word.encode() + b" " + row.tobytes() + b"\n")
