"""How well documents fit a query, by whatever model there is.

a classifier of pairs       the probability of one label (the second, unless told) for (query, document)
a model of numbers          its number for (query, document)
any model with vectors      the cosine of the query's and the document's vectors; the query is embedded once
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertworks.data.labelled.examples import Place, TextExample
from bertworks.errors import choice
from bertworks.infer.embed import normalize_rows
from bertworks.serve.engine import Work
from bertworks.serve.problems import RequestError
from bertworks.serve.served import Served
from bertworks.serve.settings import estimated_tokens
from bertworks.tasks.predictions import LabelPrediction, NumberPrediction


class Scorer:
    """The work that gives the scores of `documents`, and how its results become scores."""

    def __init__(self, served: Served, query: str, documents: Sequence[str], *, label: str | None) -> None:
        self.label = label
        reads_both = served.task in ("classify", "pair", "regress")
        if served.task in ("classify", "pair") and served.predictor is not None:
            self.label = _label(served.name, served.predictor.labels, label)
        elif label is not None:
            raise RequestError(422, f"label is {label!r}, but {served.name!r} is no classifier and has no labels")
        if reads_both:
            self.work: Work = served.prediction()
            self.items: list[Any] = [
                TextExample(text=query, pair=document, place=Place("request", number))
                for number, document in enumerate(documents)
            ]
            self.sizes = [estimated_tokens(query, document) for document in documents]
        else:
            self.work = served.embedding(normalize=True)
            self.items = [query, *documents]
            self.sizes = [estimated_tokens(text) for text in self.items]

    def scores(self, found: Sequence[Any]) -> list[float]:
        """One score per document."""
        if isinstance(found[0], LabelPrediction):
            return [float(one.probabilities[self.label]) for one in found]
        if isinstance(found[0], NumberPrediction):
            return [float(one.value) for one in found]
        vectors = normalize_rows(np.stack(found).astype(np.float64))
        return [float(score) for score in vectors[1:] @ vectors[0]]


def _label(name: str, labels: Sequence[str], wanted: str | None) -> str:
    if wanted is not None:
        return choice(wanted, labels, f"label of the model {name!r}")
    if len(labels) != 2:
        raise RequestError(
            422, f"the model {name!r} has {len(labels)} labels; say with `label` which one's probability is the score"
        )
    return labels[1]
