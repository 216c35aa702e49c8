"""Similarity: the losses worked by hand and beside `sentence-transformers`, the ranks, the kinds of examples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.data.labelled.examples import Place, SimilarityExample
from bertworks.errors import DataError
from bertworks.tasks import for_examples
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Chosen, Units
from bertworks.tasks.ranking import Ranking
from bertworks.tasks.similarity import Similarity, cosent
from tests.tasks import small
from tests.tasks.small import make_model


def example(*texts: str, score: float | None = None) -> SimilarityExample:
    return SimilarityExample(texts=texts, score=score, place=Place("pairs.tsv", 4))


def make(examples: list[SimilarityExample], **options: Any) -> Similarity:
    task = for_examples("similarity", examples, **options)
    assert isinstance(task, Similarity)
    return task


def test_the_kind_and_the_metric_are_those_of_the_examples() -> None:
    scored, pairs, single = (small.similar(kind) for kind in ("scored", "pairs", "unlabelled"))
    assert (make(scored).kind, make(scored).metric, make(scored).whole_steps) == ("scored", "spearman", True)
    assert not make(scored, score_loss="cosine").whole_steps
    assert (make(scored).lowest, make(scored).highest) == (0.0, 4.5)
    assert (make(pairs).kind, make(pairs).metric) == ("pairs", "mrr")
    assert (make(single).kind, make(single).metric) == ("unlabelled", "spearman")
    assert make(single, dev=pairs).metric == "mrr"
    assert make(pairs, dev=scored).metric == "spearman"


def test_what_cannot_be_learned_is_refused_with_its_place() -> None:
    with pytest.raises(DataError, match=r"pairs\.tsv:4: some examples have a score"):
        make([example("a", "b", score=1.0), example("a", "b")])
    with pytest.raises(DataError, match="all scores are 2"):
        make([example("a", "b", score=2.0)] * 3)
    with pytest.raises(DataError, match="this example has one text"):
        make([example("a", "b", score=2.0), example("a", score=1.0)])
    with pytest.raises(DataError, match="no score, which the kind 'scored' needs"):
        make([example("a", "b")], kind="scored")
    with pytest.raises(DataError, match="two are needed"):
        make([example("a")]).check([example("a")])


def test_loss_of_order_by_hand() -> None:
    logits, targets = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([0.0, 1.0, 1.0])
    assert float(cosent(logits, targets)) == pytest.approx(math.log(1 + math.exp(1.5) + math.exp(-1.5)))
    assert float(cosent(logits, torch.ones(3))) == 0.0


def losses(task: Similarity, examples: list[SimilarityExample]) -> tuple[float, list[np.ndarray]]:
    """The loss of all examples in one batch, and their vectors."""
    model, tokenizer = make_model("bert")
    attach(task, model, tokenizer)
    units = task.encode(examples, tokenizer, window=40, training=True)
    batch = task.prepare(Chosen(units, np.arange(len(units))), 0.0)
    with torch.no_grad():
        (loss,) = task.losses(model, batch).values()
        return float(loss.sum) / loss.count, task.outputs(model, batch)


class Given(torch.nn.Module):
    """Stands for a `SentenceTransformer` whose vectors are known."""

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return features


@pytest.mark.parametrize("kind", ["pairs", "cosent", "cosine"])
def test_losses_equal_sentence_transformers(kind: str) -> None:
    from sentence_transformers import losses as peers

    if kind == "pairs":
        examples = [example(e.texts[0], e.texts[1], f"not {n}") for n, e in enumerate(small.similar("pairs"))]
        task = make(examples)
        peer: Any = peers.MultipleNegativesRankingLoss(Given(), scale=20.0)
        target = torch.zeros(0)
    else:
        examples = small.similar("scored")
        task = make(examples, score_loss=kind)
        peer = peers.CoSENTLoss(Given()) if kind == "cosent" else peers.CosineSimilarityLoss(Given())
        target = torch.tensor([e.score / 4.5 for e in examples if e.score is not None])
    ours, vectors = losses(task, examples)
    sides = [torch.from_numpy(np.stack([v[side] for v in vectors])) for side in range(len(vectors[0]))]
    theirs = float(peer([{"sentence_embedding": side} for side in sides], target))
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_what_another_row_calls_right_is_not_held_against_an_anchor() -> None:
    examples = [example("a", "b", "a"), example("a", "c"), example("d", "b", "e")]
    ranking = Ranking.of_examples(examples)
    assert ranking.candidates.tolist() == [0, 1, 2, 4]  # a, b, c, e
    assert ranking.kept.tolist() == [1, 0, 2, 4]  # of b, a, c, b, e
    assert ranking.own.tolist() == [1, 2, 1]
    assert sorted(zip(*ranking.other_answers().tolist(), strict=True)) == [(0, 0), (0, 2), (1, 0), (1, 1)]
    assert ranking.other_answers(slice(1, 3)).T.tolist() == [[0, 0], [0, 1]]
    assert ranking.other_answers(slice(2, 2)).shape == (2, 0)
    ours, vectors = losses(make(examples), examples)
    a, b, c, d, e = (vectors[unit][side] for unit, side in ((0, 0), (0, 1), (1, 1), (2, 0), (2, 2)))

    def cosine(first: np.ndarray, second: np.ndarray) -> float:
        return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))

    parts = [(a, b, [b, e]), (a, c, [c, e]), (d, b, [b, c, a, e])]
    by_hand = [
        math.log(sum(math.exp(20 * cosine(anchor, other)) for other in others)) - 20 * cosine(anchor, positive)
        for anchor, positive, others in parts
    ]
    assert ours == pytest.approx(sum(by_hand) / 3, rel=1e-4)
    # Though they are not in the same batch:
    task = make(examples)
    units = task.encode(examples, make_model("bert")[1], window=40, training=True)
    batch = task.prepare(Chosen(units, np.array([1, 2])), 0.0)
    assert batch.tensors["candidates"].tolist() == [3, 1, 4]  # b, c, e of a, c, d, b, e
    assert batch.tensors["right"].T.tolist() == [[0, 0]]
    # The same when it is judged: the second positive of "a" is nearer to it, and does not cost the first its place.
    circle = {"a": 0, "b": 20, "c": 10, "d": 30, "e": 90}
    outputs = [
        np.array([[math.cos(math.radians(circle[t])), math.sin(math.radians(circle[t]))] for t in e.texts], np.float32)
        for e in examples
    ]
    nothing: Any = None
    assert [p.rank for p in make(examples).decode(examples, nothing, outputs, {})] == [1, 1, 1]


def test_texts_are_found_again_through_dropout() -> None:
    """Each text is there twice in a batch; in training mode the two differ, and the loss is not 0."""
    examples = small.similar("unlabelled")
    model, tokenizer = make_model("bert")
    task = make(examples)
    attach(task, model, tokenizer)
    units = task.encode(examples, tokenizer, window=40, training=True)
    assert units.num_tokens.sum() == 2 * task.encode(examples, tokenizer, window=40, training=False).num_tokens.sum()
    batch = task.prepare(Chosen(units, np.arange(len(units))), 0.0)
    with torch.no_grad():
        for twin in task.outputs(model.eval(), batch):
            np.testing.assert_allclose(twin[0], twin[1], atol=1e-5)
        assert any(not np.allclose(twin[0], twin[1], atol=1e-2) for twin in task.outputs(model.train(), batch))


def test_ranks_by_hand() -> None:
    """Vectors on a circle: the anchor's own positive is nearest, or second to another's negative."""
    task = make([example("a", "b"), example("c", "d", "e")])
    angles = [(0, 10), (100, 130, 101)]
    outputs = [
        np.array([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in row], np.float32) for row in angles
    ]
    examples = [example("a", "b"), example("c", "d", "e")]
    nothing: Any = Units(
        ids=np.zeros(0, np.int32),
        segments=None,
        starts=np.zeros(1, np.int64),
        first=np.zeros(1, np.int64),
        owners=np.zeros(0, np.int64),
    )
    predictions = task.decode(examples, nothing, outputs, {})
    assert [p.rank for p in predictions] == [1, 2]
    assert predictions[0].similarity == pytest.approx(math.cos(math.radians(10)))
    assert task.measure(examples, predictions) == {"accuracy": 0.5, "mrr": 0.75}
    with pytest.raises(DataError, match="needs two"):
        task.decode([example("a")], nothing, outputs[:1], {})
