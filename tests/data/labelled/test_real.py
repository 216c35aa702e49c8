"""Every real labelled file, read as it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertworks.data.labelled import QuestionExample, ReadOptions, TaggedExample, TaskName, read, split
from bertworks.errors import DataError


@pytest.mark.parametrize(
    ("name", "task", "options", "rows", "said"),
    [
        ("sst2/train.tsv", "classify", {}, 6920, "without header; text = 1, label = 2; 6,920 rows; labels 0 (3,310)"),
        ("sst2/test.tsv", "classify", {}, 1821, "labels 0 (912), 1 (909)"),
        ("glue/SST-2/train.tsv", "classify", {}, 67349, "with header; text = sentence, label = label"),
        ("glue/CoLA/train.tsv", "classify", {}, 8551, "text = 4, label = 2; 8,551 rows; labels 0 (2,528), 1 (6,023)"),
        ("glue/CoLA/dev.tsv", "classify", {}, 1043, "text = 4, label = 2"),
        ("glue/MRPC/train.tsv", "pair", {}, 3668, "text = #1 String, pair = #2 String, label = Quality"),
        ("glue/MRPC/dev.tsv", "pair", {}, 408, "text = #1 String, pair = #2 String, label = Quality"),
        (
            "glue/STS-B/train.tsv",
            "regress",
            {},
            5749,
            "pair = sentence2, label = score; 5,749 rows; numbers from 0 to 5",
        ),
        ("glue/STS-B/dev.tsv", "similarity", {}, 1500, "texts = sentence1 and sentence2, score = score"),
        ("codah/full_data.tsv", "choice", {}, 2776, "text = 2, options = 3, 4, 5, 6, label = 7"),
        ("conll2003/train.conll", "tag", {}, 14041, "14,041 sentences; 203,621 words; 946 documents"),
        ("conll2003/dev.conll", "tag", {"label_column": "pos"}, 3250, "tag = column 2 (pos) of 4"),
        ("swedish-ner/train_corpus.txt", "tag", {"skip_bad_rows": True}, 6884, "the tag 0 is read as O"),
        ("swedish-ner/test_corpus.txt", "tag", {}, 2453, "the tag 0 is read as O"),
        ("chnsenticorp/train.tsv", "classify", {}, 9600, "labels negative (4,801), positive (4,799)"),
        ("trec/train_5500.label", "classify", {"encoding": "latin-1"}, 5452, "label = coarse"),
        ("trec/TREC_10.label", "classify", {"encoding": "latin-1", "label_column": "fine"}, 500, "label = fine"),
        ("squad/train-v1.1-44articles.json", "qa", {}, 11877, "44 articles; 0 without an answer"),
        ("squad/dev-v1.1-24articles.json", "qa", {}, None, "24 articles; 0 without an answer"),
        ("squad/dev-v2.0-17articles.json", "qa", {}, None, "17 articles"),
        ("fra-eng/pairs.tsv", "similarity", {}, 51976, "texts that belong together = 1 and 2"),
        ("multi30k/train.en", "similarity", {}, 29000, "one text per line"),
    ],
)
def test_real_files(
    shared_data: Path, name: str, task: TaskName, options: dict[str, Any], rows: int | None, said: str
) -> None:
    data = read(shared_data / name, task, ReadOptions(**options))
    assert rows is None or len(data.examples) == rows
    assert said in data.understood[0]
    for example in data.examples:
        if isinstance(example, QuestionExample):
            for answer in example.answers or ():
                assert example.context[answer.start : answer.start + len(answer.text)] == answer.text
        if isinstance(example, TaggedExample):
            assert example.tags is not None
            assert len(example.words) == len(example.tags)


def test_a_word_without_a_tag_has_its_line(shared_data: Path) -> None:
    with pytest.raises(DataError, match=r"train_corpus\.txt:90310: has 1 column \(bn\) where 2 are expected"):
        read(shared_data / "swedish-ner" / "train_corpus.txt", "tag")


def test_articles_are_split_whole(shared_data: Path) -> None:
    examples = read(shared_data / "squad" / "dev-v2.0-17articles.json", "qa").examples
    train, dev = split(examples, 0.2, 0)
    assert not {example.group for example in train} & {example.group for example in dev}
    assert 0.1 < len(dev) / len(examples) < 0.3
