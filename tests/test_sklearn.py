"""The estimators inside scikit-learn: its own checks, pipelines, grids, pickles, and what may be given as X and y."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import check_array
from sklearn.utils import estimator_checks as checks

import bertworks
from bertworks import hub
from bertworks.errors import BertworksError, ConfigError, UsageError
from bertworks.sklearn import Embedder, EstimatorError, QuestionAnswerer, Tagger, TextClassifier, TextRegressor
from bertworks.tasks.word_tagging import WordTagging
from tests.tasks.small import make_model

ESTIMATORS = (Embedder, TextClassifier, TextRegressor, Tagger, QuestionAnswerer)
FINE_TUNED = ESTIMATORS[1:]

# What the tiny model can learn: whether there is a mill, and how many geese.
TEXTS = [
    f"the {thing} {verb} the river" for thing in ("mill", "market") for verb in ("runs past", "walked to", "is at")
]
TEXTS = [f"{text} {tail}" for text in TEXTS for tail in ("today", "again", "and the geese", "", "there", "not")]
CLASSES = np.array(["mill" if "mill" in text else "none" for text in TEXTS])
COUNTS = np.array([2.0 if "mill" in text else 5.0 for text in TEXTS])
SENTENCES = [text.split() for text in TEXTS]
TAGS = [["I-LOC" if word in ("mill", "river") else "O" for word in words] for words in SENTENCES]  # IOB1
QUESTIONS = [("what?", text) for text in TEXTS]
ANSWERS = ["mill" if "mill" in text else "market" for text in TEXTS]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory with a random model of a few thousand weights."""
    directory = tmp_path_factory.mktemp("tiny")
    model, tokenizer = make_model("bert", num_hidden_layers=2, hidden_size=48, num_attention_heads=4)
    hub.save(model, tokenizer, directory)
    return str(directory)


def learner(kind: type[Any], tiny: str, **options: Any) -> Any:
    """An estimator that learns what there is to learn in a second or two."""
    return kind(**{"model": tiny, "epochs": 12, "batch_size": 8, "learning_rate": 2e-3, **options})


def quick(kind: type[Any], tiny: str, **options: Any) -> Any:
    """An estimator that is fitted, and no more than that."""
    if issubclass(kind, Embedder):
        return kind(model=tiny, **options)
    return kind(**{"model": tiny, "epochs": 0.2, "batch_size": 8, **options})


# -- scikit-learn's checks ---------------------------------------------------------------------------------------------

WITHOUT_DATA = (
    checks.check_do_not_raise_errors_in_init_or_set_params,
    checks.check_estimator_cloneable,
    checks.check_estimator_repr,
    checks.check_estimator_tags_renamed,
    checks.check_get_params_invariance,
    checks.check_mixin_order,
    checks.check_no_attributes_set_in_init,
    checks.check_parameters_default_constructible,
    checks.check_set_params,
    checks.check_valid_tag_types,
)
WITH_DATA = (
    checks.check_dict_unchanged,
    checks.check_dont_overwrite_parameters,
    checks.check_estimators_fit_returns_self,
    checks.check_estimators_overwrite_params,
    checks.check_estimators_pickle,
    checks.check_fit2d_1feature,
    checks.check_fit_check_is_fitted,
    checks.check_fit_idempotent,
    checks.check_fit_score_takes_y,
    checks.check_methods_sample_order_invariance,
    checks.check_methods_subset_invariance,
    checks.check_pipeline_consistency,
    checks.check_readonly_memmap_input,
)
OF_CLASSIFIERS = (
    checks.check_classifiers_classes,
    checks.check_classifiers_one_label,
    checks.check_classifiers_regression_target,
    checks.check_estimators_unfitted,
    checks.check_requires_y_none,
    checks.check_supervised_y_2d,
)
OF_REGRESSORS = (
    checks.check_estimators_unfitted,
    checks.check_regressors_int,
    checks.check_regressors_no_decision_function,
    checks.check_requires_y_none,
    checks.check_supervised_y_2d,
    checks.check_supervised_y_no_nan,
)


def spelled(X: Any) -> list[str]:
    """Numbers as texts, so that checks which bring their own numbers can be made."""
    return [" ".join(f"{value:.0f}" for value in row) for row in check_array(X)]


