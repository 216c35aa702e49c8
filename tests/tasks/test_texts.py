"""Classification and regression: what is read off the examples, long texts, decisions, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.data.labelled.examples import ChoiceExample, Place, QuestionExample, SimilarityExample, TextExample
from bertworks.errors import DataError, UsageError
from bertworks.tasks import for_examples
from bertworks.tasks.answers import Answering
from bertworks.tasks.attach import attach
from bertworks.tasks.base import Chosen
from bertworks.tasks.classification import Classification
from bertworks.tasks.predictions import LabelPrediction
from bertworks.tasks.regression import Regression
from bertworks.tasks.run import evaluate_model, predict_examples
from bertworks.tasks.units import Runs, cut_pairs
from bertworks.text.cut import cut
from bertworks.text.tokenizer import Tokenizer
from tests.tasks import small
from tests.tasks.small import make_model, make_tokenizer

NOWHERE = Place("train.tsv", 7)


def example(text: str, label: Any = None, pair: str | None = None) -> TextExample:
    return TextExample(text=text, pair=pair, label=label, place=NOWHERE)


def classification(labels: list[Any], **options: Any) -> Classification:
    task = for_examples("classify", [example("a", label) for label in labels], **options)
    assert isinstance(task, Classification)
    return task


# -- what the examples say ---------------------------------------------------------------------------------------------


def test_labels_are_in_the_order_of_numbers_or_of_the_alphabet() -> None:
    assert classification(["10", "9", "-1", "9"]).labels == ("-1", "9", "10")
    assert classification(["b", "10", "a"]).labels == ("10", "a", "b")
    assert classification([("x", "y"), ("a",), ()]).labels == ("a", "x", "y")


def test_the_metric_fits_the_balance_of_the_classes() -> None:
    assert classification(["a", "b"]).metric == "accuracy"
    assert classification(["a", "a", "b"]).metric == "mcc"
    assert classification(["a"] * 8 + ["b", "c"]).metric == "f1_macro"
    assert classification([("a",), ("a", "b")]).metric == "f1_micro"
    assert classification(["a", "b"], metric="f1").metric == "f1"
    with pytest.raises(UsageError, match="unknown metric 'f1'"):
        classification(["a", "b", "c"], metric="f1")


def test_one_label_is_no_task() -> None:
    with pytest.raises(DataError, match=r"train\.tsv: .* at least two different labels; there is only: a"):
        classification(["a", "a"])
    with pytest.raises(UsageError, match="there is none"):
        Classification(labels=(), multi_label=True)


def test_one_label_that_a_text_may_have_is_a_task() -> None:
    task = classification([("a",), ()])
    assert task.labels == ("a",)
    model, tokenizer = make_model("bert")
    tokenizer = attach(task, model, tokenizer)
    rows = [example("the old mill", ("a",)), example("the river", ())]
    evaluated = evaluate_model(task, model, rows, tokenizer=tokenizer, window=40, decision={"thresholds": [0.0]})
    assert [prediction.label for prediction in evaluated.predictions] == [("a",), ("a",)]
    assert evaluated.figures["f1_micro"] == pytest.approx(2 / 3)


def test_balanced_weights_count_each_class_alike() -> None:
    task = classification(["a", "a", "a", "b"], class_weights="balanced")
    assert task.class_weights == (4 / 6, 2.0)  # 3 * 2/3 = 1 * 2
    assert classification(["a", "b"], class_weights=[1, 3]).class_weights == (1.0, 3.0)
    with pytest.raises(UsageError, match=r"class_weights has the values \[1.0\]"):
        classification(["a", "b"], class_weights=[1])


def test_weights_of_several_labels_are_those_of_the_labels_that_apply() -> None:
    task = classification([("a",), ("a",), ("b", "a"), ()], class_weights="balanced")
    assert task.class_weights == (1 / 3, 3.0)
    assert classification([("a",), ("a", "b")], class_weights="balanced").class_weights == (1 / 2, 1.0)  # none is 0


def test_unknown_labels_and_lists_are_refused_with_their_place() -> None:
    task = classification(["no", "yes"])
    with pytest.raises(DataError, match=r"train\.tsv:7: unknown label 'maybe'; the training examples have: no, yes"):
        task.check([example("a", "maybe")])
    with pytest.raises(DataError, match="list of labels"):
        task.check([example("a", ("no", "yes"))])
    with pytest.raises(DataError, match=r"train\.tsv:7: the label 'many' is not a number"):
        Regression().check([example("a", "many")])
    with pytest.raises(DataError, match="not a number"):
        Regression().check([example("a", math.nan)])
    with pytest.raises(DataError, match=r"the label -1\.0 is negative"):
        for_examples("regress", [example("a", -1.0)], distribution="poisson")


def test_some_pairs_are_refused() -> None:
    task = classification(["no", "yes"])
    with pytest.raises(DataError, match="no second text"):
        task.encode([example("a", "no", "b"), example("a", "no")], make_tokenizer("bert"), window=9, training=True)


# -- long texts --------------------------------------------------------------------------------------------------------

WORDS = st.lists(
    st.sampled_from(["the", "river", "runs", "past", "old", "mill", "walking", "geese", "17"]), max_size=40
)


def parts(units: Any, number: int) -> tuple[list[int], list[int]]:
    """The text tokens of a sequence: those of the first text, those of the second (BERT's template)."""
    ids = units.ids[units.starts[number] : units.starts[number + 1]].tolist()
    assert ids[0] == 2
    assert ids[-1] == 3
    inside = ids[1:-1]
    if 3 not in inside:
        return inside, []
    middle = inside.index(3)
    return inside[:middle], inside[middle + 1 :]


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=4))
def test_windows_of_long_texts_are_the_whole_text(texts: list[list[str]]) -> None:
    tokenizer = TOKENIZER
    examples = [example(" ".join(words)) for words in texts]
    units = classification(["no", "yes"]).encode(examples, tokenizer, window=11, training=False)
    found: list[list[int]] = [[] for _ in texts]
    for unit, owner in enumerate(units.owners):
        first, second = parts(units, unit)
        assert len(first) <= 9
        assert not second
        found[owner] += first
    assert found == [tokenizer.encode(e.text, special=False).ids.tolist() for e in examples]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
