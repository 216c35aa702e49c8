"""Reports and cards of every task: they stand alone, escape, and say what they should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bertworks import tasks
from bertworks.data.labelled.examples import Place, TextExample
from bertworks.finetune.card import model_card
from bertworks.finetune.report import report, warning, with_spread
from bertworks.finetune.report_labels import by_length
from bertworks.finetune.report_spans import _excerpt, mistakes
from bertworks.finetune.result import Result, SeedRun
from bertworks.page import Mark
from bertworks.tasks.metrics.entities import Span
from bertworks.tasks.predictions import (
    AnswerPrediction,
    ChoicePrediction,
    LabelPrediction,
    NumberPrediction,
    SimilarityPrediction,
    TagPrediction,
)
from tests.reader import Reader
from tests.tasks import small

LINES = [{"step": n, "loss": 1.0 / n, "learning_rate": 1e-5 * n} for n in range(1, 7)]


def result(name: str, examples: Sequence[Any], predictions: Sequence[Any], **changes: Any) -> Result:
    task = tasks.for_examples(name, examples, dev=examples, **changes.pop("options", {}))
    figures = task.measure(examples, predictions)
    lines = [*LINES, {"step": 6, f"held_out_{task.metric}": figures[task.metric]}]
    given: dict[str, Any] = {
        "name": "a <b> run",
        "task": task,
        "decision": {},
        "examples": examples,
        "predictions": predictions,
        "runs": [SeedRun(seed=0, figures=figures, lines=lines, steps=6, best_step=6, seconds=3.0)],
        "baseline": {"majority": dict.fromkeys(figures, 0.01)},
        "model": "minilm",
        "described": "bert 6x384x12",
        "parameters": 22_000_000,
        "trained_parameters": 22_000_000,
        "data": "train.tsv",
        "understood": ["train.tsv: <tab>-separated"],
        "num_train": 40,
        "num_dev": len(examples),
        "settings": {"train": {"epochs": 3, "optimizer": {"learning_rate": 5e-5}}, "data": {"encoding": None}},
        "seconds": 3.0,
    }
    return Result(**{**given, **changes})


def labels(*, wrong_at: Sequence[int] = (1, 3)) -> Result:
    examples = small.texts(("no", "yes"))
    predictions = []
    for number, example in enumerate(examples):
        right = str(example.label)
        said = right if number not in wrong_at else "yes" if right == "no" else "no"
        sure = 0.6 + 0.04 * number
        predictions.append(LabelPrediction(said, {said: sure, "yes" if said == "no" else "no": 1 - sure}))
    return result("classify", examples, predictions)


def multi_labels() -> Result:
    examples = small.texts((("a",), ("a", "b"), ()))
    predictions = [LabelPrediction(("b",), {"a": 0.2, "b": 0.9}) for _ in examples]
    return result("classify", examples, predictions)


def numbers() -> Result:
    examples = small.texts((1.0, 2.5, 4.0), pairs=True)
    return result("regress", examples, [NumberPrediction(float(n % 5)) for n, _ in enumerate(examples)])


def choices() -> Result:
    examples = small.choices()
    predictions = []
    for example in examples:
        count = len(example.options)
        predictions.append(ChoicePrediction(count - 1, (0.1,) * (count - 1) + (1 - 0.1 * (count - 1),)))
    return result("choice", examples, predictions)


def tags() -> Result:
    examples = small.tagged()
    predictions = []
    for number, example in enumerate(examples):
        said = tuple("B-LOC" if place == number % len(example.words) else "O" for place in range(len(example.words)))
        predictions.append(TagPrediction(example.words, said, (0.9,) * len(said), ()))
    return result("tag", examples, predictions)


def plain_tags() -> Result:
    examples = [replace(e, tags=tuple("DET" if len(w) < 4 else "NOUN" for w in e.words)) for e in small.tagged()]
    predictions = [TagPrediction(e.words, ("NOUN",) * len(e.words), (0.7,) * len(e.words), ()) for e in examples]
    return result("tag", examples, predictions)


def answers() -> Result:
    examples = small.questions()
    predictions = []
    for number, example in enumerate(examples):
        text = example.context.split()[0] if number % 2 else ""
        predictions.append(AnswerPrediction(example.id, text, 0, len(text), 0.8, 0.2, ()))
    return result("qa", examples, predictions)


def similarities(kind: str) -> Result:
    examples = small.similar(kind)
    rank = None if kind == "scored" else 3
    predictions = [SimilarityPrediction(0.1 * number, rank) for number, _ in enumerate(examples)]
    return result("similarity", examples, predictions)


EVERY = {
    "classify": (labels, ["What is taken for what", "Most confident errors", "said no", "is yes", "Seventeen geese"]),
    "multi-label": (multi_labels, ["Label by label", "missed a", "said b"]),
    "regress": (numbers, ["Predicted and true", "Largest errors", "mean error"]),
    "choice": (choices, ["Where the right option stands", "Most confident errors"]),
    "tag": (tags, ["Kinds of errors", "missed", "B", "said LOC", "is NAME"]),
    "plain tags": (plain_tags, ["Tag by tag", "DET", "said NOUN"]),
    "qa": (answers, ["F1 by what is asked", "Is there an answer?", "no answer", "What is last?"]),
    "scored": (lambda: similarities("scored"), ["Cosine and score", "Largest disagreements"]),
    "pairs": (lambda: similarities("pairs"), ["Where the right text stands", "place 3"]),
}


@pytest.mark.parametrize("kind", EVERY)
def test_every_task_has_its_page_and_card(kind: str) -> None:
    make, wanted = EVERY[kind]
    found = make()
    page = report(found)
    seen = Reader(page)
    assert seen.open == []
    assert (seen.fetched, seen.scripts) == ([], 0)
    for word in (*wanted, "a <b> run", "<tab>-separated", "Training loss", "train.optimizer.learning_rate", "3 s"):
        assert word in seen.text, word
    assert "data.encoding" not in seen.text  # not set
    card = model_card(found)
    assert card.startswith("---\nlibrary_name: ")
    assert "# a <b> run" in card
    assert '("a <b> run")' in card
    assert "| most frequent answer |" in card
    assert "- epochs: 3" in card


def test_words_of_errors_are_weighed() -> None:
    def predict(examples: Sequence[TextExample]) -> list[LabelPrediction]:
        """Only "geese" counts."""
        shares = [0.9 if "geese" in example.text else 0.3 for example in examples]
        return [LabelPrediction("no", {"no": share, "yes": 1 - share}) for share in shares]

    examples = [TextExample(text="wild <geese> fly off", label="yes", place=Place("dev.tsv", 7))]
    task = tasks.for_examples("classify", [*examples, replace(examples[0], label="no")])
    predictions = predict(examples)
    found = replace(labels(), task=task, examples=examples, predictions=predictions)
    page = report(found, predict)
    assert '<mark class="for" style="--w:1.00" title="+60 points">&lt;geese&gt;</mark>' in page
    assert page.count("<mark") == 1
    assert "dev.tsv, line 7" in page
    assert "<mark" not in report(found)


def test_numbers_of_errors_are_weighed() -> None:
    def predict(examples: Sequence[TextExample]) -> list[NumberPrediction]:
        return [NumberPrediction(4.0 * example.text.count("mill")) for example in examples]

    examples = [
        TextExample(text=text, label=label, place=Place("dev.tsv", 1))
        for text, label in (("an old mill", 0.0), ("a river", 2.0), ("the mill", 3.0))
    ]
    page = report(result("regress", examples, predict(examples)), predict)
    assert '<mark class="for"' in page
    assert 'title="+4">mill</mark>' in page


def test_nothing_is_wrong() -> None:
    assert "There are none." in report(labels(wrong_at=()))


def test_what_was_settled_on_the_same_examples_is_said() -> None:
    said = "It was brought near that line on these very examples"
    assert [said in report(kind()) for kind in (labels, choices, tags, multi_labels, answers)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    settled = replace(multi_labels(), decision={"thresholds": [0.5, 0.3]})
    assert "Thresholds were chosen for the best F1 on these very examples" in model_card(settled)
    assert "Thresholds were chosen" not in model_card(multi_labels())


def test_without_development_examples() -> None:
    found = replace(labels(), examples=[], predictions=[], runs=[SeedRun(seed=0, figures={})], baseline={}, num_dev=0)
    seen = Reader(report(found))
    assert "no development examples" in seen.text
    assert "None: there were no development examples" in model_card(found)


def test_seeds_search_test_and_folds_are_shown() -> None:
    runs = [
        SeedRun(seed=seed, figures={"accuracy": value}, test={"accuracy": 0.5}, steps=9, seconds=100.0)
        for seed, value in ((3, 0.8), (4, 0.9))
    ]
    trials = [{"number": 0, "settings": {"train.epochs": 2.0}, "value": 0.7, "state": "complete"}]
    found = replace(labels(), runs=runs, kept=1, search=trials)
    seen = Reader(report(found))
    for words in ("85.0% ± 7.1", "seed 4 (saved)", "between 2 seeds", "trial 0", "train.epochs", "on the test file"):
        assert words in seen.text, words
    assert "Means over 2 seeds" in model_card(found)
    assert "the saved model is that of seed 4" in model_card(found)
    cross = {"metric": "accuracy", "mean": 0.8, "std": 0.05, "folds": [0.75, 0.85], "knob": "C", "strength": 0.01}
    frozen = replace(labels(), runs=[SeedRun(seed=0, figures={"accuracy": 0.8}, frozen=cross)])
    seen = Reader(report(frozen))
    assert "80.0% ± 5.0" in seen.text
    assert "its C, 0.01, did best" in seen.text


def test_warnings() -> None:
    found = labels()
    assert "within what chance does" in str(warning(replace(found, baseline={"majority": {"accuracy": 0.7}})))
    assert "no better than a simple one" in str(warning(replace(found, baseline={"tfidf": {"accuracy": 0.75}})))
    assert "no better" in report(replace(found, baseline={"tfidf": {"accuracy": 0.75}}))
    assert "no better" in model_card(replace(found, baseline={"tfidf": {"accuracy": 0.75}}))
    assert warning(replace(found, baseline={"majority": {"accuracy": 0.1}})) is None
    assert warning(replace(found, baseline={})) is None
    sure = replace(found, runs=[SeedRun(seed=0, figures={"accuracy": 1.0})], baseline={"tfidf": {"accuracy": 1.0}})
    assert "too easy to tell" in str(warning(sure))
    assert "One development example tells next to nothing" in str(warning(replace(sure, num_dev=1)))
    runs = [SeedRun(seed=seed, figures={"accuracy": value}) for seed, value in enumerate((0.7, 0.8))]
    assert "what the seed alone changes" in str(
        warning(replace(found, runs=runs, baseline={"majority": {"accuracy": 0.72}}))
    )


def test_many_labels_have_a_small_map_or_none() -> None:
    for count, maps in ((20, 1), (70, 0)):
        names = [f"label-{number:02d}" for number in range(count)]
        examples = [TextExample(text=f"t {name}", label=name, place=Place("d", 1)) for name in names]
        predictions = [LabelPrediction(names[0], dict.fromkeys(names, 1 / count)) for _ in names]
        page = report(result("classify", examples, predictions))
        assert page.count('class="heat small"') == maps
        assert "most often mixed up" in page


def test_own_format_and_hub_ids_in_the_card() -> None:
    own = model_card(replace(labels(), described="bertworks 6x384x12"))
    assert "library_name: bertworks" in own
    assert "`transformers` has no such head" in own
    assert "base_model: org/name" in model_card(replace(labels(), model="org/name"))
    assert "AutoModelForTokenClassification" in model_card(tags())
    assert "SentenceTransformer" in model_card(similarities("scored"))
    assert '("A' not in model_card(numbers())
    assert "predict((" in model_card(numbers())  # a pair


def test_spread_in_words() -> None:
    assert with_spread("accuracy", {"accuracy": 0.8834}, {"accuracy": 0.0041}) == "88.3% ± 0.4"
    assert with_spread("pearson", {"pearson": 0.8834}, {"pearson": 0.0041}) == "0.8834 ± 0.0041"
    assert with_spread("accuracy", {"accuracy": 0.8834}, {}) == "88.3%"


def test_groups_of_lengths() -> None:
    lengths = list(range(1, 101))
    found = by_length(lengths, [float(length <= 20) for length in lengths], "t")
    assert found.count('class="bar"') == 5
    assert "1–20 words (20)" in found
    assert "100.0%" in found
    assert by_length([4, 4, 4], [1, 0, 1], "t") == ""  # one group says nothing


def test_excerpts_show_what_is_marked() -> None:
    context = " ".join(f"word{number}" for number in range(400))
    first, last = context.index("word100 "), context.index("word300 ")
    found = Reader(_excerpt(context, [Mark(last, last + 7, "guess"), Mark(first, first + 7, "truth")])).text
    assert "word100" in found
    assert "word300" in found
    assert "word200" not in found
    assert found.startswith("… word")
    assert found.endswith(" …")
    assert found.count("…") == 3
    assert len(found) < 800
    near = Reader(_excerpt(context, [Mark(0, 5, "guess"), Mark(20, 26, "truth")])).text
    assert near.startswith("word0 word1")
    assert _excerpt("short", []) == "short"


def test_kinds_of_mistakes() -> None:
    truth = [Span("LOC", 0, 2), Span("PER", 3, 5), Span("ORG", 6, 7), Span("LOC", 9, 10)]
    guess = [Span("LOC", 0, 2), Span("ORG", 3, 5), Span("ORG", 6, 8), Span("PER", 11, 12)]
    found = mistakes(truth, guess)
    assert found.mislabelled == [(truth[1], guess[1])]
    assert found.misplaced == [(truth[2], guess[2])]
    assert found.missed == [truth[3]]
    assert found.invented == [guess[3]]
