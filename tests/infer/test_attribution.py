"""Which tokens mattered: integrated gradients are complete, a rollout is what one multiplies by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import bertworks
from bertworks.errors import ModelError, UsageError
from bertworks.infer.attribution import attention_rollout, baseline_of, integrated_gradients, rollout_of
from bertworks.infer.explain import METHODS, explain
from bertworks.infer.predict import Predictor
from bertworks.nn.packed import Packed
from bertworks.tasks.words import tagged_from_text
from tests.infer.foreign import Foreign

TEXT, OTHER = "The river runs past the old mill.", "Seventeen geese walked to the market."
LABELS = {"id2label": {0: "no", 1: "yes", 2: "maybe"}, "label2id": {"no": 0, "yes": 1, "maybe": 2}}
TAGS = {0: "O", 1: "B-PER", 2: "I-PER"}
LOUD = 0.6
"""Of random weights, so that the function is far from a straight line."""


@pytest.fixture(scope="module")
def predictors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    """One model of each task, of different families."""
    made = {
        "classify": ("bert", "ForSequenceClassification", LABELS),
        "classify-albert": ("albert", "ForSequenceClassification", LABELS),
        "classify-gpt2": ("gpt2", "ForSequenceClassification", LABELS),
        "regress": ("roberta", "ForSequenceClassification", {"num_labels": 1, "problem_type": "regression"}),
        "choice": ("bert", "ForMultipleChoice", {}),
        "tag": (
            "modernbert",
            "ForTokenClassification",
            {"id2label": TAGS, "label2id": {v: k for k, v in TAGS.items()}},
        ),
        "qa": ("bert", "ForQuestionAnswering", {}),
    }
    found = {}
    for name, (family, architecture, options) in made.items():
        directory = tmp_path_factory.mktemp(name)
        torch.manual_seed(1)
        Foreign(directory, family, architecture, initializer_range=LOUD / 3, **options)
        found[name] = Predictor(directory)
    return found


ROWS = {
    "classify": TEXT,
    "classify-albert": (TEXT, OTHER),
    "classify-gpt2": TEXT,
    "regress": TEXT,
    "choice": (TEXT, [OTHER, "It is old.", "x"]),
    "tag": TEXT,
    "qa": ("Who walked?", OTHER),
}
TARGETS = {"tag": 2, "choice": 1}


@pytest.mark.parametrize("name", ROWS)
def test_contributions_add_up(predictors: dict[str, Predictor], name: str) -> None:
    (found,) = explain(predictors[name], ROWS[name], target=TARGETS.get(name), points=64)
    assert found.method == "integrated-gradients"
    assert found.output is not None
    assert found.baseline is not None
    difference = found.output - found.baseline
    assert abs(difference) > 1e-3  # else nothing is shown
    assert sum(token.value for token in found.tokens) == pytest.approx(difference, abs=2e-3 * max(1, abs(difference)))
    assert found.gap == pytest.approx(sum(token.value for token in found.tokens) - difference)
    assert all(token.value == 0 for token in found.tokens if token.part == -1)


def test_what_is_explained_is_what_was_predicted(predictors: dict[str, Predictor]) -> None:
    predictor = predictors["classify"]
    said = predictor.predict(TEXT)
    (found,) = explain(predictor, TEXT)
    assert found.of == f"the log-odds of the label {said.label}"
    assert found.output == pytest.approx(np.log(said.probability / (1 - said.probability)), abs=1e-4)
    (other,) = explain(predictor, TEXT, target="maybe")
    assert other.output == pytest.approx(
        np.log(said.probabilities["maybe"] / (1 - said.probabilities["maybe"])), abs=1e-4
    )
    (number,) = explain(predictors["regress"], TEXT)
    assert number.output == pytest.approx(predictors["regress"].predict(TEXT).value, abs=1e-5)


def test_a_straight_line_needs_one_point(predictors: dict[str, Predictor]) -> None:
    """By hand: of the sum of all numbers of the token vectors, a token's part is its own sum minus the baseline's."""
    loaded = predictors["classify"].loaded
    table = loaded.model.body.embeddings.tokens
    ids = torch.tensor([5, 9, 7])
    baseline = torch.tensor([5, 0, 0])
    found = integrated_gradients(
        loaded.model,
        Packed.from_sequences([ids.tolist()]),
        lambda batch: table(batch.input_ids).unflatten(0, (-1, 3)).sum(dim=(1, 2)),
        baseline_ids=baseline,
        points=1,
    )
    sums = table.weight.detach().double().sum(dim=1)
    np.testing.assert_allclose(found.values, (sums[ids] - sums[baseline]).numpy(), atol=1e-6)
    assert found.output == pytest.approx(float(sums[ids].sum()), abs=1e-5)
    assert not table._forward_hooks


def test_more_points_than_fit_at_once_change_nothing(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = explain(predictors["classify"], TEXT)
    monkeypatch.setattr("bertworks.infer.attribution.TOKENS_AT_ONCE", 40)
    (parts,) = explain(predictors["classify"], TEXT)
    np.testing.assert_allclose([t.value for t in whole.tokens], [t.value for t in parts.tokens], atol=1e-5)


def test_the_middle_of_a_square_by_hand(predictors: dict[str, Predictor]) -> None:
    """F = (sum of x)²: the gradient is linear on the path, so the contribution is (x − b)(mean of both sums) · 2 / 2."""
    loaded = predictors["classify"].loaded
    table = loaded.model.body.embeddings.tokens
    found = integrated_gradients(
        loaded.model,
        Packed.from_sequences([[6, 8]]),
        lambda batch: table(batch.input_ids).unflatten(0, (-1, 2)).sum(dim=(1, 2)) ** 2,
        baseline_ids=torch.tensor([0, 0]),
        points=2,
    )
    sums = table.weight.detach().double().sum(dim=1).numpy()
    total, start = sums[6] + sums[8], 2 * sums[0]
    np.testing.assert_allclose(found.values, [(sums[i] - sums[0]) * (total + start) for i in (6, 8)], rtol=1e-4)


def test_rollout_by_hand() -> None:
    first = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])  # mean of the heads: all 0.5
    second = np.array([[[0.2, 0.8], [0.6, 0.4]]])
    one = np.array([[0.75, 0.25], [0.25, 0.75]])
    two = np.array([[0.6, 0.4], [0.3, 0.7]])
    np.testing.assert_allclose(attention_rollout([first]), one)
    np.testing.assert_allclose(attention_rollout([first, second]), two @ one)
    np.testing.assert_allclose(two @ one, [[0.55, 0.45], [0.4, 0.6]])
    with pytest.raises(UsageError, match="no attention weights"):
        attention_rollout([])


@pytest.mark.parametrize("name", ["classify", "classify-albert", "tag", "qa"])
def test_rollout_of_a_model(predictors: dict[str, Predictor], name: str) -> None:
    (found,) = explain(predictors[name], ROWS[name], method="attention-rollout", target=TARGETS.get(name))
    assert sum(token.value for token in found.tokens) == pytest.approx(1, abs=1e-5)
    assert all(token.value >= 0 for token in found.tokens)
    assert (found.output, found.baseline, found.gap) == (None, None, None)


def test_rollout_is_that_of_the_weights(predictors: dict[str, Predictor]) -> None:
    loaded = predictors["classify"].loaded
    attention = loaded.attend(TEXT)
    batch = Packed.from_sequences([loaded.tokenizer.encode(TEXT).ids])
    np.testing.assert_allclose(rollout_of(loaded.model, batch, [0]), attention_rollout(attention.weights)[0], atol=1e-6)


def test_tokens_know_their_places(predictors: dict[str, Predictor]) -> None:
    text = "The  naïve (river) runs."
    (tags,) = explain(predictors["tag"], text, target=1, method="attention-rollout")
    words = tagged_from_text(text, place=None).words  # type: ignore[arg-type]
    assert words[1] == "naïve"
    places = dict.fromkeys((token.start, token.end) for token in tags.tokens if token.part == 0)  # ï is two tokens
    spelt = "".join(text[start:end] for start, end in places)
    assert spelt.replace(" ", "") == text.replace(" ", "")
    assert "for the word naïve" in tags.of
    (answer,) = explain(predictors["qa"], ROWS["qa"])
    parts = (ROWS["qa"][0], ROWS["qa"][1])
    assert {parts[t.part][t.start : t.end] for t in answer.tokens if t.part == 1} >= {"."}
    assert {token.part for token in answer.tokens} == {-1, 0, 1}


def test_similarity_of_a_real_model(minilm_directory: Path) -> None:
    predictor = bertworks.load(minilm_directory).predictor
    pair = ("A cat sleeps on the sofa.", "A kitten is asleep.")
    first, second = explain(predictor, pair, points=16)
    cosine = predictor.predict(pair).similarity
    assert first.output == pytest.approx(cosine, abs=1e-5)
    assert second.output == pytest.approx(cosine, abs=1e-5)
    assert first.gap == pytest.approx(0, abs=0.02)
    assert {token.part for token in first.tokens} == {-1, 0}
    assert {token.part for token in second.tokens} == {-1, 1}
    best = max(first.tokens, key=lambda token: token.value)
    assert best.text in ("cat", "sleeps")


def test_errors(predictors: dict[str, Predictor]) -> None:
    with pytest.raises(UsageError, match="unknown method 'gradients'"):
        explain(predictors["classify"], TEXT, method="gradients")
    with pytest.raises(UsageError, match="unknown label 'perhaps'"):
        explain(predictors["classify"], TEXT, target="perhaps")
    with pytest.raises(UsageError, match=r"reads 70 at once.*shorten it"):
        explain(predictors["classify"], TEXT * 20)
    with pytest.raises(UsageError, match="which word's tag"):
        explain(predictors["tag"], TEXT)
    with pytest.raises(UsageError, match="number of one word of 8"):
        explain(predictors["tag"], TEXT, target=99)
    with pytest.raises(UsageError, match=r"an answer is a pair of characters"):
        explain(predictors["qa"], ROWS["qa"], target="geese")
    with pytest.raises(UsageError, match="at least 1"):
        explain(predictors["classify"], TEXT, points=0)
    assert set(METHODS) == {"integrated-gradients", "attention-rollout"}
    assert baseline_of(predictors["classify"].loaded.tokenizer) == 0


def test_no_attention_no_rollout(tmp_path: Path) -> None:
    from tests.models.test_recurrent_stack import model

    with pytest.raises(ModelError, match="choose integrated gradients"):
        rollout_of(model(), Packed.from_sequences([[1, 2]]), [0])
