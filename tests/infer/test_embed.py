"""Embeddings of the real model, judged by sentence-transformers and transformers."""

import numpy as np
import pytest
import torch

import bertworks
from bertworks.errors import UsageError
from bertworks.infer.embed import EmbedReport
from bertworks.infer.loaded import LoadedModel

TEXTS = ["The cat sat on the mat.", "", "Ça va? 😀", "a longer sentence with several words in it, and a comma", "x"]


@pytest.fixture(scope="module")
def minilm() -> LoadedModel:
    return bertworks.load("minilm")


@pytest.fixture(scope="module")
def sst2(request) -> list[str]:
    path = request.getfixturevalue("shared_data") / "sst2" / "train.tsv"
    return [line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def reference(request):
    """transformers' hidden states of one text: (layers, tokens, width)."""
    from transformers import AutoModel, AutoTokenizer

    directory = request.getfixturevalue("minilm_directory")
    model = AutoModel.from_pretrained(directory).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)

    def hidden(text: str) -> np.ndarray:
        inputs = tokenizer(text, return_tensors="pt", truncation=False, padding=False)
        with torch.inference_mode():
            states = model(**inputs, output_hidden_states=True).hidden_states
        return torch.cat(states).numpy()

    return hidden


def test_equals_sentence_transformers_on_sst2(minilm, minilm_directory, sst2):
    from sentence_transformers import SentenceTransformer

    judge = SentenceTransformer(str(minilm_directory), device="cpu")
    np.testing.assert_allclose(minilm.embed(sst2[:500]), judge.encode(sst2[:500]), atol=1e-5, rtol=0)


