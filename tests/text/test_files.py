from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertworks.errors import TokenizerError
from bertworks.text import Tokenizer
from bertworks.text.files import read_source
from tests.text import tiny

transformers = pytest.importorskip("transformers")


def same_ids(ours: Tokenizer, theirs: transformers.PreTrainedTokenizerBase, texts: list[str]) -> None:
    for text in texts:
        assert ours.encode(text).ids.tolist() == theirs(text)["input_ids"], text
        assert ours.encode(text, texts[0]).ids.tolist() == theirs(text, texts[0])["input_ids"], text


# --- tokenizer.json --------------------------------------------------------------------------------------------------


def test_stored_truncation_and_padding_are_cleared(tmp_path: Path) -> None:
    backend = tiny.bert()
    backend.enable_truncation(5)
    backend.enable_padding(length=9)
    backend.save(str(tmp_path / "tokenizer.json"))
    encoding = Tokenizer.from_directory(tmp_path).encode("the river runs past the old mill")
    assert len(encoding) == 9
    assert encoding.special.sum() == 2
    assert len(Tokenizer.from_directory(tmp_path).encode("mill")) == 3


def test_minilm_is_not_cut_at_128(minilm_directory: Path) -> None:
    tokenizer = Tokenizer.from_directory(minilm_directory)
    assert len(tokenizer.encode("word " * 300)) == 302
    assert tokenizer.vocab_size == 30522
    assert tokenizer.model_max_length == 512
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (
        0, 100, 101, 102, 103,
    )  # fmt: skip
    assert (tokenizer.bos_id, tokenizer.eos_id) == (None, None)
    reference = transformers.AutoTokenizer.from_pretrained(minilm_directory)
    same_ids(tokenizer, reference, [*tiny.TEXTS, "a [MASK] in the text[SEP] [mask]"])


@pytest.mark.parametrize("lowercase", [False, True])
def test_the_configuration_wins_over_the_file(tmp_path: Path, lowercase: bool) -> None:
    tiny.bert(lowercase=not lowercase).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"})
    )
    ours = Tokenizer.from_directory(tmp_path)
    assert (ours.encode("MILL").ids.tolist() == ours.encode("mill").ids.tolist()) is lowercase
    same_ids(ours, transformers.AutoTokenizer.from_pretrained(tmp_path), tiny.TEXTS)


def test_a_prefix_space_named_in_the_configuration(tmp_path: Path) -> None:
    tiny.roberta().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True}))
    ours = Tokenizer.from_directory(tmp_path)
    assert ours.encode("mill").ids.tolist() == ours.encode(" mill").ids.tolist()


# --- vocab.txt -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": False, "strip_accents": True},
        {"do_lower_case": True, "strip_accents": False},
        {"tokenize_chinese_chars": False},
    ],
    ids=str,
)
def test_wordpiece_vocabulary(tmp_path: Path, config: dict[str, object]) -> None:
    tiny.write_vocabulary(tiny.bert(lowercase=False), tmp_path, **config)
    reference = transformers.BertTokenizer(vocab=str(tmp_path / "vocab.txt"), **config)
    same_ids(Tokenizer.from_directory(tmp_path), reference, [*tiny.TEXTS, "a [MASK] of[SEP]"])


def test_chinese_albert(weights_minidata: Path) -> None:
    tokenizer = Tokenizer.from_directory(weights_minidata)
    assert tokenizer.vocab_size == 21128
    assert tokenizer.mask_id == 103
    reference = transformers.BertTokenizer(vocab=str(weights_minidata / "vocab.txt"))
    same_ids(tokenizer, reference, [*tiny.TEXTS, "北京是中国的首[MASK]。"])
    encoding = tokenizer.encode("首[MASK]在哪？")
    assert tokenizer.tokens(encoding.ids) == ["[CLS]", "首", "[MASK]", "在", "哪", "？", "[SEP]"]
    assert encoding.offsets.tolist() == [[0, 0], [0, 1], [1, 7], [7, 8], [8, 9], [9, 10], [0, 0]]


