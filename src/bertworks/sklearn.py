"""Bertworks in scikit-learn: estimators that take texts, for `Pipeline`, `GridSearchCV`, `cross_val_score` and joblib.

    Embedder            texts -> vectors; nothing is learned                  make_pipeline(Embedder(), LogisticRegression())
    TextClassifier      fine-tuned: one text or a pair -> a class, or several (y is then an indicator matrix)
    TextRegressor       fine-tuned: one text or a pair -> a number
    Tagger              fine-tuned: words -> a tag for each
    QuestionAnswerer    fine-tuned: (question, context) -> the answer, a piece of the context

X is a list, an array or a pandas column of strings; a pair is a tuple of two strings, or a row of a two-column array.
Parameters are plain values, so an estimator can be cloned and sent to another process before and after it was fitted:
a fitted one carries its weights with it when it is pickled. `save` writes a model directory instead, which every
command, `bertworks.load` and `transformers` open, and which is the better form to keep (a pickle can hold any program).

PyTorch is imported when it is needed, not when this module is. Equal data and an equal `random_state` give an equal
model.
"""

# ruff: noqa: N803, N806 - X is scikit-learn's own name

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from bertworks.errors import DataError, UsageError

if TYPE_CHECKING:
    from bertworks.infer.loaded import LoadedModel
    from bertworks.infer.predict import Predictor
    from bertworks.tasks.base import TaskName
    from bertworks.tasks.predictions import AnswerPrediction, SpanPrediction

__all__ = ["Embedder", "EstimatorError", "QuestionAnswerer", "Tagger", "TextClassifier", "TextRegressor"]

Text = str | tuple[str, str]


class EstimatorError(UsageError, ValueError):
    """Data that an estimator cannot take; a `ValueError` too, since that is what scikit-learn raises and catches."""


NO_SETTINGS = ("data.", "frozen.", "run.", "words.vectors", "words.between", "words.unlabelled")
"""How settings begin that are about files, or about `--frozen`."""


class _TextEstimator(BaseEstimator):
    """What all of them say about themselves: they take strings, not a matrix of numbers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.non_deterministic = False
        return tags


# -- embeddings --------------------------------------------------------------------------------------------------------


class Embedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _TextEstimator):
    """Texts to vectors: float32 (n, width). Nothing is learned, so it need not be fitted.

    model         an alias (`minilm`), a model directory or a Hub id
    layers        last, first, second-to-last, sum-last-4, concat-last-4, sum-all, or a number (0: the embeddings)
    pooling       mean, cls or max; None = the model's own, else mean
    normalize     scale to length 1; None = as the model was made to
    device        cpu, cuda, cuda:1, mps
    batch_tokens  how many tokens to compute at once
    """

    def __init__(
        self,
        model: str | Path = "minilm",
        *,
        layers: str | int = "last",
        pooling: str | None = None,
        normalize: bool | None = None,
        device: str = "cpu",
        batch_tokens: int | None = None,
    ) -> None:
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.normalize = normalize
        self.device = device
        self.batch_tokens = batch_tokens

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters and the texts; there is nothing to learn."""
        _single_texts(X)
        self._n_features_out = self._loaded().embed([""], **self._asked()).shape[1]
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """(n, width) float32."""
        return self._loaded().embed(_single_texts(X), **self._asked())

    def _asked(self) -> dict[str, Any]:
        if self.pooling is not None and self.pooling not in ("mean", "cls", "max"):
            raise EstimatorError(f"pooling is {self.pooling!r}; one vector per text needs mean, cls or max")
        return {"layers": self.layers, "pooling": self.pooling, "normalize": self.normalize}

    def _loaded(self) -> LoadedModel:
        """The model, opened once for these parameters; it is not part of the estimator's state."""
        import bertworks

        wanted = (str(self.model), self.device, self.batch_tokens)
        opened: tuple[Any, LoadedModel] | None = self.__dict__.get("_opened")
        if opened is None or opened[0] != wanted:
            opened = (wanted, bertworks.load(self.model, device=self.device, batch_tokens=self.batch_tokens))
            self.__dict__["_opened"] = opened
        return opened[1]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_opened"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


# -- fine-tuning -------------------------------------------------------------------------------------------------------


