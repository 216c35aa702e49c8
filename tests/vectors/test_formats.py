"""Every format: written and read back without loss, opened by gensim, and clear about what is broken."""

import gzip
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import DataError, OutputError
from bertworks.vectors import WordVectors
from bertworks.vectors.formats import FORMATS
from tests.vectors.small import few_vectors

NAMES = {"directory": "out", "word2vec": "out.txt", "word2vec-binary": "out.bin", "glove": "out", "gensim": "out.kv"}


def same(one: WordVectors, other: WordVectors) -> None:
    assert one.words == other.words
    np.testing.assert_array_equal(one.matrix, other.matrix)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_written_comes_back(tmp_path, kind):
    vectors = few_vectors()
    path = tmp_path / NAMES[kind]
    vectors.save(path, kind)
    read = WordVectors.load(path)
    same(vectors, read)
    assert len({file.stat().st_mode for file in tmp_path.rglob("*") if file.is_file()}) == 1  # anybody's new files
    if kind in ("directory", "gensim"):
        np.testing.assert_array_equal(read.counts, vectors.counts)


WORDS = st.text(st.characters(blacklist_categories=("Cs", "Zs", "Zl", "Zp", "Cc")), min_size=1, max_size=8)


@settings(max_examples=30, deadline=None)
@given(
    words=st.lists(WORDS, min_size=2, max_size=6, unique=True),
    numbers=st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=3, max_size=3),
    kind=st.sampled_from(FORMATS),
)
def test_any_words_and_numbers_come_back(tmp_path_factory, words, numbers, kind):
    path = tmp_path_factory.mktemp("any") / NAMES[kind]
    vectors = WordVectors(["first", *words], np.outer(np.arange(1, len(words) + 2), np.float32(numbers)) / 7)
    vectors.save(path, kind)
    same(vectors, WordVectors.load(path))


def test_the_name_decides_the_format(tmp_path):
    vectors = few_vectors()
    for name, begin in [
        ("a.bin", b"7 3\nman "),
        ("a.txt", b"7 3\nman 1.0 1.0"),
        ("a.vec", b"7 3\n"),
        ("a.kv", b"\x80"),
    ]:
        vectors.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
    vectors.save(tmp_path / "directory")
    assert (tmp_path / "directory" / "words.tsv").read_text().startswith("man\t70\n")
    with pytest.raises(OutputError, match=r"what format is '\.xls'"):
        vectors.save(tmp_path / "a.xls")


def test_gensim_opens_what_we_write(tmp_path):
    from gensim.models import KeyedVectors

    vectors = few_vectors()
    for kind in ("word2vec", "word2vec-binary", "glove", "gensim"):
        path = tmp_path / kind
        vectors.save(path, kind)
        if kind == "gensim":
            opened = KeyedVectors.load(str(path))
            assert opened.get_vecattr("queen", "count") == 40
            assert opened.vectors.dtype == np.float32
        else:
            options = {"binary": kind == "word2vec-binary", "no_header": kind == "glove"}
            opened = KeyedVectors.load_word2vec_format(str(path), **options)
        assert opened.index_to_key == vectors.words
        np.testing.assert_array_equal(opened.vectors, vectors.matrix)
        ours = vectors.similar("king", 3)
        theirs = opened.most_similar("king", topn=3)
        assert [near.word for near in ours] == [word for word, _ in theirs]
        best = opened.most_similar(positive=["woman", "king"], negative=["man"], topn=1)[0]
        assert best[0] == vectors.analogy("man", "woman", "king")[0].word == "queen"


