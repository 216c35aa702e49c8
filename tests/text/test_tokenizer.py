from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import TokenizerError, UsageError
from bertworks.text import Encoding, Tokenizer
from bertworks.text.tokenizer import clean
from tests.text import tiny

transformers = pytest.importorskip("transformers")

# Zero-width (non-)joiners, marks that turn the direction, letters read from the right, halves of surrogate pairs,
# combining marks, a family of emoji, ligatures and a Chinese character; any other character as well.
TRICKY = "\u200b\u200c\u200d\u200e\u200f\u202e\u2066\ud83d\ude00\udfff\u0301\u0308אבمرة١👨👩🏽🇸️İßﬁ中　"
ANY_TEXT = st.text(st.sampled_from(TRICKY) | st.characters(codec=None), max_size=40)


@pytest.fixture(scope="module")
def all_kinds() -> dict[str, Tokenizer]:
    return {kind: Tokenizer(make()) for kind, make in tiny.KINDS.items()}


@pytest.fixture(scope="module", params=tiny.KINDS)
def tokenizer(request: pytest.FixtureRequest, all_kinds: dict[str, Tokenizer]) -> Tokenizer:
    return all_kinds[request.param]


# --- one text and pairs ----------------------------------------------------------------------------------------------


def test_by_hand(minilm_directory: Path) -> None:
    tokenizer = Tokenizer.from_directory(minilm_directory)
    encoding = tokenizer.encode("Hällo unaffable [MASK]!", "Wörld")
    assert tokenizer.tokens(encoding.ids) == [
        "[CLS]", "hall", "##o", "una", "##ffa", "##ble", "[MASK]", "!", "[SEP]", "world", "[SEP]",
    ]  # fmt: skip
    assert encoding.segments.tolist() == [0] * 9 + [1] * 2
    assert encoding.sequences.tolist() == [-1, 0, 0, 0, 0, 0, 0, 0, -1, 1, -1]
    assert encoding.words.tolist() == [-1, 0, 0, 1, 1, 1, 2, 3, -1, 0, -1]
    assert encoding.offsets.tolist() == [
        [0, 0], [0, 4], [4, 5], [6, 9], [9, 12], [12, 15], [16, 22], [22, 23], [0, 0], [0, 5], [0, 0],
    ]  # fmt: skip
    assert [(word.start, word.end, list(word.tokens)) for word in encoding.word_spans()] == [
        (0, 5, [1, 2]), (6, 15, [3, 4, 5]), (16, 22, [6]), (22, 23, [7]),
    ]  # fmt: skip


def test_ids_and_segments_equal_the_engine(tokenizer: Tokenizer) -> None:
    for text in tiny.TEXTS:
        for pair in (None, "", "the other text"):
            ours, theirs = tokenizer.encode(text, pair), tokenizer.backend.encode(text, pair)
            assert ours.ids.tolist() == theirs.ids
            assert ours.segments.tolist() == theirs.type_ids
            assert [None if s < 0 else s for s in ours.sequences.tolist()] == theirs.sequence_ids
            assert [None if w < 0 else w for w in ours.words.tolist()] == theirs.word_ids


def test_a_batch_equals_its_texts(tokenizer: Tokenizer) -> None:
    others = tiny.TEXTS[::-1]
    for special in (True, False):
        batch = tokenizer.encode_batch(tiny.TEXTS, others, special=special)
        for found, text, other in zip(batch, tiny.TEXTS, others, strict=True):
            assert same(found, tokenizer.encode(text, other, special=special))
    assert tokenizer.encode_batch([]) == []


def same(first: Encoding, second: Encoding) -> bool:
    names = ("ids", "segments", "offsets", "words", "sequences")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


def test_special_tokens_can_be_left_out(tokenizer: Tokenizer) -> None:
    bare = tokenizer.encode("the river", "the mill", special=False)
    assert not bare.special.any()
    whole = tokenizer.encode("the river", "the mill")
    assert same(whole.take(~whole.special), bare)
    assert len(whole) - len(bare) == tokenizer.num_special(pair=True)
    (bare,), (whole,) = tokenizer.encode_batch(["the mill"], special=False), tokenizer.encode_batch(["the mill"])
    assert same(whole.take(~whole.special), bare)


def test_offsets_leave_out_the_space_before_a_word(tokenizer: Tokenizer) -> None:
    text = "the river  runs"
    found = [text[word.start : word.end] for word in tokenizer.encode(text).word_spans() if word.start < word.end]
    assert found == ["the", "river", "runs"]


