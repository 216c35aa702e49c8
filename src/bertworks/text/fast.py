"""Token ids at full speed: `tokie` instead of `tokenizers`, wherever it is known to give the same ids.

`tokie` reads the same `tokenizer.json` and writes all ids of a batch into one array. It must never change a result, so
it is used under four conditions, found by comparing the two on every Unicode character, random texts and real corpora:

1. the pipeline is one of two that agree: BERT's with its usual switches, and GPT-2's byte-level pairs, also after NFC;
   others do not (OpenAI GPT's pairs, a prefix space, Unigram with NFKC, Chinese characters left joined, …);
2. a check on built-in probe texts and on samples of the vocabulary finds no difference for this very tokenizer;
3. the text has only characters on which both libraries' Unicode tables agree (`SAFE`: what modern texts are made of);
   unassigned and recently assigned characters, DEL and circled letters differ, as does a contraction after a tab;
4. the text is short: from 64 KiB on, `tokie` cuts a text for its threads, and may cut inside a character.

A text that fails 3 or 4 takes the slow path by itself; ids are the same either way. Special tokens are added by our own
template, and offsets are never asked of it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers.pre_tokenizers import ByteLevel

from bertworks.text.encoding import Ints

Lengths = NDArray[np.int64]

TABS = [0x09, 0x0B, 0x0C]
LONGEST = 16_000  # characters; 4 bytes each stay below the 64 KiB from which on a text is cut for threads

SAFE = """
0000-007E 0080-0377 037A-037F 0384-038A 038C-038C 038E-03A1 03A3-052F 0531-0556 0561-0587 05B0-05C7 05D0-05EA
060C-061B 061E-06FF 0900-0977 0E01-0E3A 0E3F-0E5B 10D0-10FA 1100-11FF 1E00-1EFF 2000-2064 206A-2071 2074-208E
20A0-20BD 2100-2189 2190-23F3 2400-2426 2460-24B5 24EA-27FF 2900-2B4C 3000-303F 3041-3096 3099-30FF 3105-312D
3131-318E 3190-31BA 31F0-321E 3220-32FE 3300-4DB5 4DC0-9FCC AC00-D7A3 F900-FA6D FB00-FB06 FE0F-FE19 FE30-FE52
FE54-FE66 FEFF-FEFF FF01-FFBE FFE0-FFE6 FFFC-FFFD 1F1E6-1F1FF 1F300-1F64F 1F680-1F6C5 1F910-1F9FF 20000-2A6D6
"""


def safe_ranges() -> list[tuple[int, int]]:
    """The ranges of `SAFE` as (first, last) code points."""
    pairs = (entry.split("-") for entry in SAFE.split())
    return [(int(first, 16), int(last, 16)) for first, last in pairs]


@cache
def _unsafe_characters() -> NDArray[np.bool_]:
    """bool (0x110000,): True for the characters that are not in `SAFE`."""
    table = np.ones(0x110000, np.bool_)
    for first, last in safe_ranges():
        table[first : last + 1] = False
    return table


PROBES = (
    "",
    " ",
    "The quick brown fox jumps over the lazy dog.",
    "  leading, trailing and   doubled   spaces  ",
    "tabs\tand\nnewlines\r\nand\u00a0no-break\u2003em\u3000ideographic spaces",
    "UPPER lower MiXeD CamelCase snake_case kebab-case",
    "Ünïcödé naïve façade Ångström Dvořák İstanbul Straße ﬁne ﬂow ΑΣΑΣ ς",
    "combining e\u0301 a\u030a n\u0303 o\u0308\u0304 \u0301alone",
    "Привет, мир! Ёлка й",
    "שלום עולם مرحبا بالعالم ١٢٣ \u200fmark\u200e",
    "नमस्ते दुनिया สวัสดีชาวโลก",
    "中文字符，标点。日本語のテキスト、カタカナ！한국어 텍스트 한글",
    "𠀀𠮷 ＦＵＬＬｗｉｄｔｈ１２３",
    "emoji 😀 👍🏽 👨‍👩‍👧 🇸🇪 ❤️ ☃",
    "control \x00\x01\x1b\x85 zero\u200bwidth\u200djoin\u2060er soft\u00adhyphen \ufeff\ufffd",
    "1234567890 3.14159 1,000,000 ½ ² Ⅷ 007 1st 2nd",
    "it's don't we're I'll they've she'd 'm ''quotes'' “curly” ‘single’ „low“",
    "https://example.org/path?query=1&other=%20#anchor user@example.com C:\\dir\\file.txt",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ¡¿§¶†‡•… – — €£¥",
    "a" * 99 + " " + "b" * 100 + " " + "c" * 101 + " " + "é" * 120,
    "supercalifragilisticexpialidocious antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "[CLS] [SEP][MASK] x[PAD]y [UNK] [mask] <s></s> <mask> <unk><pad> <|endoftext|>",
    "def f(x):\n    return {'a': [1, 2]}  # comment\n\n\n",
    "\n\n\n   \n x",
)


class FastIds:
    """A `tokie` tokenizer that passed the check."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def encode(self, texts: Sequence[str]) -> tuple[Ints, Lengths]:
        """All texts' ids, one text after the other, and each one's length; never for `unsafe` texts."""
        ids, lengths = self._engine.encode_batch_flat(list(texts), add_special_tokens=False)
        return ids.view(np.int32), lengths.view(np.int64)


