"""The parts of `benchmarks/vectors.py` on a tiny text: both engines learn from the same words. Never a time."""

import lzma

import pytest
from benchmarks.vectors import ALGORITHMS, bertworks_engine, gensim_engine, parse, score_table, scores, write_words

from tests.vectors.small import DIM, made_up_texts


@pytest.fixture
def text(tmp_path):
    (tmp_path / "corpus").mkdir()
    path = tmp_path / "corpus" / "wiki-en-00.txt.xz"
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.write("\n\n".join(line.replace("the", "The,") for line in made_up_texts(120)))
    assert write_words([path], tmp_path / "text.txt") == (120 * 15, 120)
    assert write_words([path], tmp_path / "short.txt", most=7)[1] == 7
    return tmp_path / "text.txt"


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow"])
def test_engines_learn_from_the_same_words(text, algorithm):
    call = {"path": str(text), "algorithm": algorithm, "dim": DIM, "epochs": 1, "window": 3}
    in_order = bertworks_engine(threads=2, hogwild=False)
    ours = [in_order(call), in_order(call), bertworks_engine(threads=2, hogwild=True)(call)]
    gensim = gensim_engine(threads=1)
    theirs = [gensim(call), gensim(call, from_file=True)]
    for words, matrix in (*ours, *theirs):
        assert set(words) == set(ours[0][0])
        assert matrix.shape == (27, DIM)
    assert (ours[0][1] == ours[1][1]).all()  # a pass starts anew


def test_scores_and_options(text, tmp_path):
    sets = tmp_path / "sets"
    sets.mkdir()
    (sets / "questions-words.txt").write_text(": a\nsea1 sea2 sky1 sky2\n: gram1\nsea1 sky1 sea2 sky2\n")
    (sets / "wordsim353.tsv").write_text("sea1\tsea2\t9\nsea1\tsky1\t1\nsea3\tsky5\t2\n")
    (sets / "simlex999.txt").write_text("sea1\tsea2\t9\nsea1\tunknown\t1\n")
    call = {"path": str(text), "algorithm": "cbow", "dim": DIM, "epochs": 1, "window": 3}
    found = scores(bertworks_engine(threads=1, hogwild=False)(call), sets)
    assert {"semantic", "syntactic", "wordsim353.tsv"} <= set(found)
    assert found["simlex999.txt"] == 0  # nothing to correlate
    lines = score_table({"cbow": {"bertworks": found}}).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert parse(["--algorithms", "glove"]).algorithms == ["glove"]
    assert tuple(parse([]).algorithms) == ALGORITHMS
    with pytest.raises(SystemExit):
        parse(["--algorithms", "elmo"])
