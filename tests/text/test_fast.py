"""The fast path must give the same ids as the reference, always; these tests are the proof that `fast.py` speaks of."""

from __future__ import annotations

import builtins
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from bertworks.text import Tokenizer as OurTokenizer
from bertworks.text.fast import LONGEST, PROBES, FastIds, open_fast, safe_ranges, slow_ids, unsafe
from tests.text import tiny

pytest.importorskip("tokie")


def fast_of(backend: Tokenizer) -> FastIds:
    fast, path = open_fast(backend)
    assert fast is not None, path
    assert path == "tokie"
    return fast


def differing(fast: FastIds, backend: Tokenizer, texts: list[str]) -> list[str]:
    """The texts on which the two differ."""
    fast_ids, fast_lengths = fast.encode(texts)
    ids, lengths = slow_ids(backend, texts)
    pairs = zip(np.split(fast_ids, np.cumsum(fast_lengths)), np.split(ids, np.cumsum(lengths)), strict=True)
    return [text for text, (a, b) in zip(texts, pairs, strict=False) if a.tolist() != b.tolist()]


def nfc() -> Tokenizer:
    """Byte-level pairs after NFC, and tokens for runs of spaces, as ModernBERT has them."""
    backend = tiny.gpt2()
    backend.normalizer = normalizers.NFC()
    backend.add_tokens([AddedToken(" " * length) for length in range(8, 1, -1)])
    return backend


AGREEING = {"bert": tiny.bert, "cased": lambda: tiny.bert(lowercase=False), "gpt2": tiny.gpt2, "nfc": nfc}


@pytest.fixture(scope="module", params=[*AGREEING, "minilm"])
def agreeing(request: pytest.FixtureRequest) -> tuple[Tokenizer, FastIds]:
    """A tokenizer whose pipeline is among those that agree, both ways."""
    if request.param == "minilm":
        backend = OurTokenizer.from_directory(request.getfixturevalue("minilm_directory")).backend
    else:
        backend = AGREEING[request.param]()
    return backend, fast_of(backend)


def test_every_safe_character_agrees(agreeing: tuple[Tokenizer, FastIds]) -> None:
    backend, fast = agreeing
    texts = []
    for first, last in safe_ranges():
        # of the long runs of ideographs and syllables, which are all alike, every eleventh and both ends
        step = 11 if last - first > 5000 else 1
        for code in {*range(first, last + 1, step), first, last}:
            character = chr(code)
            texts += [f"mill{character}River {character} {character}s", f"{character}'s 1{character}2{character * 2}"]
    texts = [text for text in texts if text[0] not in "\t\v\f"]
    assert differing(fast, backend, texts) == []


@pytest.mark.parametrize("seed", range(3))
def test_random_safe_texts_agree(agreeing: tuple[Tokenizer, FastIds], seed: int) -> None:
    backend, fast = agreeing
    chance = random.Random(seed)
    ranges = safe_ranges()
    plain = [*"abcMILLER 0129.,'-[]<>\t\n  ", "the ", "ing", "'s", "\u0301", "[MASK]", "<mask>", "[CLS]"]
    texts = []
    for _ in range(1500):
        scripts = [chance.choice(ranges) for _ in range(chance.randint(1, 4))]
        texts.append(
            "".join(
                chance.choice(plain) if chance.random() < 0.5 else chr(chance.randint(*chance.choice(scripts)))
                for _ in range(chance.randint(1, 40))
            )
        )
    skipped = set(unsafe(texts))
    kept = [text for number, text in enumerate(texts) if number not in skipped]
    assert len(kept) > 1000
    assert differing(fast, backend, kept) == []


def test_added_tokens_agree() -> None:
    for flags in ({}, {"lstrip": True}, {"rstrip": True}, {"normalized": False}, {"special": True}):
        for make in AGREEING.values():
            backend = make()
            backend.add_tokens([AddedToken("Qxz", **flags)])
            parts = ["Qxz", "qxz", " ", "  ", "\n", "mill", ".", "é", "河"]
            chance = random.Random(1)
            texts = ["".join(chance.choices(parts, k=chance.randint(1, 9))) for _ in range(300)]
            assert differing(fast_of(backend), backend, texts) == []


# --- what is kept away from it ---------------------------------------------------------------------------------------


def test_probes_are_safe() -> None:
    assert unsafe(PROBES) == []


def test_safe_ranges_are_in_order() -> None:
    assert all(first <= last < following for (first, last), (following, _) in pairwise(safe_ranges()))


def test_unsafe_texts_are_found() -> None:
    texts = [
        "fine",
        "",
        "DEL\x7f",
        "tab\t'x",
        "\u0378 unassigned",
        "",
        "fine too 河",
        "\ud800",
        "x" * (LONGEST + 1),
        "ⓐ",
    ]
    assert unsafe(texts) == [2, 3, 4, 7, 8, 9]
    assert unsafe(["plain", "DEL\x7f", "x" * LONGEST]) == [1]
    assert unsafe([]) == []
    assert unsafe(["", ""]) == []


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (tiny.openai_gpt, "BertNormalizer + BertPreTokenizer + BPE is not among"),
        (tiny.unigram, "NFKC + Metaspace + Unigram is not among"),
        (lambda: tiny.roberta(add_prefix_space=True), "byte-level splitter has unusual switches"),
    ],
)
def test_other_pipelines_are_refused(backend: object, reason: str) -> None:
    fast, path = open_fast(backend())
    assert fast is None
    assert path.startswith("tokenizers (")
    assert reason in path


