"""A corpus as its readers see it: documents, sentences, places, the tokenizer, and what is said of damage."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from bertworks.data.corpus import Corpus, CorpusOptions, LocalEngine, build_corpus
from bertworks.data.corpus.layout import HEADER, MAX_TWO_BYTE_IDS, ShardSize, token_type, write_shard
from bertworks.data.sentences import sentence_spans
from bertworks.errors import DataError, UsageError
from bertworks.text.tokenizer import Tokenizer
from tests.data.corpus_helpers import DOCUMENTS, tokenizer_directory, write_documents


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Five documents in three shards."""
    tokenizer = tokenizer_directory(tmp_path / "tokenizer")
    file = write_documents(tmp_path / "text.txt", DOCUMENTS)
    options = CorpusOptions(shard_tokens=40)
    build_corpus([file], tokenizer, tmp_path / "corpus", options, engine=LocalEngine(1))
    return Corpus.open(tmp_path / "corpus")


def test_documents_and_sentences_are_those_of_the_text(corpus: Corpus) -> None:
    tokenizer = corpus.tokenizer()
    assert len(corpus) == corpus.num_documents == len(DOCUMENTS)
    assert len(corpus.manifest["shards"]) == 3
    for index, text in enumerate(DOCUMENTS):
        whole, _ = tokenizer.ids([text])
        ids = corpus.document(index)
        np.testing.assert_array_equal(ids, whole)
        assert ids.dtype == np.uint16
        assert corpus.document_length(index) == len(whole)
        expected = [text[start:end] for start, end in sentence_spans(text)]
        assert [list(s) for s in corpus.sentences(index)] == [list(tokenizer.ids([s])[0]) for s in expected]
        bounds = corpus.sentence_bounds(index)
        assert bounds[0] == 0
        assert bounds[-1] == len(ids)
        assert len(bounds) == len(expected) + 1
    assert corpus.num_tokens == sum(map(len, corpus)) == int(corpus.document_lengths().sum())
    assert corpus.num_sentences == sum(len(corpus.sentences(i)) for i in range(len(corpus)))


def test_every_token_is_found_by_its_number(corpus: Corpus) -> None:
    expected = [(document, place) for document, ids in enumerate(corpus) for place in range(len(ids))]
    assert [corpus.locate(position) for position in range(corpus.num_tokens)] == expected
    for wrong in (-1, corpus.num_tokens):
        with pytest.raises(UsageError, match="there is no token"):
            corpus.locate(wrong)
    for wrong in (-1, corpus.num_documents):
        with pytest.raises(UsageError, match="the corpus has documents 0 to 4"):
            corpus.document(wrong)


def test_views_cannot_be_written_and_copies_open_their_own_files(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="read-only"):
        corpus.document(0)[0] = 1
    corpus.document_lengths()
    copy = pickle.loads(pickle.dumps(corpus))
    assert len(pickle.dumps(corpus)) < 5000
    np.testing.assert_array_equal(copy.document(4), corpus.document(4))


def test_the_manifest_says_what_was_used(corpus: Corpus, tmp_path: Path) -> None:
    manifest = json.loads((corpus.directory / "manifest.json").read_text())
    assert manifest["version"] == 1
    assert manifest["inputs"][0]["name"] == "text.txt"
    assert manifest["inputs"][0]["size"] == (tmp_path / "text.txt").stat().st_size
    assert manifest["options"]["shard_tokens"] == 40
    assert manifest["tokenizer"]["vocab_size"] == corpus.vocab_size == corpus.tokenizer().vocab_size
    copied = (corpus.directory / "tokenizer" / "tokenizer.json").read_bytes()
    assert copied == (tmp_path / "tokenizer" / "tokenizer.json").read_bytes()
    assert manifest["tokenizer"]["sha256"] == corpus.tokenizer_sha256
    assert sorted(path.name for path in corpus.directory.iterdir()) == [
        "manifest.json",
        "shard-00000.bin",
        "shard-00001.bin",
        "shard-00002.bin",
        "tokenizer",
    ]
    corpus.verify()


def test_a_shard_byte_by_byte(tmp_path: Path) -> None:
    ids = [np.array([7, 8, 9], np.uint16), np.array([500], np.uint16)]
    lengths = [np.array([1, 2, 1], np.uint16)]
    size, sha256 = write_shard(tmp_path / "s", ids, lengths, np.array([2, 1]), np.array([3, 1]))
    assert size == ShardSize(documents=2, sentences=3, tokens=4, token_bytes=2)
    header = struct.pack("<8sIIQQQ", b"bertcorp", 1, 2, 2, 3, 4) + bytes(24)
    documents = struct.pack("<6I", 0, 0, 3, 2, 4, 3)
    sentences = struct.pack("<4H", 1, 2, 1, 0)  # the last one fills up to four bytes
    assert (tmp_path / "s").read_bytes() == header + documents + sentences + struct.pack("<4H", 7, 8, 9, 500)
    assert size.file_bytes == (tmp_path / "s").stat().st_size
    assert len(sha256) == 64


