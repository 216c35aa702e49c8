"""Words with tags: CoNLL's columns, CoNLL-U, and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.labelled.conll import fields_of
from bertworks.errors import UsageError
from bertworks.tasks import for_examples
from tests.data.labelled.helpers import examples, parsed, refused, tabbed

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER
-DOCSTART- -X- O O

BRUSSELS NNP I-NP I-LOC
1996-08-22 CD I-NP O
"""


def shown(found: list[Any]) -> list[tuple[Any, ...]]:
    return [(example.words, example.tags) for example in found]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_conll_2003(tmp_path: Path, line_end: str) -> None:
    data = parsed(tmp_path, "train.conll", CONLL.replace("\n", line_end), "tag")
    assert shown(data.examples) == [
        (("EU", "rejects"), ("I-ORG", "O")),
        (("Peter",), ("I-PER",)),
        (("BRUSSELS", "1996-08-22"), ("I-LOC", "O")),
    ]
    assert [example.group for example in data.examples] == ["1", "1", "2"]
    assert [example.place.line for example in data.examples] == [3, 6, 9]
    assert "word = column 1 (word), tag = column 4 (ner) of 4; 3 sentences; 5 words; 2 documents" in data.understood[0]


def test_another_column(tmp_path: Path) -> None:
    for column in ("pos", "2"):
        assert examples(tmp_path, "a.conll", CONLL, "tag", label_column=column)[0].tags == ("NNP", "VBZ")
    assert "there is no column 'poss' (did you mean 'pos'?)" in refused(
        tmp_path, "a.conll", CONLL, "tag", label_column="poss"
    )


def test_two_columns_with_tabs_and_spaces_and_zero_for_outside(tmp_path: Path) -> None:
    content = "Anna\tPER\nsover\t0\n\nIKEA    ORG\n.   0\n\n\n"
    data = parsed(tmp_path, "train_corpus.txt", content, "tag")
    assert shown(data.examples) == [(("Anna", "sover"), ("PER", "O")), (("IKEA", "."), ("ORG", "O"))]
    assert "the tag 0 is read as O" in data.understood[0]


def test_zero_among_numbers_stays(tmp_path: Path) -> None:
    assert examples(tmp_path, "a.conll", "Anna 1\nsover 0\n", "tag")[0].tags == ("1", "0")


def test_a_tsv_is_columns_too(tmp_path: Path) -> None:
    content = tabbed("New York | B-LOC", "is | O") + "\n" + tabbed("# | O", "#tag | O")
    assert shown(examples(tmp_path, "a.tsv", content, "tag")) == [
        (("New York", "is"), ("B-LOC", "O")),
        (("#", "#tag"), ("O", "O")),
    ]


@pytest.mark.parametrize("header", ["word\ttag", "Token\tTag", "word\tner\n"])
def test_a_header_is_no_word(tmp_path: Path, header: str) -> None:
    content = header + "\n" + tabbed("Anna | B-PER", "is | O")
    for name in ("a.tsv", "a.conll"):
        data = parsed(tmp_path, name, content, "tag")
        assert shown(data.examples) == [(("Anna", "is"), ("B-PER", "O"))]
        assert "with header" in data.understood[0]
    assert examples(tmp_path, "a.conll", content, "tag", header=False)[0].words[0] == header.split("\t")[0]
    odd = tabbed("der | art", "Bo | B-PER")
    assert examples(tmp_path, "a.conll", odd, "tag")[0].words == ("der", "Bo")
    assert examples(tmp_path, "a.conll", odd, "tag", header=True)[0].words == ("Bo",)


def test_comments_above_sentences(tmp_path: Path) -> None:
    content = "# id 52a domain=en\nAnna _ _ B-PER\n# _ _ O\n\n# _ _ O\nOslo _ _ B-LOC\n\n# id 53a domain=en\nBo _ _ O\n"
    assert [example.words for example in examples(tmp_path, "a.conll", content, "tag")] == [
        ("Anna", "#"),
        ("#", "Oslo"),
        ("Bo",),
    ]


def test_conll_u(tmp_path: Path) -> None:
    rest = "_ | _ | 0 | root | _ | _"
    content = (
        "# newdoc id = a\n# text = vámonos al mar\n"
        + tabbed(
            "1-2 | vámonos | _ | _ | _ | _ | _ | _ | _ | _",
            f"1 | vamos | ir | VERB | {rest}",
            f"2 | nos | yo | PRON | {rest}",
        )
        + "\n# newdoc id = b\n"
        + tabbed(f"1 | mar | mar | NOUN | {rest}", "1.1 | x | x | X | _ | _ | _ | _ | _ | _")
    )
    data = parsed(tmp_path, "es.conllu", content, "tag")
    assert shown(data.examples) == [(("vamos", "nos"), ("VERB", "PRON")), (("mar",), ("NOUN",))]
    assert [example.group for example in data.examples] == ["1", "2"]
    assert examples(tmp_path, "es.conllu", content, "tag", label_column="lemma")[0].tags == ("ir", "yo")


def test_numbered_words_and_comments(tmp_path: Path) -> None:
    content = "#\thttp://x [2009]\n" + tabbed("1 | Anna | B-PER | O", "2 | in | O | O", "3 | Ulm | B-LOC | O")
    found = examples(tmp_path, "a.tsv", content, "tag", label_column="3")
    assert shown(found) == [(("Anna", "in", "Ulm"), ("B-PER", "O", "B-LOC"))]


