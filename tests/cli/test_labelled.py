"""What the options of a command say about a labelled file, and what a fine-tuned model knows better."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bertworks.cli.labelled import read_options
from bertworks.data.labelled.options import ReadOptions

UNSAID: dict[str, Any] = {
    "text_column": None,
    "pair_column": None,
    "label_column": None,
    "option_columns": None,
    "label_separator": None,
    "encoding": "utf-8",
    "file_format": None,
    "header": None,
}


def test_what_is_not_said_is_left_open() -> None:
    assert read_options(**UNSAID) == ReadOptions()


def test_what_is_said_is_passed_on() -> None:
    said = {
        **UNSAID,
        "text_column": "review",
        "option_columns": "a, b,",
        "label_separator": "|",
        "header": False,
        "skip_bad_rows": True,
        "first_option": 1,
    }
    assert read_options(**said) == ReadOptions(
        text_column="review",
        option_columns=("a", "b"),
        multi_label="|",
        header=False,
        skip_bad_rows=True,
        first_option=1,
    )


def test_a_model_remembers_its_columns_and_whether_a_text_has_several_labels() -> None:
    predictor: Any = SimpleNamespace(columns={"text_column": "review"}, multi_label=True)
    found = read_options(**UNSAID, predictor=predictor)
    assert found == ReadOptions(remembered={"text_column": "review"}, multi_label=True)
    assert read_options(**{**UNSAID, "label_separator": ";"}, predictor=predictor).multi_label == ";"
