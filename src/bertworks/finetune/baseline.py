"""What simple models reach on the same examples, so that nobody mistakes noise for learning.

    classify, pair   majority: the most frequent label        tfidf: logistic regression on weighted words and word pairs
    regress          mean: of the training numbers            tfidf: ridge (or Poisson) regression on the same
    choice           majority: the most frequent place        tfidf: the options alone, without the text before them
    tag              word_tags: each word's most frequent tag (the baseline of Tjong Kim Sang and De Meulder 2003)
    qa               nearest_sentence: the sentence most like the question; no_answer: never an answer
    similarity       tfidf: the cosine of weighted words

Every one of them makes the task's own predictions and is measured by the task itself. Texts of scripts that do not
separate words are read by runs of characters.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bertworks.data.labelled.examples import (
    ChoiceExample,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.tasks.answers import Answering
from bertworks.tasks.base import Task
from bertworks.tasks.classification import Classification, names_of
from bertworks.tasks.metrics.calibration import fit_thresholds
from bertworks.tasks.predictions import (
    AnswerPrediction,
    ChoicePrediction,
    LabelPrediction,
    NumberPrediction,
    SimilarityPrediction,
    TagPrediction,
)
from bertworks.tasks.ranking import Ranking
from bertworks.tasks.regression import Regression
from bertworks.tasks.tagging import Tagging
from bertworks.tasks.tags import OUTSIDE, to_bio

MAX_TRAIN = 50_000
"""More training examples than this are sampled: a baseline may take seconds, not minutes."""
MAX_FEATURES = 100_000
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters, which are written without spaces between words."""
SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
SAME = 1e-6

TITLES = {
    "majority": "most frequent answer",
    "mean": "mean of the training numbers",
    "tfidf": "TF-IDF words",
    "word_tags": "most frequent tag of each word",
    "nearest_sentence": "sentence most like the question",
    "no_answer": "never an answer",
}
"""What the simple models are called where people read."""


def baselines(
    task: Task[Any, Any], train: Sequence[Any], dev: Sequence[Any], *, seed: int = 0
) -> dict[str, dict[str, float]]:
    """The figures of each simple model on the development examples; {} where there are none."""
    if not dev or not train:
        return {}
    if len(train) > MAX_TRAIN:
        chosen = np.random.default_rng(seed).choice(len(train), MAX_TRAIN, replace=False)
        train = [train[number] for number in np.sort(chosen)]
    found = {}
    for name, predict in _MODELS[task.name].items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a baseline that has not quite converged is one all the same
            predictions = predict(task, train, dev)
        if predictions is not None:
            found[name] = task.measure(dev, predictions)
    return found


# -- texts as weighted words -------------------------------------------------------------------------------------------


