"""Heads on frozen vectors: the same as scikit-learn by hand, folded into an ordinary model that others open."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.preprocessing import StandardScaler

from bertworks import hub, tasks
from bertworks.config import resolve
from bertworks.errors import ModelError, UsageError
from bertworks.finetune import frozen_heads
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.events import Fitted, Note, Stopped
from bertworks.finetune.fit import TrainingData
from bertworks.finetune.frozen import OWN_FORMAT, check_frozen, fit_frozen
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.predict import Predictor
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer
from tests.finetune import small as runs
from tests.tasks import small

WINDOW = 40


@cache
def made(family: str) -> tuple[Model, Tokenizer]:
    return small.make_model(family)


def fitted(name: str, examples: list[Any], *settings: str, family: str = "bert", **options: Any) -> Fitted:
    model, tokenizer = made(family)
    task = tasks.for_examples(name, examples, **options)
    config = resolve(FinetuneConfig, None, settings)
    data = TrainingData(examples, examples, window=WINDOW)
    *_, last = fit_frozen(task, data, model, tokenizer, config)
    assert isinstance(last, Fitted)
    return last


def vectors(texts: list[str]) -> np.ndarray:
    """Mean vectors by the other way, of standardised columns."""
    model, tokenizer = made("bert")
    embedded = LoadedModel(model, tokenizer, window=WINDOW).embed(texts, pooling="mean", normalize=False)
    return StandardScaler().fit_transform(np.asarray(embedded, np.float64))


def examples(labels: tuple[Any, ...], count: int = 40) -> list[Any]:
    rows = runs.examples(count)
    return [replace(row, label=labels[number % len(labels)]) for number, row in enumerate(rows)]


@pytest.mark.parametrize("labels", [("no", "yes"), ("a", "b", "c")])
def test_classes_equal_logistic_regression(labels: tuple[str, ...]) -> None:
    rows = examples(labels)
    found = fitted("classify", rows)
    assert found.evaluated is not None
    strength = found.frozen["strength"]
    model = LogisticRegression(C=strength, max_iter=300).fit(
        vectors([row.text for row in rows]), [r.label for r in rows]
    )
    expected = model.predict_log_proba(vectors([row.text for row in rows]))
    temperature = found.evaluated.decision["temperature"]
    for row, prediction in zip(expected, found.evaluated.predictions, strict=True):
        scaled = row / temperature
        share = np.exp(scaled) / np.exp(scaled).sum()
        np.testing.assert_allclose([prediction.probabilities[name] for name in model.classes_], share, atol=2e-3)


def test_numbers_equal_ridge_and_poisson() -> None:
    rows = examples((0.0, 2.0, 5.0, 1.0, 1.0))
    features, targets = vectors([row.text for row in rows]), [row.label for row in rows]
    found = fitted("regress", rows)
    expected = Ridge(alpha=found.frozen["strength"]).fit(features, targets).predict(features)
    np.testing.assert_allclose([p.value for p in found.evaluated.predictions], expected, atol=1e-3)
    found = fitted("regress", rows, distribution="poisson")
    expected = PoissonRegressor(alpha=found.frozen["strength"], max_iter=300).fit(features, targets).predict(features)
    np.testing.assert_allclose([p.value for p in found.evaluated.predictions], expected, rtol=5e-3)
    assert found.task.settings()["center"] == 0.0
    assert found.frozen["knob"] == "alpha"


def test_several_labels_are_decided_one_by_one() -> None:
    rows = examples((("a",), ("a", "b"), (), ("b", "c")))
    rows[0] = replace(rows[0], label=("a", "c"))
    found = fitted("classify", rows)
    features = vectors([row.text for row in rows])
    truth = np.array(["b" in row.label for row in rows])
    model = LogisticRegression(C=found.frozen["strength"], max_iter=300).fit(features, truth)
    share = [prediction.probabilities["b"] for prediction in found.evaluated.predictions]
    np.testing.assert_allclose(share, model.predict_proba(features)[:, 1], atol=2e-3)


def test_labels_that_apply_have_their_weight() -> None:
    rows = examples((("a",), ("b",), ("b",), ("b",)))
    found = fitted("classify", rows, class_weights="balanced")
    features = vectors([row.text for row in rows])
    truth = np.array(["a" in row.label for row in rows])
    model = LogisticRegression(C=found.frozen["strength"], max_iter=300, class_weight={False: 1.0, True: 3.0})
    share = [prediction.probabilities["a"] for prediction in found.evaluated.predictions]
    np.testing.assert_allclose(share, model.fit(features, truth).predict_proba(features)[:, 1], atol=2e-3)


def test_options_are_told_apart() -> None:
    rows = []
    for number, example in enumerate(small.choices() * 4):
        right = number % 2
        options = ["the geese walked", "the old mill"] if right else ["the old mill", "the geese walked"]
        rows.append(replace(example, options=tuple(options), label=1 - right))
    found = fitted("choice", rows)
    assert found.evaluated.figures["accuracy"] == 1.0  # the geese are always right
    assert found.frozen["mean"] == 1.0


def test_words_are_tagged_and_transformers_opens_it(tmp_path: Path) -> None:
    rows = small.tagged() * 3
    found = fitted("tag", rows)
    assert found.evaluated.figures["f1"] > 0.8
    assert found.model.config.family == "bert"
    hub.save(found.model, found.tokenizer, tmp_path)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path).eval()
    encoding = found.tokenizer.encode_words(rows[0].words)
    with torch.no_grad():
        logits = theirs(torch.tensor(encoding.ids[None].astype(np.int64))).logits[0]
    first = np.flatnonzero(np.diff(encoding.words, prepend=-1) * (encoding.words >= 0))
    assert [theirs.config.id2label[int(n)] for n in logits[first].argmax(-1)] == list(
        found.evaluated.predictions[0].tags
    )


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "modernbert", "albert", "gpt2"])
def test_every_family(family: str) -> None:
    rows = examples(("no", "yes"), 20)
    found = fitted("classify", rows, family=family)
    assert found.evaluated.figures["accuracy"] > 0.6
    assert found.frozen["reads"] == "mean"
    assert fitted("tag", small.tagged(), family=family).evaluated is not None


def test_the_familys_own_reading_opens_in_transformers(tmp_path: Path) -> None:
    rows = examples(("no", "yes"))
    found = fitted("classify", rows, "frozen.reads=family")
    assert (found.model.config.family, found.frozen["reads"]) == ("bert", "pooled")
    hub.save(found.model, found.tokenizer, tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    ids = torch.tensor(found.tokenizer.encode(rows[0].text).ids[None].astype(np.int64))
    with torch.no_grad():
        logits = theirs(ids).logits[0] / found.evaluated.decision["temperature"]
    share = found.evaluated.predictions[0].probabilities
    np.testing.assert_allclose(logits.softmax(-1), [share["no"], share["yes"]], atol=1e-4)
    with pytest.raises(ModelError, match=r"a layer in between.*frozen\.reads=mean"):
        fitted("classify", rows, "frozen.reads=family", family="distilbert")


def test_a_whole_run(tmp_path: Path) -> None:
    files = runs.make_files(tmp_path)
    events = runs.run(files, tmp_path / "out", frozen=True)
    useless, told = [event for event in events if isinstance(event, Note)]
    assert "no weights of the model: nothing comes of train.batch_size, train.epochs, train.opt" in useless.text
    assert told == Note(OWN_FORMAT)
    event = runs.finished(events)
    assert event.figures["accuracy"] > 0.8
    result = json.loads((tmp_path / "out" / "metrics.json").read_text())
    cross = result["cross_validation"]
    assert len(cross["folds"]) == 5
    assert cross["mean"] == pytest.approx(np.mean(cross["folds"]))
    assert cross["reads"] == "mean"
    assert {"0.0001", "0.001", "0.01", "0.1", "1"} < set(cross["strengths"])
    assert len(cross["strengths"]) == 7  # and two around the best
    told = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    predictor = Predictor(tmp_path / "out")
    for (text, _), line in zip(runs.rows(16, seed=1), told, strict=True):
        prediction = predictor.predict(text)
        assert prediction.label == line["label"]
        assert prediction.probabilities == pytest.approx(line["probabilities"], abs=1e-5)
    assert "cross-validation" in (tmp_path / "out" / "report.html").read_text()
    assert not list((tmp_path / "out").rglob("*.pkl"))


def test_the_model_is_left_alone() -> None:
    model, tokenizer = made("bert")
    before = {name: value.clone() for name, value in model.named_parameters()}
    rows = examples(("no", "yes"))
    data = TrainingData(rows, rows, window=WINDOW)
    *_, last = fit_frozen(tasks.for_examples("classify", rows), data, model, tokenizer, FinetuneConfig())
    assert isinstance(last, Fitted)
    after = dict(last.model.named_parameters())
    for name, value in before.items():
        torch.testing.assert_close(dict(model.named_parameters())[name], value, rtol=0, atol=0)
        if name in after:  # the pooler is gone
            torch.testing.assert_close(after[name], value, rtol=0, atol=0)
    assert last.trained_parameters == 2 * 36 + 2


@pytest.mark.parametrize(("of_each", "without", "folds"), [(4, 0, 5), (12, 0, 4), (20, 1, 3)])
def test_groups_stay_together(of_each: int, without: int, folds: int) -> None:
    rows = [replace(row, group=str(number // of_each)) for number, row in enumerate(examples(("no", "yes")))]
    rows[:without] = [replace(row, group=None) for row in rows[:without]]
    task = tasks.for_examples("classify", rows)
    units = task.encode(rows, small.make_tokenizer("bert"), window=WINDOW, training=True)
    found = frozen_heads._folds(task, rows, units, 5, 0)
    assert len(found) == folds
    for inside, outside in found:
        assert not ({rows[n].group for n in units.owners[inside]} & {rows[n].group for n in outside}) - {None}


def test_the_strength_is_chosen_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_heads, "MAX_FOLD_ROWS", 20)
    rows = examples(("no", "yes"))
    task = tasks.for_examples("classify", rows)
    units = task.encode(rows, small.make_tokenizer("bert"), window=WINDOW, training=True)
    folds = frozen_heads._folds(task, rows, units, 4, 0)
    assert sum(len(outside) for _, outside in folds) == 20
    assert fitted("classify", rows).evaluated is not None


def test_what_cannot_be() -> None:
    check_frozen("tag")
    with pytest.raises(UsageError, match=r"--frozen is for classify.*'qa' needs the whole model"):
        check_frozen("qa")
    with pytest.raises(UsageError, match="which a CRF is not: leave --crf or --frozen out"):
        check_frozen("tag", crf=True)
    with pytest.raises(UsageError, match="all examples are of one group"):
        fitted("classify", [replace(row, group="a") for row in examples(("no", "yes"))])
    with pytest.raises(UsageError, match="one example cannot be divided"):
        fitted("regress", examples((1.0, 2.0), 1))


def test_few_examples_and_rare_labels() -> None:
    rows = examples(("no", "yes"), 8)
    rows[0] = replace(rows[0], label="rare")
    found = fitted("classify", rows, "frozen.folds=4")
    assert len(found.frozen["folds"]) == 4
    assert {tuple(p.probabilities) for p in found.evaluated.predictions} == {("no", "rare", "yes")}
    assert len(fitted("classify", examples(("no", "yes"), 3)).frozen["folds"]) == 3  # of five


def test_a_stop_is_heeded() -> None:
    stop = threading.Event()
    stop.set()
    rows = examples(("no", "yes"))
    model, tokenizer = made("bert")
    data = TrainingData(rows, rows, window=WINDOW)
    *_, last = fit_frozen(tasks.for_examples("classify", rows), data, model, tokenizer, FinetuneConfig(), stop=stop)
    assert isinstance(last, Stopped)


def test_sst2_as_in_the_lectures(shared_data: Path, minilm_directory: Path) -> None:
    """A tenth of the 2,000 rows, which is quick and already far from chance."""
    lines = (shared_data / "sst2" / "train.tsv").read_text(encoding="utf-8").splitlines()[:200]
    rows = [replace(runs.examples(1)[0], text=t, label=label) for t, label in (line.split("\t") for line in lines)]
    loaded = hub.load(minilm_directory)
    data = TrainingData(rows, (), window=loaded.window)
    model: Model = loaded.model
    tokenizer: Tokenizer = loaded.tokenizer
    *_, last = fit_frozen(tasks.for_examples("classify", rows), data, model, tokenizer, FinetuneConfig())
    assert isinstance(last, Fitted)
    assert last.frozen["mean"] > 0.6
