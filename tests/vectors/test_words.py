"""Vectors in use: found, compared, and asked for analogies."""

import numpy as np
import pytest

from bertworks.errors import UsageError
from bertworks.vectors import WordVectors
from tests.vectors.small import few_vectors


def test_words_are_found_as_written_or_in_small_letters():
    vectors = few_vectors()
    assert vectors.find("King") == vectors.index["king"]
    assert vectors.find("New_York") == 6
    assert vectors.find("new_york") is None
    assert "Queen" in vectors
    assert "emperor" not in vectors
    assert (len(vectors), vectors.dim) == (7, 3)
    np.testing.assert_array_equal(vectors.vector("pear"), np.float32([0, 0.1, 2]))


def test_neighbours_by_hand():
    vectors = few_vectors()
    near = vectors.similar("apple", top=2)
    assert [found.word for found in near] == ["pear", "man"] or near[1].similarity == pytest.approx(0)
    assert near[0].similarity == pytest.approx(2 / np.hypot(0.1, 2))
    assert near[0].deviation is None
    assert vectors.similarity("man", "woman") == pytest.approx(0)
    assert len(vectors.similar("apple", top=100)) == 6  # not itself


def test_analogy_by_hand():
    assert few_vectors().analogy("man", "woman", "king", top=1)[0].word == "queen"
    assert {found.word for found in few_vectors().analogy("man", "woman", "king", top=9)}.isdisjoint(
        {"man", "woman", "king"}
    )


def test_unknown_words_and_odd_numbers_are_told():
    with pytest.raises(UsageError, match=r"'quen' has no vector here \(did you mean 'queen'\?\); 7 words have one"):
        few_vectors().similar("quen")
    with pytest.raises(UsageError, match="at least 1, not 0"):
        few_vectors().similar("queen", top=0)
    with pytest.raises(UsageError, match=r"2 words need a matrix of as many rows, not \(3, 1\)"):
        WordVectors(["a", "b"], [[1], [2], [3]])
    with pytest.raises(UsageError, match="'a' is there twice"):
        WordVectors(["a", "b", "a"], [[1], [2], [3]])


def test_a_vector_of_zeros_is_near_to_nothing():
    vectors = WordVectors(["a", "b"], [[0, 0], [0, 1]])
    assert vectors.similarity("a", "b") == 0
    assert vectors.similar("a")[0].similarity == 0


def test_a_posterior_gives_similarities_a_deviation():
    sure = WordVectors(["a", "b"], [[3, 0, 4], [0, 5, 0]], deviations=np.full((2, 3), 1e-6))
    unsure = WordVectors(["a", "b"], [[3, 0, 4], [0, 5, 0]], deviations=np.ones((2, 3)))
    assert sure.similar("a")[0].deviation == pytest.approx(0, abs=1e-5)
    assert unsure.similar("a")[0].deviation > 0.1
    assert unsure.similar("a") == unsure.similar("a")
