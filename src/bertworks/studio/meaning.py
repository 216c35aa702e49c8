"""Meaning as geometry: a map of texts, one word in several sentences layer by layer, word vectors.

What is near on a map is a matter of the map; neighbours and their cosines are always those of the vectors themselves.
Vectors are kept while the same texts are looked at in another way, so that only the first map of them takes time.

Legend: n texts or places, W width of a vector, L layers.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from pydantic import BaseModel

from bertworks.errors import ModelError, UsageError, choice
from bertworks.infer.bilm import LoadedBiLM
from bertworks.infer.embed import EmbedReport, embed_tokens
from bertworks.infer.layers import LAYER_NAMES, LayerChoice
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.models.word_config import WordStackConfig
from bertworks.studio import projection, word_vectors
from bertworks.studio.models import Models, check_text
from bertworks.studio.projection import Floats
from bertworks.studio.texts import MAX_CHARACTERS, check_texts, read_upload
from bertworks.text.compare import IDEOGRAPH

POOLINGS = ("mean", "cls", "max")
NEIGHBOURS = 6
KEPT = 6  # sets of vectors
MAX_SENTENCES = 100
MAX_SENTENCE_CHARACTERS = 20_000  # of all sentences: every token is kept at every layer
MAX_PLACES = 200  # every two of them are compared, at every layer
MAX_WORD = 100
UNSPACED = IDEOGRAPH + "\u3040-\u30ff\u0e00-\u0eff"  # Chinese, Japanese, Thai, Lao: no spaces between words

Vectors = NDArray[np.float32]


class Embeddings:
    """Vectors of texts, kept for the last few sets of texts."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._kept: OrderedDict[tuple[Any, ...], Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, model: str, texts: Sequence[str], layers: str, pooling: str) -> Vectors:
        """(n, W)"""
        key = (model, tuple(texts), layers, pooling)
        vectors = self._find(key)
        if vectors is not None:
            return vectors
        with self._models.use(model) as loaded:
            vectors = self._find(key)  # made for another request while this one waited?
            if vectors is None:
                vectors = embed(loaded, texts, layers, pooling)
                self._keep(key, vectors)
        return vectors

    def _find(self, key: tuple[Any, ...]) -> Vectors | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: tuple[Any, ...], vectors: Vectors) -> None:
        with self._lock:
            self._kept[key] = vectors
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)


def embed(loaded: LoadedModel, texts: Sequence[str], layers: str = "last", pooling: str = "mean") -> Vectors:
    """One vector per text, as `bertworks embed` gives them; `pooling` "" is the model's own."""
    _check_embeds(loaded)
    if pooling:
        choice(pooling, POOLINGS, "pooling")
    return np.asarray(loaded.embed(list(texts), layers=layers, pooling=pooling or None), np.float32)


def text_map(vectors: Vectors, method: str = "pca", *, seed: int = 0) -> dict[str, Any]:
    """Points on a plane, and each text's nearest texts by cosine."""
    found = projection.project(vectors, method, seed=seed)
    return {
        "method": method,
        "points": found.points.tolist(),
        "shares": None if found.shares is None else list(found.shares),
        "neighbours": nearest(projection.cosines(vectors), NEIGHBOURS),
        "width": int(vectors.shape[1]),
    }


def nearest(cosines: Floats, top: int) -> list[list[dict[str, Any]]]:
    """For each row of (n, n): the other rows that are most like it, [{"index", "cosine"}]."""
    others = cosines.copy()
    np.fill_diagonal(others, -np.inf)
    order = np.argsort(-others, axis=1, kind="stable")[:, : min(top, len(others) - 1)]
    return [
        [{"index": index, "cosine": float(cosines[row, index])} for index in indices]
        for row, indices in enumerate(order.tolist())
    ]


def nearest_to(vectors: Vectors, query: Vectors, top: int = NEIGHBOURS) -> list[dict[str, Any]]:
    """The texts that are most like another one, whose vector is (W,)."""
    scores = projection.cosines(np.concatenate([query[None], vectors]))[0, 1:]
    order = np.argsort(-scores, kind="stable")[:top]
    return [{"index": int(index), "cosine": float(scores[index])} for index in order]


