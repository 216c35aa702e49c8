"""GLUE's own files, and their relatives: the real headers over rows written by us, training and test forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertworks.data.labelled import TaskName
from tests.data.labelled.helpers import examples, labelled, parsed, refused, tabbed

COLA = tabbed("ab12 | 1 | | The cat sat.", "ab12 | 0 | * | Cat the sat.", "cd34 | 0 | ?? | Sat which cat.")
SST = tabbed("sentence | label", "a fine film  | 1", "dull and long  | 0").replace("\t1", " \t1")
MRPC = "\ufeff" + tabbed(
    "Quality | #1 ID | #2 ID | #1 String | #2 String",
    '1 | 100 | 101 | He said " yes " . | " Yes , " he said .',
    '0 | 102 | 103 | An odd " mark . | Nothing else .',
)
STSB = tabbed(
    "index | genre | filename | year | old_index | source1 | source2 | sentence1 | sentence2 | score",
    "0 | main-captions | x | 2012test | 0001 | none | none | A cat runs. | A cat is running. | 4.750",
    "1 | main-captions | x | 2012test | 0004 | none | none | A dog eats. | A man sings. | 0.200",
)
QQP = tabbed(
    "id | qid1 | qid2 | question1 | question2 | is_duplicate",
    "0 | 1 | 2 | How do I swim? | How can I swim? | 1",
    "1 | 3 | 4 | What is tea? | Who is Bo? | 0",
)
MNLI_FRONT = (
    "index | promptID | pairID | genre | sentence1_binary_parse | sentence2_binary_parse | sentence1_parse "
    "| sentence2_parse | sentence1 | sentence2"
)
MNLI_ROW = "31 | 31n | fiction | ( A cat ) | ( No cat ) | (ROOT A cat) | (ROOT No cat)"
MNLI = tabbed(
    f"{MNLI_FRONT} | label1 | gold_label",
    f"0 | {MNLI_ROW} | A cat sat there. | No cat sat. | contradiction | contradiction",
    f"1 | {MNLI_ROW} | A cat sat here. | Something sat. | entailment | -",
    f"2 | {MNLI_ROW} | A cat sat up. | A cat sat. | entailment | entailment",
)
MNLI_DEV = tabbed(
    f"{MNLI_FRONT} | label1 | label2 | label3 | label4 | label5 | gold_label",
    f"0 | {MNLI_ROW} | A cat sat. | No cat sat. | neutral | neutral | neutral | entailment | neutral | neutral",
)
QNLI = tabbed("index | question | sentence | label", "0 | Who ran? | The dog ran far. | entailment")
RTE = tabbed("index | sentence1 | sentence2 | label", "0 | It rained all day. | It was dry. | not_entailment")
SNLI = "".join(
    json.dumps(
        {
            "annotator_labels": [gold],
            "captionID": "1.jpg#0",
            "gold_label": gold,
            "pairID": "1.jpg#0r1n",
            "sentence1": "A man rides.",
            "sentence1_binary_parse": "( A man )",
            "sentence1_parse": "(ROOT A man)",
            "sentence2": f"The man is {gold}.",
            "sentence2_binary_parse": "( The man )",
            "sentence2_parse": "(ROOT The man)",
        }
    )
    + "\n"
    for gold in ("neutral", "-", "entailment")
)
SICK = tabbed(
    "pair_ID | sentence_A | sentence_B | entailment_label | relatedness_score",
    "1 | A boy is running. | A boy runs. | ENTAILMENT | 4.9",
    "2 | A boy is running. | A cat sleeps. | NEUTRAL | 1.1",
)


@pytest.mark.parametrize(
    ("content", "task", "expected"),
    [
        (COLA, "classify", [("The cat sat.", "1"), ("Cat the sat.", "0"), ("Sat which cat.", "0")]),
        (SST, "classify", [("a fine film ", "1"), ("dull and long", "0")]),
        (
            MRPC,
            "pair",
            [('He said " yes " .', '" Yes , " he said .', "1"), ('An odd " mark .', "Nothing else .", "0")],
        ),
        (STSB, "regress", [("A cat runs.", "A cat is running.", 4.75), ("A dog eats.", "A man sings.", 0.2)]),
        (QQP, "pair", [("How do I swim?", "How can I swim?", "1"), ("What is tea?", "Who is Bo?", "0")]),
        (
            MNLI,
            "pair",
            [("A cat sat there.", "No cat sat.", "contradiction"), ("A cat sat up.", "A cat sat.", "entailment")],
        ),
        (MNLI_DEV, "pair", [("A cat sat.", "No cat sat.", "neutral")]),
        (QNLI, "pair", [("Who ran?", "The dog ran far.", "entailment")]),
        (RTE, "pair", [("It rained all day.", "It was dry.", "not_entailment")]),
        (RTE.replace("not_entailment", "0"), "pair", [("It rained all day.", "It was dry.", "0")]),  # WNLI's form
        (
            SICK,
            "pair",
            [("A boy is running.", "A boy runs.", "ENTAILMENT"), ("A boy is running.", "A cat sleeps.", "NEUTRAL")],
        ),
        (SICK, "regress", [("A boy is running.", "A boy runs.", 4.9), ("A boy is running.", "A cat sleeps.", 1.1)]),
    ],
    ids=["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli-dev", "qnli", "rte", "wnli", "sick", "sick-score"],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_own_files(tmp_path: Path, content: str, task: TaskName, expected: list[object], line_end: str) -> None:
    assert labelled(tmp_path, "train.tsv", content.replace("\n", line_end), task) == expected


@pytest.mark.parametrize(
    ("content", "task", "expected"),
    [
        (tabbed("index | sentence", "0 | A cat sat.", "1 | Two sat."), "classify", [("A cat sat.",), ("Two sat.",)]),
        (
            "\ufeff" + tabbed("index | #1 ID | #2 ID | #1 String | #2 String", "0 | 7 | 8 | A cat . | The cat ."),
            "pair",
            [("A cat .", "The cat .")],
        ),
        (STSB.replace("\tscore", "").replace("\t4.750", "").replace("\t0.200", ""), "regress", None),
        (tabbed("id | question1 | question2", "0 | Who is it? | Is it who?"), "pair", [("Who is it?", "Is it who?")]),
        (tabbed(MNLI_FRONT, f"0 | {MNLI_ROW} | A cat. | No cat."), "pair", [("A cat.", "No cat.")]),
        (tabbed("index | question | sentence", "0 | Who ran? | A dog."), "pair", [("Who ran?", "A dog.")]),
        (tabbed("index | sentence1 | sentence2", "0 | It rained. | No."), "pair", [("It rained.", "No.")]),
    ],
    ids=["cola-sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte-wnli"],
)
def test_test_forms_have_no_labels(tmp_path: Path, content: str, task: TaskName, expected: list[object] | None) -> None:
    found = examples(tmp_path, "test.tsv", content, task, labelled=False)
    texts = [(example.text,) if example.pair is None else (example.text, example.pair) for example in found]
    assert texts == (expected or [("A cat runs.", "A cat is running."), ("A dog eats.", "A man sings.")])
    assert all(example.label is None for example in found)
    assert "label" in refused(tmp_path, "test.tsv", content, task)  # and cannot be trained on


def test_rows_without_an_agreed_label_are_counted_and_left_out(tmp_path: Path) -> None:
    data = parsed(tmp_path, "snli.jsonl", SNLI, "pair")
    assert [example.label for example in data.examples] == ["neutral", "entailment"]
    assert data.skipped == 1
    assert data.bad == ()
    assert "1 rows without an agreed label (-) left out" in data.understood[1]
    assert len(examples(tmp_path, "snli.jsonl", SNLI, "pair", labelled=False)) == 3  # each can be predicted


def test_a_minus_is_a_label_elsewhere(tmp_path: Path) -> None:
    content = tabbed("text | label", "a fine film | +", "a dull film | -")
    assert labelled(tmp_path, "a.tsv", content, "classify") == [("a fine film", "+"), ("a dull film", "-")]


def test_premises_that_come_again_stay_together(tmp_path: Path) -> None:
    assert [example.group for example in examples(tmp_path, "a.tsv", MNLI, "pair")] == ["31", "31"]
    assert [example.group for example in examples(tmp_path, "a.jsonl", SNLI, "pair")] == ["1.jpg#0", "1.jpg#0"]


def test_the_sts_benchmark_as_published(tmp_path: Path) -> None:
    """Tabs under the name of .csv, no header, no quoting, and more fields in some rows."""
    rows = tabbed(
        "main-captions | MSRvid | 2012test | 0001 | 5.000 | A plane is up. | An air plane is up.",
        'main-news | x | 2013 | 0004 | 3.800 | A "man plays. | A man sings. | http://a | http://b',
    )
    assert labelled(tmp_path, "sts-train.csv", rows, "regress") == [
        ("A plane is up.", "An air plane is up.", 5.0),
        ('A "man plays.', "A man sings.", 3.8),
    ]
    assert [example.score for example in examples(tmp_path, "sts-train.csv", rows, "similarity")] == [5.0, 3.8]


def test_what_was_understood_is_said(tmp_path: Path) -> None:
    (said,) = parsed(tmp_path, "train.tsv", SST, "classify").understood
    assert said.endswith(
        "train.tsv: tab-separated, with header; text = sentence, label = label; 2 rows; labels 0 (1), 1 (1)"
    )
    (said,) = parsed(tmp_path, "dev.tsv", STSB, "regress").understood
    assert said.endswith(
        "text = sentence1, pair = sentence2, label = score; 2 rows; numbers from 0.2 to 4.75, mean 2.475"
    )
    (said,) = parsed(tmp_path, "cola.tsv", COLA, "classify").understood
    assert "tab-separated, without header; text = 4, label = 2; 3 rows" in said


def test_a_pair_file_is_not_taken_for_single_texts(tmp_path: Path) -> None:
    assert "each row has two texts, question and sentence; use the task `pair`" in refused(
        tmp_path, "a.tsv", QNLI, "classify"
    )
    assert labelled(tmp_path, "a.tsv", QNLI, "classify", text_column="question") == [("Who ran?", "entailment")]
