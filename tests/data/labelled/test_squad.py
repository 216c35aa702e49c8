"""Questions: SQuAD's JSON in both versions, and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.data.labelled import Answer
from tests.data.labelled.helpers import examples, parsed, refused, written

CONTEXT = "The cat sat on the mat in Ulm."


def squad(answers: list[dict[str, Any]] | None, **more: Any) -> dict[str, Any]:
    question = {"id": "q1", "question": "Who sat?", "answers": answers, **more}
    if answers is None:
        del question["answers"]
    return {"version": "v2.0", "data": [{"title": "Cats", "paragraphs": [{"context": CONTEXT, "qas": [question]}]}]}


@pytest.mark.parametrize("indent", [None, 2])
def test_answers(tmp_path: Path, indent: int | None) -> None:
    document = squad([{"text": "The cat", "answer_start": 0}, {"text": "cat", "answer_start": 4}])
    data = parsed(tmp_path, "a.json", json.dumps(document, indent=indent), "qa")
    (example,) = data.examples
    assert example.answers == (Answer("The cat", 0), Answer("cat", 4))  # type: ignore[union-attr]
    assert example.group == "Cats"
    assert "1 questions about 1 contexts; 1 articles; 0 without an answer" in data.understood[0]


def test_no_answer(tmp_path: Path) -> None:
    plausible = [{"text": "mat", "answer_start": 19}]
    document = squad([], is_impossible=True, plausible_answers=plausible)
    assert examples(tmp_path, "a.json", json.dumps(document), "qa")[0].answers == ()


def test_to_predict(tmp_path: Path) -> None:
    document = json.dumps(squad(None))
    assert examples(tmp_path, "a.json", document, "qa", labelled=False)[0].answers is None
    assert "question 1 (id 'q1', article 'Cats'): has no list of answers" in refused(tmp_path, "a.json", document, "qa")


@pytest.mark.parametrize(
    ("text", "start", "message"),
    [
        ("cat", 5, "the answer 'cat' is not at character 5 of its context: there is 'at '; it stands at 4"),
        ("dog", 4, "there is 'cat'; it is nowhere in the context"),
        ("Ulm", 99, "the context has only 30 characters; it stands at 26"),
        ("cat", -1, "is not at character -1"),
        ("at", None, "the answer 'at' stands 3 times in its context, and no start is given"),
        ("cat", "four", "has the start 'four', which is no whole number"),
        ("", 4, "an answer's text is ''"),
    ],
)
def test_answers_that_are_not_there(tmp_path: Path, text: str, start: Any, message: str) -> None:
    document = json.dumps(squad([{"text": text, "answer_start": start}]))
    found = refused(tmp_path, "a.json", document, "qa")
    assert found.startswith("a.json: question 1 (id 'q1', article 'Cats'): ")
    assert message in found
    assert "--skip-bad-rows" in found
    assert "has no rows but 1 that were left out" in refused(tmp_path, "a.json", document, "qa", skip_bad_rows=True)


@pytest.mark.parametrize("answers", [[None], ["dog"], [{"text": "cat", "answer_start": 4}, "dog"], "dog", 5, [[]]])
def test_answers_of_another_form(tmp_path: Path, answers: Any) -> None:
    document = squad(answers)
    assert "question 1 (id 'q1', article 'Cats'): " in refused(tmp_path, "a.json", json.dumps(document), "qa")
    good = squad([{"text": "cat", "answer_start": 4}])
    document["data"] += good["data"]
    assert parsed(tmp_path, "a.json", json.dumps(document), "qa", skip_bad_rows=True).skipped == 1
    assert examples(tmp_path, "a.json", json.dumps(squad(["cat"])), "qa")[0].answers == (Answer("cat", 4),)


def test_broken_documents(tmp_path: Path) -> None:
    assert refused(tmp_path, "a.json", '{"data": [\n{"title": }', "qa").startswith("a.json:2: is not valid JSON")
    assert "article 1 (None), paragraph 1 is not of SQuAD's form: it has no 'qas'" in refused(
        tmp_path, "a.json", '{"data": [{"paragraphs": [{}]}]}', "qa"
    )
    assert "for the task `qa`, not `classify`" in refused(tmp_path, "a.json", json.dumps(squad([])), "classify")


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["cat"], "answer_start": [4]},
        [{"text": "cat", "answer_start": 4}],
        ["cat"],
        "cat",
    ],
)
def test_tables(tmp_path: Path, answers: Any) -> None:
    record = {"id": "x", "title": "Cats", "context": CONTEXT, "question": "Who sat?", "answers": answers}
    (example,) = examples(tmp_path, "a.jsonl", json.dumps(record), "qa")
    assert (example.id, example.group, example.answers) == ("x", "Cats", (Answer("cat", 4),))
    assert example.context[4:7] == "cat"


def test_a_csv_with_one_answer(tmp_path: Path) -> None:
    content = f"question,context,answer,answer_start\nWho sat?,{CONTEXT},cat,4\nWho ran?,{CONTEXT},,\n"
    assert [example.answers for example in examples(tmp_path, "a.csv", content, "qa")] == [(Answer("cat", 4),), ()]
    twice = f"question,context,answer\nWhere?,{CONTEXT},at\n"
    assert "a.csv:2: the answer 'at' stands 3 times in its context" in refused(tmp_path, "a.csv", twice, "qa")


def test_a_large_document_is_not_taken_for_a_line(tmp_path: Path) -> None:
    document = squad([{"text": "cat", "answer_start": 4}])
    document["padding"] = "x" * 1_100_000
    assert len(examples(tmp_path, "a.json", json.dumps(document), "qa")) == 1
    assert written(tmp_path, "b", "").is_file()


def test_missing_answers_are_not_no_answers(tmp_path: Path) -> None:
    rows = [
        {"question": "Who?", "context": "Anna sleeps.", "answers": {"text": ["Anna"], "answer_start": [0]}},
        {"question": "Why?", "context": "Anna sleeps.", "answers": {"text": [], "answer_start": []}},
        {"question": "When?", "context": "Anna sleeps."},
    ]
    content = "\n".join(map(json.dumps, rows))
    message = refused(tmp_path, "a.jsonl", content, "qa")
    assert "a.jsonl:3: the answers are missing (column 'answers'); a question without any has []" in message
    assert [len(one.answers) for one in examples(tmp_path, "a.jsonl", content, "qa", skip_bad_rows=True)] == [1, 0]


def test_questions_without_a_header(tmp_path: Path) -> None:
    rows = "When was it built?\tIt was built in 1834.\t1834\nWho was there?\tNobody was.\tNobody\n"
    first, second = examples(tmp_path, "a.tsv", rows, "qa")
    assert (first.question, first.answers[0].start, second.answers[0].text) == ("When was it built?", 16, "Nobody")
    rows = "When was it built?\tIt was built in 1834.\n"
    (only,) = examples(tmp_path, "a", rows, "qa", labelled=False)
    assert (only.question, only.context, only.answers) == ("When was it built?", "It was built in 1834.", None)
