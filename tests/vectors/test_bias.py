"""Bias: by hand in three dimensions, and on GloVe's published vectors with the published lists."""

import itertools
import json
import re

import numpy as np
import pytest

from bertworks.errors import DataError
from bertworks.vectors import WordVectors
from bertworks.vectors.bias import _without, association_test, debiased, find_direction, measure
from bertworks.vectors.bias_page import bias_page
from bertworks.vectors.word_lists import BUILT_IN, WordLists, read_lists
from tests.vectors.test_evaluate import glove  # noqa: F401


def leaning() -> tuple[WordVectors, WordLists]:
    """The second axis is gender; nurse and programmer lean, table does not."""
    rows = {
        "she": [1, 1, 0],
        "he": [1, -1, 0],
        "woman": [2, 1, 1],
        "man": [2, -1, 1],
        "nurse": [0, 0.6, 1],
        "programmer": [0, -0.8, 1],
        "homemaker": [0.1, 0.7, 0.9],
        "table": [0, 0, 1],
        "queen": [1, 2, 3],
        "king": [1, -1, 3],
    }
    lists = WordLists(
        pairs=[("she", "he"), ("woman", "man")],
        equalize=[("king", "queen")],
        specific={"queen", "king"},
        neutral={"nurse": 0.9, "programmer": -0.7, "homemaker": 1.0, "table": 0.0, "queen": 1.0, "absent": 0.0},
        associations={"work": (["nurse", "homemaker"], ["programmer", "table"], ["she", "woman"], ["he", "man"])},
    )
    return WordVectors(list(rows), list(rows.values())), lists


def test_the_direction_and_projections_by_hand():
    vectors, lists = leaning()
    direction = find_direction(vectors, lists.pairs)
    np.testing.assert_allclose(direction.vector, [0, 1, 0], atol=1e-6)
    assert direction.explained[0] == pytest.approx(1)
    bias = measure(vectors, lists, direction, examples=["programmer"])
    assert list(bias.projections) == ["programmer", "table", "nurse", "homemaker"]
    assert bias.projections["programmer"] == pytest.approx(-0.8 / np.hypot(0.8, 1))
    assert bias.direct == pytest.approx(np.mean(np.abs(list(bias.projections.values()))))
    assert bias.stereotype is not None
    assert bias.stereotype > 0.9
    assert bias.analogies["programmer"][0].word in ("homemaker", "nurse", "queen")
    partner = bias.partners["programmer"][0]  # nurse - programmer is (0, 1.4, 0) but for the lengths
    assert partner.word == "nurse"
    assert partner.similarity > 0.99


def test_neutralise_and_equalise():
    vectors, lists = leaning()
    direction = find_direction(vectors, lists.pairs)
    before = measure(vectors, lists, direction)
    changed = debiased(vectors, lists, direction)
    after = measure(changed, lists, direction, sides=before.projections)
    assert after.direct == pytest.approx(0, abs=1e-6)
    assert after.stereotype == 0
    np.testing.assert_allclose(np.linalg.norm(changed.matrix, axis=1), 1, atol=1e-6)
    for neutral in ("nurse", "programmer", "table"):  # both words of a pair are equally far from every neutral one
        for one, other in (("she", "he"), ("woman", "man"), ("queen", "king")):
            assert changed.similarity(neutral, one) == pytest.approx(changed.similarity(neutral, other), abs=1e-6)
    assert changed.vector("queen") @ direction.vector > 0 > changed.vector("king") @ direction.vector
    # Where both words of each pair of attributes are equally near, there is nothing left to lean to but rounding.
    (test,) = lists.associations.values()
    leans = [
        np.mean([changed.similarity(word, a) for a in test[2]])
        - np.mean([changed.similarity(word, b) for b in test[3]])
        for word in (*test[0], *test[1])
    ]
    assert before.tests[0].effect > 1
    np.testing.assert_allclose(leans, 0, atol=1e-6)


def test_the_posterior_is_neutralised_too():
    vectors, lists = leaning()
    direction = find_direction(vectors, lists.pairs)
    spread = WordVectors(vectors.words, vectors.matrix, deviations=np.ones_like(vectors.matrix))
    changed = debiased(spread, lists, direction)
    assert changed.deviations is not None
    # nurse (0, 0.6, 1) becomes (0, 0, 1): its own length, and nothing along the direction.
    np.testing.assert_allclose(changed.deviations[changed.number("nurse")], [1, 0, 1], atol=1e-6)
    # she and he, of length √2, become their mean, which varies half as much, and a fixed part along the direction.
    for word in ("she", "he"):
        np.testing.assert_allclose(changed.deviations[changed.number(word)], [0.5, 0, 0.5], atol=1e-6)
    axis = np.array([0.6, 0.0, -0.8], np.float32)
    some = np.array([[0.5, 2.0, 3.0]], np.float32)
    keeps = np.eye(3) - np.outer(axis, axis)
    np.testing.assert_allclose(_without(axis, some)[0], np.diag(keeps @ np.diag(some[0]) @ keeps), atol=1e-6)
    assert debiased(vectors, lists, direction).deviations is None