def test_windows_of_long_pairs_hold_the_shorter_text_and_run_through_the_longer(
    texts: list[tuple[list[str], list[str]]],
) -> None:
    tokenizer = TOKENIZER
    room = 13 - 3
    examples = [example(" ".join(first), pair=" ".join(second)) for first, second in texts]
    units = classification(["no", "yes"]).encode(examples, tokenizer, window=13, training=False)
    assert np.diff(units.starts).max() <= 13
    for owner, one in enumerate(examples):
        first = tokenizer.encode(one.text, special=False).ids.tolist()
        second = tokenizer.encode(one.pair or "", special=False).ids.tolist()
        shown = [parts(units, unit) for unit in np.flatnonzero(units.owners == owner)]
        if len(first) + len(second) <= room:
            assert shown == [(first, second)]
            continue
        longer, shorter = (0, 1) if len(first) > len(second) else (1, 0)
        both = (first, second)
        assert [token for window in shown for token in window[longer]] == both[longer]
        kept = both[shorter][: room // 2]
        assert all(window[shorter] == kept for window in shown)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=5), st.integers(2, 25))
def test_pairs_are_cut_as_single_encodings_are(lengths: list[tuple[int, int]], room: int) -> None:
    first = Runs(np.arange(sum(a for a, _ in lengths), dtype=np.int32), np.array([a for a, _ in lengths], np.int64))
    second = Runs(np.arange(sum(b for _, b in lengths), dtype=np.int32), np.array([b for _, b in lengths], np.int64))
    ours = cut_pairs(first, second, room)
    tokenizer = TOKENIZER
    for number, (a, b) in enumerate(lengths):
        encoding = tokenizer.encode(" ".join(["the"] * a), " ".join(["the"] * b))
        shorter = cut(encoding, room + 3).encoding
        assert ours[0].lengths[number] == len(shorter.positions(0))
        assert ours[1].lengths[number] == len(shorter.positions(1))
    assert len(ours[0].ids) == ours[0].lengths.sum()