def test_a_text_alone_equals_itself_among_a_thousand(minilm, sst2):
    together = minilm.embed(sst2[:1000])
    for index in (0, 17, 500, 999):
        np.testing.assert_allclose(minilm.embed(sst2[index]), together[index], atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("layers", ["last", "first", "second-to-last", "sum-last-4", "concat-last-4", "sum-all", "3"])
def test_layers_and_poolings(minilm, reference, layers, pooling):
    combine = {
        "last": lambda h: h[6],
        "first": lambda h: h[0],
        "second-to-last": lambda h: h[5],
        "sum-last-4": lambda h: h[3:].sum(0),
        "concat-last-4": lambda h: np.concatenate(list(h[3:]), axis=-1),
        "sum-all": lambda h: h[1:].sum(0),
        "3": lambda h: h[3],
    }[layers]
    pool = {"mean": lambda t: t.mean(0), "cls": lambda t: t[0], "max": lambda t: t.max(0)}[pooling]
    vectors = minilm.embed(TEXTS, layers=layers, pooling=pooling, normalize=False)
    wanted = np.stack([pool(combine(reference(text))) for text in TEXTS])
    np.testing.assert_allclose(vectors, wanted, atol=2e-5, rtol=1e-5)


def test_tokens_and_words(minilm, reference):
    text = "Ünïcode naïveté, 東京 and unbelievable things"
    (tokens,) = minilm.embed([text], pooling="none")
    states = reference(text)[6]
    np.testing.assert_allclose(tokens, states, atol=1e-5, rtol=0)
    (named,) = minilm.embed_tokens([text])
    assert named[0].text == "[CLS]"
    assert named[-1].text == "[SEP]"
    np.testing.assert_array_equal(np.stack([token.vector for token in named]), tokens)
    (words,) = minilm.embed_words([text])
    assert [word.text for word in words] == ["Ünïcode", "naïveté", ",", "東", "京", "and", "unbelievable", "things"]
    assert all(text[word.start : word.end] == word.text for word in words)
    last = [index for index, token in enumerate(named) if token.start >= words[6].start and token.end <= words[6].end]
    np.testing.assert_allclose(words[6].vector, states[[i for i in last if named[i].end]].mean(0), atol=1e-5)
    (own,) = minilm.embed_words([["unbelievable", "\u200b", "things"]])
    assert [word.text for word in own] == ["unbelievable", "\u200b", "things"]


def test_long_texts_run_in_windows(minilm):
    long = " ".join(["river", "stone", "morning", "green", "house"] * 120)  # one token a word
    report = EmbedReport()
    vectors = minilm.embed(["short", long], normalize=False, report=report)
    assert (report.texts, report.windowed) == (2, 1)
    assert report.longest > 254
    ids = minilm.tokenizer.ids([long])[0]
    pieces = np.array_split(np.arange(len(ids)), -(-len(ids) // 254))
    decoded = [minilm.tokenizer.decode(ids[piece]) for piece in pieces]
    parts = minilm.embed(decoded, normalize=False)
    wanted = np.average(parts, axis=0, weights=[len(piece) for piece in pieces])
    np.testing.assert_allclose(vectors[1], wanted, atol=1e-5)
    (tokens,) = minilm.embed([long], pooling="none")
    assert tokens.shape == (len(ids) + 2, 384)
    (words,) = minilm.embed_words([long])
    assert [word.text for word in words] == long.split()


def test_every_kind_of_vector_tells_how_far_it_is(minilm):
    texts = ["river stone " * 40] * 40  # more than one batch
    plain = [text.split() for text in texts]
    calls = {
        "texts": lambda told: minilm.embed(texts, progress=told),
        "rows": lambda told: minilm.embed(texts, pooling="none", progress=told),
        "tokens": lambda told: minilm.embed_tokens(texts, progress=told),
        "words": lambda told: minilm.embed_words(texts, progress=told),
        "own words": lambda told: minilm.embed_words(plain, progress=told),
    }
    for name, call in calls.items():
        told: list[tuple[int, int]] = []
        call(lambda done, total, told=told: told.append((done, total)))
        assert len(told) > 1, name
        assert told == sorted(told), name
        assert told[-1] == (40, 40), name


def test_odd_texts_are_legal(minilm):
    vectors = minilm.embed(["", "w" * 1_000_000, "\ud800 lone surrogate", "\x00\u200d", "🏳️‍🌈"])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert minilm.embed([]).shape == (0, 384)
    assert minilm.embed("one").shape == (384,)


def test_normalisation_is_the_models_own_only_for_its_own_embedding(minilm):
    assert np.linalg.norm(minilm.embed("cat")) == pytest.approx(1.0, abs=1e-5)
    assert np.linalg.norm(minilm.embed("cat", layers="second-to-last")) > 1.1
    assert np.linalg.norm(minilm.embed("cat", normalize=False)) > 1.1
    assert np.linalg.norm(minilm.embed("cat", layers=2, normalize=True)) == pytest.approx(1.0, abs=1e-5)


def test_wrong_use_explains_itself(minilm):
    with pytest.raises(UsageError, match="unknown pooling 'men'"):
        minilm.embed("cat", pooling="men")
    with pytest.raises(UsageError, match="text 1 is int"):
        minilm.embed(["cat", 3])
    with pytest.raises(UsageError, match="unknown precision 'int7'"):
        bertworks.load("minilm", precision="int7")


def test_attention_equals_transformers(minilm, minilm_directory):
    from transformers import AutoModel, AutoTokenizer

    judge = AutoModel.from_pretrained(minilm_directory, attn_implementation="eager").eval()
    inputs = AutoTokenizer.from_pretrained(minilm_directory)("It was tired", "too tired", return_tensors="pt")
    with torch.inference_mode():
        wanted = torch.cat(judge(**inputs, output_attentions=True).attentions).numpy()
    found = minilm.attend("It was tired", "too tired")
    assert found.tokens == ["[CLS]", "it", "was", "tired", "[SEP]", "too", "tired", "[SEP]"]
    assert found.segments == [0, 0, 0, 0, 0, 1, 1, 1]
    np.testing.assert_allclose(found.weights, wanted, atol=1e-5)
    with pytest.raises(UsageError, match="takes 512 at once"):
        minilm.attend("word " * 600)


def test_save_and_open_again(minilm, tmp_path, sst2):
    minilm.save(tmp_path / "copy")
    again = bertworks.load(tmp_path / "copy")
    np.testing.assert_allclose(again.embed(sst2[:20]), minilm.embed(sst2[:20]), atol=1e-6)
