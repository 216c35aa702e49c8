"""Labelled examples out of files.

read(path, task, options)     all examples of a file, and sentences on how it was understood
LabelledReader                the same, one example after the other
split(examples, fraction, seed)
"""

from bertworks.data.labelled.examples import (
    Answer,
    ChoiceExample,
    Example,
    Place,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.data.labelled.options import LabelledData, ReadOptions, TaskName
from bertworks.data.labelled.read import LabelledReader, read
from bertworks.data.labelled.split import split

__all__ = [
    "Answer",
    "ChoiceExample",
    "Example",
    "LabelledData",
    "LabelledReader",
    "Place",
    "QuestionExample",
    "ReadOptions",
    "SimilarityExample",
    "TaggedExample",
    "TaskName",
    "TextExample",
    "read",
    "split",
]
