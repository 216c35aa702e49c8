"""Linear heads by scikit-learn on vectors that are there already, their strength chosen by cross-validation.

    classify, pair   logistic regression; several labels: one for each
    tag              logistic regression on words
    regress          ridge regression, or Poisson regression
    choice           logistic regression on differences between the right option and each wrong one

The vectors are brought to mean 0 and deviation 1, which is folded back, so that in the end there is a matrix and a bias.
A fold is judged by the task's own metric. See `frozen` for where the vectors come from and where the head goes.

Legend: N examples, R rows (texts, options or words), H hidden, C outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.pretraining.flat import ranges
from bertworks.errors import UsageError
from bertworks.tasks.base import Task, Units
from bertworks.tasks.classification import Classification
from bertworks.tasks.regression import Regression

STRENGTHS: dict[str, tuple[float, ...]] = {
    "C": (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "alpha": (1e4, 1e3, 1e2, 1e1, 1.0),
    "poisson alpha": (1.0, 1e-1, 1e-2, 1e-3, 1e-4),
}
"""What is tried, the strictest first: of equally good ones it is taken. All are for vectors of deviation 1."""
BETWEEN = 3.0
"""Then, on both sides of the best, what is so many times smaller and larger."""
MAX_FOLD_ROWS = 20_000
"""The strength is chosen on this many rows; the head is then trained on all."""
NEVER = -20.0
"""The bias of a label that no training example has."""

Floats = NDArray[np.float32]


def num_rows(units: Units) -> int:
    """R: the words that are read, or the sequences."""
    return int(units.arrays["bounds"][-1]) if "bounds" in units.arrays else len(units.starts) - 1


def rows_of(units: Units, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of some units: words, or sequences."""
    bounds = units.arrays.get("bounds", units.first)
    return ranges(bounds[numbers], bounds[numbers + 1] - bounds[numbers])


@dataclass(frozen=True, eq=False)
class Linear:
    """vectors @ weight.T + bias"""

    weight: NDArray[np.float64]  # (C, H)
    bias: NDArray[np.float64]  # (C,)

    def __call__(self, vectors: Floats) -> Floats:
        """(R, H) -> (R, C)"""
        return (vectors @ self.weight.T + self.bias).astype(np.float32)


@dataclass(frozen=True, eq=False)
class FittedHead:
    """The head, and how its strength was chosen."""

    head: Linear
    metric: str
    knob: str
    strength: float
    scores: Mapping[float, tuple[float, ...]]
    """By strength: the metric on each fold, by a head that was trained on the others."""

    def as_json(self) -> dict[str, Any]:
        folds = self.scores[self.strength]
        return {
            "metric": self.metric,
            "mean": float(np.mean(folds)),
            "std": float(np.std(folds, ddof=1)),
            "folds": list(folds),
            "knob": self.knob,
            "strength": self.strength,
            "strengths": {f"{strength:g}": float(np.mean(scores)) for strength, scores in self.scores.items()},
        }


def fit_head(
    task: Task[Any, Any],
    examples: Sequence[Any],
    units: Units,
    vectors: Floats,
    bias: bool,
    *,
    folds: int,
    seed: int,
) -> FittedHead:
    """The best of several strengths by cross-validation, then trained on everything. Changes `vectors`."""
    scale = vectors.std(axis=0)
    scale[scale < 1e-6] = 1.0
    center = vectors.mean(axis=0) if bias else np.zeros_like(scale)
    vectors -= center
    vectors /= scale
    poisson = isinstance(task, Regression) and task.distribution == "poisson"
    knob = "poisson alpha" if poisson else "alpha" if task.name == "regress" else "C"
    folds_made = _folds(task, examples, units, folds, seed)

    def score(strength: float) -> tuple[float, ...]:
        heads = (_train(task, units, vectors, inside, strength, bias) for inside, _ in folds_made)
        return tuple(
            _score(task, examples, units, vectors, head, outside)
            for head, (_, outside) in zip(heads, folds_made, strict=True)
        )

    def best_of(scores: Mapping[float, tuple[float, ...]]) -> float:
        return max(scores, key=lambda strength: np.mean(scores[strength]))

    scores = {strength: score(strength) for strength in STRENGTHS[knob]}
    rough = best_of(scores)
    scores |= {strength: score(strength) for strength in (rough / BETWEEN, rough * BETWEEN)}
    best = best_of(scores)
    head = _train(task, units, vectors, np.arange(len(units)), best, bias)
    weight = head.weight / scale
    folded = Linear(weight, head.bias - weight @ center)
    return FittedHead(folded, task.metric, knob.split()[-1], best, dict(sorted(scores.items())))