def test_training_cuts_and_prediction_averages() -> None:
    model, tokenizer = make_model("bert")
    task = classification(["no", "yes"])
    attach(task, model, tokenizer)
    long = example(" ".join(["the old mill"] * 9), "yes")
    assert len(task.encode([long], tokenizer, window=20, training=True)) == 1
    units = task.encode([long], tokenizer, window=20, training=False)
    assert len(units) == 2
    packed = task.prepare(Chosen(units, np.arange(2)), 0.0).packed
    with torch.no_grad():
        logits = model.logits(packed, "classify").mean(dim=0)
    found = predict_examples(task, model, [long], tokenizer=tokenizer, window=20, decision={})[0]
    np.testing.assert_allclose(list(found.probabilities.values()), logits.softmax(-1).numpy(), atol=1e-5)


def test_what_is_cut_is_counted() -> None:
    tokenizer = make_tokenizer("bert")
    task = classification(["no", "yes"])
    rows = [example("river " * 30, "no"), example("mill", "yes")]
    assert [task.encode(rows, tokenizer, window=20, training=learns).num_cut for learns in (True, False)] == [1, 0]
    pairs = [example("river " * 30, "no", "mill " * 30), example("river " * 30, "no", "mill")]
    assert [task.encode(pairs, tokenizer, window=20, training=learns).num_cut for learns in (True, False)] == [2, 1]
    choice = for_examples("choice", [])
    options = [ChoiceExample(text="river", options=("mill", "mill " * 30, "mill " * 40), label=0, place=NOWHERE)]
    similar = for_examples("similarity", [], kind="pairs")
    texts = [SimilarityExample(texts=("river", "mill " * 30), place=NOWHERE)]
    question = QuestionExample(id="1", question="river " * 30, context="The mill.", place=NOWHERE)
    for other, one in ((choice, options), (similar, texts), (Answering(max_question_tokens=5), [question])):
        assert other.encode(one, tokenizer, window=30, training=False).num_cut == 1
        assert other.encode(one, tokenizer, window=99, training=False).num_cut == (other.name == "qa")


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(
        UsageError, match="a window of 2 tokens leaves room for 0 beside 2 special tokens; use at least 3"
    ):
        classification(["no", "yes"]).encode([example("a")], make_tokenizer("bert"), window=2, training=False)


# -- losses and decisions, by hand -------------------------------------------------------------------------------------


def losses_of(task: Any, examples: list[TextExample], bias: list[float]) -> float:
    """The loss of a model whose head says `bias`, whatever it reads."""
    model, tokenizer = make_model("bert")
    attach(task, model, tokenizer)
    output = model.head("regress" if task.name == "regress" else "classify").output
    with torch.no_grad():
        output.weight.zero_()
        output.bias.copy_(torch.tensor(bias))
    units = task.encode(examples, tokenizer, window=30, training=True)
    batch = task.prepare(Chosen(units, np.arange(len(units))), 0.0)
    (loss,) = task.losses(model, batch).values()
    assert loss.count == len(examples)
    return float(loss.sum.detach())


def test_loss_of_classes() -> None:
    examples = [example("a", "no"), example("b", "yes"), example("c", "yes")]
    task = for_examples("classify", examples)
    odds = [math.log(0.25), math.log(0.75)]
    assert losses_of(task, examples, odds) == pytest.approx(-math.log(0.25) - 2 * math.log(0.75), rel=1e-5)
    weighted = replace(task, class_weights=(3.0, 0.5))
    assert losses_of(weighted, examples, odds) == pytest.approx(-3 * math.log(0.25) - math.log(0.75), rel=1e-5)


def test_loss_of_several_labels() -> None:
    examples = [example("a", ("x",)), example("b", ()), example("c", ("x", "y"))]
    task = for_examples("classify", examples)
    x, y = 0.8, 0.3  # probabilities
    logits = [math.log(p / (1 - p)) for p in (x, y)]
    by_hand = -(2 * math.log(x) + math.log(1 - x) + math.log(y) + 2 * math.log(1 - y)) / 2
    assert losses_of(task, examples, logits) == pytest.approx(by_hand, rel=1e-5)


def test_loss_of_numbers_is_in_deviations() -> None:
    examples = [example("a", 10.0), example("b", 14.0)]  # mean 12, deviation 2
    task = for_examples("regress", examples)
    assert (task.center, task.scale) == (12.0, 2.0)  # type: ignore[attr-defined]
    assert losses_of(task, examples, [0.0]) == pytest.approx(2.0)  # one deviation off, twice
    assert losses_of(task, examples, [1.0]) == pytest.approx(4.0)


