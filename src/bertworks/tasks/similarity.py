"""Sentence vectors whose cosine says how similar two texts are (Reimers and Gurevych 2019). The result is an embedding model.

What is trained depends on what the examples are:

    pairs        (anchor, positive, negative …): the positive must be nearer to the anchor than every other positive
                 and negative of the batch; cross entropy over 20 times the cosines (Henderson et al. 2017). A text that
                 another row of the file calls right for the same anchor is not held against it
    scored       two texts and a number: `cosent` asks that pairs be in the order of their scores (Su 2022), `cosine`
                 that the cosine be the score, brought to 0 … 1 (squared error)
    unlabelled   single texts: each is computed twice, with two draws of dropout, and must find itself again among the
                 others (SimCSE, Gao et al. 2021)

Vectors are the mean of a text's token vectors (or its first token's, or the maximum). Texts longer than the window are
cut, as `sentence-transformers` does. Left out: losses over triplets alone, distillation from a cross-encoder.

Legend: U units (an example's texts together), B sequences of a batch, H hidden, N candidates of a ranking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.data.labelled.examples import SimilarityExample
from bertworks.errors import DataError, choice
from bertworks.hub.sentence import POOLINGS, Pooling, SentenceSettings
from bertworks.models.model import Model
from bertworks.nn.packed import max_per_sequence, mean_per_sequence
from bertworks.objectives.base import Batch, Loss
from bertworks.tasks.base import Chosen, Decision, TaskName, Units
from bertworks.tasks.metrics.ranking import pearson, spearman
from bertworks.tasks.predictions import SimilarityPrediction
from bertworks.tasks.ranking import Ranking, right_answers, text_numbers
from bertworks.tasks.texts import data_error, text_runs
from bertworks.tasks.units import cut_texts, frame_texts, pack_units, room_for, sequences_of, split_by, units_of
from bertworks.text.tokenizer import Tokenizer

Arrays = Sequence[NDArray[np.float32]]
Kind = Literal["pairs", "scored", "unlabelled"]
ScoreLoss = Literal["cosent", "cosine"]

SAME = 1e-6
"""Cosines nearer than this are equal: the same text, computed beside other texts."""
ROWS_AT_ONCE = 1024

NO_LABELS = " (an embedding model gives no labels; fine-tune it first: bertworks finetune classify --train FILE -o DIR)"


@dataclass(frozen=True, kw_only=True)
class Similarity:
    """Texts near each other, or as near as their score says."""

    name: TaskName = "similarity"
    kind: Kind
    score_loss: ScoreLoss = "cosent"
    """What scored pairs are trained with."""
    lowest: float = 0.0
    highest: float = 1.0
    """The scale of the scores: what stands for cosines of 0 and of 1."""
    scale: float = 20.0
    """What cosines are multiplied by before a softmax; 1 / temperature."""
    pooling: Pooling = "mean"
    normalize: bool = False
    """Whether the saved model scales its vectors to length 1; cosines are the same either way."""
    metric: str = "spearman"

    @classmethod
    def for_examples(
        cls,
        name: TaskName,
        examples: Sequence[SimilarityExample],
        dev: Sequence[SimilarityExample] | None = None,
        *,
        kind: Kind | None = None,
        score_loss: ScoreLoss = "cosent",
        scale: float = 20.0,
        pooling: Pooling = "mean",
        normalize: bool = False,
        metric: str | None = None,
    ) -> Self:
        """The kind is that of the examples, unless it is said: `unlabelled` takes every text of any examples by itself.

        metric: default spearman where the development examples have scores, mrr (mean reciprocal rank) where they are
                pairs that belong together
        """
        choice(score_loss, ("cosent", "cosine"), "loss of scored pairs")
        choice(pooling, POOLINGS, "pooling")
        kind = kind or _kind(examples)
        choice(kind, ("pairs", "scored", "unlabelled"), "kind of similarity examples")
        judged = _kind(dev) if dev else kind
        metric = metric or ("mrr" if judged == "pairs" else "spearman")
        choice(metric, ("mrr", "accuracy", "spearman", "pearson"), "metric")
        scores = [example.score for example in examples if example.score is not None]
        task = cls(
            name=name,
            kind=kind,
            score_loss=score_loss,
            lowest=min(scores, default=0.0),
            highest=max(scores, default=1.0),
            scale=scale,
            pooling=pooling,
            normalize=normalize,
            metric=metric,
        )
        task._check_training(examples)
        return task

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        return cls(name=settings["task"], **{name: value for name, value in settings.items() if name != "task"})

    def settings(self) -> dict[str, Any]:
        fields = {field: getattr(self, field) for field in self.__dataclass_fields__ if field != "name"}
        return {"task": self.name, **fields}

    def sentence_settings(self, window: int) -> SentenceSettings:
        """What `hub.save` needs to write a directory that `sentence-transformers` opens."""
        return SentenceSettings(pooling=self.pooling, normalize=self.normalize, max_seq_length=window)

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def whole_steps(self) -> bool:
        return not (self.kind == "scored" and self.score_loss == "cosine")

    @property
    def weights(self) -> Mapping[str, float]:
        return {"similarity": 1.0}

    def head(self, model: Model) -> None:
        return None

    def check(self, examples: Sequence[SimilarityExample]) -> None:
        """Examples to be judged by: pairs, with scores in all of them or in none."""
        if not examples:
            return
        scored = examples[0].score is not None
        for example in examples:
            if len(example.texts) < 2:
                raise data_error(
                    example, f"this example has one text; two are needed to measure a similarity{NO_LABELS}"
                )
            if (example.score is not None) != scored:
                raise data_error(example, "some examples have a score and some have none; give all or none")

    def _check_training(self, examples: Sequence[SimilarityExample]) -> None:
        for example in examples:
            if not example.texts:
                raise data_error(example, "this example has no text")
        if self.kind == "unlabelled":
            return
        self.check(examples)
        if not examples:
            return
        if self.kind == "scored" and examples[0].score is None:
            raise data_error(examples[0], "this example has no score, which the kind 'scored' needs")
        if self.kind == "scored" and self.lowest == self.highest:
            raise data_error(examples[0], f"all scores are {self.lowest:g}; there is no order to be learned")

    def encode(
        self, examples: Sequence[SimilarityExample], tokenizer: Tokenizer, *, window: int, training: bool
    ) -> Units:
        strings = [text for example in examples for text in example.texts]
        texts = text_runs(tokenizer, strings)
        counts = np.array([len(example.texts) for example in examples], np.int64)
        owners = np.arange(len(examples))
        room = room_for(tokenizer.template, window, pair=False)
        longer = np.repeat(owners, counts)[texts.lengths > room]
        arrays: dict[str, NDArray[Any]] = {}
        if training:
            self._check_training(examples)
            if self.kind == "scored":
                span = self.highest - self.lowest
                scores = np.array([example.score for example in examples], np.float64)
                arrays["targets"] = ((scores - self.lowest) / span).astype(np.float32)
            else:
                numbers = text_numbers(strings)
                if self.kind == "unlabelled":  # every text is a unit, and stands there twice
                    texts = texts.take(np.repeat(texts.starts, 2), np.repeat(texts.lengths, 2))
                    owners, counts = np.repeat(owners, counts), np.full(int(counts.sum()), 2)
                    numbers = np.repeat(numbers, 2)
                first = np.cumsum(counts) - counts
                arrays["texts"] = numbers  # of each sequence
                arrays["answers"] = right_answers(numbers[first], numbers[first + 1])
        sequences = frame_texts(tokenizer.template, cut_texts(texts, room))
        if sequences.lengths.min(initial=1) < 1:
            raise DataError("a text has no tokens, and the tokenizer adds none; remove empty texts")
        return units_of(sequences, owners, per_unit=counts, arrays=arrays, num_cut=len(np.unique(longer)))

    # -- Objective -----------------------------------------------------------------------------------------------------

    def prepare(self, rows: Chosen, progress: float) -> Batch:
        """`places` (B,) says where in the packed batch, which is sorted by length, each sequence of each unit is."""
        units, sequences = rows.units, sequences_of(rows)
        counts = units.first[rows.numbers + 1] - units.first[rows.numbers]
        order = np.argsort(units.starts[sequences + 1] - units.starts[sequences], kind="stable")
        tensors = {
            "places": torch.from_numpy(np.argsort(order, kind="stable")),
            "counts": torch.from_numpy(counts),  # (U,)
        }
        if "targets" in units.arrays:
            tensors["targets"] = torch.from_numpy(units.arrays["targets"][rows.numbers])
        if "texts" in units.arrays:
            texts, first = units.arrays["texts"][sequences], np.cumsum(counts) - counts
            offered = np.setdiff1d(np.arange(len(texts)), first)  # positives and negatives
            ranking = Ranking(units.arrays["answers"], texts[first], texts[first + 1], texts[offered])
            tensors["candidates"] = torch.from_numpy(offered[ranking.kept])  # (N,)
            tensors["targets"] = torch.from_numpy(ranking.own)  # (U,)
            tensors["right"] = torch.from_numpy(ranking.other_answers())  # (2, …)
        ordered = self.kind == "scored" and self.score_loss == "cosent"  # one loss for all pairs of pairs
        count = min(len(rows.numbers), 1) if ordered else len(rows.numbers)
        return Batch(packed=pack_units(rows, sequences[order]), counts={"similarity": count}, tensors=tensors)

    def _vectors(self, model: Model, batch: Batch) -> Tensor:
        """(B, H), unit by unit."""
        layout = batch.packed.layout
        rows = layout.first() if self.pooling == "cls" else None
        hidden = model.body(batch.packed, rows=rows).last.float()
        if self.pooling == "mean":
            hidden = mean_per_sequence(hidden, layout)
        elif self.pooling == "max":
            hidden = max_per_sequence(hidden, layout)
        return hidden.index_select(0, batch.tensors["places"])

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        vectors = F.normalize(self._vectors(module, batch), dim=-1)  # (B, H)
        counts = batch.tensors["counts"]
        first = counts.cumsum(0) - counts  # (U,): each unit's first text
        anchors, positives = vectors[first], vectors[first + 1]  # (U, H) each
        if self.kind == "scored":
            cosines, targets = (anchors * positives).sum(dim=-1), batch.tensors["targets"]
            if self.score_loss == "cosine":
                total = F.mse_loss(cosines, targets, reduction="sum")
            else:
                total = cosent(cosines * self.scale, targets)
            return {"similarity": Loss(sum=total, count=batch.counts["similarity"])}
        logits = self.scale * anchors @ vectors[batch.tensors["candidates"]].T  # (U, N)
        logits = logits.index_put(tuple(batch.tensors["right"]), logits.new_tensor(float("-inf")))
        targets = batch.tensors["targets"]
        nearest = logits.argmax(dim=-1) if len(anchors) else targets
        return {
            "similarity": Loss(
                sum=F.cross_entropy(logits, targets, reduction="sum"),
                count=len(targets),
                correct=(nearest == targets).sum(),
            )
        }

    # -- after the model -----------------------------------------------------------------------------------------------

    def outputs(self, model: Model, batch: Batch) -> list[NDArray[np.float32]]:
        """Vectors, (texts of the unit, H) each."""
        vectors = self._vectors(model, batch).cpu().numpy()
        return cast(list[NDArray[np.float32]], split_by(vectors, batch.tensors["counts"].cpu().numpy()))

    def decide(self, examples: Sequence[SimilarityExample], units: Units, outputs: Arrays) -> dict[str, Any]:
        return {}

    def decode(
        self, examples: Sequence[SimilarityExample], units: Units, outputs: Arrays, decision: Decision
    ) -> list[SimilarityPrediction]:
        if not examples:
            return []
        for example in examples:
            if len(example.texts) < 2:
                raise data_error(example, f"this example has one text; a similarity needs two{NO_LABELS}")
        unit_vectors = [_unit_length(vectors) for vectors in outputs]
        anchors = np.stack([vectors[0] for vectors in unit_vectors])  # (U, H)
        positives = np.stack([vectors[1] for vectors in unit_vectors])
        cosines = np.einsum("uh,uh->u", anchors, positives).tolist()
        if any(example.score is not None for example in examples):
            return [SimilarityPrediction(cosine) for cosine in cosines]
        offered = np.concatenate([vectors[1:] for vectors in unit_vectors])
        ranking = Ranking.of_examples(examples)
        candidates = offered[ranking.kept]  # (N, H)
        ranks = []
        for start in range(0, len(anchors), ROWS_AT_ONCE):
            chunk = slice(start, start + ROWS_AT_ONCE)
            rows = anchors[chunk] @ candidates.T
            rows[tuple(ranking.other_answers(chunk))] = -np.inf
            ranks += (1 + (rows > np.array(cosines[chunk])[:, None] + SAME).sum(axis=1)).tolist()
        return [SimilarityPrediction(cosine, rank) for cosine, rank in zip(cosines, ranks, strict=True)]

    def measure(
        self, examples: Sequence[SimilarityExample], predictions: Sequence[SimilarityPrediction]
    ) -> dict[str, float]:
        """spearman and pearson of cosines and scores; of pairs without scores accuracy (rank 1) and mrr."""
        self.check(examples)
        if examples and examples[0].score is None:
            ranks = np.array([prediction.rank for prediction in predictions], np.float64)
            return {"accuracy": float((ranks == 1).mean()), "mrr": float((1.0 / ranks).mean())}
        scores = [cast(float, example.score) for example in examples]
        cosines = [prediction.similarity for prediction in predictions]
        return {"spearman": spearman(scores, cosines), "pearson": pearson(scores, cosines)}

    def finish(self, model: Model) -> Self:
        return self


def cosent(logits: Tensor, targets: Tensor) -> Tensor:
    """log(1 + sum of exp(a - b) over all two pairs of which the one with logit a has the lower score): (U,), (U,) -> scalar."""
    differences = (logits[:, None] - logits[None, :])[targets[:, None] < targets[None, :]]
    return torch.logsumexp(torch.cat([differences.new_zeros(1), differences]), dim=0)


def _kind(examples: Sequence[SimilarityExample]) -> Kind:
    if any(example.score is not None for example in examples):
        return "scored"
    return "pairs" if any(len(example.texts) > 1 for example in examples) else "unlabelled"


def _unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return cast(NDArray[np.float64], wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12))
