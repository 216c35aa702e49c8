"""Text into words and numbers: any language, phrases, rare words."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import ConfigError, DataError
from bertworks.vectors import TextOptions, TrainingOptions
from bertworks.vectors.reading import Encoded, encode
from bertworks.vectors.splitting import ASCII_WORD, _unicode_word, splitter, words_of


def texts_of(corpus: Encoded) -> list[list[str]]:
    ids, starts = corpus.texts
    return [[corpus.words[number] for number in ids[a:b]] for a, b in itertools.pairwise(starts)]


def test_words_of_many_languages():
    assert words_of("Don't re-tokenize 3.14, O'Neill!") == ["Don't", "re", "tokenize", "3", "14", "O'Neill"]
    assert words_of("“Får”—på fåret’s sätt…") == ["Får", "på", "fåret’s", "sätt"]
    assert words_of("我喜欢tea！") == ["我", "喜", "欢", "tea"]
    assert words_of("हिन्दी भाषा") == ["हिन्दी", "भाषा"]  # vowel signs belong to their words
    assert words_of("می\u200cخواهم") == ["می\u200cخواهم"]
    assert words_of("caffe\u0301") == ["caffe\u0301"]
    assert words_of("") == words_of(" -- ") == []
    assert splitter(TextOptions(split="spaces"))("New_York, Tea!") == ["new_york,", "tea!"]
    assert splitter(TextOptions(lowercase=False))("New Tea") == ["New", "Tea"]


@given(st.text(st.characters(max_codepoint=127)))
def test_the_quick_way_for_ascii_is_the_general_one(text):
    assert ASCII_WORD.findall(text) == _unicode_word().findall(text)


def test_rare_words_go_and_their_neighbours_close_up(tmp_path):
    texts = ["b a c a", "", "a rare b", "c", "b single"]
    corpus = encode(texts, TextOptions(min_count=2), tmp_path)
    assert corpus.words == ["b", "a", "c"]  # equally frequent ones in the order of the text
    assert corpus.counts.tolist() == [3, 3, 2]
    assert corpus.read == 10
    assert texts_of(corpus) == [["b", "a", "c", "a"], ["a", "b"]]  # one word alone says nothing
    assert encode(texts, TextOptions(min_count=2, max_words=2), tmp_path).words == ["b", "a"]


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.lists(st.sampled_from("abcdefg"), max_size=9), max_size=9), least=st.integers(1, 3))
def test_reading_equals_counting(tmp_path_factory, texts, least):
    folder = tmp_path_factory.mktemp("corpus")
    counts = Counter(word for text in texts for word in text)
    options = TextOptions(min_count=least)
    kept = [[word for word in text if counts[word] >= least] for text in texts]
    if max(map(len, kept), default=0) < 2:
        with pytest.raises(DataError):
            encode(map(" ".join, texts), options, folder)
        return
    corpus = encode(map(" ".join, texts), options, folder)
    assert dict(zip(corpus.words, corpus.counts.tolist(), strict=True)) == {
        word: count for word, count in counts.items() if count >= least
    }
    assert texts_of(corpus) == [text for text in kept if len(text) > 1]


def test_phrases_are_joined_by_cohesion(tmp_path):
    random = np.random.default_rng(0)
    others = [*(f"w{number}" for number in range(20)), "new"]  # "new" also stands alone
    texts = []
    for _ in range(300):
        words = [*random.choice(others, 4), *random.choice(["new york times", "w1"], 1), *random.choice(others, 4)]
        texts.append(" ".join(words))
    found = []
    for rounds in (1, 2):
        (tmp_path / str(rounds)).mkdir()
        corpus = encode(texts, TextOptions(phrases=rounds, phrase_threshold=4.0), tmp_path / str(rounds))
        assert [" ".join(text).replace("_", " ") for text in texts_of(corpus)] == texts
        found.append({word for word in corpus.words if "_" in word})
        assert "new" in corpus.words
    assert found == [{"new_york"}, {"new_york_times"}] or found == [{"york_times"}, {"new_york_times"}]


def test_a_phrase_that_the_text_has_joined_already(tmp_path):
    """It is one word, as it would be read back."""
    texts = ["new york is large", "we saw new york", "and new_york"] * 20
    corpus = encode(texts, TextOptions(split="spaces", phrases=1, phrase_threshold=0.1, min_count=1), tmp_path)
    assert len(set(corpus.words)) == len(corpus.words)
    counts = dict(zip(corpus.words, corpus.counts.tolist(), strict=True))
    assert counts["new_york"] + counts["and_new_york"] == 60
    assert "york" not in counts


def test_nothing_to_learn_from(tmp_path):
    with pytest.raises(DataError, match="there are no words in the text"):
        encode(["", "…"], TextOptions(), tmp_path)
    with pytest.raises(
        DataError, match="no word occurs 5 times in 3 words; read more text, or lower it with --min-count"
    ):
        encode(["a b c"], TextOptions(), tmp_path)
    with pytest.raises(DataError, match="no line or row has two words that are frequent enough"):
        encode(["a", "a", "b"], TextOptions(min_count=1), tmp_path)


def test_options_are_checked():
    for options, message in [
        (lambda: TextOptions(min_count=0), "text.min_count must be at least 1, not 0"),
        (lambda: TrainingOptions(dim=0), "training.dim must be at least 1, not 0"),
        (lambda: TrainingOptions(subsample=-1), "training.subsample must be 0 or more"),
        (lambda: TrainingOptions(learning_rate=0.0), "training.learning_rate must be more than 0"),
        (lambda: TrainingOptions(threads=2), "several threads need --hogwild"),
    ]:
        with pytest.raises(ConfigError, match=message):
            options()


def test_long_texts_are_never_cut(tmp_path):
    words = " ".join(f"w{number % 50}" for number in range(30_000))
    corpus = encode([words], TextOptions(), tmp_path)
    assert np.diff(corpus.texts.starts).tolist() == [30_000]
