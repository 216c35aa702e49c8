"""Simple models: by hand on a few rows, and on every task the same figures' names as the task has."""

from __future__ import annotations

from typing import Any

import pytest

from bertworks import tasks
from bertworks.data.labelled.examples import (
    Answer,
    ChoiceExample,
    Place,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.finetune import baseline
from bertworks.finetune.baseline import TITLES, baselines
from tests.tasks import small

PLACE = Place("rows", 1)


def text(words: str, label: Any, pair: str | None = None) -> TextExample:
    return TextExample(text=words, pair=pair, label=label, place=PLACE)


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("classify", small.texts()),
        ("classify", small.texts((("a",), ("a", "b"), ()))),
        ("pair", small.texts(("no", "yes"), pairs=True)),
        ("regress", small.texts((1.0, 2.5, 4.0))),
        ("choice", small.choices()),
        ("tag", small.tagged()),
        ("qa", small.questions()),
        ("similarity", small.similar("scored")),
        ("similarity", small.similar("pairs")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_task(name: str, examples: list[Any]) -> None:
    task = tasks.for_examples(name, examples, dev=examples)
    found = baselines(task, examples, examples)
    assert found
    for key, figures in found.items():
        assert key in TITLES
        assert task.metric in figures
    assert baselines(task, examples, examples) == found
    assert baselines(task, examples, []) == {}


def test_poisson() -> None:
    examples = [text("many many geese" if n % 2 else "one mill", float(3 * (n % 2) + n % 3)) for n in range(30)]
    task = tasks.for_examples("regress", examples, distribution="poisson")
    found = baselines(task, examples, examples)
    assert found["mean"]["d2"] == pytest.approx(0.0, abs=1e-9)
    assert found["tfidf"]["d2"] > 0.2


def test_labels_by_hand() -> None:
    train = [text("good film", "yes"), text("good play", "yes"), text("bad film", "no"), text("good song", "yes")]
    dev = [text("good day", "yes"), text("bad day", "no"), text("bad night", "no"), text("a day", "yes")]
    task = tasks.for_examples("classify", train, metric="accuracy")
    found = baselines(task, train, dev)
    assert found["majority"]["accuracy"] == 0.5
    assert found["tfidf"]["accuracy"] == 1.0


def test_pairs_are_compared() -> None:
    names = ["mill", "river", "geese", "market", "daughter", "miller", "house", "road", "tree", "hill"]
    train = [text(f"the {a} here", "same" if a == b else "other", pair=f"the {b} there") for a in names for b in names]
    task = tasks.for_examples("pair", train, metric="accuracy")
    assert baselines(task, train, train)["tfidf"]["accuracy"] > 0.95  # from shared words, not from the words


def test_chinese_is_read_by_characters() -> None:
    train = [text("这部电影很好看我喜欢", "good"), text("这部电影很难看我讨厌", "bad")] * 5
    dev = [text("那本书很好看", "good"), text("那本书很难看", "bad")]
    assert baselines(tasks.for_examples("classify", train), train, dev)["tfidf"]["accuracy"] == 1.0


def test_no_words_at_all() -> None:
    train = [text("", "yes"), text("…", "no"), text("", "yes"), text("!", "no")]
    found = baselines(tasks.for_examples("classify", train), train, train)
    assert list(found) == ["majority"]


def test_tags_by_hand() -> None:
    def tagged(words: str, tags: str) -> TaggedExample:
        return TaggedExample(words=tuple(words.split()), tags=tuple(tags.split()), place=PLACE)

    train = [tagged("Paris is big", "B-LOC O O"), tagged("Paris Hilton", "B-PER I-PER"), tagged("Paris", "B-LOC")]
    dev = [tagged("Paris is Hilton", "B-LOC O B-PER"), tagged("Rome IS big", "B-LOC O O")]
    found = baselines(tasks.for_examples("tag", train), train, dev)["word_tags"]
    assert found["precision"] == 1.0  # Paris; and Hilton, whose I begins a span
    assert found["recall"] == pytest.approx(2 / 3)  # Rome was never seen


def test_options_and_their_places() -> None:
    train = [ChoiceExample(text="x", options=("he sings", "he melts", "he flies"), label=0, place=PLACE)] * 6
    dev = [ChoiceExample(text="y", options=("she melts", "she sings"), label=1, place=PLACE)]
    found = baselines(tasks.for_examples("choice", train), train, dev)
    assert found["majority"]["accuracy"] == 0.0
    assert found["tfidf"]["accuracy"] == 1.0  # the wrong endings give themselves away


def test_answers() -> None:
    context = "The mill is old.  The river runs past the market! Nobody knows."
    answer = "The river runs past the market!"
    asked = QuestionExample(
        id="1",
        question="What runs past the market?",
        context=context,
        answers=(Answer(answer, context.index(answer)),),
        place=PLACE,
    )
    none = QuestionExample(id="2", question="Who?", context="", answers=(), place=PLACE)
    found = baselines(tasks.for_examples("qa", [asked]), [asked], [asked])
    assert list(found) == ["nearest_sentence"]
    assert found["nearest_sentence"] == {"exact_match": 1.0, "f1": 1.0}
    both = baselines(tasks.for_examples("qa", [asked, none]), [asked, none], [asked, none])
    assert both["no_answer"]["exact_match"] == 0.5


def test_similarity_by_hand() -> None:
    def pair(first: str, second: str, score: float | None = None) -> SimilarityExample:
        return SimilarityExample(texts=(first, second), score=score, place=PLACE)

    scored = [pair("old mill", "old mill", 5.0), pair("old mill", "old house", 2.0), pair("old mill", "geese", 0.0)]
    task = tasks.for_examples("similarity", scored)
    assert baselines(task, scored, scored)["tfidf"]["spearman"] == pytest.approx(1.0)
    pairs = [pair("old mill", "mill"), pair("wild geese", "geese"), pair("a road", "nothing of it")]
    ranks = baselines(tasks.for_examples("similarity", pairs), pairs, pairs)["tfidf"]
    assert ranks["accuracy"] == pytest.approx(2 / 3)
    assert ranks["mrr"] == pytest.approx((1 + 1 + 1 / 2) / 3)  # without a shared word: the middle of three places


def test_large_data_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "MAX_TRAIN", 10)
    train = [text(f"word{n % 7} good" if n % 2 else f"word{n % 5} bad", str(n % 2)) for n in range(200)]
    assert baselines(tasks.for_examples("classify", train), train, train)["tfidf"]["accuracy"] > 0.7
