"""Predictions of directories that `transformers` wrote, long texts, and everything that a row may be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks.data.labelled.examples import Answer, Place, QuestionExample, TaggedExample, TextExample
from bertworks.errors import CheckpointError, DataError, ModelError, UsageError
from bertworks.infer.predict import Predictor, PredictReport, chunks
from bertworks.infer.rows import examples_of
from bertworks.infer.saved import FILE, SavedTask, read_task, write_task
from bertworks.tasks.metrics.entities import Span
from bertworks.tasks.tags import tags_of
from tests.infer.foreign import ENCODERS, POSITIONS, TOKENIZERS, Foreign

TEXTS = [
    "The river runs past the old mill.",
    "Seventeen geese (17!) walked 3.5 miles to the market; nobody stopped them.",
    "x",
    "Där går en älv, 河边有一座旧磨坊",
]
PAIRS = list(zip(TEXTS, reversed(TEXTS), strict=True))
LONG = " ".join(TEXTS[:2] * 40)
ODD = "  The\u00a0river — naïve  e\u0301lan,\tÅngström…  😀👨‍👩‍👧 河边 mill’s U.S. \n end "
LABELS = {0: "no", 1: "yes", 2: "maybe"}
TAGS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
TOLERANCE = {"rtol": 0.0, "atol": 1e-5}


def named(names: dict[int, str]) -> dict[str, dict[int, str] | dict[str, int]]:
    return {"id2label": names, "label2id": {name: number for number, name in names.items()}}


# -- the same as in transformers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", TOKENIZERS)
def test_classifier(family: str, tmp_path: Path) -> None:
    foreign = Foreign(tmp_path, family, "ForSequenceClassification", **named(LABELS))
    predictor = Predictor(tmp_path)
    assert (predictor.task.name, predictor.labels) == ("classify", ("no", "yes", "maybe"))
    rows = [*TEXTS, "the mill " * 12]
    for text, prediction in zip(rows, predictor.predict(rows), strict=True):
        wanted = foreign.outputs(foreign.tokenizer.encode(text)).logits[0].softmax(-1)
        np.testing.assert_allclose(list(prediction.probabilities.values()), wanted, **TOLERANCE)
        assert prediction.label == LABELS[int(wanted.argmax())]
    for (text, pair), prediction in zip(PAIRS, predictor.predict(PAIRS), strict=True):
        wanted = foreign.outputs(foreign.tokenizer.encode(text, pair)).logits[0].softmax(-1)
        np.testing.assert_allclose(list(prediction.probabilities.values()), wanted, **TOLERANCE)


@pytest.mark.parametrize("family", [*ENCODERS, "gpt2"])
def test_tagger(family: str, tmp_path: Path) -> None:
    foreign = Foreign(tmp_path, family, "ForTokenClassification", **named(TAGS))
    predictor = Predictor(tmp_path)
    sentences = [text.split() for text in TEXTS]
    for words, prediction in zip(sentences, predictor.predict(sentences), strict=True):
        encoding = foreign.tokenizer.encode_words(words)
        likely = foreign.outputs(encoding).logits[0].softmax(-1)
        first = [list(encoding.words).index(word) for word in range(len(words))]
        assert prediction.tags == tuple(TAGS[int(likely[place].argmax())] for place in first)
        np.testing.assert_allclose(prediction.probabilities, likely[first].max(-1).values, **TOLERANCE)


@pytest.mark.parametrize("family", [*ENCODERS, "gpt2"])
def test_question_answerer(family: str, tmp_path: Path) -> None:
    foreign = Foreign(tmp_path, family, "ForQuestionAnswering")
    predictor = Predictor(tmp_path)
    rows = [("Who runs?", text) for text in TEXTS]
    for (question, context), prediction in zip(rows, predictor.predict(rows), strict=True):
        encoding = foreign.tokenizer.encode(question, context)
        outputs = foreign.outputs(encoding)
        starts, ends = outputs.start_logits[0], outputs.end_logits[0]
        places = encoding.positions(1).tolist()
        runs = [(i, j) for i in places for j in places if i <= j < i + 30]
        best = max(runs, key=lambda run: float(starts[run[0]] + ends[run[1]]))
        start, end = int(encoding.offsets[best[0], 0]), int(encoding.offsets[best[1], 1])
        assert (prediction.start, prediction.end, prediction.text) == (start, end, context[start:end])


@pytest.mark.parametrize("family", ENCODERS)
def test_multiple_choice(family: str, tmp_path: Path) -> None:
    foreign = Foreign(tmp_path, family, "ForMultipleChoice")
    rows = [(TEXTS[0], TEXTS[1:]), (TEXTS[1], TEXTS[:1] + TEXTS[2:3])]
    for (text, options), prediction in zip(rows, Predictor(tmp_path).predict(rows), strict=True):
        wanted = foreign.choice_logits([foreign.tokenizer.encode(text, option) for option in options]).softmax(-1)
        np.testing.assert_allclose(prediction.probabilities, wanted, **TOLERANCE)
        assert prediction.option == int(wanted.argmax())


def test_what_is_cut_is_counted(tmp_path: Path) -> None:
    Foreign(tmp_path, "bert", "ForMultipleChoice")
    predictor, report = Predictor(tmp_path), PredictReport()
    predictor.predict_examples(predictor.examples([(LONG, TEXTS), (TEXTS[2], TEXTS[:2])]), report=report)
    assert (report.rows, report.windowed, report.cut) == (2, 0, 1)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "gpt2"])
def test_regression(family: str, tmp_path: Path) -> None:
    foreign = Foreign(tmp_path, family, "ForSequenceClassification", num_labels=1)
    predictor = Predictor(tmp_path)
    assert predictor.task.name == "regress"
    wanted = [float(foreign.outputs(foreign.tokenizer.encode(text)).logits[0, 0]) for text in TEXTS]
    np.testing.assert_allclose([one.value for one in predictor.predict(TEXTS)], wanted, **TOLERANCE)


def test_several_labels_at_once(tmp_path: Path) -> None:
    options = named(LABELS) | {"problem_type": "multi_label_classification"}
    foreign = Foreign(tmp_path, "bert", "ForSequenceClassification", **options)
    for text, prediction in zip(TEXTS, Predictor(tmp_path).predict(TEXTS), strict=True):
        wanted = foreign.outputs(foreign.tokenizer.encode(text)).logits[0].sigmoid()
        np.testing.assert_allclose(list(prediction.probabilities.values()), wanted, **TOLERANCE)
        assert prediction.label == tuple(LABELS[number] for number in range(3) if wanted[number] >= 0.5)


def test_several_numbers_are_refused(tmp_path: Path) -> None:
    Foreign(tmp_path, "bert", "ForSequenceClassification", num_labels=3, problem_type="regression")
    with pytest.raises(ModelError, match="predicts 3 numbers"):
        Predictor(tmp_path)


def test_what_is_saved_here_predicts_the_same_in_transformers(tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    Foreign(tmp_path / "theirs", "bert", "ForSequenceClassification", **named(LABELS))
    ours = Predictor(tmp_path / "theirs", decision={"temperature": 2.0})
    ours.save(tmp_path / "ours")
    again = Predictor(tmp_path / "ours")
    assert again.decision == {"temperature": 2.0}
    assert again.predict(TEXTS) == ours.predict(TEXTS)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    for text, prediction in zip(TEXTS, again.predict(TEXTS), strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
        np.testing.assert_allclose(list(prediction.probabilities.values()), (logits / 2.0).softmax(-1), **TOLERANCE)
    bertworks.load(tmp_path / "ours").save(tmp_path / "copied")
    assert read_task(tmp_path / "copied") == read_task(tmp_path / "ours")


# -- long and odd texts ------------------------------------------------------------------------------------------------


def test_a_long_text_gets_the_mean_of_its_windows(tmp_path: Path) -> None:
    foreign = Foreign(tmp_path, "bert", "ForSequenceClassification", **named(LABELS))
    (prediction,) = Predictor(tmp_path).predict([LONG])
    pieces = foreign.tokenizer.windows(LONG, POSITIONS)
    assert len(pieces) > 5
    logits = torch.stack([foreign.outputs(piece.encoding).logits[0] for piece in pieces]).mean(0)
    np.testing.assert_allclose(list(prediction.probabilities.values()), logits.softmax(-1), **TOLERANCE)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "gpt2"])
@pytest.mark.parametrize("text", [*TEXTS, ODD, "", " \n"])
def test_spans_are_pieces_of_the_text(family: str, text: str, tmp_path: Path) -> None:
    Foreign(tmp_path, family, "ForTokenClassification", **named(TAGS))
    prediction = Predictor(tmp_path).predict(text)
    assert len(prediction.words) == len(prediction.tags)
    for span in prediction.spans:
        assert text[span.start : span.end] == span.text
        assert span.text.strip() == span.text != ""


def test_a_document_of_5000_words_is_tagged_and_questioned(tmp_path: Path) -> None:
    words = [f"word{number % 97}" for number in range(5000)]
    document = "  ".join(words)
    Foreign(tmp_path / "tag", "bert", "ForTokenClassification", **named(TAGS))
    prediction = Predictor(tmp_path / "tag").predict(document)
    assert len(prediction.tags) == 5000
    assert all(document[span.start : span.end] == span.text for span in prediction.spans)
    assert prediction.spans[-1].stop_word > 4900
    Foreign(tmp_path / "qa", "bert", "ForQuestionAnswering")
    answer = Predictor(tmp_path / "qa").predict(("Who?", document))
    assert document[answer.start : answer.end] == answer.text != ""


def test_a_prediction_does_not_depend_on_its_neighbours(tmp_path: Path) -> None:
    Foreign(tmp_path, "bert", "ForSequenceClassification", **named(LABELS))
    predictor = Predictor(tmp_path)
    rows = [*TEXTS, LONG, "", *TEXTS]
    together = predictor.predict(rows)
    for row, prediction in zip(rows, together, strict=True):
        alone = predictor.predict(row)
        np.testing.assert_allclose(
            list(alone.probabilities.values()), list(prediction.probabilities.values()), **TOLERANCE
        )
    streamed = list(predictor.stream(iter(rows), chunk_rows=3, chunk_characters=100))
    assert [one.label for one in streamed] == [one.label for one in together]


def test_chunks_depend_on_the_rows_alone() -> None:
    rows = ["a" * 5, "b" * 5, "c" * 30, "d", "e", "f"]
    assert list(chunks(rows, rows_at_once=2, characters=12)) == [rows[:2], rows[2:3], rows[3:5], rows[5:]]
    assert list(chunks([], rows_at_once=2, characters=12)) == []


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (None, None),
        ("cat", (Answer("cat", 4),)),
        (("cat", 4), (Answer("cat", 4),)),
        ([("cat", 4), "The"], (Answer("cat", 4), Answer("The", 0))),
        ([], ()),
        ("", ()),
    ],
)
def test_rows_with_answers(label: Any, expected: Any) -> None:
    (found,) = examples_of("qa", [("Who?", "The cat sat.")], labels=[label])
    assert isinstance(found, QuestionExample)
    assert (found.question, found.answers) == ("Who?", expected)


def test_rows_with_labels() -> None:
    place = Place("rows", 0)
    assert examples_of("tag", [["a", "b"]], labels=[["O", "PER"]]) == [
        TaggedExample(words=("a", "b"), tags=("O", "PER"), place=place)
    ]
    assert examples_of("classify", [("a", "b")], labels=["x"]) == [
        TextExample(text="a", pair="b", label="x", place=place)
    ]
    with pytest.raises(DataError, match="rows:0: has 2 words and 1 tags"):
        examples_of("tag", [["a", "b"]], labels=[["O"]])
    with pytest.raises(DataError, match="rows:0: the answer 'dog' is nowhere in its context"):
        examples_of("qa", [("Who?", "The cat sat.")], labels=["dog"])


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    directory = tmp_path_factory.mktemp("classifier")
    Foreign(directory, "bert", "ForSequenceClassification", **named(LABELS))
    return Predictor(directory)


def test_forms_of_a_text(classifier: Predictor) -> None:
    text, pair = TEXTS[:2]
    one = classifier.predict(text)
    assert one == classifier.predict([text])[0] == classifier.predict({"text": text, "more": 1})
    assert one == classifier.predict(TextExample(text=text, place=Place("somewhere", 3)))
    assert one == classifier.predict(np.array([text]))[0]
    two = classifier.predict((text, pair))
    assert two != one
    assert two == classifier.predict([(text, pair)])[0] == classifier.predict({"text": text, "pair": pair})
    assert classifier.predict([]) == []


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([TEXTS[0], None], "row 1 is None; a row for 'classify' is a text, or two texts as a tuple"),
        ([3.5], "row 0 is 3.5"),
        ([("a", "b", "c")], r"row 0 is \('a', 'b', 'c'\)"),
        ([("a", 3)], r"row 0 is \('a', 3\)"),
        ([{"txt": "a"}], "a mapping with the keys text and pair"),
    ],
)
def test_rows_that_are_none(classifier: Predictor, rows: list[object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        classifier.predict(rows)


def test_texts_and_pairs_together_are_refused(classifier: Predictor) -> None:
    with pytest.raises(DataError, match="rows:0: this example has no second text"):
        classifier.predict([TEXTS[0], tuple(TEXTS[:2])])


def test_forms_of_other_tasks(tmp_path: Path) -> None:
    Foreign(tmp_path / "tag", "bert", "ForTokenClassification", **named(TAGS))
    tagger = Predictor(tmp_path / "tag")
    text = "the old mill"
    assert tagger.predict(text) == tagger.predict([text.split()])[0] == tagger.predict({"words": text.split()})
    assert tagger.predict({"text": text}).tags == tagger.predict(text).tags
    with pytest.raises(UsageError, match="row 0 is 7; a row for 'tag' is a text, or a list of words"):
        tagger.predict([7])

    Foreign(tmp_path / "qa", "bert", "ForQuestionAnswering")
    answerer = Predictor(tmp_path / "qa")
    one = answerer.predict(("Who runs?", TEXTS[0]))
    assert one == answerer.predict({"id": "0", "question": "Who runs?", "context": TEXTS[0]})
    with pytest.raises(UsageError, match="a question and a context, as a tuple"):
        answerer.predict("Who runs?")

    Foreign(tmp_path / "choice", "bert", "ForMultipleChoice")
    chooser = Predictor(tmp_path / "choice")
    assert chooser.predict(("a", ["b", "c"])) == chooser.predict({"text": "a", "options": ("b", "c")})
    with pytest.raises(UsageError, match="has 1 options; a choice needs at least two"):
        chooser.predict(("a", ["b"]))
    with pytest.raises(UsageError, match="a text and a list of options"):
        chooser.predict(("a", "bc"))


# -- what a directory is -----------------------------------------------------------------------------------------------


def test_a_classifier_of_pairs(classifier: Predictor) -> None:
    directory = classifier.loaded.directory
    assert directory is not None
    pairs = Predictor(directory, task="pair")
    assert pairs.predict((TEXTS[0], TEXTS[1])) == classifier.predict((TEXTS[0], TEXTS[1]))
    with pytest.raises(UsageError, match="row 0 is 'x'; a row for 'pair' is two texts as a tuple"):
        pairs.predict("x")
    with pytest.raises(ModelError, match="made for 'classify', not for 'qa'"):
        Predictor(directory, task="qa")
    with pytest.raises(UsageError, match=r"unknown task 'pairs' \(did you mean 'pair'\?\)"):
        Predictor(directory, task="pairs")


def test_a_model_without_a_head_says_what_to_do(tmp_path: Path) -> None:
    Foreign(tmp_path, "bert", "ForMaskedLM")
    with pytest.raises(ModelError, match=r"\(its heads: mlm\); fine-tune it first"):
        bertworks.load(tmp_path).predict("x")


def test_an_embedding_model_predicts_similarity() -> None:
    predictor = bertworks.load("minilm").predictor
    assert predictor.task.name == "similarity"
    near, far = predictor.predict([("A cat sat there.", "A kitten was sitting."), ("A cat sat there.", "Stocks fell.")])
    assert near.similarity > 0.5 > far.similarity
    assert near.rank is None


def test_evaluate(classifier: Predictor, tmp_path: Path) -> None:
    labels = [prediction.label for prediction in classifier.predict(TEXTS)]
    examples = [
        TextExample(text=text, label=label, place=Place("f", 1)) for text, label in zip(TEXTS, labels, strict=True)
    ]
    assert classifier.evaluate(examples).figures["accuracy"] == 1.0
    wrong = TextExample(text="x", label="other", place=Place("dev.tsv", 7))
    with pytest.raises(DataError, match=r"dev.tsv:7: unknown label 'other'"):
        classifier.evaluate([*examples, wrong])
    with pytest.raises(UsageError, match="no examples"):
        classifier.evaluate([])


def test_numbers_stand_for_labels_that_nobody_named(tmp_path: Path) -> None:
    Foreign(tmp_path, "bert", "ForSequenceClassification", num_labels=3)
    predictor = Predictor(tmp_path)
    assert predictor.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    given = [prediction.label.removeprefix("LABEL_") for prediction in predictor.predict(TEXTS)]
    examples = [TextExample(text=t, label=n, place=Place("f", 1)) for t, n in zip(TEXTS, given, strict=True)]
    assert predictor.evaluate(examples).figures["accuracy"] == 1.0


def test_capital_letters_do_not_make_another_label(classifier: Predictor) -> None:
    examples = [
        TextExample(text=text, label=classifier.predict(text).label.upper(), place=Place("f", 1)) for text in TEXTS
    ]
    assert classifier.evaluate(examples).figures["accuracy"] == 1.0


def test_taggers_and_answerers_made_elsewhere_are_evaluated(tmp_path: Path) -> None:
    tags = {0: "B-LOC", 1: "I-LOC", 2: "I-PER", 3: "O"}  # a published model has no B-PER, since its data never has
    Foreign(tmp_path / "tag", "bert", "ForTokenClassification", **named(tags))
    tagger = Predictor(tmp_path / "tag")
    examples = []
    for text in TEXTS[:2]:
        prediction = tagger.predict([text.split()])[0]
        truth = ["O"] * len(prediction.words)
        for span in prediction.spans:
            truth[span.first_word] = f"B-{span.label}"
            truth[span.first_word + 1 : span.stop_word] = [f"I-{span.label}"] * (span.stop_word - span.first_word - 1)
        examples.append(TaggedExample(words=prediction.words, tags=tuple(truth), place=Place("f", 1)))
    assert tagger.evaluate(examples).figures["f1"] == 1.0

    Foreign(tmp_path / "qa", "bert", "ForQuestionAnswering")
    question = {"question": "Who?", "context": TEXTS[0], "place": Place("f", 1)}
    answerable = QuestionExample(id="1", answers=(Answer("The", 0),), **question)
    without = QuestionExample(id="2", answers=(), **question)
    figures = Predictor(tmp_path / "qa").evaluate([answerable, without]).figures
    assert "no_answer_accuracy" in figures


def test_a_tagger_with_bare_labels_gives_spans(tmp_path: Path) -> None:
    """PER and LOC without B- and I-: neighbours of one label are one span, and files in BIO can judge them."""
    Foreign(tmp_path, "bert", "ForTokenClassification", **named({0: "O", 1: "PER", 2: "LOC"}))
    tagger = Predictor(tmp_path)
    predictions = [tagger.predict([text.split()])[0] for text in TEXTS[:2]]
    assert {tag for one in predictions for tag in one.tags} <= {"O", "PER", "LOC"}
    assert any(one.spans for one in predictions)
    for one in predictions:
        again = ["O"] * len(one.words)
        for span in one.spans:
            again[span.first_word : span.stop_word] = [span.label] * (span.stop_word - span.first_word)
            assert span.text == " ".join(one.words[span.first_word : span.stop_word])
        assert tuple(again) == one.tags
    for scheme in ("io", "bio"):
        examples = [
            TaggedExample(
                words=one.words,
                tags=tags_of([Span(s.label, s.first_word, s.stop_word) for s in one.spans], len(one.words), scheme),
                place=Place("f", 1),
            )
            for one in predictions
        ]
        figures = tagger.evaluate(examples).figures
        assert (figures["f1"], figures["accuracy"]) == (1.0, 1.0)


# -- bertworks.json ----------------------------------------------------------------------------------------------------


def test_saved_task(tmp_path: Path) -> None:
    assert read_task(tmp_path) is None
    (tmp_path / FILE).write_text('{"of": "somebody else"}', encoding="utf-8")
    assert read_task(tmp_path) is None
    saved = SavedTask(task={"task": "choice", "metric": "accuracy"}, decision={"temperature": 1.5}, window=48)
    saved = replace(saved, columns={"text_column": "title", "first_option": 1})
    write_task(tmp_path, saved)
    assert read_task(tmp_path) == saved
    assert '"of": "somebody else"' in (tmp_path / FILE).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"version": 9, "task": {}}', "version 9; this Bertworks reads version 1"),
        ('{"version": 1, "task": []}', "must hold objects"),
        ('{"version": 1, "task": {}, "window": -3}', "window = -3"),
        ("{", "not valid JSON"),
    ],
)
def test_a_damaged_file_is_told(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / FILE).write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=problem):
        read_task(tmp_path)