def unsafe(texts: Sequence[str]) -> list[int]:
    """The positions of the texts that must not take the fast path.

    All characters are looked up at once: a test per text would cost as much as the tokenizing.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    joined = "".join(texts)
    if joined.isascii():
        codes: NDArray[Any] = np.frombuffer(joined.encode("ascii"), np.uint8)
    else:
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
    places = np.flatnonzero(_unsafe_characters()[codes])
    # A contraction after a tab; where the two stand in different texts, one goes the slow way for nothing.
    apostrophes = np.flatnonzero(codes[1:] == ord("'"))
    contractions = apostrophes[np.isin(codes[apostrophes], TABS)]
    owners = np.searchsorted(np.cumsum(lengths), np.concatenate([places, contractions]), side="right")
    return [int(position) for position in np.union1d(owners, np.flatnonzero(lengths > LONGEST))]


def slow_ids(backend: Any, texts: Sequence[str]) -> tuple[Ints, Lengths]:
    """The same numbers from `tokenizers`, the reference."""
    rows = [row.ids for row in backend.encode_batch_fast(list(texts), add_special_tokens=False)]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
    return ids, lengths


def is_panic(error: BaseException) -> bool:
    """Whether this is a fault inside `tokie`: Rust's panics are a BaseException whose class cannot be imported."""
    return type(error).__name__ == "PanicException"


def open_fast(backend: Any) -> tuple[FastIds | None, str]:
    """The fast path for a `tokenizers.Tokenizer`, or None; and a sentence that says which path is taken and why."""
    try:
        import tokie
    except ImportError:
        return None, "tokenizers (tokie is not installed)"
    written = backend.to_str()
    obstacle = _obstacle(json.loads(written))
    if obstacle is not None:
        return None, f"tokenizers ({obstacle})"
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tokenizer.json"
            path.write_text(written, encoding="utf-8")
            fast = FastIds(tokie.Tokenizer.from_json(str(path)))
        difference = _first_difference(fast, backend)
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return None, f"tokenizers (tokie cannot read this tokenizer: {error})"
    if difference is not None:
        return None, f"tokenizers (tokie differs on {difference!r})"
    return fast, "tokie"


def _obstacle(spec: dict[str, Any]) -> str | None:
    """Why the pipeline that a tokenizer.json describes is not among those that agree; None if it is."""
    normalizer, splitter, model = spec["normalizer"] or {}, spec["pre_tokenizer"] or {}, spec["model"]
    kinds = (normalizer.get("type"), splitter.get("type"), model.get("type"))
    if any(token["single_word"] for token in spec["added_tokens"]):
        return "an added token matches whole words only"
    if kinds == ("BertNormalizer", "BertPreTokenizer", "WordPiece"):
        if not normalizer["clean_text"] or not normalizer["handle_chinese_chars"]:
            return "the BERT normaliser has unusual switches"
        if normalizer["strip_accents"] not in (None, normalizer["lowercase"]):
            return "the BERT normaliser treats accents and case apart"
        return None
    if kinds in ((None, "ByteLevel", "BPE"), ("NFC", "ByteLevel", "BPE")):
        if splitter["add_prefix_space"] or not splitter.get("use_regex", True):
            return "the byte-level splitter has unusual switches"
        unusual = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges")
        if any(model.get(key) for key in unusual):
            return "the byte pairs have unusual switches"
        if not set(ByteLevel.alphabet()) <= set(model["vocab"]):
            return "the vocabulary lacks some bytes"
        return None
    return f"the pipeline {' + '.join(str(kind) for kind in kinds)} is not among those proven equal"


def _first_difference(fast: FastIds, backend: Any) -> str | None:
    """The first probe text on which the two differ, None if there is none."""
    texts = [*PROBES, *_own_probes(backend)]
    texts = [text for text in texts if not unsafe([text])]
    fast_ids, fast_lengths = fast.encode(texts)
    ids, lengths = slow_ids(backend, texts)
    if np.array_equal(fast_lengths, lengths) and np.array_equal(fast_ids, ids):
        return None
    pairs = zip(np.split(fast_ids, np.cumsum(fast_lengths)), np.split(ids, np.cumsum(lengths)), strict=True)
    return next(
        (text for text, pair in zip(texts, pairs, strict=False) if not np.array_equal(*pair)), "the probe texts"
    )


def _own_probes(backend: Any) -> list[str]:
    """Texts made of this tokenizer's own tokens: its added tokens in several surroundings, and samples of the rest."""
    added = [token.content for token in backend.get_added_tokens_decoder().values()][:16]
    probes = [f"a{token}b {token} c{token}{token} {token.lower()}, {token}" for token in added]
    size = backend.get_vocab_size()
    sample = [backend.id_to_token(number) for number in range(0, size, max(1, size // 400))]
    words = [token.replace("Ġ", " ").removeprefix("##") for token in sample if token]
    probes += [" ".join(words[start : start + 50]) for start in range(0, len(words), 50)]
    probes += ["".join(words[start : start + 7]) for start in range(0, len(words), 50)]
    return probes
