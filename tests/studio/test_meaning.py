"""Maps, words in context and word vectors, against the library and by hand."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bertworks.errors import ModelError, UsageError
from bertworks.infer.bilm import LoadedBiLM
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.studio import meaning, word_vectors
from bertworks.studio.models import Models
from bertworks.vectors.bias import find_direction
from bertworks.vectors.word_lists import BUILT_IN
from bertworks.vectors.words import WordVectors
from tests.infer.test_bilm import elmo as elmo  # a fixture
from tests.vectors.small import few_vectors

TEXTS = ["A cat sleeps.", "The kitten is asleep.", "Shares fell today.", "The bank raised its rates."]
APPLES = [
    "She ate an apple.",
    "The apple fell from a tree.",
    "Apple sells phones; an Apple shop opened.",
    "No fruit here.",
]


def test_vectors_are_those_of_embed(minilm: LoadedModel) -> None:
    for layers, pooling in (("last", ""), ("2", "max"), ("concat-last-4", "cls")):
        found = meaning.embed(minilm, TEXTS, layers, pooling)
        np.testing.assert_array_equal(found, minilm.embed(TEXTS, layers=layers, pooling=pooling or None))
    with pytest.raises(UsageError, match="unknown pooling 'none'"):
        meaning.embed(minilm, TEXTS, "last", "none")


def test_a_map(minilm: LoadedModel) -> None:
    vectors = meaning.embed(minilm, TEXTS)
    found = meaning.text_map(vectors)
    assert len(found["points"]) == 4
    assert 0 < sum(found["shares"]) <= 1
    assert found["width"] == 384
    nearest = found["neighbours"][0]
    assert nearest[0]["index"] == 1
    assert nearest[0]["cosine"] == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-6)
    assert len(nearest) == 3
    query = meaning.embed(minilm, ["interest rates"])[0]
    assert meaning.nearest_to(vectors, query, 2)[0]["index"] == 3


def test_one_text_has_no_neighbours() -> None:
    assert meaning.text_map(np.ones((1, 3), np.float32))["neighbours"] == [[]]


def test_vectors_are_kept(minilm: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = meaning.Embeddings(Models([("m", minilm)]))
    first = kept.of("m", TEXTS, "last", "")
    assert kept.of("m", TEXTS, "last", "") is first
    assert kept.of("m", TEXTS, "1", "") is not first
    monkeypatch.setattr(meaning, "KEPT", 1)
    kept.of("m", TEXTS[:1], "last", "")
    assert kept.of("m", TEXTS, "last", "") is not first


def test_texts_that_two_ask_for_are_embedded_once(minilm: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    models = Models([("m", minilm)])
    kept = meaning.Embeddings(models)
    calls: list[int] = []
    embed = meaning.embed
    monkeypatch.setattr(meaning, "embed", lambda *given: calls.append(1) or embed(*given))
    with ThreadPoolExecutor(2) as pool:
        with models.use("m"):  # both wait for the model
            asked = [pool.submit(kept.of, "m", TEXTS, "last", "") for _ in range(2)]
            time.sleep(0.2)
        assert asked[0].result() is asked[1].result()
    assert calls == [1]


def test_places_of_a_word() -> None:
    assert meaning.find_word(APPLES, "apple") == [(0, 11, 16), (1, 4, 9), (2, 0, 5), (2, 23, 28)]
    assert meaning.find_word(["pineapple apples a.b axb"], "a.b") == [(0, 17, 20)]
    assert meaning.find_word(["我吃苹果。", "苹果公司"], "苹果") == [(0, 2, 4), (1, 0, 2)]  # no spaces between words
    assert meaning.find_word(["买apple手机 pineapple"], "apple") == [(0, 1, 6)]


def test_a_word_in_context_is_that_of_embed_words(minilm: LoadedModel) -> None:
    found = meaning.word_in_context(minilm, APPLES, "apple")
    assert [place["text"] for place in found["places"]] == ["apple", "apple", "Apple", "Apple"]
    assert [layer["layer"] for layer in found["layers"]] == list(range(7))
    for number in (0, 3, 6):
        words = minilm.embed_words(APPLES, layers=number)
        vectors = np.stack([one.vector for text in words for one in text if one.text.lower() == "apple"])
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        np.testing.assert_allclose(found["layers"][number]["cosines"], units @ units.T, atol=1e-5)
    points = np.array(found["layers"][6]["points"])  # a plane keeps no more than the distances
    assert np.linalg.norm(points[0] - points[1]) > 0


def test_a_word_that_is_there_once_or_too_often(minilm: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"the word 'fruit' stands in 1 place of these sentences; two are needed"):
        meaning.word_in_context(minilm, APPLES, "fruit")
    monkeypatch.setattr(meaning, "embed_tokens", None)  # refused before anything is computed
    with pytest.raises(UsageError, match="stands in 201 places; this picture takes 200 at most"):
        meaning.word_in_context(minilm, ["an apple " * 201], "apple")


def test_a_model_that_reads_words(elmo: LoadedBiLM) -> None:
    sentences = ["an apple fell", "the apple , ripe"]
    found = meaning.word_in_context(elmo, sentences, "apple")
    assert [layer["layer"] for layer in found["layers"]] == list(elmo.layer_numbers)
    one, other = (next(w.vector for w in words if w.text == "apple") for words in elmo.embed_words(sentences))
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert found["layers"][-1]["cosines"][0][1] == pytest.approx(float(cosine), abs=1e-5)


def test_no_vectors_of_a_translation_model(translator: LoadedTranslator) -> None:
    with pytest.raises(ModelError, match="choose an encoder"):
        meaning.embed(translator, TEXTS)


# -- word vectors ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gendered() -> WordVectors:
    """The words of the lists: pairs differ in the first number, half of the professions lean to one side."""
    random = np.random.default_rng(0)
    words, rows = [], []
    for one, other in BUILT_IN.pairs:
        base = random.normal(size=6)
        words += [one, other]
        rows += [np.r_[1.0, base], np.r_[-1.0, base]]
    for number, word in enumerate(list(BUILT_IN.neutral)[:20]):
        words.append(word)
        rows.append(np.r_[0.3 if number % 2 else -0.2, random.normal(size=6)])
    groups = next(iter(BUILT_IN.associations.values()))
    for word in sorted({word for group in groups for word in group} - set(words)):
        words.append(word)  # for one association test
        rows.append(np.r_[0.0, random.normal(size=6)])
    return WordVectors(words, np.array(rows))


def test_neighbours_and_analogies() -> None:
    vectors = few_vectors()
    found = word_vectors.similar(vectors, " Apple ", 3)
    assert found["word"] == "apple"
    assert found["neighbours"][0]["word"] == "pear"
    assert found["neighbours"][0]["similarity"] == pytest.approx(vectors.similarity("apple", "pear"))
    four = word_vectors.analogy(vectors, "man", "woman", "king", 2)
    assert (four["words"], four["neighbours"][0]["word"]) == (["man", "woman", "king"], "queen")
    with pytest.raises(UsageError, match="the word 'banana' has no vector here"):
        word_vectors.similar(vectors, "banana")
    with pytest.raises(UsageError, match="a word is missing"):
        word_vectors.analogy(vectors, "man", "", "king")
    with pytest.raises(UsageError, match="must be 1 to 50"):
        word_vectors.similar(vectors, "king", 51)


def test_the_axis(gendered: WordVectors) -> None:
    found = word_vectors.bias_axis(gendered, ["accountant", "She"])
    assert found["sides"] == {"positive": "she", "negative": "he"}
    direction = find_direction(gendered, BUILT_IN.pairs)
    word = found["words"][0]
    assert word["projection"] == pytest.approx(float(gendered.units[gendered.number(word["word"])] @ direction.vector))
    assert found["after"]["direct"] == pytest.approx(0, abs=1e-6)
    assert found["before"]["direct"] > 0.01
    with pytest.raises(UsageError, match="at once"):
        word_vectors.bias_axis(gendered, ["she"] * 101)


def test_tables_among_the_models(tmp_path: Path, minilm: LoadedModel) -> None:
    few_vectors().save(tmp_path / "few", "directory")
    few_vectors().save(tmp_path / "few.txt")
    models = Models([("minilm", minilm), str(tmp_path / "few"), f"mine={tmp_path / 'few.txt'}", str(tmp_path / "few")])
    assert models.names == ["minilm"]
    names = [(one["name"], one["words"], one["dim"]) for one in models.vectors.describe()]
    assert names == [("few", 7, 3), ("mine", 7, 3), ("few-2", 7, 3)]
    with pytest.raises(
        UsageError, match=r"no word vectors 'fex' are loaded \(did you mean 'few'\?\); loaded: few, mine"
    ):
        models.vectors.get("fex")
