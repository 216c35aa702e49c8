"""Files with one text per line: TREC's and fastText's, whose lines begin with the label, and plain ones without labels.

TREC (Li & Roth 2002): `COARSE:fine question`; the label column is called `coarse` (the usual task, six classes) or `fine`
(`COARSE:fine`, fifty). fastText: `__label__a __label__b text`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bertworks.data.labelled.examples import Example, Place, SimilarityExample, TextExample
from bertworks.data.labelled.layout import FASTTEXT_MARK
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions, TaskName
from bertworks.data.source import Source
from bertworks.errors import DataError, choice

TREC_LABELS = ("coarse", "fine")


def read_trec(source: Source, options: ReadOptions, notes: Notes) -> Iterator[TextExample]:
    """One example per line."""
    known = options.remembered.get("label_column")
    usual = known if known in TREC_LABELS else "coarse"
    kind = choice(options.label_column or usual, TREC_LABELS, "label column of TREC's lines")
    notes.columns = {"label_column": kind}
    notes.facts.append(f"text = the question, label = {kind} (--label-column coarse or fine)")
    for line, text in _filled(source):
        label, _, question = text.partition(" ")
        coarse, colon, _ = label.partition(":")
        if not colon or not question.strip():
            notes.bad(DataError(f"is not of the form COARSE:fine question ({text:.40!r})", path=notes.path, line=line))
            continue
        known = (coarse if kind == "coarse" else label) if options.labelled else None
        yield TextExample(text=question.strip(), label=known, place=Place(notes.path, line))


def read_fasttext(source: Source, options: ReadOptions, notes: Notes) -> Iterator[TextExample]:
    """One example per line; with several labels a line only where that was asked for."""
    notes.facts.append(f"text = what follows the labels, label = {FASTTEXT_MARK}…")
    for line, text in _filled(source):
        labels = []
        rest = text.lstrip()
        while rest.startswith(FASTTEXT_MARK):
            label, _, rest = rest.partition(" ")
            labels.append(label.removeprefix(FASTTEXT_MARK).rstrip(","))
            rest = rest.lstrip()
        place = Place(notes.path, line)
        if not options.labelled:
            yield TextExample(text=rest, place=place)
        elif options.multi_label:
            yield TextExample(text=rest, label=tuple(dict.fromkeys(labels)), place=place)
        elif len(labels) == 1:
            yield TextExample(text=rest, label=labels[0], place=place)
        else:
            found = (
                f"has {len(labels)} labels; if a text may have several, use --multi-label" if labels else "has no label"
            )
            notes.bad(DataError(found, path=notes.path, line=line))


def read_lines(source: Source, task: TaskName, notes: Notes) -> Iterator[Example]:
    """Texts without labels. For `similarity` blank lines are left out; else every line is a text to predict."""
    if task in ("pair", "choice", "qa"):
        message = f"the task `{task}` needs more than one text each; give a .tsv, .csv, .jsonl or .parquet file"
        raise DataError(message, path=notes.path)
    if task == "similarity":
        notes.facts.append("each text alone")
        for line, text in _filled(source):
            yield SimilarityExample(texts=(text,), place=Place(notes.path, line))
        return
    for line, text in source.lines():
        yield TextExample(text=text.rstrip("\r\n"), place=Place(notes.path, line))


def _filled(source: Source) -> Iterator[tuple[int, str]]:
    for line, text in source.lines():
        text = text.rstrip("\r\n")
        if text and not text.isspace():
            yield line, text