def _folds(
    task: Task[Any, Any], examples: Sequence[Any], units: Units, folds: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Numbers of units to train on and of examples to judge by; groups stay together, classes are spread evenly."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    if len(examples) < 2:
        raise UsageError("a head on frozen vectors is judged by folds, and one example cannot be divided; give more")
    folds = min(folds, len(examples))
    numbers = np.arange(len(examples))
    share = MAX_FOLD_ROWS / max(num_rows(units), 1)
    if share < 1:
        chosen = np.random.default_rng(seed).choice(
            len(examples), max(int(share * len(examples)), folds), replace=False
        )
        numbers = np.sort(chosen)
    groups = [examples[number].group for number in numbers.tolist()]
    grouped = any(group is not None for group in groups)
    if grouped:  # who has none is a group of its own
        groups = [f"row {number}" if group is None else f"group {group}" for number, group in enumerate(groups)]
        folds = min(folds, len(set(groups)))
        if folds < 2:
            raise UsageError(
                "a head on frozen vectors is judged by folds, and all examples are of one group; give more"
            )
    labels = [str(examples[number].label) for number in numbers.tolist()] if task.name in ("classify", "pair") else []
    kind: Any = KFold(folds, shuffle=True, random_state=seed)
    if grouped:
        kind = GroupKFold(folds)
    elif labels and min(labels.count(label) for label in set(labels)) >= folds:
        kind = StratifiedKFold(folds, shuffle=True, random_state=seed)
    found = []
    for inside, outside in kind.split(numbers, labels or None, groups if grouped else None):
        own = np.flatnonzero(np.isin(units.owners, numbers[inside]))
        found.append((own, numbers[outside]))
    return found


def _score(
    task: Task[Any, Any],
    examples: Sequence[Any],
    units: Units,
    vectors: Floats,
    head: Linear,
    chosen: NDArray[np.int64],
) -> float:
    """The task's own metric on some examples."""
    own = np.flatnonzero(np.isin(units.owners, chosen))
    flat = head(vectors[rows_of(units, own)])
    bounds = units.arrays.get("bounds", units.first)
    outputs = np.split(flat, np.cumsum(bounds[own + 1] - bounds[own])[:-1])
    if task.name == "choice":
        outputs = [output[:, 0] for output in outputs]
    elif task.name != "tag":
        outputs = [output[0] for output in outputs]
    judged = [examples[number] for number in chosen]
    return task.measure(judged, task.decode(judged, units, outputs, {}))[task.metric]


def _train(
    task: Task[Any, Any], units: Units, vectors: Floats, own: NDArray[np.int64], strength: float, bias: bool
) -> Linear:
    """A head by scikit-learn on the rows of some units."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

    rows = vectors[rows_of(units, own)]
    targets = units.arrays["targets"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last digits do not matter, and cross-validation has the say
        if isinstance(task, Regression):
            if task.distribution == "poisson":
                model = PoissonRegressor(alpha=strength, fit_intercept=bias, max_iter=300)
            else:
                model = Ridge(alpha=strength, fit_intercept=bias)
            model.fit(rows, targets[own])
            return Linear(model.coef_.reshape(1, -1), np.array([float(model.intercept_)]))
        if task.name == "choice":
            differences = _differences(units, vectors, own)
            model = LogisticRegression(C=strength, fit_intercept=False, max_iter=300)
            model.fit(np.concatenate([differences, -differences]), np.repeat([1, 0], len(differences)))
            return Linear(model.coef_, np.zeros(1))
        if isinstance(task, Classification) and task.multi_label:
            weights = task.class_weights or (1.0,) * len(task.labels)
            parts = [_yes_or_no(rows, targets[own, n] > 0.5, weights[n], strength, bias) for n in range(len(weights))]
            return Linear(np.stack([part[0] for part in parts]), np.array([part[1] for part in parts]))
        truth = targets[rows_of(units, own)] if task.name == "tag" else targets[own]
        if len(np.unique(truth)) < 2:  # a fold of few examples may have lost all but one label
            weight, only = np.zeros((len(task.labels), rows.shape[1])), np.full(len(task.labels), NEVER)
            only[truth[:1]] = 0.0
            return Linear(weight, only)
        per_class = task.class_weights if isinstance(task, Classification) else None
        model = LogisticRegression(C=strength, fit_intercept=bias, max_iter=300)
        model.fit(rows, truth, None if per_class is None else np.array(per_class)[truth])
    return _with_all_labels(model, len(task.labels))


def _yes_or_no(
    rows: Floats, truth: NDArray[np.bool_], weight: float, strength: float, bias: bool
) -> tuple[NDArray[Any], float]:
    """Coefficients and bias of one label; `weight` is how much a row that has it counts."""
    from sklearn.linear_model import LogisticRegression

    if truth.all() or not truth.any():
        return np.zeros(rows.shape[1]), -NEVER if truth.all() else NEVER
    model = LogisticRegression(C=strength, fit_intercept=bias, max_iter=300)
    model.fit(rows, truth, np.where(truth, weight, 1.0))
    return model.coef_[0], float(np.ravel(model.intercept_)[0]) if bias else 0.0


def _with_all_labels(model: Any, num_labels: int) -> Linear:
    """scikit-learn's coefficients as one row per label; of two classes it has only the second's."""
    coefficients, intercepts = model.coef_, np.broadcast_to(model.intercept_, len(model.coef_))
    if len(model.classes_) == 2:  # half the difference each way gives the same probabilities
        coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
        intercepts = np.concatenate([-intercepts / 2, intercepts / 2])
    weight, bias = np.zeros((num_labels, coefficients.shape[1])), np.full(num_labels, NEVER)
    weight[model.classes_], bias[model.classes_] = coefficients, intercepts
    return Linear(weight, bias)


def _differences(units: Units, vectors: Floats, own: NDArray[np.int64]) -> Floats:
    """The right option's vector less each wrong one's: (pairs, H)."""
    found = []
    for unit in own.tolist():
        options = vectors[units.first[unit] : units.first[unit + 1]]
        right = int(units.arrays["targets"][unit])
        found.append(options[right] - np.delete(options, right, axis=0))
    return np.concatenate(found)