def test_ids_take_two_bytes_as_long_as_they_fit() -> None:
    assert token_type(MAX_TWO_BYTE_IDS) == np.uint16
    assert token_type(MAX_TWO_BYTE_IDS + 1) == np.uint32


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, pre_tokenizers

    backend = Backend(models.WordLevel({"[UNK]": 0, **{f"w{n}": n for n in range(1, 70_000)}}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    (tmp_path / "large").mkdir()
    backend.save(str(tmp_path / "large" / "tokenizer.json"))
    file = write_documents(tmp_path / "text.txt", ["w69999 w1 w65536.", "w3"])
    build_corpus([file], tmp_path / "large", tmp_path / "corpus", engine=LocalEngine(1))
    corpus = Corpus.open(tmp_path / "corpus")
    assert corpus.document(0).dtype == np.uint32
    assert corpus.document(0).tolist() == [69_999, 1, 0]
    assert corpus.document(1).tolist() == [3]


@pytest.mark.parametrize("kind", ["gpt2", "unigram"])
def test_other_tokenizers(tmp_path: Path, kind: str) -> None:
    """GPT-2's keeps the line end; the other would make it an unknown token, so it is read as a space."""
    directory = tokenizer_directory(tmp_path / "tokenizer", kind)
    file = write_documents(tmp_path / "text.txt", DOCUMENTS)
    build_corpus([file], directory, tmp_path / "corpus", engine=LocalEngine(1))
    corpus, tokenizer = Corpus.open(tmp_path / "corpus"), Tokenizer.from_directory(directory)
    text = DOCUMENTS[0] if kind == "gpt2" else DOCUMENTS[0].replace("\n", " ")
    assert corpus.document(0).tolist() == tokenizer.ids([text])[0].tolist()
    assert tokenizer.decode(corpus.document(0)) == text
    assert len(corpus.sentences(0)) == 3


def test_a_vocabulary_file_alone_will_do(tmp_path: Path) -> None:
    from tests.text import tiny

    directory = tiny.write_vocabulary(tiny.bert(), tmp_path / "tokenizer")
    file = write_documents(tmp_path / "text.txt", DOCUMENTS)
    build_corpus([file], directory, tmp_path / "corpus", engine=LocalEngine(1))
    corpus = Corpus.open(tmp_path / "corpus")
    assert (corpus.directory / "tokenizer" / "tokenizer.json").is_file()
    assert corpus.tokenizer().ids([DOCUMENTS[0]])[0].tolist() == corpus.document(0).tolist()


# --- damage -----------------------------------------------------------------------------------------------------------


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such directory"):
        Corpus.open(tmp_path / "none")
    (tmp_path / "none.part").mkdir()
    with pytest.raises(DataError, match="not finished; run the same `bertworks corpus build` command again"):
        Corpus.open(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"is no corpus: it has no manifest.json"):
        Corpus.open(tmp_path / "empty")


def test_damaged_manifests(corpus: Corpus) -> None:
    path = corpus.directory / "manifest.json"
    good = json.loads(path.read_text())
    for change, message in (
        ({"version": 2}, "format version 2; this program reads version 1"),
        ({"format": "other"}, "is not the manifest of a corpus"),
        ({"shards": good["shards"][:2]}, "its totals are not the sums of its shards"),
        ({"shards": []}, "an entry is missing or wrong"),
        ({"tokenizer": None}, "an entry is missing or wrong"),
    ):
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(DataError, match=message):
            Corpus.open(corpus.directory)
    path.write_text('{"format":')
    with pytest.raises(DataError, match="not valid JSON"):
        Corpus.open(corpus.directory)


def test_damaged_shards(corpus: Corpus) -> None:
    path = corpus.directory / "shard-00001.bin"
    good = path.read_bytes()
    path.write_bytes(good[:-2])
    with pytest.raises(DataError, match=r"shard-00001.bin: is damaged: it has .* bytes instead of"):
        Corpus.open(corpus.directory)
    path.write_bytes(b"X" + good[1:])
    with pytest.raises(DataError, match="its header does not fit the manifest"):
        Corpus.open(corpus.directory)
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(DataError, match="its SHA-256 is not the manifest's"):
        Corpus.open(corpus.directory).verify()
    path.write_bytes(good[: HEADER.size] + bytes([1]) + good[HEADER.size + 1 :])
    with pytest.raises(DataError, match="its document bounds do not fit"):
        list(Corpus.open(corpus.directory))
    path.unlink()
    with pytest.raises(DataError, match="is missing; the corpus is incomplete"):
        Corpus.open(corpus.directory)


def test_a_damaged_tokenizer(corpus: Corpus) -> None:
    (corpus.directory / "tokenizer" / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"tokenizer/tokenizer.json: is damaged"):
        corpus.verify()