def test_mpnet_vocabulary(tmp_path: Path) -> None:
    words = [token for token in tiny.bert().get_vocab() if not token.startswith("[")]
    lines = ["<s>", "<pad>", "</s>", "<unk>", *sorted(words), "[UNK]", "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = {"unk_token": "[UNK]", "mask_token": {"content": "<mask>", "lstrip": True, "normalized": False}}
    for entries in ({"tokenizer_class": "MPNetTokenizer"}, {**config, "tokenizer_class": "MPNetTokenizer"}):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(entries))
        ours = Tokenizer.from_directory(tmp_path)
        reference = transformers.MPNetTokenizer(vocab=str(tmp_path / "vocab.txt"))
        assert ours.template.num_special(pair=True) == 4
        same_ids(ours, reference, [*tiny.TEXTS, "the <mask> runs <mask>"])


def test_a_doubled_line_leaves_a_gap(tmp_path: Path) -> None:
    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "mill", "mill", "river"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n")
    tokenizer = Tokenizer.from_directory(tmp_path)
    assert tokenizer.vocab_size == 8
    assert tokenizer.encode("mill river", special=False).ids.tolist() == [6, 7]


def test_added_tokens(tmp_path: Path) -> None:
    tiny.write_vocabulary(tiny.bert(), tmp_path)
    size = Tokenizer.from_directory(tmp_path).vocab_size
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[ENTITY]": size, "[END]": size + 1}))
    tokenizer = Tokenizer.from_directory(tmp_path)
    assert tokenizer.encode("the[ENTITY]mill", special=False).ids.tolist()[1] == size
    assert tokenizer.vocab_size == size + 2
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[ENTITY]": size + 5}))
    with pytest.raises(TokenizerError, match="do not belong together"):
        Tokenizer.from_directory(tmp_path)


# --- vocab.json and merges.txt ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["class", "model type", "not at all"])
def test_gpt2_vocabulary(tmp_path: Path, named: str) -> None:
    tiny.write_vocabulary(tiny.gpt2(), tmp_path)
    name(tmp_path, named, "GPT2TokenizerFast", "gpt2")
    ours = Tokenizer.from_directory(tmp_path)
    reference = transformers.GPT2Tokenizer(vocab=str(tmp_path / "vocab.json"), merges=str(tmp_path / "merges.txt"))
    same_ids(ours, reference, [*tiny.TEXTS, "the end<|endoftext|>The"])
    assert ours.specials.eos == "<|endoftext|>"
    assert ours.specials.cls is None


@pytest.mark.parametrize("named", ["class", "model type", "not at all"])
@pytest.mark.parametrize("prefix", [False, True])
def test_roberta_vocabulary(tmp_path: Path, named: str, prefix: bool) -> None:
    tiny.write_vocabulary(tiny.roberta(), tmp_path, add_prefix_space=prefix)
    name(tmp_path, named, "RobertaTokenizer", "roberta")
    ours = Tokenizer.from_directory(tmp_path)
    reference = transformers.RobertaTokenizer(
        vocab=str(tmp_path / "vocab.json"), merges=str(tmp_path / "merges.txt"), add_prefix_space=prefix
    )
    same_ids(ours, reference, tiny.TEXTS)
    # As in the published roberta-base, the mask stands for the word with the space before it.
    assert ours.tokens(ours.encode("the <mask> runs", special=False).ids)[-2:] == ["<mask>", "Ġruns"]


@pytest.mark.parametrize("named", ["class", "model type", "not at all"])
def test_openai_gpt_vocabulary(tmp_path: Path, named: str) -> None:
    tiny.write_vocabulary(tiny.openai_gpt(), tmp_path)
    name(tmp_path, named, "OpenAIGPTTokenizer", "openai-gpt")
    ours = Tokenizer.from_directory(tmp_path)
    reference = transformers.OpenAIGPTTokenizer(vocab=str(tmp_path / "vocab.json"), merges=str(tmp_path / "merges.txt"))
    same_ids(ours, reference, tiny.TEXTS)
    assert ours.decode(ours.encode("The river runs").ids) == "the river runs"


