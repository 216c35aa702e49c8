"""Analogies and similarities: read, asked, and told where a file is broken; on GloVe's published vectors as well."""

import numpy as np
import pyarrow.parquet
import pytest

from bertworks.errors import DataError
from bertworks.vectors import WordVectors
from bertworks.vectors.evaluate import Analogies, Similarities, read_set, score
from tests.vectors.small import few_vectors


@pytest.fixture(scope="session")
def glove(weights_glove) -> WordVectors:
    table = pyarrow.parquet.read_table(weights_glove / "glove_6B_index.parquet")
    columns = {name: table[name].to_pylist() for name in table.column_names}
    words = next(values for values in columns.values() if isinstance(values[0], str))
    return WordVectors(words, np.load(weights_glove / "glove_6B_50d_emb.npy", allow_pickle=False))


def test_analogies_by_hand():
    questions = Analogies(
        "made-up",
        {
            "family": [("man", "woman", "king", "queen"), ("King", "Queen", "Man", "Woman")],
            "gram1-fruit": [("man", "woman", "apple", "pear"), ("man", "emperor", "apple", "pear")],
        },
    )
    found = score(few_vectors(), questions)
    assert (found.rows, found.asked) == (4, 3)
    assert found.parts["family"] == found.parts["semantic"] == 1
    assert found.parts["gram1-fruit"] == found.parts["syntactic"]
    assert found.parts_asked == {"semantic": 2, "syntactic": 1, "family": 2, "gram1-fruit": 1}
    assert found.value == pytest.approx((2 + found.parts["gram1-fruit"]) / 3)


def test_similarities_by_hand():
    pairs = [("man", "woman", 1.0), ("king", "queen", 7.0), ("apple", "pear", 9.0), ("apple", "plum", 3.0)]
    found = score(few_vectors(), Similarities("made-up", pairs))
    assert (found.value, found.rows, found.asked) == (pytest.approx(1.0), 4, 3)
    assert score(few_vectors(), Similarities("none", [("a", "b", 1.0)])).value is None
    assert score(few_vectors(), Analogies("none", {"x": [("a", "b", "c", "d")]})).value is None


def test_sets_tell_what_they_are(tmp_path):
    path = tmp_path / "set.txt"
    path.write_text(": capitals\nAthens Greece Oslo Norway\n\n")
    read = read_set(path)
    assert isinstance(read, Analogies)
    assert read.sections == {"capitals": [("Athens", "Greece", "Oslo", "Norway")]}
    simlex = "word1\tword2\tPOS\tSimLex999\tconc(w1)\nlove\tsex\tN\t6.77\t2.1\n"  # as published
    wordsim = "Word 1,Word 2,Human (mean)\nlove,sex,6.77\n"
    for text in (
        simlex,
        wordsim,
        "# a note\nlove\tsex\t6.77\n",
        "word1,word2,score\nlove,sex,6.77\n",
        "love sex 6.77\n",
    ):
        path.write_text(text)
        read = read_set(path)
        assert isinstance(read, Similarities)
        assert list(read.pairs) == [("love", "sex", 6.77)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (": a\none two three\n", ":2: an analogy has four words, this line has 3"),
        ("a\tb\t1\nc\td\tmuch\n", ":2: is not two words and a number"),
        ("a\tb\n", ":1: is not two words and a number"),
    ],
)
def test_broken_sets_are_told(tmp_path, text, message):
    path = tmp_path / "set.txt"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_set(path)
    assert message in str(caught.value)


def test_the_published_sets_are_read(shared_data):
    folder = shared_data / "wordvectors"
    google = read_set(folder / "questions-words.txt")
    assert isinstance(google, Analogies)
    assert len(google.sections) == 14
    assert sum(map(len, google.sections.values())) == 19_544
    for name, rows in (("wordsim353.tsv", 353), ("simlex999.txt", 999)):
        pairs = read_set(folder / name)
        assert isinstance(pairs, Similarities)
        assert len(pairs.pairs) == rows


def test_king_minus_man_plus_woman(glove):
    assert glove.analogy("man", "woman", "king", top=1)[0].word == "queen"
    assert glove.analogy("france", "paris", "Italy", top=1)[0].word == "rome"
    assert "dog" in {near.word for near in glove.similar("cat", 3)}


def test_glove_on_the_published_sets(glove, shared_data):
    folder = shared_data / "wordvectors"
    assert score(glove, read_set(folder / "wordsim353.tsv")).value == pytest.approx(0.50, abs=0.04)
    assert score(glove, read_set(folder / "simlex999.txt")).value == pytest.approx(0.265, abs=0.03)
    google = read_set(folder / "questions-words.txt")
    assert isinstance(google, Analogies)
    family = Analogies("family", {"family": google.sections["family"]})
    frequent = WordVectors(glove.words[:30_000], glove.matrix[:30_000])
    found = score(frequent, family)
    assert found.asked > 300
    assert found.value is not None
    assert found.value > 0.7