class SpelledEmbedder(Embedder):
    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(spelled(X), y)

    def transform(self, X: Any) -> Any:
        return super().transform(spelled(X))


class SpelledClassifier(TextClassifier):
    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(spelled(X), y)

    def predict(self, X: Any) -> Any:
        self._predictor()
        return super().predict(spelled(X))

    def predict_proba(self, X: Any) -> Any:
        self._predictor()
        return super().predict_proba(spelled(X))


class SpelledRegressor(TextRegressor):
    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(spelled(X), y)

    def predict(self, X: Any) -> Any:
        self._predictor()
        return super().predict(spelled(X))


def named(check: Any) -> str:
    return str(getattr(check, "__name__", check))


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("check", WITHOUT_DATA, ids=named)
def test_checks_of_the_interface(kind: type[Any], check: Any) -> None:
    check(kind.__name__, kind())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "check"),
    [
        *((kind, check) for kind in (SpelledEmbedder, SpelledClassifier, SpelledRegressor) for check in WITH_DATA),
        *((SpelledClassifier, check) for check in OF_CLASSIFIERS),
        *((SpelledRegressor, check) for check in OF_REGRESSORS),
        (SpelledEmbedder, checks.check_transformers_unfitted_stateless),
    ],
    ids=lambda value: value.__name__,
)
def test_checks_with_data(kind: type[Any], check: Any, tiny: str) -> None:
    check(kind.__name__, quick(kind, tiny))


# -- embeddings --------------------------------------------------------------------------------------------------------


def test_embedder_gives_the_models_vectors(tiny: str) -> None:
    embedder = Embedder(tiny, layers="second-to-last", pooling="max", normalize=True)
    wanted = bertworks.load(tiny).embed(TEXTS, layers="second-to-last", pooling="max", normalize=True)
    np.testing.assert_array_equal(embedder.fit_transform(TEXTS), wanted)
    np.testing.assert_array_equal(Embedder(tiny).transform(np.array(TEXTS)), bertworks.load(tiny).embed(TEXTS))
    assert list(embedder.get_feature_names_out())[:2] == ["embedder0", "embedder1"]
    assert len(embedder.get_feature_names_out()) == wanted.shape[1]


def test_embedder_forgets_the_old_model_when_it_is_set_anew(tiny: str) -> None:
    embedder = Embedder("minilm").fit(["x"])
    assert embedder.set_params(model=tiny).transform(["x"]).shape == (1, 48)
    state = pickle.dumps(embedder)
    assert len(state) < 5000  # the model stays where it is
    np.testing.assert_array_equal(pickle.loads(state).transform(TEXTS), embedder.transform(TEXTS))


def test_frozen_features_in_a_pipeline(tmp_path: Path) -> None:
    pipeline = make_pipeline(Embedder(), LogisticRegression())
    scores = cross_val_score(pipeline, TEXTS, CLASSES, cv=3)
    assert scores.mean() > 0.9
    grid = GridSearchCV(pipeline, {"embedder__layers": ["last", "first"], "logisticregression__C": [0.1, 10.0]}, cv=2)
    grid.fit(TEXTS[::3], CLASSES[::3])
    joblib.dump(grid.best_estimator_, tmp_path / "pipeline.joblib")
    again = joblib.load(tmp_path / "pipeline.joblib")
    assert (again.predict(TEXTS) == grid.predict(TEXTS)).all()


def test_embedder_takes_no_pooling_that_gives_many_vectors(tiny: str) -> None:
    with pytest.raises(EstimatorError, match="pooling is 'none'; one vector per text needs mean, cls or max"):
        Embedder(tiny, pooling="none").fit(TEXTS)


# -- fine-tuning -------------------------------------------------------------------------------------------------------