# -- one word in several sentences -------------------------------------------------------------------------------------


def word_in_context(loaded: LoadedModel, sentences: Sequence[str], word: str) -> dict[str, Any]:
    """Every place of a word, and how like each other its vectors there are, at each layer.

    A place's vector is the mean of the tokens that lie in it. The pictures of the layers are turned onto each other,
    from the last one down, so that what moves between them moves by itself.
    """
    _check_embeds(loaded)
    places = find_word(sentences, word)
    if len(places) < 2:
        raise UsageError(
            f"the word {word!r} stands in {len(places)} place{'' if len(places) == 1 else 's'} of these sentences; "
            "two are needed to compare"
        )
    if len(places) > MAX_PLACES:
        raise UsageError(
            f"the word {word!r} stands in {len(places):,} places; this picture takes {MAX_PLACES} at most: "
            "leave out some sentences"
        )
    numbers, stacked = _at_all_layers(loaded, sentences, places)
    pictures = [projection.pca(layer.astype(np.float64)).points for layer in stacked]
    points: list[Floats] = [pictures[-1]]
    for picture in pictures[-2::-1]:
        points.insert(0, projection.turned(picture, points[0]))
    return {
        "word": word,
        "places": [
            {"sentence": sentence, "start": start, "end": end, "text": sentences[sentence][start:end]}
            for sentence, start, end in places
        ],
        "layers": [
            {"layer": number, "points": where.tolist(), "cosines": projection.cosines(layer).round(6).tolist()}
            for number, layer, where in zip(numbers, stacked, points, strict=True)
        ],
    }


def find_word(sentences: Sequence[str], word: str) -> list[tuple[int, int, int]]:
    """Where a word stands, whatever its letters' size: (sentence, start, end).

    It is no part of a longer word; where a script puts no spaces between words, nobody can tell.
    """
    word = word.strip()
    letter = f"[^\\W{UNSPACED}]"
    before, after = (
        "" if re.match(f"[{UNSPACED}]", sign) else guard
        for sign, guard in ((word[:1], f"(?<!{letter})"), (word[-1:], f"(?!{letter})"))
    )
    pattern = re.compile(before + re.escape(word) + after, re.IGNORECASE)
    return [
        (number, *match.span()) for number, sentence in enumerate(sentences) for match in pattern.finditer(sentence)
    ]


def _at_all_layers(
    loaded: LoadedModel, sentences: Sequence[str], places: Sequence[tuple[int, int, int]]
) -> tuple[Sequence[int], Vectors]:
    """The numbers of the layers, and (layers, n, H): the places' vectors, all layers in one pass."""
    if isinstance(loaded, LoadedBiLM):
        return _of_words(loaded, sentences, places)
    layers = loaded.model.num_layers + 1
    everything = LayerChoice(tuple(range(layers)), "concat")
    encodings = loaded.tokenizer.encode_batch(list(sentences), special=False)
    arrays = embed_tokens(loaded.runner, encodings, layers=everything, report=EmbedReport())
    before = len(loaded.runner.prefix)
    found = []
    for sentence, start, end in places:
        offsets = encodings[sentence].offsets
        own = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > start))
        if not len(own):
            raise UsageError(f"the tokenizer keeps nothing of the word in sentence {sentence + 1}")
        rows = arrays[sentence][own + before].reshape(len(own), layers, -1)  # (tokens, L + 1, H)
        found.append(rows.mean(axis=0))
    return range(layers), np.stack(found, axis=1)


def _of_words(
    loaded: LoadedBiLM, sentences: Sequence[str], places: Sequence[tuple[int, int, int]]
) -> tuple[Sequence[int], Vectors]:
    """The same of a model that reads whole words, as ELMo does."""
    layers = []
    for number in loaded.layer_numbers:
        words = loaded.embed_words(sentences, layers=number)
        own = [[one.vector for one in words[at] if one.start < end and one.end > start] for at, start, end in places]
        layers.append(np.stack([np.mean(vectors, axis=0) for vectors in own]))
    return loaded.layer_numbers, np.stack(layers)