@settings(max_examples=80, deadline=None)
def assert_spells(tokenizer: Tokenizer, kind: str, token: str, piece: str) -> None:
    """Assert that the characters `piece` are those that the token was made of."""
    if kind == "bert" and token != "[UNK]":
        normalized = tokenizer.backend.normalizer.normalize_str(clean(piece))
        assert token.removeprefix("##") in normalized
    if kind in ("gpt2", "roberta"):
        spelt = tokenizer.decode([tokenizer.id(token) or 0], skip_special=False).strip()
        if "\ufffd" not in spelt:  # a token may be a part of a character's bytes
            assert spelt == piece


@given(text=ANY_TEXT)
def test_offsets_of_any_text(all_kinds: dict[str, Tokenizer], text: str) -> None:
    for kind, tokenizer in all_kinds.items():
        encoding = tokenizer.encode(text)
        inner = encoding.take(~encoding.special)
        starts, ends = inner.offsets[:, 0], inner.offsets[:, 1]
        assert (starts >= 0).all()
        assert (starts <= ends).all()
        assert (ends <= len(text)).all()
        assert (np.diff(starts) >= 0).all()
        assert (np.diff(inner.words) >= 0).all()
        for start, end, token in zip(starts.tolist(), ends.tolist(), tokenizer.tokens(inner.ids), strict=True):
            piece = text[start:end]
            if piece.strip():
                assert not piece[0].isspace()
                assert not piece[-1].isspace()
                assert_spells(tokenizer, kind, token, piece)
            elif kind in ("bert", "openai-gpt"):
                raise AssertionError(f"{token!r} stands for nothing")
            elif not piece:  # spaces, whose span was trimmed, or the space that metaspace puts before a text
                assert start == 0 or text[:start][-1].isspace()
        for word in encoding.word_spans():
            assert 0 <= word.start <= word.end <= len(text)
        tokenizer.decode(encoding.ids)
        tokenizer.decode(encoding.ids, skip_special=False)


def test_unpaired_surrogates_count_as_one_character(tokenizer: Tokenizer) -> None:
    broken, whole = tokenizer.encode("the \udc80 mill"), tokenizer.encode("the \ufffd mill")
    assert same(broken, whole)
    assert same(tokenizer.encode_words(["\ud800a"]), tokenizer.encode_words(["\ufffda"]))


@pytest.mark.parametrize("texts", [[None], ["a", 3], "a text", ["a", b"bytes"]])
def test_what_is_not_a_list_of_texts_is_explained(texts: Sequence[str]) -> None:
    tokenizer = Tokenizer(tiny.bert())
    for method in (tokenizer.ids, tokenizer.encode_batch, tokenizer.encode_words):
        with pytest.raises(UsageError, match="expected"):
            method(texts)


def test_pairs_must_be_as_many() -> None:
    with pytest.raises(UsageError, match="got 2 and 1"):
        Tokenizer(tiny.bert()).encode_batch(["a", "b"], ["c"])


# --- pre-split words -------------------------------------------------------------------------------------------------

WORDS = [
    ["The", "river", "runs", "."],
    ["it", "'s", "aren't", "17!", "河边有"],
    ["naïve", "ÉCLAIR", "😀", "ᚠᚢ", "a" * 120],
    ["New York", "x"],
    ["one"],
    [],
]


def reference_for(kind: str, ours: Tokenizer, directory: Path) -> transformers.PreTrainedTokenizerBase:
    tiny.write_vocabulary(ours.backend, directory)
    if kind == "bert":
        return transformers.BertTokenizer(vocab=str(directory / "vocab.txt"))
    files = {"vocab": str(directory / "vocab.json"), "merges": str(directory / "merges.txt")}
    if kind == "roberta":
        return transformers.RobertaTokenizer(**files, add_prefix_space=True)
    if kind == "gpt2":
        return transformers.GPT2Tokenizer(**files, add_prefix_space=True)
    return transformers.OpenAIGPTTokenizer(**files)


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "openai-gpt"])
def test_words_as_in_transformers(kind: str, all_kinds: dict[str, Tokenizer], tmp_path: Path) -> None:
    theirs = reference_for(kind, all_kinds[kind], tmp_path)
    for words in WORDS:
        for pair in (None, ["the", "mill"]):
            ours = all_kinds[kind].encode_words(words, pair)
            expected = theirs(words, pair, is_split_into_words=True)
            assert ours.ids.tolist() == expected["input_ids"]
            assert [None if word < 0 else word for word in ours.words.tolist()] == expected.word_ids()


def test_offsets_are_those_of_the_word(tokenizer: Tokenizer) -> None:
    words = ["The", "river", " runs", "."]
    spans = tokenizer.encode_words(words).word_spans()
    assert [words[span.index][span.start : span.end] for span in spans] == ["The", "river", "runs", "."]


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.text(st.characters(codec=None), max_size=8), max_size=6))
def test_every_word_has_a_token(all_kinds: dict[str, Tokenizer], words: list[str]) -> None:
    for tokenizer in all_kinds.values():
        encoding = tokenizer.encode_words(words)
        spans = encoding.word_spans()
        assert [span.index for span in spans] == list(range(len(words)))
        assert all(0 <= span.start <= span.end <= len(words[span.index]) for span in spans)
        assert (encoding.sequences[encoding.words >= 0] == 0).all()