def name(directory: Path, how: str, class_name: str, model_type: str) -> None:
    """Say in the directory what kind its vocabulary is."""
    if how == "class":
        path = directory / "tokenizer_config.json"
        config = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**config, "tokenizer_class": class_name}))
    elif how == "model type":
        (directory / "config.json").write_text(json.dumps({"model_type": model_type}))


# --- what cannot be read ---------------------------------------------------------------------------------------------


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="no such directory"):
        read_source(tmp_path / "nowhere")


def test_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"expected tokenizer\.json, vocab\.txt, or"):
        read_source(tmp_path)


@pytest.mark.parametrize("file", ["spiece.model", "sentencepiece.bpe.model"])
def test_sentencepiece_alone(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_bytes(b"")
    with pytest.raises(TokenizerError, match=r"a tokenizer\.json is needed; write one where `transformers`"):
        read_source(tmp_path)


@pytest.mark.parametrize(("present", "missing"), [("vocab.json", "merges.txt"), ("merges.txt", "vocab.json")])
def test_half_of_byte_pairs(tmp_path: Path, present: str, missing: str) -> None:
    (tmp_path / present).write_text("{}")
    with pytest.raises(TokenizerError, match=f"{missing} is missing"):
        read_source(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"model": 3}', "\udcff"], ids=["cut", "list", "nonsense", "bytes"])
def test_damaged_tokenizer_json(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        read_source(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"], ids=["cut", "list", "bytes"])
def test_damaged_configuration(tmp_path: Path, content: bytes) -> None:
    tiny.bert().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json"):
        read_source(tmp_path)


@pytest.mark.parametrize("kind", ["tokenizer.json", "vocab.txt"])
@pytest.mark.parametrize("key", ["do_lower_case", "strip_accents", "tokenize_chinese_chars"])
def test_switches_are_true_or_false(tmp_path: Path, kind: str, key: str) -> None:
    if kind == "vocab.txt":
        tiny.write_vocabulary(tiny.bert(), tmp_path)
    else:
        tiny.bert().save(str(tmp_path / kind))
    plain = read_source(tmp_path).backend.encode("Där 河 The river").ids
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({key: "yes"}))
    with pytest.raises(TokenizerError, match=rf"tokenizer_config\.json: {key} is 'yes'; it must be true or false"):
        read_source(tmp_path)
    path.write_text(json.dumps({key: None}))
    assert read_source(tmp_path).backend.encode("Där 河 The river").ids == plain


def test_byte_level_switches_are_true_or_false(tmp_path: Path) -> None:
    tiny.gpt2().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": 1}')
    with pytest.raises(TokenizerError, match="add_prefix_space is 1; it must be true or false"):
        read_source(tmp_path)


@pytest.mark.parametrize("entries", [{"x": {"content": "[A]"}}, {"400": {}}, {"400": "[A]"}, ["[A]"]])
def test_damaged_lists_of_added_tokens(tmp_path: Path, entries: object) -> None:
    tiny.write_vocabulary(tiny.bert(), tmp_path, added_tokens_decoder=entries)
    with pytest.raises(TokenizerError, match="the list of added tokens is damaged"):
        read_source(tmp_path)


def test_damaged_vocabularies(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
    with pytest.raises(TokenizerError, match=r"vocab\.txt: cannot be read"):
        read_source(tmp_path)
    (tmp_path / "vocab.txt").write_text("mill\n[UNK]\n")
    with pytest.raises(TokenizerError, match="has no cls or sep token"):
        read_source(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "vocab.json").write_text("{")
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(TokenizerError, match="cannot be read together"):
        read_source(tmp_path)


def test_japanese_bert_needs_more_than_its_vocabulary(tmp_path: Path) -> None:
    tiny.write_vocabulary(tiny.bert(), tmp_path, tokenizer_class="BertJapaneseTokenizer")
    with pytest.raises(TokenizerError, match="is not WordPiece"):
        read_source(tmp_path)