def test_bad_lines(tmp_path: Path) -> None:
    content = "Anna PER\nbn\nsover 0\n\nIda PER\n"
    message = refused(tmp_path, "a.txt", content, "tag")
    assert message.startswith("a.txt:2: has 1 column (bn) where 2 are expected (one word per line")
    data = parsed(tmp_path, "a.txt", content, "tag", skip_bad_rows=True)
    assert shown(data.examples) == [(("Ida",), ("PER",))]  # a sentence with a bad line is left out whole
    assert data.skipped == 1
    assert "a.txt:2: has no word" in refused(tmp_path, "a.txt", "Anna\tPER\n\tO\n", "tag")
    assert "has words only" in refused(tmp_path, "a.txt", "Anna\nsover\n", "tag")


def test_words_and_texts_to_predict(tmp_path: Path) -> None:
    assert shown(examples(tmp_path, "a.txt", "Anna\nsover\n\nIda\n", "tag", labelled=False)) == [
        (("Anna", "sover"), None),
        (("Ida",), None),
    ]
    found = examples(tmp_path, "a.txt", "Anna sover gott.\nIda är där nu.\nHej\n", "tag", labelled=False)
    assert [example.text for example in found] == ["Anna sover gott.", "Ida är där nu.", "Hej"]
    found = examples(tmp_path, "a.jsonl", '{"text": "Anna sover."}\n', "tag", labelled=False)
    assert [example.text for example in found] == ["Anna sover."]


@pytest.mark.parametrize(
    "content",
    [
        "He lives in the USA\n",
        "He lives in the USA .\nShe lives in the UK .\n",
        "I am in the EU\nYou are in the US\nWe are in the UK\n",
        "He lives in Ulm\n\nShe lives in Bonn\n",
        "Anna\tlives here in Ulm\n",
        "New York\tis large\nOslo\tis not\n",
    ],
)
def test_running_text_is_no_columns(tmp_path: Path, content: str) -> None:
    found = examples(tmp_path, "a.txt", content, "tag", labelled=False)
    assert [example.text for example in found] == content.splitlines()


def test_words_with_tags_may_be_predicted_anew(tmp_path: Path) -> None:
    content = "Anna NNP B-PER\nis VBZ O\nhere RB O\n"
    for ended in (content, content + "\nBo NNP B-PER\n", content.replace(" ", "\t")):
        assert examples(tmp_path, "a.txt", ended, "tag", labelled=False)[0].words == ("Anna", "is", "here")


def test_numbers_for_tags_are_told(tmp_path: Path) -> None:
    data = parsed(tmp_path, "a.jsonl", json.dumps({"tokens": ["Anna", "is"], "ner_tags": [1, 0]}), "tag")
    assert "its tags are numbers that nobody has named" in data.understood[0]
    assert for_examples("tag", data.examples).labels == ("0", "1")


def test_columns_of_the_training_file(tmp_path: Path) -> None:
    known = parsed(tmp_path, "a.conll", CONLL, "tag", label_column="pos").columns
    assert known == {"label_column": "pos"}
    assert examples(tmp_path, "b.conll", CONLL, "tag", remembered=known)[0].tags == ("NNP", "VBZ")
    assert examples(tmp_path, "b.conll", "Anna O\n", "tag", remembered=known)[0].tags == ("O",)


def test_tables_of_sentences(tmp_path: Path) -> None:
    rows = [{"id": 1, "tokens": ["Anna", "sover"], "ner_tags": ["PER", "O"]}, {"tokens": ["Hej"], "ner_tags": ["O"]}]
    assert shown(examples(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)), "tag")) == [
        (("Anna", "sover"), ("PER", "O")),
        (("Hej",), ("O",)),
    ]
    content = 'sentence,word_labels\nAnna sover,"PER,O"\nHej,O\n'
    assert shown(examples(tmp_path, "a.csv", content, "tag"))[0] == (("Anna", "sover"), ("PER", "O"))
    rows[0]["ner_tags"] = ["PER"]
    message = refused(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)), "tag")
    assert "a.jsonl:1: has 2 words (tokens) and 1 tags (ner_tags)" in message


def test_tables_of_words(tmp_path: Path) -> None:
    content = "Sentence #,Word,POS,Tag\nSentence: 1,Anna,N,PER\n,sover,V,O\nSentence: 2,Hej,I,O\n"
    assert shown(examples(tmp_path, "ner.csv", content, "tag")) == [
        (("Anna", "sover"), ("PER", "O")),
        (("Hej",), ("O",)),
    ]


def test_a_sentence_of_a_table_of_words_is_whole_or_left_out(tmp_path: Path) -> None:
    content = "doc,Sentence #,Word,Tag\na,1,Anna,B-PER\na,,,O\na,,Ek,I-PER\na,,,\nb,2,Hej,O\nb,2,du,O\n"
    message = refused(tmp_path, "ner.csv", content, "tag")
    assert "ner.csv:3: has no word (column 'Word')" in message
    found = parsed(tmp_path, "ner.csv", content, "tag", skip_bad_rows=True)
    assert shown(found.examples) == [(("Hej", "du"), ("O", "O"))]
    assert [example.group for example in found.examples] == ["b"]
    assert found.skipped == 1


def test_no_column_of_groups(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without a column of groups: leave out --group-column"):
        examples(tmp_path, "a.conll", "Anna B-PER\n", "tag", group_column="doc")


@given(st.lists(st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zs")), min_size=1), min_size=2, max_size=5))
def test_fields_are_what_was_written(fields: list[str]) -> None:
    fields = [field for field in fields if not field.isspace()]
    assert fields_of("\t".join(fields)) == fields
    assert fields_of("  ".join(fields)) == fields
