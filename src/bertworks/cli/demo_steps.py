"""What the demo computes with the model as it is: each step takes a loaded model and returns a plain value; nothing is
printed or written here.

    facts of the model -> search -> tokens with offsets -> classes on frozen vectors -> which layer? -> a long text

The texts were written for this project and lie in `bertworks/samples`. The step with classes is the feature-based
use of BERT (Devlin et al. 2019, section 5.3): keep the model as it is and train a small classical head on its vectors.
"""

from __future__ import annotations

import csv
import io
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bertworks.cli.demo_finetune import FineTuned
    from bertworks.infer.loaded import LoadedModel

QUERIES = (
    "Why does chopping vegetables bring tears to my eyes?",
    "a machine that learns from its mistakes",
    "instruments made of metal",
)
SENTENCE = "Zoë naïvely re-tokenized 東京's crème brûlée 🍮!"
LONG_QUESTION = "What did she do when the foghorn failed?"
NUM_HITS = 3
NUM_FOLDS = 5


@dataclass(frozen=True)
class ModelFacts:
    """What was loaded, and how fast it is on the demo's messages."""

    name: str
    family: str
    num_parameters: int
    num_layers: int
    hidden_size: int
    window: int | None
    texts_per_second: float


@dataclass(frozen=True)
class Hit:
    """A found text and the cosine between its vector and the query's."""

    text: str
    score: float


@dataclass(frozen=True)
class Search:
    """A query and the notes nearest to it, best first."""

    query: str
    hits: list[Hit]


@dataclass(frozen=True)
class TokenRow:
    """One token, and the characters of the original text that it stands for: `text[start:end] == original`."""

    token: str
    start: int
    end: int
    original: str


@dataclass(frozen=True)
class Prediction:
    """One message, judged by a head that was trained on the other folds."""

    text: str
    label: str
    predicted: str
    probability: float


@dataclass(frozen=True)
class Classes:
    """How well a logistic regression on frozen vectors tells the labels apart, beside two simpler ways."""

    num_texts: int
    labels: list[str]
    accuracy: float
    spread: float
    """Standard deviation of the accuracy over the folds."""
    majority_accuracy: float
    tfidf_accuracy: float
    mixed_up: tuple[str, str]
    """The two labels most often taken for each other, and how often."""
    mixed_up_count: int
    predictions: list[Prediction]


@dataclass(frozen=True)
class LayerRow:
    """A choice of layers and the accuracy of the same head on it."""

    layers: str
    width: int
    accuracy: float


@dataclass(frozen=True)
class LongText:
    """A text of several windows, and a question whose answer stands near its end."""

    num_words: int
    num_tokens: int
    num_windows: int
    share_in_first: float
    """How much of the text the first window alone would have seen."""
    question: str
    score_whole: float
    score_first_window: float

    def __str__(self) -> str:
        windows = "1 window" if self.num_windows == 1 else f"{self.num_windows} windows"
        return f"{self.num_words:,} words, {self.num_tokens:,} tokens, read in {windows}"


@dataclass(frozen=True)
class Results:
    """Everything that the steps found; the page and the files are made of it."""

    fine_tuned: FineTuned
    model: ModelFacts
    searches: list[Search]
    sentence: str
    tokens: list[TokenRow]
    classes: Classes
    layers: list[LayerRow]
    long_text: LongText
    points: np.ndarray  # (messages, 2)


def read_sample(name: str) -> str:
    """One of the files in `bertworks/samples`."""
    return resources.files("bertworks").joinpath("samples", name).read_text(encoding="utf-8")


def read_messages() -> tuple[list[str], list[str]]:
    """The texts and the labels of messages.csv."""
    rows = list(csv.DictReader(io.StringIO(read_sample("messages.csv"))))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def embed_and_time(model: LoadedModel, texts: Sequence[str]) -> tuple[np.ndarray, float]:
    """Vectors of length 1, float32 (n, H), and texts per second once the model is warm."""
    model.embed(list(texts[:16]))
    started = time.perf_counter()
    vectors = model.embed(list(texts), pooling=None, normalize=True)
    return np.asarray(vectors), len(texts) / (time.perf_counter() - started)


def describe(name: str, model: LoadedModel, texts_per_second: float) -> ModelFacts:
    """Facts of the model itself."""
    return ModelFacts(
        name=name,
        family=model.model.config.family,
        num_parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        num_layers=model.model.num_layers,
        hidden_size=model.model.hidden_size,
        window=model.window,
        texts_per_second=texts_per_second,
    )


