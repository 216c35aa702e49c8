"""How the commands about labelled files are told to read one: options that `finetune`, `evaluate` and `predict` share."""

from __future__ import annotations

from typing import Annotated

import typer

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