def _check_embeds(loaded: LoadedModel) -> None:
    if isinstance(loaded, LoadedTranslator):
        raise ModelError("a translation model has no vectors of texts; choose an encoder")
    if isinstance(loaded.model.config.body, WordStackConfig):
        raise ModelError("this model reads vectors of words, which it does not make itself; choose an encoder")


# -- routes ------------------------------------------------------------------------------------------------------------


class Upload(BaseModel):
    """A file."""

    name: str
    content: str
    text_column: str | None = None
    label_column: str | None = None


class MapRequest(BaseModel):
    """Texts to be put on a map."""

    model: str
    texts: list[str]
    layers: str = "last"
    pooling: str = ""
    method: str = "pca"


class NearestRequest(BaseModel):
    """A text, and those among which its nearest are looked for."""

    model: str
    texts: list[str]
    query: str
    layers: str = "last"
    pooling: str = ""


class WordRequest(BaseModel):
    """A word in sentences."""

    model: str
    sentences: list[str]
    word: str


class SimilarRequest(BaseModel):
    """A word of a table of vectors."""

    vectors: str
    word: str
    top: int = 10


class AnalogyRequest(BaseModel):
    """a is to b as c is to …"""

    vectors: str
    a: str
    b: str
    c: str
    top: int = 10


class BiasRequest(BaseModel):
    """Words to be put on the axis beside the built-in ones."""

    vectors: str
    words: list[str] = []


def router(models: Models, seed: int = 0) -> APIRouter:
    """The routes under /api/meaning; `seed` is where random numbers start."""
    routes = APIRouter(prefix="/api/meaning")
    embeddings = Embeddings(models)
    tables = models.vectors

    @routes.get("")
    def options() -> dict[str, Any]:
        return {
            "methods": [{"name": name, "installed": projection.installed(name)} for name in projection.METHODS],
            "layers": list(LAYER_NAMES),
            "poolings": list(POOLINGS),
            "vectors": tables.describe(),
        }

    @routes.post("/read")
    def read(asked: Upload) -> dict[str, Any]:
        return read_upload(
            asked.name, asked.content, text_column=asked.text_column, label_column=asked.label_column
        ).as_json()

    @routes.post("/map")
    def make_map(asked: MapRequest) -> dict[str, Any]:
        texts = check_texts(asked.texts)
        return text_map(embeddings.of(asked.model, texts, asked.layers, asked.pooling), asked.method, seed=seed)

    @routes.post("/nearest")
    def find_nearest(asked: NearestRequest) -> dict[str, Any]:
        check_text(asked.query, limit=MAX_CHARACTERS)
        vectors = embeddings.of(asked.model, check_texts(asked.texts), asked.layers, asked.pooling)
        with models.use(asked.model) as loaded:
            query = embed(loaded, [asked.query], asked.layers, asked.pooling)[0]
        return {"neighbours": nearest_to(vectors, query)}

    @routes.post("/word")
    def one_word(asked: WordRequest) -> dict[str, Any]:
        check_text(asked.word, limit=MAX_WORD, what="the word")
        sentences = check_texts(
            asked.sentences, most=MAX_SENTENCES, characters=MAX_SENTENCE_CHARACTERS, what="this picture"
        )
        with models.use(asked.model) as loaded:
            return word_in_context(loaded, sentences, asked.word.strip())

    @routes.post("/similar")
    def similar_words(asked: SimilarRequest) -> dict[str, Any]:
        return word_vectors.similar(tables.get(asked.vectors), asked.word, asked.top)

    @routes.post("/analogy")
    def analogy(asked: AnalogyRequest) -> dict[str, Any]:
        return word_vectors.analogy(tables.get(asked.vectors), asked.a, asked.b, asked.c, asked.top)

    @routes.post("/bias")
    def bias(asked: BiasRequest) -> dict[str, Any]:
        return word_vectors.bias_axis(tables.get(asked.vectors), asked.words, seed=seed)

    return routes