class Words:
    """TF-IDF vectors of texts, of length 1; texts without any known word have length 0."""

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        sample = "".join(texts[:: max(1, len(texts) // 1000)])
        how: dict[str, Any] = {"token_pattern": r"(?u)\b\w+\b", "ngram_range": (1, 2)}
        if len(UNSPACED.findall(sample)) > 0.3 * len(sample):
            how = {"analyzer": "char", "ngram_range": (1, 3)}
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=MAX_FEATURES, **how)
        self.known = True
        try:
            self._vectorizer.fit(texts)
        except ValueError:  # there is not a single word
            self.known = False

    def __call__(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """(n, words)"""
        return sparse.csr_matrix(self._vectorizer.transform(texts))


def _features(train: Sequence[TextExample], dev: Sequence[TextExample]) -> tuple[Any, Any] | None:
    """Vectors of texts; of pairs both texts' and what they share and what not. None where there are no words."""
    words = Words([text for example in train for text in (example.text, example.pair) if text is not None])
    if not words.known:
        return None

    def vectors(examples: Sequence[TextExample]) -> Any:
        first = words([example.text for example in examples])
        if all(example.pair is None for example in examples):
            return first
        second = words([example.pair or "" for example in examples])
        return sparse.hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()

    return vectors(train), vectors(dev)


# -- labels ------------------------------------------------------------------------------------------------------------


def _labels_majority(
    task: Classification, train: Sequence[TextExample], dev: Sequence[TextExample]
) -> list[LabelPrediction]:
    counts = Counter(label for example in train for label in names_of(example))
    shares = np.array([[counts[label] / len(train) for label in task.labels]])
    return _label_predictions(task, shares.repeat(len(dev), axis=0))


def _labels_tfidf(
    task: Classification, train: Sequence[TextExample], dev: Sequence[TextExample]
) -> list[LabelPrediction] | None:
    from sklearn.linear_model import LogisticRegression

    features = _features(train, dev)
    if features is None:
        return None
    own, other = features
    shares = np.zeros((len(dev), len(task.labels)))
    if task.multi_label:
        for column, label in enumerate(task.labels):
            truth = np.array([label in names_of(example) for example in train])
            if truth.all() or not truth.any():
                shares[:, column] = float(truth.all())
            else:
                model = LogisticRegression(C=10.0, max_iter=200).fit(own, truth)
                shares[:, column] = model.predict_proba(other)[:, 1]
        there = np.array([[label in names_of(example) for label in task.labels] for example in dev])
        return _label_predictions(task, shares, fit_thresholds(shares, there))  # as the model's own are
    numbers = {label: number for number, label in enumerate(task.labels)}
    targets = np.array([numbers[names_of(example)[0]] for example in train])
    if len(np.unique(targets)) < 2:  # a sample may have lost the rare labels
        return None
    model = LogisticRegression(C=10.0, max_iter=200).fit(own, targets)
    shares[:, model.classes_] = model.predict_proba(other)
    return _label_predictions(task, shares)


def _label_predictions(
    task: Classification, shares: NDArray[np.float64], thresholds: ArrayLike = 0.5
) -> list[LabelPrediction]:
    predictions = []
    chosen = shares >= np.asarray(thresholds)  # (N, C), of several labels
    for row, own in zip(shares.tolist(), chosen.tolist(), strict=True):
        label: str | tuple[str, ...] = task.labels[int(np.argmax(row))]
        if task.multi_label:
            label = tuple(name for name, there in zip(task.labels, own, strict=True) if there)
        predictions.append(LabelPrediction(label, dict(zip(task.labels, row, strict=True))))
    return predictions


# -- numbers -----------------------------------------------------------------------------------------------------------


def _numbers(examples: Sequence[TextExample]) -> NDArray[np.float64]:
    return np.array([cast(float, example.label) for example in examples], np.float64)


def _numbers_mean(task: Regression, train: Sequence[TextExample], dev: Sequence[TextExample]) -> list[NumberPrediction]:
    mean = float(_numbers(train).mean())
    return [NumberPrediction(max(mean, 1e-6) if task.distribution == "poisson" else mean)] * len(dev)


def _numbers_tfidf(
    task: Regression, train: Sequence[TextExample], dev: Sequence[TextExample]
) -> list[NumberPrediction] | None:
    from sklearn.linear_model import PoissonRegressor, Ridge

    features = _features(train, dev)
    if features is None:
        return None
    own, other = features
    targets = _numbers(train)
    model = PoissonRegressor(alpha=1e-4, max_iter=300) if task.distribution == "poisson" else Ridge(alpha=1.0)
    if task.distribution == "poisson" and not targets.any():
        return None
    return [NumberPrediction(value) for value in model.fit(own, targets).predict(other).tolist()]


# -- options -----------------------------------------------------------------------------------------------------------


def _choice_majority(task: Any, train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]) -> list[ChoicePrediction]:
    counts = Counter(example.label for example in train)

    def shares(example: ChoiceExample) -> tuple[float, ...]:
        own = [counts[place] for place in range(len(example.options))]
        return tuple(count / max(sum(own), 1) for count in own)

    return [ChoicePrediction(int(np.argmax(shares(example))), shares(example)) for example in dev]


def _choice_tfidf(
    task: Any, train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]
) -> list[ChoicePrediction] | None:
    """What the options give away by themselves: people who write wrong endings write them otherwise than right ones."""
    from sklearn.linear_model import LogisticRegression

    words = Words([option for example in train for option in example.options])
    if not words.known:
        return None
    right = np.array([place == example.label for example in train for place in range(len(example.options))])
    model = LogisticRegression(C=1.0, max_iter=200)
    model.fit(words([option for example in train for option in example.options]), right)
    scores = model.decision_function(words([option for example in dev for option in example.options]))
    bounds = np.cumsum([0, *(len(example.options) for example in dev)])
    predictions = []
    for start, stop in pairwise(bounds.tolist()):
        own = np.exp(scores[start:stop] - scores[start:stop].max())
        predictions.append(ChoicePrediction(int(own.argmax()), tuple((own / own.sum()).tolist())))
    return predictions


# -- tags --------------------------------------------------------------------------------------------------------------


def _word_tags(task: Tagging, train: Sequence[TaggedExample], dev: Sequence[TaggedExample]) -> list[TagPrediction]:
    """A word that was never seen gets what its lower-case form has, else O (plain tags: the most frequent one)."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for example in train:
        for word, tag in zip(example.words, to_bio(example.tags or (), task.scheme), strict=True):
            counts[word][tag] += 1
            every[tag] += 1
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    usual = every.most_common(1)[0][0] if task.scheme == "plain" else OUTSIDE[0]
    predictions = []
    for example in dev:
        tags = tuple(best.get(word) or best.get(word.lower(), usual) for word in example.words)
        predictions.append(TagPrediction(example.words, tags, (1.0,) * len(tags), ()))
    return predictions


# -- answers -----------------------------------------------------------------------------------------------------------


def _nearest_sentence(
    task: Answering, train: Sequence[QuestionExample], dev: Sequence[QuestionExample]
) -> list[AnswerPrediction] | None:
    sentences = {
        context: [(match.start(), match.end()) for match in SENTENCE.finditer(context) if match.group().strip()]
        for context in {example.context for example in dev}
    }
    words = Words([context[start:end] for context, found in sentences.items() for start, end in found])
    if not words.known:
        return None
    vectors = {
        context: words([context[start:end] for start, end in found]) for context, found in sentences.items() if found
    }
    questions = words([example.question for example in dev])
    predictions = []
    for number, example in enumerate(dev):
        start = end = 0
        if example.context in vectors:
            likeness = (vectors[example.context] @ questions[number].T).toarray()[:, 0]
            start, end = sentences[example.context][int(likeness.argmax())]
            piece = example.context[start:end]
            start, end = start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
        predictions.append(AnswerPrediction(example.id, example.context[start:end], start, end, 1.0, 0.0, ()))
    return predictions


def _no_answer(
    task: Answering, train: Sequence[QuestionExample], dev: Sequence[QuestionExample]
) -> list[AnswerPrediction] | None:
    if not task.unanswerable:
        return None
    return [AnswerPrediction(example.id, "", 0, 0, 1.0, 1.0, ()) for example in dev]


# -- similarity --------------------------------------------------------------------------------------------------------


def _similarity_tfidf(
    task: Any, train: Sequence[SimilarityExample], dev: Sequence[SimilarityExample]
) -> list[SimilarityPrediction] | None:
    words = Words([text for example in train for text in example.texts])
    if not words.known:
        return None
    first = words([example.texts[0] for example in dev])
    second = words([example.texts[1] for example in dev])
    cosines = np.asarray(first.multiply(second).sum(axis=1)).ravel()
    if dev[0].score is not None:
        return [SimilarityPrediction(cosine) for cosine in cosines.tolist()]
    ranking = Ranking.of_examples(dev)
    candidates = words([text for example in dev for text in example.texts[1:]])[ranking.kept]
    predictions = []
    for start in range(0, len(dev), 1024):
        likeness = (first[start : start + 1024] @ candidates.T).toarray()  # (rows, candidates)
        likeness[tuple(ranking.other_answers(slice(start, start + 1024)))] = -np.inf
        for row, own in zip(likeness, cosines[start : start + 1024].tolist(), strict=True):
            # Without a word in common nothing is nearer than anything else: all candidates share the middle place.
            ties = int((np.abs(row - own) <= SAME).sum())
            rank = 1 + int((row > own + SAME).sum()) + (ties - 1) // 2
            predictions.append(SimilarityPrediction(own, rank))
    return predictions


_Predict = Callable[[Any, Any, Any], Sequence[Any] | None]
_MODELS: dict[str, dict[str, _Predict]] = {
    "classify": {"majority": _labels_majority, "tfidf": _labels_tfidf},
    "pair": {"majority": _labels_majority, "tfidf": _labels_tfidf},
    "regress": {"mean": _numbers_mean, "tfidf": _numbers_tfidf},
    "choice": {"majority": _choice_majority, "tfidf": _choice_tfidf},
    "tag": {"word_tags": _word_tags},
    "qa": {"nearest_sentence": _nearest_sentence, "no_answer": _no_answer},
    "similarity": {"tfidf": _similarity_tfidf},
}