@pytest.mark.parametrize(
    "switches", [{"clean_text": False}, {"handle_chinese_chars": False}, {"strip_accents": False}], ids=str
)
def test_unusual_switches_are_refused(switches: dict[str, bool]) -> None:
    backend = tiny.bert()
    backend.normalizer = normalizers.BertNormalizer(**switches)
    assert open_fast(backend)[0] is None


def test_added_tokens_that_match_whole_words_are_refused() -> None:
    backend = tiny.bert()
    backend.add_tokens([AddedToken("mill", single_word=True)])
    assert open_fast(backend) == (None, "tokenizers (an added token matches whole words only)")


def test_a_vocabulary_that_lacks_bytes_is_refused() -> None:
    backend = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert open_fast(backend) == (None, "tokenizers (the vocabulary lacks some bytes)")


def test_a_difference_on_the_probes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = FastIds.encode

    def wrong(self: FastIds, texts: list[str]):
        ids, lengths = encode(self, texts)
        return np.where(np.arange(len(ids)) == 3, ids + 1, ids), lengths

    monkeypatch.setattr(FastIds, "encode", wrong)
    fast, path = open_fast(tiny.bert())
    assert fast is None
    assert path == f"tokenizers (tokie differs on {PROBES[2]!r})"


def test_without_tokie(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def no_tokie(name: str, *rest: object, **more: object) -> object:
        if name == "tokie":
            raise ImportError(name)
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_tokie)
    assert open_fast(tiny.bert()) == (None, "tokenizers (tokie is not installed)")


# --- through the tokenizer -------------------------------------------------------------------------------------------


def reference(tokenizer: OurTokenizer, texts: list[str], *, special: bool = False) -> tuple[list[int], list[int]]:
    rows = [tokenizer.encode(text, special=special).ids.tolist() for text in texts]
    return [token for row in rows for token in row], [len(row) for row in rows]


@pytest.fixture(scope="module")
def opened() -> OurTokenizer:
    tokenizer = OurTokenizer(tiny.bert())
    assert tokenizer.fast_path == "tokie"
    return tokenizer


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(st.characters(codec=None), max_size=30), max_size=6), special=st.booleans())
def test_any_texts(opened: OurTokenizer, texts: list[str], special: bool) -> None:
    ids, lengths = opened.ids(texts, special=special)
    assert ids.dtype == np.int32
    assert lengths.dtype == np.int64
    assert (ids.tolist(), lengths.tolist()) == reference(opened, texts, special=special)


def test_safe_and_unsafe_texts_together(opened: OurTokenizer) -> None:
    texts = ["the mill", "mill\x7fer", "", "\u0378", "river " * 5000, "the\ud800mill", *tiny.TEXTS]
    ids, lengths = opened.ids(texts, special=True)
    assert (ids.tolist(), lengths.tolist()) == reference(opened, texts, special=True)
    assert [part.size for part in opened.ids([])] == [0, 0]


def test_a_long_text_with_wide_characters(opened: OurTokenizer) -> None:
    # cut for threads inside a character, `tokie` would fail here
    text = "".join("河边有一座旧磨坊"[number % 8] + "\n" * (number % 3 == 0) for number in range(30_000))
    ids, lengths = opened.ids([text, "mill"])
    assert (ids.tolist(), lengths.tolist()) == reference(opened, [text, "mill"])


def test_it_is_opened_only_where_it_is_worth_it() -> None:
    tokenizer = OurTokenizer(tiny.bert())
    tokenizer.ids(["a short text"])
    assert tokenizer._fast_path is None
    tokenizer.ids(["the river runs past the old mill. " * 100] * 80)
    assert tokenizer._fast_path == "tokie"


def test_a_fault_inside_tokie_costs_nothing_but_time(caplog: pytest.LogCaptureFixture) -> None:
    class PanicException(BaseException):
        pass

    class Broken:
        def encode_batch_flat(self, texts: list[str], **_: object) -> None:
            raise PanicException("index out of bounds")

    tokenizer = OurTokenizer(tiny.bert())
    tokenizer._fast, tokenizer._fast_path = FastIds(Broken()), "tokie"
    ids, lengths = tokenizer.ids(tiny.TEXTS)
    assert (ids.tolist(), lengths.tolist()) == reference(tokenizer, tiny.TEXTS)
    assert tokenizer.fast_path == "tokenizers (tokie failed: index out of bounds)"
    assert "slower" in caplog.text


@pytest.mark.parametrize("name", ["wiki-en-00", "novels-sv-00", "wiki-zh-00"])
def test_real_texts(minilm_directory: Path, shared_data: Path, name: str) -> None:
    import lzma

    with lzma.open(shared_data / "corpus" / f"{name}.txt.xz", "rt", encoding="utf-8") as lines:
        texts = [line.rstrip("\n") for _, line in zip(range(1500), lines, strict=False)]
    tokenizer = OurTokenizer.from_directory(minilm_directory)
    assert tokenizer.fast_path == "tokie"
    assert len(unsafe(texts)) < len(texts) / 20
    ids, lengths = tokenizer.ids(texts)
    expected_ids, expected_lengths = slow_ids(tokenizer.backend, texts)
    assert np.array_equal(ids, expected_ids)
    assert np.array_equal(lengths, expected_lengths)