def test_classifier_learns(tiny: str, tmp_path: Path) -> None:
    classifier = learner(TextClassifier, tiny, epochs=25).fit(TEXTS[::2], CLASSES[::2])
    assert classifier.classes_.tolist() == ["mill", "none"]
    assert classifier.score(TEXTS[1::2], CLASSES[1::2]) > 0.9
    probabilities = classifier.predict_proba(TEXTS)
    assert probabilities.shape == (len(TEXTS), 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (classifier.classes_[probabilities.argmax(axis=1)] == classifier.predict(TEXTS)).all()
    assert classifier.n_iter_ > 0

    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(TEXTS), probabilities)
    joblib.dump(classifier, tmp_path / "classifier.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "classifier.joblib").predict_proba(TEXTS), probabilities)

    classifier.save(tmp_path / "saved")
    classifier.save(tmp_path / "saved")  # again
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(BertworksError, match="is not empty and holds no model"):
        classifier.save(tmp_path / "other")
    opened = bertworks.load(tmp_path / "saved").predict(TEXTS)
    np.testing.assert_allclose([list(one.probabilities.values()) for one in opened], probabilities, atol=1e-6)


def test_equal_seeds_give_equal_models(tiny: str) -> None:
    first, second, other = (
        quick(TextClassifier, tiny, random_state=seed, epochs=1).fit(TEXTS, CLASSES).predict_proba(TEXTS)
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, other)
    assert quick(TextClassifier, tiny, random_state=None).fit(TEXTS, CLASSES).predict(TEXTS).shape == (len(TEXTS),)


def test_classes_may_be_numbers_or_truth_values(tiny: str) -> None:
    for y in (np.arange(len(TEXTS)) % 3 * 10, CLASSES == "mill", (np.arange(len(TEXTS)) % 2).tolist()):
        classifier = quick(TextClassifier, tiny).fit(TEXTS, y)
        assert classifier.classes_.tolist() == np.unique(y).tolist()
        assert set(classifier.predict(TEXTS).tolist()) <= set(np.unique(y).tolist())


def test_pairs(tiny: str) -> None:
    pairs = [(text, other) for text, other in zip(TEXTS, reversed(TEXTS), strict=True)]
    same = [("mill" in text) == ("mill" in other) for text, other in pairs]
    same[0] = not same[0]
    classifier = quick(TextClassifier, tiny).fit(pairs, same)
    assert classifier.predictor_.task.name == "pair"
    of_array = quick(TextClassifier, tiny).fit(np.array(pairs), same)
    np.testing.assert_array_equal(classifier.predict_proba(pairs), of_array.predict_proba(np.array(pairs)))


def test_several_labels_at_once(tiny: str) -> None:
    y = np.array([["mill" in text, "geese" in text, "runs" in text, False] for text in TEXTS], int)
    classifier = learner(TextClassifier, tiny, epochs=25).fit(TEXTS, y)
    assert classifier.classes_.tolist() == [0, 1, 2, 3]
    predicted = classifier.predict(TEXTS)
    assert predicted.shape == y.shape
    assert (predicted == y).mean() > 0.8  # the most frequent answer for each has 0.75
    assert classifier.predict_proba(TEXTS).shape == y.shape
    assert classifier.predict_proba(TEXTS)[:, 3].max() == 0.0  # nothing is known about a label that nobody has


def test_held_out_data_calibrate(tiny: str) -> None:
    classifier = quick(TextClassifier, tiny, dev_fraction=0.25, epochs=1).fit(TEXTS, CLASSES)
    assert classifier.predictor_.decision["temperature"] > 0
    assert quick(TextClassifier, tiny).fit(TEXTS, CLASSES).predictor_.decision == {}


def test_settings(tiny: str) -> None:
    settings = ("task.class_weights=balanced", "method.lora_rank=2")
    classifier = quick(TextClassifier, tiny, settings=settings).fit(TEXTS, ["a", *["b"] * (len(TEXTS) - 1)])
    assert classifier.predictor_.task.class_weights[0] > classifier.predictor_.task.class_weights[1]
    with pytest.raises(ConfigError, match=r"train\.epoch"):
        quick(TextClassifier, tiny, settings=("train.epoch=3",)).fit(TEXTS, CLASSES)
    with pytest.raises(BertworksError, match=r"train\.epochs"):
        quick(TextClassifier, tiny, epochs=-1).fit(TEXTS, CLASSES)


@pytest.mark.parametrize("name", ["data.text_column", "frozen.folds", "words.vectors", "run.seed"])
def test_settings_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(EstimatorError, match=f"the setting {name} means nothing to an estimator"):
        TextClassifier("none", settings=(f"{name}=3",)).fit(TEXTS, CLASSES)


def test_parameters_and_settings_go_together(tiny: str) -> None:
    poisson = ("task.distribution=poisson",)
    for options in ({}, {"distribution": "poisson"}):
        regressor = quick(TextRegressor, tiny, settings=poisson, **options).fit(TEXTS, COUNTS)
        assert regressor.predictor_.task.distribution == "poisson"
    with pytest.raises(
        EstimatorError, match=r"distribution is 'gaussian', but settings say task\.distribution=poisson"
    ):
        quick(TextRegressor, tiny, settings=poisson, distribution="gaussian").fit(TEXTS, COUNTS)


def test_a_new_tagger_reads_words_as_the_command_does(tmp_path: Path) -> None:
    small = ("words.hidden_size=12", "words.num_layers=1")
    tagger = Tagger("bilstm", epochs=8, learning_rate=1e-2, settings=small).fit(SENTENCES, TAGS)
    assert isinstance(tagger.predictor_.task, WordTagging)
    assert tagger.score(SENTENCES, TAGS) > 0.9
    assert pickle.loads(pickle.dumps(tagger)).predict(SENTENCES) == tagger.predict(SENTENCES)
    tagger.save(tmp_path / "saved")
    assert len(bertworks.load(tmp_path / "saved").predict(SENTENCES)) == len(SENTENCES)
    with pytest.raises(ConfigError, match="for new models over words"):
        Tagger(tmp_path / "saved", settings=("words.hidden_size=12",)).fit(SENTENCES, TAGS)


def test_regressor_learns(tiny: str) -> None:
    regressor = learner(TextRegressor, tiny).fit(TEXTS, COUNTS)
    assert regressor.score(TEXTS, COUNTS) > 0.8
    rates = learner(TextRegressor, tiny, distribution="poisson").fit(TEXTS, COUNTS).predict(TEXTS)
    assert (rates > 0).all()
    assert np.corrcoef(rates, COUNTS)[0, 1] > 0.8
    with pytest.raises(UsageError, match="unknown distribution 'gauss'"):
        quick(TextRegressor, tiny, distribution="gauss").fit(TEXTS, COUNTS)


def test_tagger_learns(tiny: str) -> None:
    tagger = learner(Tagger, tiny).fit(SENTENCES, TAGS)
    assert tagger.classes_.tolist() == ["O", "B-LOC", "I-LOC"]
    assert tagger.score(SENTENCES, TAGS) > 0.9
    predicted = tagger.predict(SENTENCES)
    assert sum(a == b for a, b in zip(predicted, TAGS, strict=True)) > 0.8 * len(TAGS)  # IOB1, as it was given
    text = "  The mill\tis at the river"
    (spans,) = tagger.predict_spans([text])
    assert all(text[span.start : span.end] == span.text for span in spans)
    assert cross_val_score(clone(tagger).set_params(epochs=1), SENTENCES, TAGS, cv=2).shape == (2,)


def test_tagger_of_plain_tags(tiny: str) -> None:
    tags = [["DT" if word == "the" else "X" for word in words] for words in SENTENCES]
    tagger = quick(Tagger, tiny).fit(SENTENCES, tags)
    assert {tag for tags in tagger.predict(SENTENCES) for tag in tags} <= {"DT", "X"}
    assert 0.0 <= tagger.score(SENTENCES, tags) <= 1.0


def test_question_answerer_learns(tiny: str) -> None:
    answerer = learner(QuestionAnswerer, tiny, epochs=25).fit(QUESTIONS, ANSWERS)
    assert answerer.score(QUESTIONS, ANSWERS) > 0.8
    answers = answerer.predict_answers(QUESTIONS)
    assert all(context[a.start : a.end] == a.text for (_, context), a in zip(QUESTIONS, answers, strict=True))
    assert answerer.predict(QUESTIONS).tolist() == [answer.text for answer in answers]


def test_questions_without_an_answer(tiny: str) -> None:
    answers = [("mill", np.int64(text.index("mill"))) if "mill" in text else "" for text in TEXTS]
    answerer = quick(QuestionAnswerer, tiny, dev_fraction=0.2).fit(QUESTIONS, answers)
    assert "no_answer_threshold" in answerer.predictor_.decision
    assert answerer.predict(np.array(QUESTIONS)).shape == (len(TEXTS),)


@pytest.mark.slow
def test_grid_search_in_two_processes(tiny: str) -> None:
    grid = GridSearchCV(
        quick(TextClassifier, tiny),
        {"epochs": [0.2, 0.5], "learning_rate": [1e-4]},
        cv=2,
        n_jobs=2,
        error_score="raise",
    )
    grid.fit(TEXTS, CLASSES)
    assert grid.best_estimator_.predict(TEXTS).shape == (len(TEXTS),)


def test_grid_search_and_cross_validation_of_fine_tuning(tiny: str) -> None:
    grid = GridSearchCV(quick(TextClassifier, tiny), {"epochs": [0.2, 0.5]}, cv=2, error_score="raise")
    grid.fit(TEXTS, CLASSES)
    assert clone(grid.best_estimator_).get_params() == grid.best_estimator_.get_params()
    assert cross_val_score(quick(TextRegressor, tiny), TEXTS, COUNTS, cv=2, error_score="raise").shape == (2,)
    answers = cross_val_score(quick(QuestionAnswerer, tiny), QUESTIONS, ANSWERS, cv=2, error_score="raise")
    assert answers.shape == (2,)


# -- what may be given -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "problem"),
    [
        ("one text", "X is a single string; give a list of texts"),
        ([], "X is empty; at least one text is needed"),
        (["a", None], "row 1 of X is None, not a text"),
        ([1.5, 2.5], "row 0 of X is 1.5, neither a text nor a pair"),
        (["a", ("b", "c")], r"row 1 of X is \('b', 'c'\), not a text"),
        ([("a", "b"), ("c",)], r"row 1 of X is \('c',\), not a pair of texts"),
        (np.array([["a", "b", "c"]]), r"X has the shape \(1, 3\)"),
        (7, "X is int; give a list of texts"),
    ],
)
def test_bad_texts(X: Any, problem: str, tiny: str) -> None:
    with pytest.raises(EstimatorError, match=problem):
        quick(TextClassifier, tiny).fit(X, [0, 1])