class FineTuned(_TextEstimator):
    """The parameters that the estimators which fine-tune a model share; not to be used by itself.

    model          what is fine-tuned: an alias (`minilm`), a model directory a Hub id, or a new bilstm, bigru or birnn
    epochs         passes over the data; None = by the number of examples
    batch_size     examples per step; None = by the number of examples
    learning_rate  None = by the size of the model
    max_length     the longest sequence in tokens; None = what the model was made for. Longer texts are cut in training
                   and read whole, in windows, for predictions
    dev_fraction   share of the data that is held out to choose the best epoch and to calibrate probabilities and
                   thresholds; 0 = train on everything, to the end
    settings       further settings as the command line takes them: ("method.lora_rank=8", "task.class_weights=balanced");
                   those about files ([data], word vectors) are not for an estimator
    random_state   an int, for the same result each time, or what scikit-learn takes elsewhere
    device         cpu, cuda, cuda:1, mps
    """

    def __init__(
        self,
        model: str | Path = "minilm",
        *,
        epochs: float | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        max_length: int | None = None,
        dev_fraction: float = 0.0,
        settings: Sequence[str] = (),
        random_state: Any = 0,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_length = max_length
        self.dev_fraction = dev_fraction
        self.settings = settings
        self.random_state = random_state
        self.device = device

    def save(self, directory: str | Path) -> None:
        """Write the fitted model as a directory that `bertworks.load`, the commands and `transformers` open."""
        self._predictor().save(directory)

    def _fit(self, name: TaskName, examples: Sequence[Any], **options: Any) -> None:
        """Fine-tune, and set `predictor_` and `n_iter_`; `options` are the task's own, None where they are not chosen."""
        from bertworks import tasks
        from bertworks.config import resolve
        from bertworks.data.labelled.split import split
        from bertworks.finetune.config import FinetuneConfig, RunSection
        from bertworks.finetune.defaults import suited, window_for
        from bertworks.finetune.events import Fitted
        from bertworks.finetune.fit import TrainingData, fit
        from bertworks.finetune.fresh import open_model
        from bertworks.finetune.words import check_words, make_model
        from bertworks.infer.loaded import LoadedModel
        from bertworks.infer.predict import Predictor
        from bertworks.models.device import usable_device
        from bertworks.train.parallel import Parallel

        if isinstance(self.random_state, numbers.Integral):
            seed = int(self.random_state)
        else:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        asked = resolve(FinetuneConfig, None, self._settings())
        options = _merged(options, asked.task.options(name))
        train, dev = split(examples, self.dev_fraction, seed) if self.dev_fraction else (list(examples), [])
        run = RunSection(task=name, model=str(self.model), train="")
        if check_words(asked, run):
            words = make_model(asked, run, train, Path(), self.device)
            loaded, fresh = words.loaded, True
            options |= words.options(asked.words, name)
        else:
            loaded, fresh = open_model(self.model, train, asked.fresh)
        # Labels are those of all examples: a rare one may have fallen to the other side of the split.
        task = tasks.for_examples(name, examples, dev=dev or None, **options)
        base = suited(task, len(train), loaded.model, asked, fresh=fresh)
        config = resolve(FinetuneConfig, None, self._settings(), base=base)
        window = window_for(name, loaded.model, loaded.window, config.data.max_length)
        parallel = Parallel(device=usable_device(self.device), precision=config.train.precision)
        data = TrainingData(train, dev, window=window)
        fitted = None
        for event in fit(task, data, loaded.model, loaded.tokenizer, config, fresh=fresh, seed=seed, parallel=parallel):
            fitted = event
        assert isinstance(fitted, Fitted)
        self.n_iter_ = fitted.steps
        self.predictor_ = Predictor(
            LoadedModel(fitted.model, fitted.tokenizer, window=window, device=self.device),
            task=fitted.task,
            decision=fitted.decision,
        )

    def _settings(self) -> list[str]:
        for setting in self.settings:
            name = setting.partition("=")[0].strip()
            if name.startswith(NO_SETTINGS) and name != "data.max_length":
                raise EstimatorError(f"the setting {name} means nothing to an estimator; leave it out")
        named = {
            "train.epochs": self.epochs,
            "train.batch_size": self.batch_size,
            "train.optimizer.learning_rate": self.learning_rate,
            "data.max_length": self.max_length,
        }
        return [*(f"{name}={value}" for name, value in named.items() if value is not None), *self.settings]

    def _predictor(self) -> Predictor:
        check_is_fitted(self, "predictor_")
        return self.predictor_


class TextClassifier(ClassifierMixin, FineTuned):
    """The class of a text or of a pair of texts; several classes at once where y is an indicator matrix.

    The parameters are those of `FineTuned`. Fitted it has `classes_`, `n_iter_` (steps of training) and `predictor_`
    (`bertworks.infer.predict.Predictor`).
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fine-tune on texts or pairs X with classes y: (n,) of names or numbers, or (n, classes) of 0 and 1."""
        texts = _texts(X)
        y = _checked_y(self, y, len(texts))
        check_classification_targets(y)
        if type_of_target(y).startswith("multilabel"):
            matrix = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
            self.classes_ = np.arange(matrix.shape[1])
            labels: list[Any] = [tuple(str(label) for label in np.flatnonzero(row)) for row in matrix]
        else:
            self.classes_, numbers_of = np.unique(column_or_1d(y, warn=True), return_inverse=True)
            if len(self.classes_) < 2:
                raise EstimatorError(
                    f"y holds only one class, {str(self.classes_[0])!r}; a classifier needs at least two"
                )
            labels = [str(self.classes_[number]) for number in numbers_of]
        self._fit("pair" if isinstance(texts[0], tuple) else "classify", _examples("classify", texts, labels))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each text: (n,), or (n, classes) of 0 and 1."""
        predictions = self._predictor().predict(_texts(X))
        if self._predictor().multi_label:
            return np.array([[str(one) in p.label for one in self.classes_] for p in predictions], np.int64)
        known = {str(label): number for number, label in enumerate(self.classes_)}
        return self.classes_[[known[prediction.label] for prediction in predictions]]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class: (n, classes), in the order of `classes_`."""
        predictions = self._predictor().predict(_texts(X))
        # A class that no training example has (an empty column of y) is none that the model knows.
        return np.array([[p.probabilities.get(str(one), 0.0) for one in self.classes_] for p in predictions])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class TextRegressor(RegressorMixin, FineTuned):
    """A number for a text or a pair of texts.

    distribution   gaussian, or poisson for counts (the predictions are rates); None = gaussian

    The other parameters are those of `FineTuned`. Fitted it has `n_iter_` (steps of training) and `predictor_`.
    """

    def __init__(
        self,
        model: str | Path = "minilm",
        *,
        distribution: str | None = None,
        epochs: float | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        max_length: int | None = None,
        dev_fraction: float = 0.0,
        settings: Sequence[str] = (),
        random_state: Any = 0,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            model,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            max_length=max_length,
            dev_fraction=dev_fraction,
            settings=settings,
            random_state=random_state,
            device=device,
        )
        self.distribution = distribution

    def fit(self, X: Any, y: Any) -> Self:
        """Fine-tune on texts or pairs X with numbers y: (n,)."""
        texts = _texts(X)
        y = column_or_1d(check_array(_checked_y(self, y, len(texts)), ensure_2d=False, dtype=np.float64), warn=True)
        self._fit("regress", _examples("regress", texts, y.tolist()), distribution=self.distribution)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number of each text: (n,)."""
        return np.array([prediction.value for prediction in self._predictor().predict(_texts(X))])


class Tagger(FineTuned):
    """A tag for each word: named entities, parts of speech.

    The parameters are those of `FineTuned`. Fitted it has `classes_` (the tags as they are learned: BIO for spans),
    `n_iter_` (steps of training) and `predictor_`.
    """

    def fit(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> Self:
        """Fine-tune on sentences X, each a list of words, and their tags y, each as many (IOB1, BIO, IOBES or plain)."""
        sentences = _sentences(X)
        self._fit("tag", _examples("tag", sentences, _checked_y(self, y, len(sentences))))
        self.classes_ = np.array(self.predictor_.labels)
        return self

    def predict(self, X: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tags of each sentence, one per word, in the scheme of the y that it was fitted with."""
        predictor = self._predictor()
        from bertworks.tasks.metrics.entities import Span
        from bertworks.tasks.tags import tags_of

        scheme = predictor.task.settings()["scheme"]
        predictions = predictor.predict([list(words) for words in _sentences(X)])
        if scheme == "plain":
            return [list(prediction.tags) for prediction in predictions]
        return [
            list(tags_of([Span(s.label, s.first_word, s.stop_word) for s in p.spans], len(p.words), scheme))
            for p in predictions
        ]

    def predict_spans(self, X: Sequence[str] | Sequence[Sequence[str]]) -> list[tuple[SpanPrediction, ...]]:
        """Named spans with their characters in each text (a string, or words, which are then joined by spaces)."""
        if isinstance(X, str):
            raise EstimatorError("X is a single string; give a list of texts")
        rows: list[Any] = [text if isinstance(text, str) else list(text) for text in X]
        return [prediction.spans for prediction in self._predictor().predict(rows)]

    def score(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> float:
        """F1 of spans as seqeval counts it; accuracy of plain tags."""
        sentences = _sentences(X)
        return _score(self._predictor(), _examples("tag", sentences, _checked_y(self, y, len(sentences))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class QuestionAnswerer(FineTuned):
    """The answer to a question: a piece of its context, or nothing.

    The parameters are those of `FineTuned`. Fitted it has `n_iter_` (steps of training) and `predictor_`.
    """

    def fit(self, X: Sequence[tuple[str, str]], y: Sequence[Any]) -> Self:
        """Fine-tune on (question, context) pairs X and their answers y.

        An answer is a text, (text, its first character in the context), or "" where the context does not answer it; a
        list holds all that are allowed.
        """
        pairs = _pairs(X)
        self._fit("qa", _examples("qa", pairs, _checked_y(self, y, len(pairs))))
        return self

    def predict(self, X: Sequence[tuple[str, str]]) -> NDArray[np.object_]:
        """The answers' texts: (n,); "" where there is none."""
        return np.array([prediction.text for prediction in self.predict_answers(X)], dtype=object)

    def predict_answers(self, X: Sequence[tuple[str, str]]) -> list[AnswerPrediction]:
        """Answers with their characters in the context, probabilities and the next best ones."""
        return self._predictor().predict(_pairs(X))

    def score(self, X: Sequence[tuple[str, str]], y: Sequence[Any]) -> float:
        """SQuAD's F1."""
        pairs = _pairs(X)
        return _score(self._predictor(), _examples("qa", pairs, _checked_y(self, y, len(pairs))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _merged(own: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The task's options, by parameters of the estimator and by its `settings`."""
    chosen = {name: value for name, value in own.items() if value is not None}
    for name in chosen.keys() & settings.keys():
        if chosen[name] != settings[name]:
            raise EstimatorError(
                f"{name} is {chosen[name]!r}, but settings say task.{name}={settings[name]}; say it once"
            )
    return settings | chosen


# -- what may be given as X and y --------------------------------------------------------------------------------------


def _rows(X: Any) -> list[Any]:
    """The rows of a list, an array, or a pandas column or table."""
    if isinstance(X, str | bytes):
        raise EstimatorError("X is a single string; give a list of texts")
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        if X.ndim > 2 or (X.ndim == 2 and X.shape[1] > 2):
            raise EstimatorError(f"X has the shape {X.shape}; texts are (n,) or (n, 1), pairs of texts (n, 2)")
        X = X[:, 0].tolist() if X.ndim == 2 and X.shape[1] == 1 else X.tolist()
    if not isinstance(X, Iterable):
        raise EstimatorError(f"X is {type(X).__name__}; give a list of texts")
    rows = list(X)
    if not rows:
        raise EstimatorError("X is empty; at least one text is needed")
    return rows


def _single_texts(X: Any) -> list[str]:
    rows = _rows(X)
    for number, row in enumerate(rows):
        if not isinstance(row, str):
            raise EstimatorError(f"row {number} of X is {row!r:.60}, not a text")
    return [str(row) for row in rows]  # numpy's strings become plain ones


def _texts(X: Any) -> list[Text]:
    """All texts, or all pairs of them."""
    rows = _rows(X)
    if isinstance(rows[0], str):
        return list(_single_texts(rows))
    if not isinstance(rows[0], tuple | list):
        raise EstimatorError(f"row 0 of X is {rows[0]!r:.60}, neither a text nor a pair of texts")
    return list(_pairs(rows))


def _pairs(X: Any) -> list[tuple[str, str]]:
    rows = _rows(X)
    for number, row in enumerate(rows):
        is_pair = isinstance(row, tuple | list) and len(row) == 2 and all(isinstance(text, str) for text in row)
        if not is_pair:
            raise EstimatorError(f"row {number} of X is {row!r:.60}, not a pair of texts")
    return [(str(first), str(second)) for first, second in rows]


def _sentences(X: Any) -> list[tuple[str, ...]]:
    if isinstance(X, str):
        raise EstimatorError("X is a single string; give a list of sentences, each a list of words")
    rows = list(X)
    if not rows:
        raise EstimatorError("X is empty; at least one sentence is needed")
    for number, row in enumerate(rows):
        if isinstance(row, str) or not all(isinstance(word, str) for word in row):
            raise EstimatorError(f"row {number} of X is {row!r:.60}, not a list of words")
    return [tuple(map(str, row)) for row in rows]


def _checked_y(estimator: Any, y: Any, count: int) -> Any:
    if y is None:
        name = type(estimator).__name__
        raise EstimatorError(f"{name} requires y to be passed, but the target y is None")
    length = y.shape[0] if hasattr(y, "shape") else len(y)
    if length != count:
        raise EstimatorError(f"X has {count} rows and y has {length}; they must be equally many")
    return y


def _examples(task: TaskName, rows: Sequence[Any], labels: Sequence[Any]) -> list[Any]:
    from bertworks.infer.rows import examples_of

    try:
        return list(examples_of(task, rows, labels=labels))
    except DataError as error:  # its file and line are the rows of X
        raise EstimatorError(f"row {error.line} of X: {error.message}") from error


def _score(predictor: Predictor, examples: Sequence[Any]) -> float:
    """By the task's own figure; labels that were not seen in training are missed, not refused (folds may lack rare ones)."""
    return predictor.evaluate(examples, unknown_labels=True).figures[predictor.task.metric]
