"""How the commands about labelled files are told to read one: options that several commands share, and what they say
together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bertworks.data.labelled.options import ReadOptions
    from bertworks.infer.predict import Predictor

TextColumnOption = Annotated[
    str | None,
    typer.Option("--text-column", help="The column of the text (tag: words; qa: question), by name or number from 1."),
]
PairColumnOption = Annotated[
    str | None, typer.Option("--pair-column", help="The column of the second text (qa: the context).")
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option("--label-column", help="The column of the label, score, tags or answers; 0/1 columns as a,b,c."),
]
OptionColumnsOption = Annotated[
    str | None, typer.Option("--option-columns", help="choice: the columns of the options, as a,b,c.", metavar="A,B")
]
FirstOptionOption = Annotated[
    int | None,
    typer.Option(
        "--first-option",
        help="choice: the number that the first option has in the label column.",
        min=0,
        max=1,
        show_default="found",
    ),
]
LabelledFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="csv, tsv, jsonl, json, parquet, conll, conllu, squad, trec, fasttext, txt.",
        show_default="found",
    ),
]
HeaderOption = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether a csv or tsv has a header row.", show_default="found"),
]
SkipBadRowsOption = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Count rows that cannot be used and go on, rather than stop.")
]
LabelSeparatorOption = Annotated[
    str | None,
    typer.Option("--label-separator", help="What separates several labels of one text.", metavar="SIGN"),
]

# Of the commands that use a fine-tuned model.
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A fine-tuned model: a directory or a Hub id.")]
PredictedTaskOption = Annotated[
    str | None,
    typer.Option(
        "--task", help="`pair`, for a classifier of pairs whose directory does not say so.", show_default="its own"
    ),
]
BatchTokensOption = Annotated[
    int | None, typer.Option("--batch-tokens", help="How many tokens to compute at once.", min=1, metavar="N")
]


def columns(text: str | None) -> tuple[str, ...]:
    """`a,b,c` as names."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def read_options(
    *,
    text_column: str | None,
    pair_column: str | None,
    label_column: str | None,
    option_columns: str | None,
    label_separator: str | None,
    encoding: str,
    file_format: str | None,
    header: bool | None,
    skip_bad_rows: bool = False,
    first_option: int | None = None,
    predictor: Predictor | None = None,
) -> ReadOptions:
    """What the options of a command say about a file to measure a model on; what they leave open the `predictor` knows,
    from the file that its model was trained on."""
    from bertworks.data.labelled.options import ReadOptions

    return ReadOptions(
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
        option_columns=columns(option_columns),
        first_option=first_option,
        encoding=encoding,
        file_format=file_format,
        header=header,
        skip_bad_rows=skip_bad_rows,
        remembered={} if predictor is None else predictor.columns,
        multi_label=label_separator or (predictor is not None and predictor.multi_label),
    )