def test_we_open_what_gensim_writes(tmp_path):
    from gensim.models import KeyedVectors, Word2Vec

    sentences = [["tea", "with", "milk"], ["tea", "with", "sugar"], ["milk", "with", "honey"]] * 4
    model = Word2Vec(sentences, vector_size=5, min_count=1, seed=3, workers=1)
    whole, keyed = tmp_path / "w2v.model", tmp_path / "w2v.kv"
    model.save(str(whole))
    model.wv.save(str(keyed), sep_limit=0)  # every array in a file of its own, as for large vocabularies
    model.wv.save_word2vec_format(str(tmp_path / "w2v.bin"), binary=True)
    model.wv.save_word2vec_format(str(tmp_path / "w2v.txt"))
    assert isinstance(model.wv, KeyedVectors)
    for path in (whole, keyed, tmp_path / "w2v.bin", tmp_path / "w2v.txt"):
        read = WordVectors.load(path)
        assert read.words == model.wv.index_to_key
        np.testing.assert_allclose(read.matrix, model.wv.vectors, rtol=1e-5, atol=1e-7)
    assert WordVectors.load(keyed).counts.tolist() == [model.wv.get_vecattr(w, "count") for w in model.wv.index_to_key]
    keyed.with_name("w2v.kv.vectors.npy").unlink()
    with pytest.raises(DataError, match=r"w2v\.kv: its vectors lie in w2v\.kv\.vectors\.npy, which is not there"):
        WordVectors.load(keyed)


class Evil:
    def __reduce__(self):
        import os

        return os.system, ("touch unpickled",)


def test_no_code_of_a_pickle_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.kv").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match=r"it asks for \w+\.system, which no word vectors need"):
        WordVectors.load("evil.kv")
    assert not (tmp_path / "unpickled").exists()
    (tmp_path / "other.kv").write_bytes(pickle.dumps({"vectors": [1, 2]}))
    with pytest.raises(DataError, match="not of gensim's KeyedVectors"):
        WordVectors.load("other.kv")
    (tmp_path / "cut.kv").write_bytes(pickle.dumps(list(range(99)))[:50])
    with pytest.raises(DataError, match="cannot be read as gensim's KeyedVectors"):
        WordVectors.load("cut.kv")


def binary(words: int, dim: int, rows: list[tuple[bytes, int]]) -> bytes:
    return f"{words} {dim}\n".encode() + b"".join(w + b" " + struct.pack(f"<{n}f", *range(n)) for w, n in rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n\n", "holds no vectors"),
        (b"0 5\n", "holds no vectors"),
        (b"2 3\na 1 2 3\nb 1 2\n", ":3: has 2 numbers, not 3 as the first line says"),
        (b"2 3\na 1 2 3\nb 1 2 3 4\n", ":3: has 4 numbers, not 3 as the first line says"),
        (b"2 3\na 1 2 x\nb 1 2 3\n", ":2: has 'x' where a number should be"),
        (b"2 3\na 1 2 nan\nb 1 2 3\n", ":2: has a number that is not finite"),
        (b"3 3\na 1 2 3\nb 1 2 3\n", ":1: the first line says 3 words, but there are 2: it was cut off"),
        (b"1 3\na 1 2 3\nb 1 2 3\n", ":1: the first line says 1 word, but there are 2: the first line is wrong"),
        (b"2 0\na\nb\n", ":1: says that vectors have 0 numbers"),
        (b"2 4\na 1 2 3\nb 1 2 3\n", ":2: has 3 numbers, not 4"),
        (b"a 1 2 3\nb 1 2\n", ":2: has 2 numbers, not 3 as the first row has"),
        (b"a 1 2 3\n 1 2 3\n", ":2: has numbers without a word"),
        (b"hello\nworld\n", ":1: does not end with numbers"),
        (b"a 1 2 3\nb\xff 1 2 3\n", ":2: is not valid utf-8"),
        (b"\xba\x16\x4f\x2f rest", "is a fastText model"),
        (binary(3, 2, [(b"a", 2), (b"b", 2)]), "3 words of 2 numbers, which needs more than its"),
        (binary(2, 3, [(b"abcdef", 3), (b"b", 2)]), "ends within word 2 of 2"),
        (binary(1, 2, [(b"a", 2), (b"b", 2)]), "bytes follow the 1 words of the first line"),
    ],
)
def test_broken_files_are_told(tmp_path, content, message):
    path = tmp_path / "broken.vec"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        WordVectors.load(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_odd_but_whole_files_are_read(tmp_path, caplog):
    (tmp_path / "spaces").write_text("a b 1 2 3\r\nc\t1\t2\t3 \n\n")  # GloVe has words with spaces
    assert WordVectors.load(tmp_path / "spaces").words == ["a b", "c"]
    (tmp_path / "twice").write_text("a 1 2\nb 3 4\na 5 6\n")
    read = WordVectors.load(tmp_path / "twice")
    assert (read.words, read.vector("a").tolist()) == (["a", "b"], [1, 2])
    assert "more than once" in caplog.text
    with gzip.open(tmp_path / "small.bin.gz", "wb") as file:
        file.write(binary(2, 5, [(b"a", 5), (b"\nb", 5)]))
    assert WordVectors.load(tmp_path / "small.bin.gz").words == ["a", "b"]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.vec.xz", "a.bin.gz"])
def test_compressed_files_are_written_and_read(tmp_path, name):
    vectors = WordVectors(["tea", "milk"], np.array([[1, 2], [3, 4.5]], np.float32))
    vectors.save(tmp_path / name)
    assert (tmp_path / name).read_bytes()[:2] in (b"\x1f\x8b", b"\xfd7")
    read = WordVectors.load(tmp_path / name)
    assert read.words == vectors.words
    assert read.matrix.tolist() == vectors.matrix.tolist()
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-9])
    with pytest.raises(DataError, match="damaged or cut off"):
        WordVectors.load(tmp_path / name)
    (tmp_path / name).write_text("tea 1 2\n")
    with pytest.raises(DataError, match=r"is not .z-compressed at all: it begins with b'te"):
        WordVectors.load(tmp_path / name)