def test_association_by_hand():
    vectors, lists = leaning()
    x, y, a, b = lists.associations["work"]

    def lean(word: str) -> float:
        return float(
            np.mean([vectors.similarity(word, w) for w in a]) - np.mean([vectors.similarity(word, w) for w in b])
        )

    leans = [lean(word) for word in (*x, *y)]
    found = association_test(vectors, "work", lists.associations["work"])
    assert found is not None
    assert found.effect == pytest.approx((np.mean(leans[:2]) - np.mean(leans[2:])) / np.std(leans, ddof=1), rel=1e-4)
    splits = [sum(chosen) for chosen in itertools.combinations(leans, 2)]
    assert (
        found.p_value
        == pytest.approx(np.mean([split >= sum(leans[:2]) - 1e-9 for split in splits]))
        == pytest.approx(1 / 6)
    )
    assert association_test(vectors, "none", (["a"], ["b"], ["c"], ["d"])) is None


def test_drawn_splits_estimate_the_p_value():
    random = np.random.default_rng(0)
    words = [f"w{number}" for number in range(44)]
    vectors = WordVectors(words, random.normal(size=(44, 6)))
    lists = words[:18], words[18:36], words[36:40], words[40:]
    one, two = (association_test(vectors, "random", lists, seed=seed) for seed in (0, 1))
    assert one is not None
    assert two is not None
    assert one == association_test(vectors, "random", lists, seed=0)
    assert one.p_value != two.p_value
    assert one.p_value == pytest.approx(two.p_value, abs=0.02)
    assert one.effect == two.effect


def test_lists_are_read_and_checked(tmp_path, shared_data):
    published = read_lists(shared_data / "wordvectors" / "bolukbasi")
    assert published.pairs[0] == ("woman", "man")
    assert len(published.pairs) == 10
    assert len(published.neutral) == 320
    assert published.neutral["accountant"] == -0.4  # there, above 0 is male
    assert published.associations == BUILT_IN.associations
    with pytest.raises(DataError, match=r"is not a directory; it should hold definitional_pairs\.json"):
        read_lists(tmp_path / "absent")
    with pytest.raises(DataError, match=r"definitional_pairs\.json: no such file"):
        read_lists(tmp_path)
    files = {
        "definitional_pairs": [["she", "he"]],
        "equalize_pairs": [["queen", "king"]],
        "gender_specific_full": ["queen"],
        "professions": ["nurse", ["cook", 0.0, 0.5]],
        "weat": {"t": [["a"], ["b"], ["c"], ["d"]]},
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    lists = read_lists(tmp_path)
    assert lists.neutral == {"nurse": None, "cook": -0.5}
    assert list(lists.associations) == ["t"]
    for name, content, message in [
        ("weat", {"t": [["a"]]}, "four lists of words each"),
        ("professions", [["nurse", 0.5, None]], "item 1 must be a word, or a word and two numbers"),
        ("professions", [["nurse"]], "item 1 must be a word, or a word and two numbers"),
        ("definitional_pairs", [["she"]], "item 1 must be a pair of words, not ['she']"),
        ("definitional_pairs", [], "must be a list"),
    ]:
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        with pytest.raises(DataError) as caught:
            read_lists(tmp_path)
        assert message in str(caught.value)
        (tmp_path / f"{name}.json").write_text(json.dumps(files[name]))
    (tmp_path / "weat.json").write_text('{\n"t": ')
    with pytest.raises(DataError, match=r"weat\.json:2: is not valid JSON"):
        read_lists(tmp_path)


def test_words_that_no_vectors_have():
    vectors, lists = leaning()
    with pytest.raises(DataError, match="none of the pairs that define the direction"):
        find_direction(vectors, [("elle", "il")])
    few = WordLists(lists.pairs, [], set(), {"table": None})
    with pytest.raises(DataError, match="fewer than two of the neutral words"):
        measure(vectors, few, find_direction(vectors, lists.pairs))


@pytest.mark.parametrize("published", [True, False])
def test_glove_leans_and_is_neutralised(glove, shared_data, published):  # noqa: F811
    lists = read_lists(shared_data / "wordvectors" / "bolukbasi") if published else BUILT_IN
    vectors = WordVectors(glove.words[:60_000], glove.matrix[:60_000])
    direction = find_direction(vectors, lists.pairs)
    assert direction.explained[0] > 2 * direction.explained[1] or published  # one direction stands out
    before = measure(vectors, lists, direction, examples=["programmer"])
    assert "homemaker" in {near.word for near in before.partners["programmer"]}
    assert before.projections["programmer"] < 0 < before.projections["homemaker"]
    assert before.projections["nurse"] > 0.2
    if published:
        assert before.stereotype is not None
        assert before.stereotype > 0.4
    check, *tests = before.tests
    assert check.effect > 1  # flowers and insects: the measure works
    assert check.p_value < 0.01
    assert all(test.effect > 0.5 for test in tests)
    changed = debiased(vectors, lists, direction)
    after = measure(changed, lists, direction, sides=before.projections, examples=["programmer"])
    assert after.direct < 1e-5 < before.direct
    assert after.partners["programmer"][0].similarity < 1e-4 < 0.3 < before.partners["programmer"][0].similarity
    assert all(abs(now.effect) < then.effect for then, now in zip(before.tests[1:], after.tests[1:], strict=True))
    assert after.tests[0].effect == pytest.approx(check.effect, abs=0.1)  # what was not meant stays
    assert after.clustering > 0.5  # and bias is not gone
    page = bias_page("glove", direction, before, after)
    assert "homemaker" in page
    heights = set(re.findall(r'class="dot" cx="[-\d.]+" cy="([-\d.]+)"', page))
    assert len(heights) == 1  # all are 0 now: rounding is not drawn as if it were something
    assert "-0.000" not in page
    assert "<svg" in page
    assert "http" not in page