def test_bad_targets(tiny: str) -> None:
    with pytest.raises(ValueError, match=r"X has 2 rows and y has 1"):
        quick(TextClassifier, tiny).fit(["a", "b"], [0])
    with pytest.raises(ValueError, match="only one class, 'x'"):
        quick(TextClassifier, tiny).fit(["a", "b"], ["x", "x"])
    with pytest.raises(ValueError, match="Unknown label type"):
        quick(TextClassifier, tiny).fit(["a", "b"], [0.3, 0.7])
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        quick(Tagger, tiny).fit(SENTENCES, None)
    with pytest.raises(EstimatorError, match="row 0 of X is 'ab', not a list of words"):
        quick(Tagger, tiny).fit(["ab"], [["O"]])
    with pytest.raises(EstimatorError, match=r"^row 0 of X: has 2 words and 1 tags"):
        quick(Tagger, tiny).fit([["a", "b"]], [["O"]])
    with pytest.raises(BertworksError, match="mills"):
        quick(QuestionAnswerer, tiny).fit(QUESTIONS, ["mills", *ANSWERS[1:]])


def test_columns_of_pandas(tiny: str) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS, "pair": list(reversed(TEXTS)), "label": CLASSES}, index=range(5, 41))
    one = quick(TextClassifier, tiny).fit(table["text"], table["label"])
    np.testing.assert_array_equal(one.predict(table[["text"]]), one.predict(TEXTS))
    assert quick(TextClassifier, tiny).fit(table[["text", "pair"]], table["label"]).predictor_.task.name == "pair"


@pytest.mark.parametrize("kind", FINE_TUNED)
def test_unfitted(kind: type[Any]) -> None:
    with pytest.raises(NotFittedError):
        kind().predict(["a"])
    with pytest.raises(NotFittedError):
        kind().save("nowhere")


def test_kinds() -> None:
    assert is_classifier(TextClassifier())
    assert is_regressor(TextRegressor())
    assert all(issubclass(kind, BaseEstimator) for kind in ESTIMATORS)


def test_torch_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys, bertworks.sklearn as s\n"
        "from sklearn.base import clone\n"
        "repr(clone(s.TextClassifier())), s.Embedder().get_params()\n"
        "sys.exit('torch was imported' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