def test_what_is_not_compressed(tmp_path):
    vectors = WordVectors(["tea"], np.ones((1, 2), np.float32))
    with pytest.raises(OutputError, match=r"of the format gensim are not written in \.gz; leave that out"):
        vectors.save(tmp_path / "a.kv.gz")
    with pytest.raises(OutputError, match=r"what format is '\.model'\? Known: \.bin"):
        vectors.save(tmp_path / "a.model.gz")


def test_broken_directories_are_told(tmp_path):
    with pytest.raises(DataError, match=r"is a directory without vectors\.safetensors"):
        WordVectors.load(tmp_path)
    made = tmp_path / "made"
    few_vectors().save(made)
    (made / "words.tsv").write_text("man\t70\n")
    with pytest.raises(DataError, match=r"vectors of the shape \(7, 3\), but words\.tsv has 1 words"):
        WordVectors.load(made)
    (made / "words.tsv").write_text("man\tmany\n")
    with pytest.raises(DataError, match=r"words\.tsv:1: is not a word and its count"):
        WordVectors.load(made)
    (made / "vectors.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="is damaged or cut off"):
        WordVectors.load(made)
    with pytest.raises(DataError, match="no such file"):
        WordVectors.load(tmp_path / "absent.txt")


def test_words_that_a_format_cannot_spell(tmp_path):
    vectors = WordVectors(["new york", "b"], [[1], [2]])
    for kind in ("word2vec", "word2vec-binary"):
        with pytest.raises(OutputError, match="no way to spell the word 'new york'"):
            vectors.save(tmp_path / "out", kind)
        assert not (tmp_path / "out").exists()
    for word, kinds in {"a\tb": ("word2vec", "glove"), "New 7": ("word2vec", "glove")}.items():
        for kind in kinds:
            with pytest.raises(OutputError, match="no way to spell the word"):
                WordVectors([word, "b"], [[1], [2]]).save(tmp_path / "out", kind)
    WordVectors(["New York", "7"], [[1], [2]]).save(tmp_path / "out.glove", "glove")  # a number alone is a word
    vectors.save(tmp_path / "out.kv")
    same(vectors, WordVectors.load(tmp_path / "out.kv"))
