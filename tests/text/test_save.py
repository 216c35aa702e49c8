from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from tokenizers import normalizers

from bertworks.errors import OutputError
from bertworks.text import Tokenizer
from tests.text import tiny

transformers = pytest.importorskip("transformers")

MASKED = ["the [MASK] runs", "the <mask> runs <mask>", "the end<|endoftext|>"]

CLASSES = {
    "bert": ("BertTokenizer", {"vocab.txt"}),
    "gpt2": ("GPT2Tokenizer", {"vocab.json", "merges.txt"}),
    "roberta": ("RobertaTokenizer", {"vocab.json", "merges.txt"}),
    "openai-gpt": ("OpenAIGPTTokenizer", {"vocab.json", "merges.txt"}),
    "unigram": ("PreTrainedTokenizerFast", set()),
}


def opens_the_same(tokenizer: Tokenizer, directory: Path) -> transformers.PreTrainedTokenizerBase:
    """Assert that `transformers` and we read the same ids from the directory; give back theirs."""
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    again = Tokenizer.from_directory(directory)
    for text in [*tiny.TEXTS, *MASKED]:
        for pair in (None, "the other"):
            ids = tokenizer.encode(text, pair).ids.tolist()
            assert again.encode(text, pair).ids.tolist() == ids, text
            assert theirs(text, pair)["input_ids"] == ids, text
    assert again.specials == tokenizer.specials
    assert again.template == tokenizer.template
    for name, token in tokenizer.specials.tokens().items():
        assert getattr(theirs, f"{name}_token") == token
    return theirs


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_kind_opens_in_transformers(kind: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer(tiny.KINDS[kind]())
    tokenizer.save(tmp_path, model_max_length=77)
    class_name, vocabulary = CLASSES[kind]
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", *vocabulary}
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == class_name
    assert opens_the_same(tokenizer, tmp_path).model_max_length == 77


@pytest.mark.parametrize("kind", ["bert", "gpt2", "roberta", "openai-gpt"])
def test_the_vocabulary_files_alone_say_the_same(kind: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer(tiny.KINDS[kind]())
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    again = Tokenizer.from_directory(tmp_path)
    for text in [*tiny.TEXTS, *MASKED]:
        assert again.encode(text, "b").ids.tolist() == tokenizer.encode(text, "b").ids.tolist()


def test_cased_bert(tmp_path: Path) -> None:
    tokenizer = Tokenizer(tiny.bert(lowercase=False))
    tokenizer.save(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["do_lower_case"] is False
    opens_the_same(tokenizer, tmp_path)


@pytest.mark.parametrize("prefix", [False, True])
def test_prefix_space(tmp_path: Path, prefix: bool) -> None:
    tokenizer = Tokenizer(tiny.roberta(add_prefix_space=prefix))
    tokenizer.save(tmp_path)
    opens_the_same(tokenizer, tmp_path)


def test_added_tokens(tmp_path: Path) -> None:
    backend = tiny.bert()
    backend.add_tokens(["[ENTITY]", "millpond"])
    tokenizer = Tokenizer(backend)
    tokenizer.save(tmp_path)
    theirs = opens_the_same(tokenizer, tmp_path)
    text = "the [ENTITY]millpond Millpond"
    assert theirs(text)["input_ids"] == tokenizer.encode(text).ids.tolist()
    assert Tokenizer.from_directory(tmp_path).encode(text).ids.tolist() == tokenizer.encode(text).ids.tolist()


def test_a_pipeline_that_no_class_rebuilds(tmp_path: Path) -> None:
    backend = tiny.bert()
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.BertNormalizer(lowercase=True)])
    tokenizer = Tokenizer(backend)
    tokenizer.save(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"
    opens_the_same(tokenizer, tmp_path)


def test_entries_of_the_source_are_kept(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    tiny.write_vocabulary(
        tiny.bert(), source, tokenizer_class="ElectraTokenizer", model_max_length=64, never_split=["a"]
    )
    Tokenizer.from_directory(source).save(target)
    config = json.loads((target / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "ElectraTokenizer"
    assert config["model_max_length"] == 64
    assert config["never_split"] == ["a"]


def test_minilm(minilm_directory: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_directory(minilm_directory)
    tokenizer.save(tmp_path)
    theirs = opens_the_same(tokenizer, tmp_path)
    assert len(theirs("word " * 300)["input_ids"]) == 302
    original = transformers.AutoTokenizer.from_pretrained(minilm_directory)
    assert type(theirs) is type(original)
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8") == (minilm_directory / "vocab.txt").read_text(
        encoding="utf-8"
    )


def test_chinese_albert(weights_minidata: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_directory(weights_minidata)
    tokenizer.save(tmp_path)
    opens_the_same(tokenizer, tmp_path)


def test_an_unwritable_place_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write .*/file: "):
        Tokenizer(tiny.bert()).save(tmp_path / "file")


def test_a_full_disk_leaves_no_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bertworks.text.save._write", full)
    with pytest.raises(OutputError, match=r"cannot write .*/new: No space left on device"):
        Tokenizer(tiny.KINDS["bert"]()).save(tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_a_second_tokenizer_leaves_no_file_of_the_first(tmp_path: Path) -> None:
    Tokenizer(tiny.KINDS["gpt2"]()).save(tmp_path)
    Tokenizer(tiny.KINDS["bert"]()).save(tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"}


def test_a_full_disk_leaves_the_tokenizer_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tokenizer(tiny.KINDS["gpt2"]()).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OutputError, match="No space left on device"):
        Tokenizer(tiny.KINDS["bert"]()).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