def search(model: LoadedModel, notes: Sequence[str], vectors: np.ndarray) -> list[Search]:
    """The nearest notes to each query; `vectors` (n, H) belong to the notes and have length 1."""
    queries = np.asarray(model.embed(list(QUERIES), normalize=True))
    scores = queries @ vectors.T  # (queries, n)
    found = []
    for query, row in zip(QUERIES, scores, strict=True):
        best = np.argsort(-row, kind="stable")[:NUM_HITS]
        found.append(Search(query, [Hit(notes[index], float(row[index])) for index in best]))
    return found


def token_rows(model: LoadedModel, text: str = SENTENCE) -> list[TokenRow]:
    """The tokens of a text, special ones left out, with the places of the original that they stand for."""
    encoding = model.tokenizer.encode(text, special=False)
    places = [(int(start), int(end)) for start, end in encoding.offsets]
    return [
        TokenRow(token, start, end, text[start:end])
        for token, (start, end) in zip(model.tokenizer.tokens(encoding.ids), places, strict=True)
    ]


def classify(texts: Sequence[str], labels: Sequence[str], vectors: np.ndarray, seed: int) -> Classes:
    """Cross-validate a logistic regression on the vectors (n, H) and on TF-IDF counts, over the same folds."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from threadpoolctl import threadpool_limits

    truth = np.array(labels)
    folds = _folds(vectors, truth, seed)
    names = sorted(set(labels))
    words = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=1000)
    )
    with threadpool_limits(1):  # problems this small only get slower when threads wait for each other
        probabilities = cross_val_predict(_head(), vectors, truth, cv=folds, method="predict_proba")  # (n, labels)
        by_words = cross_val_predict(words, list(texts), truth, cv=folds)
    predicted = np.array(names)[probabilities.argmax(axis=1)]
    right = predicted == truth
    wrong = Counter(tuple(sorted(pair)) for pair in zip(truth[~right], predicted[~right], strict=True))
    first, second = names[0], names[-1]
    count = 0
    if wrong:
        (first, second), count = wrong.most_common(1)[0]
    return Classes(
        num_texts=len(texts),
        labels=names,
        accuracy=float(right.mean()),
        spread=float(np.std([right[test].mean() for _, test in folds])),
        majority_accuracy=Counter(labels).most_common(1)[0][1] / len(labels),
        tfidf_accuracy=float((by_words == truth).mean()),
        mixed_up=(str(first), str(second)),
        mixed_up_count=count,
        predictions=[
            Prediction(text, label, str(guess), float(probability))
            for text, label, guess, probability in zip(texts, labels, predicted, probabilities.max(axis=1), strict=True)
        ],
    )


def compare_layers(model: LoadedModel, texts: Sequence[str], labels: Sequence[str], seed: int) -> list[LayerRow]:
    """The same head on several choices of layers: the embeddings, the middle, the end, and four at once."""
    from sklearn.model_selection import cross_val_score
    from threadpoolctl import threadpool_limits

    last = model.model.num_layers
    choices = [("first", "first (embeddings)"), (str(last // 2), f"{last // 2} (middle)"), ("last", f"{last} (last)")]
    if last >= 3:
        choices.append(("concat-last-4", "concat-last-4"))
    truth = np.array(labels)
    rows = []
    for layers, name in choices:
        vectors = np.asarray(model.embed(list(texts), layers=layers, normalize=True))
        with threadpool_limits(1):
            scores = cross_val_score(_head(), vectors, truth, cv=_folds(vectors, truth, seed))
        rows.append(LayerRow(name, vectors.shape[1], float(scores.mean())))
    return rows


def read_long(model: LoadedModel, text: str) -> LongText:
    """Embed a text of several windows whole, and compare that with what its first window alone would say."""
    from bertworks.infer.batching import cut_pieces

    ids, lengths = model.runner.ids([text])
    pieces = cut_pieces(ids, lengths, model.runner.room)
    offsets = model.tokenizer.encode(text, special=False).offsets
    first = text[: int(offsets[pieces.length[0] - 1, 1])]
    whole, cut, question = np.asarray(model.embed([text, first, LONG_QUESTION], normalize=True))
    return LongText(
        num_words=len(text.split()),
        num_tokens=int(lengths[0]),
        num_windows=len(pieces.length),
        share_in_first=len(first.split()) / len(text.split()),
        question=LONG_QUESTION,
        score_whole=float(whole @ question),
        score_first_window=float(cut @ question),
    )


def map_points(vectors: np.ndarray) -> np.ndarray:
    """(n, H) -> (n, 2): the two directions in which the vectors differ most (principal components)."""
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    return centred @ directions[:2].T


def _head() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=10, max_iter=1000)


def _folds(vectors: np.ndarray, truth: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same rows in the same folds for everything that is compared."""
    from sklearn.model_selection import StratifiedKFold

    return list(StratifiedKFold(NUM_FOLDS, shuffle=True, random_state=seed).split(vectors, truth))