def test_an_erased_word_is_unknown() -> None:
    tokenizer = Tokenizer(tiny.bert())
    encoding = tokenizer.encode_words(["\u200b", "mill", "", "river", "\u00ad\u200b"], ["", "mill"])
    assert encoding.words.tolist()[1:6] == [0, 1, 2, 3, 4]
    unknown = [0, 2, 4]
    assert all(encoding.ids[1 + word] == tokenizer.unk_id for word in unknown)
    assert encoding.offsets[[1, 3, 5]].tolist() == [[0, 1], [0, 0], [0, 2]]
    assert encoding.words.tolist()[7:9] == [0, 1]
    assert encoding.segments.tolist() == [0] * 7 + [1] * 3


def test_an_erased_word_without_an_unknown_token_is_explained() -> None:
    backend = tiny.openai_gpt()
    backend.model.unk_token = None
    tokenizer = Tokenizer(backend, config={})
    object.__setattr__(tokenizer.specials, "ids", {})
    with pytest.raises(TokenizerError, match=r"word 1 \(''\) has no token"):
        tokenizer.encode_words(["mill", ""])


def test_a_batch_of_words(tokenizer: Tokenizer) -> None:
    for found, words in zip(tokenizer.encode_words_batch(WORDS, WORDS[::-1]), WORDS, strict=True):
        assert same(found, tokenizer.encode_words(words, WORDS[::-1][WORDS.index(words)]))


# --- ids, names, decoding --------------------------------------------------------------------------------------------


def test_flat_ids_equal_encodings(tokenizer: Tokenizer) -> None:
    for special in (False, True):
        ids, lengths = tokenizer.ids(tiny.TEXTS, special=special)
        rows = [tokenizer.encode(text, special=special).ids for text in tiny.TEXTS]
        assert ids.tolist() == np.concatenate(rows).tolist()
        assert lengths.tolist() == [len(row) for row in rows]


def test_names_and_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.id("no such token at all") is None
    for number in (0, 7, tokenizer.vocab_size - 1):
        assert tokenizer.id(tokenizer.token(number)) == number
    for number in (-1, tokenizer.vocab_size):
        with pytest.raises(UsageError, match="no token with id"):
            tokenizer.token(number)
        with pytest.raises(UsageError, match="no token with id"):
            tokenizer.decode([number])


def test_decoding() -> None:
    tokenizer = Tokenizer(tiny.roberta())
    text = "It's naïve, 河边 😀 \n ok"
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, skip_special=False) == f"<s>{text}</s>"
    assert tokenizer.decode([]) == ""


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_ids_can_be_decoded(all_kinds: dict[str, Tokenizer], data: st.DataObject) -> None:
    for tokenizer in all_kinds.values():
        ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12))
        assert isinstance(tokenizer.decode(np.array(ids, np.int32)), str)


# --- long texts ------------------------------------------------------------------------------------------------------


def test_windows_cover_a_long_text(tokenizer: Tokenizer) -> None:
    text = " ".join(tiny.SENTENCES)
    whole = tokenizer.encode(text, special=False)
    pieces = tokenizer.windows(text, 23, 7)
    assert len(pieces) > 5
    assert np.concatenate([piece.encoding.ids[piece.keep] for piece in pieces]).tolist() == whole.ids.tolist()
    pieces = tokenizer.pair_windows("what runs?", text, 40, 7)
    assert np.concatenate([piece.encoding.offsets[piece.keep] for piece in pieces]).tolist() == whole.offsets.tolist()


def test_a_very_long_word() -> None:
    tokenizer = Tokenizer(tiny.bert())
    encoding = tokenizer.encode("x" * 1_000_000)
    assert encoding.ids.tolist() == [2, 1, 3]
    assert encoding.offsets.tolist() == [[0, 0], [0, 1_000_000], [0, 0]]


# --- the object ------------------------------------------------------------------------------------------------------


def test_a_copy_by_pickle_works_the_same(tokenizer: Tokenizer) -> None:
    assert tokenizer.fast_path
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.ids(tiny.TEXTS)[0].tolist() == tokenizer.ids(tiny.TEXTS)[0].tolist()
    assert copy.template == tokenizer.template
    assert copy.specials == tokenizer.specials


def test_no_torch_and_no_transformers() -> None:
    code = "import sys, bertworks.text; sys.exit(bool({'torch', 'transformers', 'tokie'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