def test_loss_of_counts_starts_at_their_mean() -> None:
    examples = [example("a", 0), example("b", 6)]
    task = for_examples("regress", examples, distribution="poisson")
    by_hand = (3 - 0) + (3 - 6 * math.log(3))  # rate - y log(rate), at the mean of 3
    assert losses_of(task, examples, [0.0]) == pytest.approx(by_hand, rel=1e-5)


def test_decisions_change_probabilities_and_labels() -> None:
    model, tokenizer = make_model("bert")
    examples = small.texts()
    task = for_examples("classify", examples)
    attach(task, model, tokenizer)
    with torch.no_grad():
        model.head("classify").output.weight.mul_(50)  # far too sure
    evaluated = evaluate_model(task, model, examples, tokenizer=tokenizer, window=40)
    assert evaluated.decision["temperature"] > 1.5
    plain = predict_examples(task, model, examples, tokenizer=tokenizer, window=40, decision={})
    assert [p.label for p in plain] == [p.label for p in evaluated.predictions]
    assert all(calm.probability < sure.probability for calm, sure in zip(evaluated.predictions, plain, strict=True))

    many = small.texts((("a",), ("a", "b"), (), ("c", "b")))
    task = for_examples("classify", many)
    attach(task, model, tokenizer)
    everything = predict_examples(
        task, model, many, tokenizer=tokenizer, window=40, decision={"thresholds": [0.0, 0.0, 1.1]}
    )
    assert {p.label for p in everything} == {("a", "b")}


def test_figures_of_several_labels_by_hand() -> None:
    examples = [example("a", ("x",)), example("b", ()), example("c", ("x", "y"))]
    task = for_examples("classify", examples)
    given = [LabelPrediction(label, {"x": 0.5, "y": 0.5}) for label in (("x",), ("y",), ("x", "y"))]
    figures = task.measure(examples, given)
    assert figures["accuracy"] == pytest.approx(2 / 3)
    assert figures["f1_micro"] == pytest.approx(2 * 3 / (4 + 3))
    assert figures["f1_macro"] == pytest.approx((1.0 + 2 / 3) / 2)


def test_figures_of_counts_equal_scikit_learn() -> None:
    from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance

    from bertworks.tasks.predictions import NumberPrediction

    random = np.random.default_rng(0)
    truth, rates = random.poisson(3.0, 50).astype(float), random.uniform(0.5, 6.0, 50)
    examples = [example("a", value) for value in truth.tolist()]
    task = for_examples("regress", examples, distribution="poisson")
    figures = task.measure(examples, [NumberPrediction(rate) for rate in rates.tolist()])
    assert figures["deviance"] == pytest.approx(mean_poisson_deviance(truth, rates))
    assert figures["d2"] == pytest.approx(d2_tweedie_score(truth, rates, power=1))
    nothing = [example("a", 0.0)] * 4  # as of R²: there is nothing to explain, and it is explained or not
    assert task.measure(nothing, [NumberPrediction(0.1)] * 4)["d2"] == 0.0


def test_multi_label_learns_what_is_known() -> None:
    """Each label is a word that the text has: a tiny model comes to know it, on texts that it was not trained on."""
    words = ["river", "mill", "geese"]
    random = np.random.default_rng(3)

    def draw(count: int) -> list[TextExample]:
        found = []
        for _ in range(count):
            chosen = [word for word in words if random.random() < 0.5]
            filler = random.choice(["the", "old", "past", "runs", "and"], 4).tolist()
            text = " ".join(random.permutation(chosen + filler).tolist())
            found.append(example(text, tuple(chosen)))
        return found

    train, dev = draw(120), draw(40)
    model, tokenizer = make_model("bert")
    task = for_examples("classify", train)
    attach(task, model, tokenizer)
    units = task.encode(train, tokenizer, window=40, training=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(80):
        numbers = np.random.default_rng(step).choice(len(units), 32, replace=False)
        batch = task.prepare(Chosen(units, numbers), 0.0)
        (loss,) = task.losses(model, batch).values()
        optimizer.zero_grad()
        (loss.sum / loss.count).backward()
        optimizer.step()
    evaluated = evaluate_model(task, model, dev, tokenizer=tokenizer, window=40)
    assert evaluated.figures["accuracy"] > 0.9
    assert evaluated.figures["f1_micro"] > 0.95


TOKENIZER: Tokenizer = make_tokenizer("bert")
