"""Any table: columns by name, by what they hold, by the user's word; several labels; numbers; whatever is ambiguous."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertworks.data.labelled import ReadOptions, TaskName, read
from tests.data.labelled.helpers import examples, labelled, parsed, refused, tabbed

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0\r"))
FILM = [("a fine film", "pos"), ("a dull film", "neg"), ("what a film", "pos")]


@pytest.mark.parametrize(
    "header",
    [
        "text,label",
        "review,sentiment",
        "Sentence,Class",
        "content,category",
        "tweet,target",
        "Comment Text,gold_label",
        "utterance,intent",
        "document,topic",
        "Some Words,What It Is",
    ],
)
def test_columns_by_name(tmp_path: Path, header: str) -> None:
    content = header + "\n" + "".join(f"{text},{label}\n" for text, label in FILM * 2)
    assert labelled(tmp_path, "a.csv", content, "classify") == FILM * 2


def test_columns_in_any_order_beside_others(tmp_path: Path) -> None:
    content = "id,label,year,review,url\n" + "".join(
        f"{7 - row},{label},1999,{text},http://x/{row}\n" for row, (text, label) in enumerate(FILM)
    )
    assert labelled(tmp_path, "a.csv", content, "classify") == FILM


def test_columns_by_what_they_hold(tmp_path: Path) -> None:
    rows = [f"{row} | {label} | {text}" for row, (text, label) in enumerate(FILM * 4)]
    assert labelled(tmp_path, "a.tsv", tabbed(*rows), "classify") == FILM * 4
    swapped = [f"{text} | {label}" for text, label in FILM]
    assert labelled(tmp_path, "a.tsv", tabbed(*swapped), "classify") == FILM
    numbers = [f"{text} | {value}" for (text, _), value in zip(FILM, (0.5, 2.25, -1), strict=True)]
    assert [label for _, label in labelled(tmp_path, "a.tsv", tabbed(*numbers), "regress")] == [0.5, 2.25, -1.0]


def test_short_texts_without_a_header(tmp_path: Path) -> None:
    rows = [("Maria", "f"), ("Anna", "f"), ("Otto", "m"), ("Hugo", "m"), ("Ida", "f")]
    assert labelled(tmp_path, "a.tsv", tabbed(*map(" | ".join, rows)), "classify") == rows


def test_chinese_without_a_header(tmp_path: Path) -> None:
    rows = [
        ("房间太小。其他的都一般。", "negative"),
        ("服务态度很好,早餐不错", "positive"),
        ("不好。不好。", "negative"),
    ]
    assert labelled(tmp_path, "a.tsv", tabbed(*map(" | ".join, rows)), "classify") == rows


def test_the_users_word(tmp_path: Path) -> None:
    content = "text,label,other,stars\nbad film,x,good film,2\nno film,y,my film,5\n"
    found = labelled(tmp_path, "a.csv", content, "classify", text_column="other", label_column="stars")
    assert found == [("good film", "2"), ("my film", "5")]
    found = labelled(tmp_path, "a.csv", content, "classify", text_column="3", label_column="2")
    assert found == [("good film", "x"), ("my film", "y")]
    found = labelled(tmp_path, "a.csv", content, "classify", pair_column="other")
    assert found == [("bad film", "good film", "x"), ("no film", "my film", "y")]
    assert examples(tmp_path, "a.csv", content, "classify", group_column="stars")[1].group == "5"
    message = refused(tmp_path, "a.csv", content, "classify", text_column="txt")
    assert message == "a.csv: there is no column 'txt' (did you mean 'text'?); there are: text, label, other, stars"


def test_a_label_column_that_a_file_to_predict_does_not_have(tmp_path: Path) -> None:
    content = "text\ngood film\nbad film\n"
    found = labelled(tmp_path, "a.csv", content, "classify", label_column="stars", labelled=False)
    assert found == [("good film", None), ("bad film", None)]


def test_what_is_ambiguous_is_asked_for(tmp_path: Path) -> None:
    two_texts = tabbed("3 | Some title | A longer story", "1 | Other title | Another story", "3 | A third | And so on")
    message = refused(tmp_path, "a.tsv", two_texts, "classify")
    assert (
        "2 columns hold text; choose one with --text-column (and a second one with --pair-column), from: 2, 3"
        in message
    )
    assert "numbered" in message
    assert labelled(tmp_path, "a.tsv", two_texts, "classify", text_column="2", pair_column="3")[1] == (
        "Other title",
        "Another story",
        "1",
    )
    two_labels = "text,mood,place\ngood film,up,here\nbad film,down,there\n"
    message = refused(tmp_path, "a.csv", two_labels, "classify")
    assert "2 columns may be the label; choose it with --label-column, from: mood, place" in message
    no_label = "text,id\ngood film,1\nbad film,2\n"
    assert "no column that is plainly the label" in refused(tmp_path, "a.csv", no_label, "classify")
    assert "1 columns hold text where a pair has two" in refused(tmp_path, "a.csv", "text,label\na b,1\n", "pair")


def test_columns_of_text_that_are_not_used_are_said(tmp_path: Path) -> None:
    content = "title,text,label\nA title,a long story,1\nNo title,a short story,0\n"
    assert (
        "text = text, label = label (not used: title)" in parsed(tmp_path, "a.csv", content, "classify").understood[0]
    )


def test_scores_are_not_taken_for_classes(tmp_path: Path) -> None:
    content = "text,score\n" + "".join(f"text number {row},{row / 7:.3f}\n" for row in range(20))
    message = refused(tmp_path, "a.csv", content, "classify")
    assert "the column 'score' has 20 different values in the first 20 rows" in message
    assert "use the task `regress`" in message
    assert len(labelled(tmp_path, "a.csv", content, "regress")) == 20
    assert len(labelled(tmp_path, "a.csv", content, "classify", label_column="score")) == 20


def test_json_labels_of_every_type(tmp_path: Path) -> None:
    rows = [{"text": "a b", "label": label} for label in (1, 1.0, True, "1 ", 2.5)]
    content = "\n".join(map(json.dumps, rows))
    labels = [label for _, label in labelled(tmp_path, "a.jsonl", content, "classify")]
    assert labels == ["1", "1", "True", "1", "2.5"]


def test_a_json_list_of_objects_and_json_lines_under_the_same_name(tmp_path: Path) -> None:
    rows = [{"text": text, "label": label} for text, label in FILM]
    for content in (json.dumps(rows), json.dumps(rows, indent=2), "\n".join(map(json.dumps, rows))):
        assert labelled(tmp_path, "a.json", content, "classify") == FILM
    assert labelled(tmp_path, "a.json", json.dumps({"version": 1, "data": rows}), "classify") == FILM
    columns = {"text": [text for text, _ in FILM], "label": [label for _, label in FILM]}
    assert labelled(tmp_path, "a.json", json.dumps(columns), "classify") == FILM
    assert "is no table" in refused(tmp_path, "a.json", '{"a": 1,\n "b": 2}', "classify")


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_what_lies_in_objects_has_a_dotted_name(tmp_path: Path, name: str) -> None:
    rows = [
        {"data": {"body": f"A film of {n} hours.", "by": {"name": "Ann"}}, "meta": {"label": "lp"[n % 2]}}
        for n in range(4)
    ]
    content = json.dumps(rows) if name == "a.json" else "\n".join(map(json.dumps, rows))
    said = labelled(tmp_path, name, content, "classify", text_column="data.body", label_column="meta.label")
    assert said == [(f"A film of {n} hours.", "lp"[n % 2]) for n in range(4)]
    named = "data, meta, data.body, data.by, meta.kind, data.by.name"
    message = refused(tmp_path, name, content.replace('"label"', '"kind"'), "regress")
    assert f"choose it with --label-column, from: {named}" in message


def test_a_dotted_name_that_is_there_already_stays(tmp_path: Path) -> None:
    row = json.dumps({"meta": {"label": "inner"}, "meta.label": "outer", "text": "Some words."})
    assert labelled(tmp_path, "a.jsonl", row, "classify", label_column="meta.label") == [("Some words.", "outer")]


def test_spare_commas_and_codes(tmp_path: Path) -> None:
    content = "v1,v2,,,\nham,see you soon,,,\nspam,win a prize,,,\n"
    assert labelled(tmp_path, "spam.csv", content, "classify") == [("see you soon", "ham"), ("win a prize", "spam")]
    rows = [f"some text {row} | {row % 3},2 | x{row * 7919 % 101:03d}q" for row in range(30)]
    found = labelled(tmp_path, "a.tsv", tabbed(*rows), "classify", multi_label=True)
    assert found[1] == ("some text 1", ("1", "2"))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(TEXT, st.sampled_from(["yes", "no", "two words"])), min_size=1, max_size=12))
def test_what_was_written_is_read(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    """Whatever the texts hold, with the usual names, in every format."""
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    expected = [(text, None, label) for text, label in rows]
    assert [(e.text, e.pair, e.label) for e in read(path, "classify").examples] == expected  # type: ignore[union-attr]
    lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
    assert labelled(tmp_path, "a.jsonl", lines, "classify") == rows
    path = _parquet(tmp_path / "a.parquet", {"text": [text for text, _ in rows], "label": [label for _, label in rows]})
    assert [(e.text, e.pair, e.label) for e in read(path, "classify").examples] == expected  # type: ignore[union-attr]


# -- several labels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", ["|", ";", ","])
def test_several_labels_in_one_column(tmp_path: Path, separator: str) -> None:
    content = f"text\tlabels\na b\tx{separator} y\nc d\t\ne f\ty{separator}y\n"
    expected = [("a b", ("x", "y")), ("c d", ()), ("e f", ("y",))]
    assert labelled(tmp_path, "a.tsv", content, "classify", multi_label=True) == expected
    assert labelled(tmp_path, "a.tsv", content, "classify", multi_label=separator) == expected


def test_several_labels_in_lists(tmp_path: Path) -> None:
    content = '{"text": "a b", "labels": ["x", "y"]}\n{"text": "c d", "labels": []}\n'
    assert labelled(tmp_path, "a.jsonl", content, "classify") == [("a b", ("x", "y")), ("c d", ())]


def test_one_column_for_each_label(tmp_path: Path) -> None:
    content = "id,comment_text,toxic,severe_toxic,insult\n9,you are bad,1,0,1\n3,you are good,0,0,0\n"
    expected = [("you are bad", ("toxic", "insult")), ("you are good", ())]
    assert labelled(tmp_path, "a.csv", content, "classify", multi_label=True) == expected
    chosen = labelled(tmp_path, "a.csv", content, "classify", label_column="toxic,insult", multi_label=True)
    never = parsed(tmp_path, "a.csv", "text,toxic,rare\na b,1,0\nc d,0,0\n", "classify", multi_label=True).understood
    assert "no row has the label rare" in never[1]
    assert chosen == expected
    wrong = content.replace("1,0,1", "1,0,7")
    message = refused(tmp_path, "a.csv", wrong, "classify", label_column="toxic,insult", multi_label=True)
    assert "a.csv:2: the label column 'insult' holds '7', not 0 or 1" in message


# -- parquet -----------------------------------------------------------------------------------------------------------


def _parquet(path: Path, columns: dict[str, Any], features: dict[str, Any] | None = None) -> Path:
    table = pa.table(columns)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path)
    return path


def test_parquet(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "a.parquet", {"idx": [0, 1], "sentence": ["a b", "c d"], "label": [1, 0]})
    data = read(path, "classify")
    assert [(example.text, example.label, example.place.line) for example in data.examples] == [  # type: ignore[union-attr]
        ("a b", "1", 1),
        ("c d", "0", 2),
    ]


def test_parquet_with_named_classes(tmp_path: Path) -> None:
    names = {"label": {"names": ["bad", "good"], "_type": "ClassLabel"}, "text": {"dtype": "string", "_type": "Value"}}
    path = _parquet(tmp_path / "a.parquet", {"text": ["a b", "c d"], "label": [1, 0]}, names)
    assert [example.label for example in read(path, "classify").examples] == ["good", "bad"]  # type: ignore[union-attr]
    path = _parquet(tmp_path / "a.parquet", {"text": ["a b"], "label": [-1]}, names)
    assert read(path, "classify", ReadOptions(labelled=False)).examples[0].label is None  # type: ignore[union-attr]


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_numbers_that_are_none(tmp_path: Path) -> None:
    for value, message in [
        ("much", "holds 'much', not a number; choose another with --label-column"),
        ("nan", "holds 'nan', which is no finite number"),
        ("", "the number is missing (column 'score' is empty)"),
    ]:
        found = refused(tmp_path, "a.csv", f"text,score\na b,1\nc d,{value}\n", "regress")
        assert found.startswith("a.csv:3: ")
        assert message in found


def test_one_text_with_a_number(tmp_path: Path) -> None:
    content = "excerpt,difficulty\nan easy text,-1.5\na hard text,2\n"
    assert labelled(tmp_path, "a.csv", content, "regress") == [("an easy text", -1.5), ("a hard text", 2.0)]


# -- lines -------------------------------------------------------------------------------------------------------------


def test_trec_in_latin_1(tmp_path: Path) -> None:
    content = "DESC:manner How are you ?\nHUM:ind Who is Jos\u00e9 ?\nNUM:date When ?\n".encode("latin-1")
    assert labelled(tmp_path, "train.label", content, "classify", encoding="latin-1") == [
        ("How are you ?", "DESC"),
        ("Who is José ?", "HUM"),
        ("When ?", "NUM"),
    ]
    fine = labelled(tmp_path, "train.label", content, "classify", encoding="latin-1", label_column="fine")
    assert fine[0] == ("How are you ?", "DESC:manner")
    message = refused(tmp_path, "train.label", content, "classify")
    assert message.startswith("train.label:2: is not valid utf-8 (0xe9")
    assert "--encoding latin-1" in message


def test_fasttext(tmp_path: Path) -> None:
    content = "__label__2 a fine film\n__label__1 a dull film\n"
    assert labelled(tmp_path, "a.txt", content, "classify") == [("a fine film", "2"), ("a dull film", "1")]
    several = "__label__x __label__y a fine film\n"
    assert "has 2 labels" in refused(tmp_path, "a.txt", several, "classify")
    assert labelled(tmp_path, "a.txt", several, "classify", multi_label=True) == [("a fine film", ("x", "y"))]


def test_lines_of_text_can_only_be_predicted(tmp_path: Path) -> None:
    content = "a fine film\n\nother film\n"
    found = labelled(tmp_path, "a.txt", content, "classify", labelled=False)
    assert found == [("a fine film", None), ("", None), ("other film", None)]
    assert "say what it is with --format" in refused(tmp_path, "a.txt", content, "classify")
    assert "can only be predicted" in refused(tmp_path, "a.txt", content, "classify", file_format="txt")
    assert "needs more than one text each" in refused(tmp_path, "a.txt", content, "pair", labelled=False)


def test_whole_numbers_are_spelled_alike(tmp_path: Path) -> None:
    assert [label for _, label in labelled(tmp_path, "a.csv", "text,label\na b,1.0\nc d,0\n", "classify")] == ["1", "0"]
    versions = "text,label\na b,1.0\nc d,1.5\n"
    assert [label for _, label in labelled(tmp_path, "a.csv", versions, "classify")] == ["1.0", "1.5"]
    known = parsed(tmp_path, "a.csv", versions, "classify").columns
    other = parsed(tmp_path, "b.csv", "text,label\na b,1.0\nc d,2.0\n", "classify", remembered=known).examples
    assert [example.label for example in other] == ["1.0", "2.0"]
    message = refused(tmp_path, "a.csv", "text,label\na b,1\nc d,1_000\n", "regress", label_column="label")
    assert message.startswith("a.csv:3: the column 'label' holds '1_000', not a number")


def test_rows_without_a_group_are_on_their_own(tmp_path: Path) -> None:
    content = "text,label,group\na b,x,1\nc d,y,\ne f,x,\n"
    assert [example.group for example in examples(tmp_path, "a.csv", content, "classify")] == ["1", None, None]
    rows = [{"text": "a b", "label": "x", "group": group} for group in (None, 7)]
    found = examples(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)), "classify")
    assert [example.group for example in found] == [None, "7"]


def test_rows_of_separators_are_left_out(tmp_path: Path) -> None:
    data = parsed(tmp_path, "a.csv", "text,label\na b,x\nc d,y\n,\n , \n", "classify")
    assert (len(data.examples), data.skipped) == (2, 2)
    assert "2 empty rows left out" in data.understood[1]


def test_columns_of_the_training_file(tmp_path: Path) -> None:
    trained = "title,body,kind\na b,c d,x\ne f,g h,y\n"
    known = parsed(tmp_path, "a.csv", trained, "classify", text_column="title", label_column="kind").columns
    assert known == {"text_column": "title", "label_column": "kind"}
    new = "title,body,label\na b,c d,1\n"
    (example,) = examples(tmp_path, "b.csv", new, "classify", remembered=known, labelled=False)
    assert example.text == "a b"
    (example,) = examples(tmp_path, "b.csv", new, "classify", remembered=known, text_column="body")
    assert (example.text, example.label) == ("c d", "1")  # the user's word, and a label of another name
    data = parsed(tmp_path, "b.csv", "body\nc d\n", "classify", remembered=known, labelled=False)
    assert "without title, which the model was trained with" in data.understood[0]
    assert parsed(tmp_path, "a.tsv", tabbed("a b | x", "c d | y"), "classify").columns == {}  # numbers are no names


def test_the_separator_of_the_training_file(tmp_path: Path) -> None:
    known = parsed(tmp_path, "a.csv", "text,label\na b,x;y\n", "classify", multi_label=True).columns
    (example,) = examples(tmp_path, "b.csv", "text,label\na b,x|z\n", "classify", multi_label=True, remembered=known)
    assert example.label == ("x|z",)


def test_missing_labels_are_not_no_labels(tmp_path: Path) -> None:
    rows = '{"text": "a b", "labels": ["x", "y"]}\n{"text": "c d", "labels": []}\n{"text": "e f"}\n'
    message = refused(tmp_path, "a.jsonl", rows, "classify")
    assert "a.jsonl:3: the labels are missing (column 'labels'); a row that has none of them says so: []" in message
    found = labelled(tmp_path, "a.jsonl", rows, "classify", skip_bad_rows=True)
    assert found == [("a b", ("x", "y")), ("c d", ())]
    flags = "text,toxic,insult\na b,1,0\nc d,,1\n"
    message = refused(tmp_path, "a.csv", flags, "classify", label_column="toxic,insult", multi_label=True)
    assert "a.csv:3: the label column 'toxic' holds '', not 0 or 1" in message


FLAGS = "text,toxic,insult\n" + "".join(f"some words {n},{n % 2},{n // 2 % 2}\n" for n in range(8))


def test_one_of_several_flags_is_not_taken_silently(tmp_path: Path) -> None:
    message = refused(tmp_path, "a.csv", FLAGS, "classify")
    assert "2 columns hold 0 and 1, and each may be a label; choose one with --label-column, or all with" in message
    assert message.endswith("--multi-label, from: toxic, insult")
    assert examples(tmp_path, "a.csv", FLAGS, "classify", multi_label=True)[3].label == ("toxic", "insult")
    assert examples(tmp_path, "a.csv", FLAGS, "classify", label_column="insult")[3].label == "1"
    assert examples(tmp_path, "a.csv", FLAGS, "classify", labelled=False)[3].text == "some words 3"
    sure = FLAGS.replace("toxic", "label")
    assert examples(tmp_path, "b.csv", sure, "classify")[1].label == "1"


@pytest.mark.parametrize("task", ["classify", "pair", "regress", "tag", "qa", "similarity"])
def test_no_column_plays_two_parts(tmp_path: Path, task: TaskName) -> None:
    rows = "text,other,label\n" + "".join(f"words of {n},more of {n},{n}\n" for n in range(8))
    both = {"text_column": "text", "label_column": "text", "pair_column": None if task == "tag" else "other"}
    assert "the column 'text' would be both" in refused(tmp_path, "a.csv", rows, task, **both)


def test_decimal_commas(tmp_path: Path) -> None:
    rows = "Text;Preis\n" + "".join(f"ein Ding {n};{n},50\n" for n in range(8))
    assert "the column 'Preis' has numbers with decimal commas (0,50); write them with a point" in refused(
        tmp_path, "a.csv", rows, "regress"
    )
    assert "holds '0,50', not a number; write numbers with a decimal point" in refused(
        tmp_path, "a.csv", rows, "regress", label_column="Preis"
    )


def test_labels_that_may_not_be_what_was_meant(tmp_path: Path) -> None:
    rows = "text,label\n" + "".join(f"some words {n},{label}\n" for n, label in enumerate(["A", "B", "A|B", "a"] * 5))
    (said, *_) = parsed(tmp_path, "a.csv", rows, "classify").understood
    assert "'A|B' is read as one label; --multi-label reads several, separated by '|'" in said
    assert "the labels 'A' and 'a' differ in capital letters only, and are two" in said
    (said, *_) = parsed(tmp_path, "a.csv", rows.replace("A|B", "A/B").replace(",a", ",C"), "classify").understood
    assert "read as one" not in said
    assert "differ in" not in said
